"""Makes statistics of chunks while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import google_crc32c
import numpy as np
import numpy.typing as npt

from frazil.arrays import StructRows
from frazil.bulk.chain import Chain, Sharding
from frazil.bulk.codecs import Transpose
from frazil.bulk.fetch import ChunkReferences
from frazil.errors import FormatError, InvalidInputError
from frazil.model.chunks import ChunkTable
from frazil.model.nodes import ArrayNode
from frazil.session import Session
from frazil.statistics.measuring import measure
from frazil.statistics.publishing import publish_rows
from frazil.statistics.records import Decoding, blank_rows, decoding_of, identified, shapes
from frazil.storage.base import Bytes
from frazil.transaction.watching import Watch

Held: TypeAlias = dict[bytes, list[StructRows]]
"""Rows by the ids of their decodings."""


@contextmanager
def recording(session: Session) -> Iterator[Recorder]:
    """Keep statistics of all chunks that a session writes in bulk, once it is committed.

    Statistics of committed chunks are stored when the block ends; others are dropped.
    """
    state = session.state
    recorder = Recorder(state.context.containers.expand)
    before, base = state.watcher, session.snapshot_id
    state.watcher = recorder
    try:
        yield recorder
    finally:
        state.watcher = before
    if session.snapshot_id != base and not session.has_uncommitted_changes:
        publish_rows(state.context, recorder.held, state.base_id)


@dataclass(slots=True, eq=False)
class Recorder:
    """Measures chunks that are written, and keeps their rows."""

    expand: Callable[[str], str] = str
    held: Held = field(default_factory=dict)
    _decodings: dict[tuple[str, bytes], Decoding | None] = field(default_factory=dict)

    def begin(self, node: ArrayNode, coords: npt.NDArray[np.integer]) -> Watch | None:
        """The rows of one write, to be filled."""
        key = (node.path, bytes(node.user_data))
        if key not in self._decodings:
            self._decodings[key] = decoding_of(node)
        decoding = self._decodings[key]
        return None if decoding is None else Measured(self, decoding, coords)

    def add(self, held: Mapping[bytes, Iterable[StructRows]]) -> None:
        """Add the rows of another recorder."""
        for decoding, rows in held.items():
            self.held.setdefault(decoding, []).extend(rows)


class Measured:
    """The rows of one write."""

    def __init__(
        self, recorder: Recorder, decoding: Decoding, coords: npt.NDArray[np.integer]
    ) -> None:
        self._recorder = recorder
        self._decoding = decoding
        self._coords = np.ascontiguousarray(coords, np.uint32)
        self._shapes = shapes(decoding.layout.grid, coords)
        self._rows = blank_rows(len(coords))
        self._seen = np.zeros(len(coords), np.bool_)

    def see(self, row: int, chunk: npt.NDArray[Any], data: Sequence[Bytes]) -> None:
        """Make the row of a chunk from the values that a reader will get."""
        chain = self._decoding.layout.chain
        full, inside = (tuple(each[row].tolist()) for each in self._shapes)
        try:
            if is_lossless(chain):
                values = chunk.astype(chain.dtype, copy=False)
            else:
                values = chain.decode(b"".join(bytes(part) for part in data), full)
            if full != inside:
                values = values[tuple(slice(0, n) for n in inside)]
            measure(self._decoding.decoder.decode(values), self._rows, row)
        except (FormatError, InvalidInputError):
            return  # reading the chunk will raise the error
        found = 0
        for part in data:
            found = google_crc32c.extend(found, np.frombuffer(part, np.uint8))
        self._rows["crc32c"][row] = found
        self._seen[row] = True

    def stored(self, table: ChunkTable) -> None:
        """Keep the rows of chunks that were stored."""
        places = {each.tobytes(): row for row, each in enumerate(self._coords) if self._seen[row]}
        at = np.array([places.get(each.tobytes(), -1) for each in table.coords], np.int64)
        keyed, can_be_known = identified(
            ChunkReferences.of(table), self._decoding.layout.grid, self._recorder.expand
        )
        chosen = can_be_known & (at >= 0)
        if not chosen.any():
            return
        rows = self._rows[at[chosen]]
        for name in ("owner", "offset", "length", "cells", "kind"):
            rows[name] = keyed[name][chosen]
        self._recorder.add({self._decoding.id: [rows]})


def is_lossless(chain: Chain) -> bool:
    """Whether chunks are read as they were before they were encoded."""
    inner = chain.serializer.inner if isinstance(chain.serializer, Sharding) else None
    return all(isinstance(codec, Transpose) for codec in chain.arrays) and (
        inner is None or is_lossless(inner)
    )
