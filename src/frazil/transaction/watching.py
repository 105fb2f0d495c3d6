"""The interface of observers that see the values of chunks while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frazil.model.chunks import ChunkTable
from frazil.model.nodes import ArrayNode
from frazil.storage.base import Bytes


class Watch(Protocol):
    """Sees the chunks of one write."""

    def see(self, row: int, chunk: npt.NDArray[Any], data: Sequence[Bytes]) -> None:
        """Look at a chunk before and after it is encoded; may be called from several threads."""

    def stored(self, table: ChunkTable) -> None:
        """Receive the references of the chunks that were stored."""


class ChunkWatcher(Protocol):
    """Is asked before each write of chunks."""

    def begin(self, node: ArrayNode, coords: npt.NDArray[np.integer]) -> Watch | None:
        """A watch for a write of chunks at some coordinates, (n, ndim); None to skip this write."""
