"""Declares the `name_async` methods; `with_async_twins` makes them, `scripts/stubs` the stub."""


class AsyncSession:
    """Has no code: type checkers read the stub beside this file."""
