"""A manifest with a few references exchanged, made from its bytes.

To change one chunk of millions, columns would be decoded and encoded again. Instead the new
references are put behind the old bytes, and the places that lead to the old ones are led there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from frazil.flatbuf.growth import MARK_SIZE, mark_of, may_grow
from frazil.flatbuf.reader import U32, Buffer
from frazil.flatbuf.writer import MAX_SIZE
from frazil.formats.refs import encode_refs, find_row
from frazil.ids import ManifestId
from frazil.model.chunks import ABSENT, ChunkTable

PATCHED_ROWS: Final = 32
"""References exchanged at most; of more, columns are not much slower."""
PATCHED_FROM: Final = 20_000
"""References a manifest must have; smaller ones are quickly made anew."""


def patched_body(
    buffer: Buffer, id: ManifestId, start: int, count: int, changes: ChunkTable
) -> bytes | None:
    """The body of a manifest with another id and other references for some chunks.

    Returns None where this way is closed: a chunk has no reference yet, or the file has grown
    by too many references that were exchanged. The vector of references begins at `start`.
    """
    if len(changes) > PATCHED_ROWS or count < PATCHED_FROM or not may_grow(buffer.data):
        return None
    rows = [find_row(buffer, start, count, tuple(coords)) for coords in changes.coords.tolist()]
    place = buffer.root().at(0)
    if ABSENT in rows or place is None:
        return None
    places, pieces = encode_refs(changes, None)
    end = buffer.size + -buffer.size % 8
    if end + sum(map(len, pieces)) + MARK_SIZE > MAX_SIZE:
        return None
    edits: list[tuple[int, bytes]] = [(place, bytes(id))]
    for row, table in zip(rows, (places + end).tolist(), strict=True):
        at = start + 4 * row
        edits.append((at, U32.pack(table - at)))
    tail: list[bytes | memoryview] = [bytes(end - buffer.size), *pieces, mark_of(buffer.data)]
    return b"".join([*_edited(buffer, edits), *tail])


def _edited(buffer: Buffer, edits: Iterable[tuple[int, bytes]]) -> Iterable[bytes | memoryview]:
    """The pieces of a file with some bytes exchanged."""
    data, at = memoryview(buffer.data), 0
    for place, fresh in sorted(edits):
        yield data[at:place]
        yield fresh
        at = place + len(fresh)
    yield data[at:]
