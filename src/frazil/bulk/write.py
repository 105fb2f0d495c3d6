"""Writing regions of arrays: encoded in threads, stored in bulk, recorded in one step.

A write is all or nothing for the session: chunks go to storage under fresh names first, and only
when all are there one columnar insert makes them part of the session.
"""

from __future__ import annotations

from contextlib import closing
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil import config
from frazil.arrays import Array, Shape
from frazil.bulk.compose import Composer
from frazil.bulk.compose import WriteTarget as WriteTarget
from frazil.bulk.engine import BatchLimits, pace_for, spans
from frazil.bulk.fetch import INLINE, MISSING, NATIVE, fetch_into, find_chunks
from frazil.bulk.pack import (
    Choice,
    Encoded,
    PackWriter,
    chosen_packing,
    joined_bytes,
    packs_by_default,
    store_one,
)
from frazil.bulk.plan import ChunkPlan
from frazil.bulk.read import (
    SessionOrStore,
    open_array,
    plan_selection,
    read_selection,
    split_fields,
    zarr_array,
)
from frazil.bulk.tuning import LARGE_FILE, LEAST_BYTES
from frazil.errors import InvalidInputError, StorageError
from frazil.model.nodes import ArrayNode
from frazil.progress import Progress, Tell
from frazil.storage.pool import ahead, shared
from frazil.transaction.keyspace import is_equal
from frazil.transaction.working import WorkingState


def write_region(
    owner: SessionOrStore,
    path: str,
    selection: Any,  # noqa: ANN401 - what numpy takes
    values: npt.ArrayLike,
    *,
    by: str = "brackets",
    packing: Choice = None,
    max_in_flight: int | None = None,
    progress: Tell | None = None,
    write_empty_chunks: bool | None = None,
    skip_identical: bool | None = None,
) -> None:
    """Write values to a region of an array, by a selection as zarr arrays take it in brackets.

    `by` may be `oindex`, `vindex` or `blocks` for the other kinds. Values are broadcast to the
    region. Small chunks are packed unless `packing` or the configuration says otherwise. About
    `max_in_flight` bytes of chunks are in memory at a time. Chunks that hold nothing but the fill
    value are dropped, unless `write_empty_chunks`, or zarr's setting of that name, is true. With
    `skip_identical`, or if session or configuration say so, chunks that have the new bytes already
    keep their references.

    Raises:
        NodeNotFoundError: there is no such array.
        SelectionError: the array has no such region.
        InvalidInputError: the values do not fit the region.
        ReadOnlyError: the session takes no changes.
        StorageError: something could not be read or stored; the session is as it was.
    """
    opened = open_array(owner, path)
    opened.state.require_editable()
    layout = opened.layout
    if layout is None:
        array = zarr_array(owner, path, mode="r+")
        (array if by == "brackets" else getattr(array, by))[selection] = values
        return
    fields, selection = split_fields(selection, layout.chain.dtype)
    if fields is not None:
        records = read_selection(opened, selection, by=by)
        for name in [fields] if isinstance(fields, str) else fields:
            records[name] = values if isinstance(fields, str) else np.asarray(values)[name]
        values = records
    plan, shape, full = plan_selection(layout.grid, selection, by)
    if write_empty_chunks is None:
        import zarr

        write_empty_chunks = bool(zarr.config.get("array.write_empty_chunks", False))
    write_chunks(
        WriteTarget(opened.state, opened.node, layout.chain, write_empty_chunks),
        plan,
        _fitted(np.asarray(values), shape).reshape(full),
        packing=packing,
        max_in_flight=max_in_flight,
        progress=progress,
        skip_identical=skip_identical,
    )


def _fitted(values: Array, shape: Shape) -> Array:
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise InvalidInputError(
            f"values of the shape {values.shape} do not fit a region of {shape}"
        ) from None


