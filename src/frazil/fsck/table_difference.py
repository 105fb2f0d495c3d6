"""Which chunks of an array have another reference in one snapshot than in another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.strings import Strings

U32 = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


def changed_chunks(old: ChunkTable, new: ChunkTable) -> U32:
    """Coordinates of chunks that came, went or changed, (n, ndim) in no order.

    Where the number of axes differs, all chunks of the new table count.
    """
    if not len(old) or (len(new) and old.ndim != new.ndim):
        return new.coords
    if not len(new):
        return old.coords
    rows = new.find_many(old.coords)
    is_kept = rows >= 0
    came = old.find_many(new.coords) < 0
    here, there = np.flatnonzero(is_kept), rows[is_kept]
    differs = _differ(old, here, new, there)
    parts = [old.coords[~is_kept], new.coords[came], old.coords[here[differs]]]
    return np.concatenate(parts)


def _differ(old: ChunkTable, here: Rows, new: ChunkTable, there: Rows) -> Mask:
    kind = old.kind[here]
    differs: Mask = (kind != new.kind[there]) | (old.length[here] != new.length[there])
    is_inline = kind == ChunkType.inline
    differs |= ~is_inline & (old.offset[here] != new.offset[there])
    differs |= (old.chunk_id[here] != new.chunk_id[there]).any(axis=1) & (kind == ChunkType.native)
    is_virtual = kind == ChunkType.virtual
    if is_virtual.any():
        differs |= is_virtual & _virtual_differ(old, here, new, there)
    for place in np.flatnonzero(is_inline & ~differs).tolist():
        differs[place] = old.ref(int(here[place])) != new.ref(int(there[place]))
    return differs


def _virtual_differ(old: ChunkTable, here: Rows, new: ChunkTable, there: Rows) -> Mask:
    differs: Mask = old.last_modified[here] != new.last_modified[there]
    for numbers, others, texts, other_texts in (
        (old.location[here], new.location[there], old.locations, new.locations),
        (old.etag[here], new.etag[there], old.etags, new.etags),
    ):
        same = _numbers([*texts, *other_texts])
        # The last place is that of rows without a text, whose number is -1.
        first = np.append(same[: len(texts)], -1)
        second = np.append(same[len(texts) :], -1)
        differs |= first[numbers] != second[others]
    return differs


def _numbers(texts: Sequence[str]) -> npt.NDArray[np.int32]:
    if not texts:
        return np.zeros(0, np.int32)
    return Strings.distinct(texts)[0]
