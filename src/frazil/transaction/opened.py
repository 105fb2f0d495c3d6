"""From the handle that users hold to the parts behind it: for this package, not for its users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from frazil.transaction.context import Context


class OpenRepository(Protocol):
    """An open repository, such as `frazil.Repository`."""

    @property
    def _context(self) -> Context:
        """Its parts."""


def context_of(repository: OpenRepository) -> Context:
    """The parts of an open repository.

    Raises:
        RuntimeError: the repository was upgraded through this handle.
    """
    return repository._context
