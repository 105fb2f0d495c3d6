"""Small chunk objects into packs, and packs with dead space into dense ones, without decoding.

What old snapshots refer to stays where it is: space becomes free when they have expired and
garbage has been collected. Until then a compaction takes more room, not less.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Mask
from frazil.bulk.engine import pace_for, spans
from frazil.bulk.fetch import ChunkReferences, fetch_into
from frazil.bulk.pack import Choice, Encoded, Packing, PackWriter, chosen_packing
from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import INITIAL_SNAPSHOT_ID, crockford_many, is_below, node_path
from frazil.maintenance.tuning import ITEM_PACKS
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.combining import concat
from frazil.model.nodes import ArrayNode
from frazil.progress import Tell
from frazil.run import LocalRunner, Runner, by_size, run_with_progress
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Storage
from frazil.storage.pool import ahead
from frazil.transaction.context import Context
from frazil.transaction.working import WorkingState

MIN_DEAD_SHARE: Final = 0.3
"""Objects with a smaller unused share stay: more than two bytes would be copied to free one."""


@dataclass(frozen=True, slots=True, repr=False)
class Compaction(ReportView):
    """What a compaction did, or would do."""

    arrays: int = 0
    chunks: int = 0
    """references that now point elsewhere"""
    objects_before: int = 0
    """objects those chunks were in"""
    objects_after: int = 0
    bytes_rewritten: int = 0
    dead_bytes: int = 0
    """bytes of the old objects that this snapshot did not use"""
    snapshot_id: str | None = None
    """the commit, if there was something to do"""

    def __add__(self, other: Compaction) -> Compaction:
        return Compaction(
            self.arrays + other.arrays,
            self.chunks + other.chunks,
            self.objects_before + other.objects_before,
            self.objects_after + other.objects_after,
            self.bytes_rewritten + other.bytes_rewritten,
            self.dead_bytes + other.dead_bytes,
            self.snapshot_id or other.snapshot_id,
        )


def compact_chunks(
    state: WorkingState,
    path: str = "/",
    *,
    packing: Choice = True,
    min_dead_share: float = MIN_DEAD_SHARE,
    dry_run: bool = False,
    runner: Runner | None = None,
    progress: Tell | None = None,
) -> Compaction:
    """Put the small chunks of an array, or of all arrays below a group, into packs.

    Packs of which this snapshot uses too little are written anew. The session is changed, not
    committed; a dry run changes nothing. `runner` has others copy chunks, a few packs at a time.

    Raises:
        InvalidInputError: `min_dead_share` is not a share.
        NodeNotFoundError: there is no node at `path`.
    """
    if not 0 < min_dead_share <= 1:
        raise InvalidInputError(
            "min_dead_share must be above 0 and at most 1",
            kind=ErrorKind.INVALID_SETTING,
            min_dead_share=min_dead_share,
        )
    wanted = chosen_packing(packing, default=True) or Packing()
    if not dry_run:
        state.require_editable()
    done = Compaction()
    chosen: dict[str, ChunkTable] = {}
    for node in arrays_below(state, node_path(path)):
        table = state.table(node)
        plan = plan_rows(state.context.storage, table, wanted, min_dead_share)
        if not len(plan.rows):
            continue
        rows = chosen[node.path] = table.take(plan.rows)
        made = estimate(rows, wanted) if dry_run else 0
        size = int(rows.length.sum())
        done += Compaction(1, len(rows), plan.objects, made, size, plan.dead_bytes)
    if dry_run:
        return done
    placed: dict[str, list[ChunkTable]] = {}
    items = [*chosen.items()]
    if runner is not None:
        items = [
            (name, table.take(slice(part.start, part.stop)).compact())
            for name, table in items
            for part in by_size(table.length.tolist(), ITEM_PACKS * wanted.max_object)
        ]
    work = _Repack(state.context, wanted, state if runner is None else None)
    for number, table in run_with_progress(runner or LocalRunner(1), work, items, progress, "packs",
                                  size_bytes=done.bytes_rewritten):  # fmt: skip
        placed.setdefault(items[number][0], []).append(table)
    for name, tables in placed.items():
        node = state.array(name)
        table = concat(tables, len(node.shape))
        done += Compaction(objects_after=count_objects(table))
        state.set_table(node, table)
    return done


@dataclass(frozen=True, slots=True)
class _Repack:
    """Copies chunks of an array into packs, wherever a runner does it."""

    context: Context
    packing: Packing
    state: WorkingState | None
    """that of the session, where its own process does it"""

    def __call__(self, item: tuple[str, ChunkTable]) -> ChunkTable:
        state = self.state or WorkingState(self.context, INITIAL_SNAPSHOT_ID)
        return repack(state, item[1], self.packing)


def arrays_below(state: WorkingState, path: str) -> Iterator[ArrayNode]:
    """The array at a path, or all arrays below the group there."""
    state.node(path)
    for node in [*state.arrays()]:
        if node.path == path or is_below(node.path, path):
            yield node


# --- deciding ---


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRows:
    """Rows of a table to write anew, and the objects they are in."""

    rows: npt.NDArray[np.intp]
    objects: int = 0
    dead_bytes: int = 0


def plan_rows(
    storage: Storage, table: ChunkTable, packing: Packing, min_dead_share: float
) -> ChosenRows:
    """Decide which references of an array to write anew."""
    native = np.flatnonzero(table.kind == ChunkType.native)
    names = np.ascontiguousarray(table.chunk_id[native]).view("S12").ravel()
    ids, number = np.unique(names, return_inverse=True)
    offset, length = table.offset[native].astype(np.int64), table.length[native].astype(np.int64)
    used, is_shared = _used(number, offset, length, len(ids))
    is_small = used < packing.limit
    size = used.copy()
    asked = np.flatnonzero(is_shared)
    size[asked] = _sizes(storage, ids[asked])
    dead = size - used
    is_wasteful = (dead > 0) & (dead >= min_dead_share * size)
    # Objects that are missing or too short are left to `fsck`.
    chosen = (is_small | is_wasteful) & (dead >= 0)
    if not is_wasteful.any() and chosen.sum() < 2:
        return ChosenRows(native[:0])
    rows = native[chosen[number]]
    return ChosenRows(rows, int(chosen.sum()), int(dead[chosen].sum()))


def _used(number: I64, offset: I64, length: I64, count: int) -> tuple[I64, Mask]:
    """Bytes of each object that references use, and whether it may hold anything else."""
    order = np.lexsort((length, offset, number))
    columns = np.stack([number, offset, length])[:, order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    distinct = columns[:, fresh]
    used = np.bincount(distinct[0], distinct[2], count).astype(np.int64)
    refs = np.bincount(distinct[0], minlength=count)
    begins = np.bincount(distinct[0], distinct[1] > 0, count) > 0
    return used, (refs > 1) | begins


def _sizes(storage: Storage, ids: npt.NDArray[np.bytes_]) -> I64:
    """Sizes of objects; 0 for one that is missing."""
    keys = [CHUNKS + name for name in crockford_many(ids.view(np.uint8).reshape(-1, 12))]
    found = storage.each(storage.head, keys)
    return np.array([0 if each is None else each.size_bytes for each in found], np.int64)


def estimate(chosen: ChunkTable, packing: Packing) -> int:
    """The number of objects that packing some references makes."""
    lengths = chosen.length[chosen.length < packing.limit]
    packs = -(-int(lengths.sum()) // packing.max_object)
    return packs + len(chosen) - len(lengths)


# --- doing ---


def repack(state: WorkingState, chosen: ChunkTable, packing: Packing) -> ChunkTable:
    """Copy chunks into packs, and tell where they are; the change set is left as it is."""
    sources, number = _distinct(chosen)
    pace = pace_for(state.context.storage, int(sources.length.max()))
    with PackWriter(state, len(sources), packing=packing) as writer:

        def copy(rows: range) -> list[Encoded]:
            return writer.put_large(zip(rows, fetch_rows(state, sources, rows), strict=True))

        with closing(ahead(copy, spans(range(len(sources)), pace.rows), pace.width)) as copied:
            for small in copied:
                writer.add(small)
        rows = np.arange(len(sources), dtype=np.uint32).reshape(-1, 1)
        placed = writer.table(rows).take(number)
    return replace(placed, coords=chosen.coords)


def count_objects(table: ChunkTable) -> int:
    """The number of objects that native references point into."""
    ids = np.ascontiguousarray(table.chunk_id[table.kind == ChunkType.native])
    return len(np.unique(ids.view("S12")))


def _distinct(chosen: ChunkTable) -> tuple[ChunkTable, npt.NDArray[np.intp]]:
    """The ranges that references point to, in order of coordinates, and the number of each.

    References to one range go on sharing it.
    """
    ranges = np.empty(len(chosen), [("id", "S12"), ("offset", "u8"), ("length", "u8")])
    ranges["id"] = np.ascontiguousarray(chosen.chunk_id).view("S12").ravel()
    ranges["offset"], ranges["length"] = chosen.offset, chosen.length
    _, first, number = np.unique(ranges, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    return chosen.take(np.sort(first)), rank[number.ravel()]


def fetch_rows(state: WorkingState, sources: ChunkTable, rows: range) -> list[memoryview]:
    """The bytes of the chunks in some rows of a table."""
    refs = ChunkReferences.of(sources.take(slice(rows.start, rows.stop)))
    length = refs.length
    ends = np.cumsum(length)
    starts = ends - length
    memory = memoryview(bytearray(int(ends[-1])))
    fetch_into(state, refs, memory, starts)
    return [memory[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
