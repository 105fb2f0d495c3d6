"""What a Zarr store must be for its arrays to be read and written in bulk."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from zarr.abc.store import Store

from frazil.transaction.working import WorkingState

LARGE_VALUE: Final = 256 * 1024
"""So many bytes are worth a thread even on a local disk: others encode and decode meanwhile."""


class BulkStore(Store):
    """A Zarr store over the working state of a session."""

    @property
    @abstractmethod
    def state(self) -> WorkingState:
        """The working state whose keys and values the store shows."""
