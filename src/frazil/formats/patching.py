"""A manifest with a few references exchanged, made from its bytes.

To change one chunk of millions, columns would be decoded and encoded again. Instead the new
references are put behind the old bytes, and the places that lead to the old ones are led there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from frazil.formats.envelope import MAX_BODY
from frazil.formats.flat import U32, Buffer
from frazil.formats.refs import encode_refs, find_row
from frazil.ids import ManifestId
from frazil.model.chunks import ABSENT, ChunkTable

FEW_ROWS: Final = 32
"""References exchanged at most; of more, columns are not much slower."""
FROM_REFS: Final = 20_000
"""References a manifest must have; smaller ones are quickly made anew."""


def patched_body(
    buffer: Buffer, id: ManifestId, start: int, count: int, changes: ChunkTable
) -> bytes | None:
    """The body of a manifest with another id and other references for some chunks.

    Returns None where this way is closed: a chunk has no reference yet, or the file would
    become too large. The vector of references begins at `start`.
    """
    # References that were exchanged leave dead bytes. They cannot pile up, because one manifest
    # in 256, as its random id happens to be, is made anew.
    if len(changes) > FEW_ROWS or count < FROM_REFS or id[0] == 0:
        return None
    rows = [find_row(buffer, start, count, tuple(coords)) for coords in changes.coords.tolist()]
    place = buffer.root().at(0)
    if ABSENT in rows or place is None:
        return None
    head, *blocks = encode_refs(changes, None)
    end = buffer.size + -buffer.size % 8
    size = end + sum(map(len, blocks))
    if size > MAX_BODY:
        return None
    # Where the new tables are, counted from the vector before them.
    tables = 4 + 4 * np.arange(len(rows)) + head[4 : 4 + 4 * len(rows)].view("<u4")
    edits: list[tuple[int, bytes]] = [(place, bytes(id))]
    for row, table in zip(rows, (tables - len(head) + end).tolist(), strict=True):
        at = start + 4 * row
        edits.append((at, U32.pack(table - at)))
    tail = [bytes(end - buffer.size), *(block.tobytes() for block in blocks)]
    return b"".join([*_edited(buffer, edits), *tail])


def _edited(buffer: Buffer, edits: Iterable[tuple[int, bytes]]) -> Iterable[bytes | memoryview]:
    """The pieces of a file with some bytes exchanged."""
    data, at = memoryview(buffer.data), 0
    for place, fresh in sorted(edits):
        yield data[at:place]
        yield fresh
        at = place + len(fresh)
    yield data[at:]
