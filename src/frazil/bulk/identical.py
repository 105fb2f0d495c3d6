"""Which of many encoded chunks an array has already, byte by byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frazil.bulk.fetch import INLINE, MISSING, NATIVE, fetch_into, find_chunks
from frazil.bulk.pack import Encoded, Scattered
from frazil.errors import StorageError
from frazil.model.nodes import ArrayNode
from frazil.storage.base import Bytes
from frazil.transaction.identical import is_equal
from frazil.transaction.working import WorkingState


class Unchanged:
    """The chunks of one write that are as they were; may be used by several threads."""

    def __init__(
        self, state: WorkingState, node: ArrayNode, coords: npt.NDArray[np.uint32]
    ) -> None:
        self._state = state
        self._node = node
        self._coords = coords.astype(np.int64)
        self._is_kept = np.zeros(len(coords), np.bool_)

    def without(self, encoded: list[Encoded]) -> list[Encoded]:
        """Those of some encoded chunks that differ from what the array has; remember the rest."""
        if not encoded:
            return encoded
        refs = find_chunks(self._state, self._node, self._coords[[row for row, _ in encoded]])
        sizes = np.fromiter((len(data) for _, data in encoded), np.int64, len(encoded))
        is_ours = (refs.kind == NATIVE) | (refs.kind == INLINE)
        places = np.flatnonzero(is_ours & (refs.length == sizes))
        if not len(places):
            return encoded
        chosen = refs.take(places)
        ends = np.cumsum(chosen.length)
        memory = memoryview(bytearray(int(ends[-1])))
        try:
            fetch_into(self._state, chosen, memory, ends - chosen.length)
        except StorageError:
            return encoded  # what cannot be read shall be written
        kept: set[int] = set()
        for place, size, end in zip(places.tolist(), chosen.length.tolist(), ends.tolist(),
                                    strict=True):  # fmt: skip
            row, data = encoded[place]
            if is_equal(memory[end - size : end], _joined(data)):
                kept.add(place)
                self._is_kept[row] = True
        return [chunk for place, chunk in enumerate(encoded) if place not in kept]

    def gone(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.uint32]:
        """The coordinates of those chunks, of some that were not stored, which the array loses."""
        rest = rows[~self._is_kept[rows]]
        if not len(rest):
            return np.zeros((0, self._coords.shape[1]), np.uint32)
        found = find_chunks(self._state, self._node, self._coords[rest])
        gone: npt.NDArray[np.int64] = self._coords[rest[found.kind != MISSING]]
        return gone.astype(np.uint32)


def _joined(data: Bytes | Scattered) -> Bytes:
    return b"".join(data.parts) if isinstance(data, Scattered) else data
