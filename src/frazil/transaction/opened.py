"""Access to the internals behind a user's session or repository, for other modules of Frazil."""

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