def write_chunks(
    target: WriteTarget,
    plan: ChunkPlan,
    value: Array,
    *,
    packing: Choice = None,
    max_in_flight: int | None = None,
    progress: Tell | None = None,
    skip_identical: bool | None = None,
) -> None:
    """Write a value, or parts of it, into chunks of an array.

    Raises:
        ReadOnlyError: the session takes no changes.
        StorageError: something could not be read or stored; the session is as it was.
    """
    state, node = target.state, target.node
    state.require_editable()
    count = plan.count
    coords = plan.coords(range(count)).astype(np.uint32)
    skips = state.skips_identical(skip_identical)
    if not count or (count == 1 and state.watcher is None):
        size = _write_one(target, plan, coords, value, skips=skips) if count else 0
        if progress is not None:
            progress(Progress(node.path, count, count, count, size))
        return
    state.require_held(node, tuple(coords.max(axis=0).tolist()))
    wanted = chosen_packing(packing, default=packs_by_default(state), max_in_flight=max_in_flight)
    pace = _pace(target, plan, max_in_flight)
    same = _Unchanged(state, node, coords) if skips else None
    watch = None if state.watcher is None else state.watcher.begin(node, coords)
    with PackWriter(state, count, packing=wanted) as writer:
        composer = Composer(target, plan, coords, value, watch)

        def store(rows: range) -> tuple[int, int, list[Encoded]]:
            encoded = composer.encoded(rows)
            if same is not None:
                encoded = same.without(encoded)
            return len(rows), sum(len(data) for _, data in encoded), writer.put_large(encoded)

        # Neighbours should be neighbours in a pack too; chunks with files of their own need not.
        spread = shared if pace.rows == 1 else ahead
        with closing(spread(store, spans(range(count), pace.rows), pace.width)) as stored:
            done = total = 0
            for rows, size, small in stored:
                writer.add(small)
                done, total = done + rows, total + size
                if progress is not None:
                    progress(Progress(node.path, done, count, done, total))
        table = writer.table(coords)
    if watch is not None:
        watch.stored(table)
    absent = _absent(writer, coords, len(table), same)
    with state.editing():
        if len(table):
            state.set_table(node, table)
        if len(absent):
            state.delete_chunks(node, absent)


def _absent(
    writer: PackWriter, coords: npt.NDArray[np.uint32], stored: int, same: _Unchanged | None
) -> npt.NDArray[np.uint32]:
    """The chunks that nothing was stored for: all their values are the fill value now."""
    if same is not None:
        return same.gone(writer.absent(np.arange(len(coords), dtype=np.uint32)))
    return writer.absent(coords) if stored < len(coords) else coords[:0]


def _pace(target: WriteTarget, plan: ChunkPlan, max_in_flight: int | None) -> BatchLimits:
    """Batches that keep threads and storage busy, within the limit on memory."""
    storage, chain = target.state.context.storage, target.chain
    size = max(LEAST_BYTES, prod(plan.largest) * chain.dtype.itemsize)
    pace = pace_for(storage, size, max_in_flight)
    if not storage.answers_inline:
        return pace
    rows = pace.in_runs(plan.run_length).rows
    if plan.count <= rows:
        return BatchLimits(rows, 1)
    if size < LARGE_FILE:
        # Where there is nothing to do but to copy, threads cost more than they bring.
        return BatchLimits(rows, 1 if chain.is_raw else pace.width)
    # The kernel copies for several at a time; compressors get in the way of each other's caches.
    workers = config.current().workers
    return BatchLimits(rows, min(pace.width, workers) if chain.bytes else pace.width)


def _write_one(
    target: WriteTarget,
    plan: ChunkPlan,
    coords: npt.NDArray[np.uint32],
    value: Array,
    *,
    skips: bool,
) -> int:
    """Write a single chunk, which is quicker without columns; tell its size."""
    state, node = target.state, target.node
    place = tuple(coords[0].tolist())
    state.require_held(node, place)
    encoded = Composer(target, plan, coords, value).encoded(range(1))
    if not encoded:
        if not skips or state.chunk_ref(node, place) is not None:
            state.delete_chunk(node, place)
        return 0
    data = encoded[0][1]
    if skips and not _Unchanged(state, node, coords).without(encoded):
        return len(data)
    state.set_chunk(node, place, store_one(state, data))
    return len(data)


class _Unchanged:
    """The chunks of one write that are as they were; may be used by several threads."""

    def __init__(
        self, state: WorkingState, node: ArrayNode, coords: npt.NDArray[np.uint32]
    ) -> None:
        self._state = state
        self._node = node
        self._coords = coords.astype(np.int64)
        self._is_kept = np.zeros(len(coords), np.bool_)

    def without(self, encoded: list[Encoded]) -> list[Encoded]:
        """The encoded chunks that differ from those of the array; remembers the rest."""
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
        sized = zip(places.tolist(), chosen.length.tolist(), ends.tolist(), strict=True)
        for place, size, end in sized:
            row, data = encoded[place]
            if is_equal(memory[end - size : end], joined_bytes(data)):
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
