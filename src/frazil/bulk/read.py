"""Reading regions of arrays into numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Array, Mask, Shape
from frazil.bulk.chain import Chain
from frazil.bulk.engine import ArraySource, execute
from frazil.bulk.fetch import find_chunks
from frazil.bulk.grid import UNKNOWN, ArrayLayout, Grid, array_layout, regular_grid
from frazil.bulk.plan import BoxPlan, ChunkPlan, ListPlan, box_plan, point_plan
from frazil.bulk.selection import blocks_as_slices, is_array, is_index
from frazil.bulk.shards import ShardFinder
from frazil.bulk.tuning import SMALL_RESULT
from frazil.errors import ErrorKind, FormatError, FrazilError, InvalidInputError, SelectionError
from frazil.model.nodes import ArrayNode
from frazil.progress import Tell
from frazil.storage.pool import fan_out
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.keys import clean_path
from frazil.transaction.working import WorkingState

if TYPE_CHECKING:
    import zarr


class SessionOrStore(Protocol):
    """A session, or a Zarr store of one."""

    @property
    def state(self) -> WorkingState:
        """What is read."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenedArray:
    """An array ready to be read, at one moment of a session."""

    state: WorkingState
    node: ArrayNode
    layout: ArrayLayout | None
    """None: only zarr can read it"""
    changes: ChangeSet
    """as they were before `node` was looked up"""


def open_array(owner: SessionOrStore, path: str) -> OpenedArray:
    """Look up an array.

    Raises:
        NodeNotFoundError: there is no node.
        InvalidInputError: it is a group.
    """
    state = owner.state
    changes = state.changes  # before the tree: the order that reads during a commit need
    node = state.array(clean_path(path))
    return OpenedArray(state, node, array_layout(node), changes)


def read_region(
    owner: SessionOrStore,
    path: str,
    selection: Any = ...,  # noqa: ANN401 - what numpy takes
    *,
    out: Array | None = None,
    max_in_flight: int | None = None,
    progress: Tell | None = None,
) -> Array:
    """Read a region of an array, by a selection as zarr arrays take it in brackets.

    At most about `max_in_flight` bytes are used beside the result. Missing chunks are the fill
    value. With `out` the region is read into that array, which is returned.

    Raises:
        NodeNotFoundError: there is no such array.
        SelectionError: the array has no such region.
        FormatError: a chunk is damaged.
        StorageError: a chunk cannot be read.
    """
    opened = open_array(owner, path)
    if opened.layout is None:
        return read_by_zarr(owner, path, selection, out=out)
    return read_selection(
        opened, selection, out=out, max_in_flight=max_in_flight, progress=progress
    )


def read_regions(
    owner: SessionOrStore,
    selections: Mapping[str, Any],
    *,
    max_in_flight: int | None = None,
    progress: Tell | None = None,
) -> dict[str, Array]:
    """Read regions of many arrays at once; see `read_region`.

    `progress` is called for each array with its own numbers, from several threads.
    """
    large: list[tuple[str, Any]] = []
    small: list[tuple[str, Any]] = []
    for path, selection in selections.items():
        layout = open_array(owner, path).layout
        size = 0 if layout is None else prod(layout.shape) * layout.chain.dtype.itemsize
        (large if size > SMALL_RESULT else small).append((path, selection))

    def read(item: tuple[str, Any], limit: int | None = max_in_flight) -> Array:
        return read_region(owner, *item, max_in_flight=limit, progress=progress)

    share = None if max_in_flight is None else max(1, max_in_flight // max(1, len(small)))
    parts = fan_out(partial(read, limit=share), small)
    found = {path: part for (path, _), part in zip(small, parts, strict=True)}
    found |= {item[0]: read(item) for item in large}
    return {path: found[path] for path in selections}


def read_selection(
    opened: OpenedArray,
    selection: Any,  # noqa: ANN401 - what numpy takes
    *,
    by: str = "brackets",
    out: Array | None = None,
    max_in_flight: int | None = None,
    progress: Tell | None = None,
) -> Array:
    """Read a region of an opened array; `by` is brackets, oindex, vindex or blocks.

    Raises:
        SelectionError: the array has no such region.
    """
    layout = opened.layout
    assert layout is not None
    fields, selection = split_fields(selection, layout.chain.dtype)
    if fields is not None:
        whole = read_selection(opened, selection, by=by, max_in_flight=max_in_flight)
        return _only_fields(whole, fields, out)
    if by == "blocks":  # of shards, where there are some
        selection, by = blocks_as_slices(layout.grid, selection), "oindex"
    grid = layout.inner_grid
    plan, shape, full = plan_selection(grid, selection, by)
    is_box = isinstance(plan, BoxPlan) and grid is not layout.grid
    outer = box_plan(layout.grid, selection) if is_box else None
    result = _result(out, shape, layout.chain.dtype)
    view = result.reshape(full)
    source, plan = _source(opened, layout, plan, outer)
    execute(source, plan, view, max_in_flight=max_in_flight, progress=progress)
    if not np.may_share_memory(view, result):
        result[...] = view.reshape(shape)
    return result


def plan_selection(grid: Grid, selection: object, by: str) -> tuple[ChunkPlan, Shape, Shape]:
    """The plan of a selection, the shape of the result, and that shape with all axes of the plan.

    Raises:
        SelectionError: the array has no such region.
    """
    if by == "blocks":
        selection = blocks_as_slices(grid, selection)
    if by == "vindex" or (by == "brackets" and _is_pointwise(selection, len(grid))):
        points, shape = point_plan(grid, selection)
        return points, shape, (prod(shape),)
    if by == "brackets":
        _refuse_ambiguous(selection)
    box = box_plan(grid, selection)
    return box, box.result_shape, box.full_shape


def _source(
    opened: OpenedArray, layout: ArrayLayout, plan: ChunkPlan, outer: BoxPlan | None
) -> tuple[ArraySource, ChunkPlan]:
    """Where the chunks of a plan come from; shards that are wanted whole are read whole."""
    state, node, chain = opened.state, opened.node, layout.chain
    shards = chain.shards
    is_remote = not state.context.storage.answers_inline
    if outer is not None and is_remote and all(cut.covers.all() for cut in outer.cuts):
        plan, shards = outer, None
    if shards is None:
        find = partial(find_chunks, state, node, changes=opened.changes)
        find_one = partial(state.chunk_ref, node, changes_then=opened.changes)
        return ArraySource(state, node, chain, find, find_one), plan
    finder = ShardFinder(state, node, shards, layout.grid, opened.changes)
    return ArraySource(state, node, shards.inner, finder), plan


def _result(out: Array | None, shape: Shape, dtype: np.dtype[Any]) -> Array:
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape:
        raise InvalidInputError(f"out has the shape {out.shape}, the region {shape}")
    return out


def split_fields(
    selection: Any,  # noqa: ANN401 - what numpy takes
    dtype: np.dtype[Any],
) -> tuple[str | list[str] | None, Any]:
    """Names of fields in a selection of records, and the rest of it."""
    if dtype.names is None:
        return None, selection
    items = selection if isinstance(selection, tuple) else (selection,)
    chosen = [item for item in items if _names(item)]
    names = [name for item in chosen for name in _names(item)]
    if not names:
        return None, selection
    unknown = sorted({*names} - {*dtype.names})
    if unknown:
        raise SelectionError(f"no fields named {unknown}", fields=dtype.names)
    rest = tuple(item for item in items if not _names(item))
    is_single = len(chosen) == 1 and isinstance(chosen[0], str)
    return names[0] if is_single else names, rest or ...


def _names(item: object) -> list[str]:
    """The names of fields that an item of a selection is."""
    if isinstance(item, str):
        return [item]
    is_list = isinstance(item, list) and bool(item) and all(isinstance(n, str) for n in item)
    return item if is_list else []  # type: ignore[return-value]  # of texts, as was checked


def _only_fields(records: Array, fields: str | list[str], out: Array | None) -> Array:
    if isinstance(fields, str):
        found = np.ascontiguousarray(records[fields]).reshape(records.shape)
    else:
        dtype = np.dtype([(name, records.dtype[name]) for name in fields])
        found = np.empty(records.shape, dtype)
        for name in fields:
            found[name] = records[name]
    if out is None:
        return found
    _result(out, found.shape, found.dtype)[...] = found
    return out


def _is_pointwise(selection: object, ndim: int) -> bool:
    """Whether a selection in brackets means points: only arrays and indices, for every axis."""
    if isinstance(selection, np.ndarray) and selection.dtype.kind == "b" and selection.ndim == ndim:
        return ndim > 1
    if not isinstance(selection, tuple) or len(selection) != ndim or ndim < 2:
        return False
    arrays = [item for item in selection if is_array(item)]
    return bool(arrays) and all(is_array(item) or is_index(item) for item in selection)


def _refuse_ambiguous(selection: object) -> None:
    """Refuse what zarr and numpy would understand differently."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if sum(map(is_array, items)) > 1:
        raise SelectionError(
            "arrays along several axes beside slices can mean two things: use oindex or vindex"
        )


def zarr_array(
    owner: Any,  # noqa: ANN401 - a session or a store
    path: str,
    mode: Literal["r", "r+"] = "r",
) -> zarr.Array[Any]:
    """The array as zarr sees it, which may know its codecs or its data type.

    Raises:
        FormatError: it does not.
    """
    import zarr

    store = getattr(owner, "store", owner)
    try:
        return zarr.open_array(store, path=path.strip("/"), mode=mode, zarr_format=3)
    except FrazilError:
        raise
    except UNKNOWN as error:
        raise FormatError(
            f"neither Frazil nor zarr can read this array: {error}",
            kind=ErrorKind.BAD_METADATA,
            path=f"/{path.strip('/')}",
        ) from error


def read_by_zarr(
    owner: Any,  # noqa: ANN401 - a session or a store
    path: str,
    selection: Any,  # noqa: ANN401 - what numpy takes
    *,
    by: str = "brackets",
    out: Array | None = None,
) -> Array:
    """Let zarr read an array whose codecs or data type only it may know."""
    array = zarr_array(owner, path)
    found: Array = np.asarray((array if by == "brackets" else getattr(array, by))[selection])
    if out is None:
        return found
    _result(out, found.shape, found.dtype)[...] = found
    return out


def read_chunks(
    state: WorkingState,
    node: ArrayNode,
    chain: Chain,
    coords: npt.NDArray[np.integer],
    shape: Shape,
    in_chunk: Sequence[Any],
    in_out: Sequence[Any],
    out: Array,
    *,
    is_whole: Sequence[bool] | None = None,
    drop_axes: Shape = (),
    changes: ChangeSet | None = None,
) -> Mask:
    """Read chunks by selections that are made already: `out[in_out] = chunk[in_chunk]`.

    `coords` is (n, ndim), `shape` that of every chunk. `is_whole` tells which chunks are taken
    as they are, without a selection (only those that lie in `out` in full; None: none is known
    to be). Axes in `drop_axes` are squeezed out of what is taken. `changes` are those of the
    session before `node` was looked up. Tells which chunks exist; the fill value is put for
    the others.

    Raises:
        FormatError: a chunk is damaged.
        StorageError: a chunk cannot be read.
    """
    columns: I64 = np.asarray(coords, np.int64)
    whole = [False] * len(columns) if is_whole is None else is_whole
    plan = ListPlan(columns, shape, in_chunk, in_out, whole, drop_axes)
    find = partial(find_chunks, state, node, changes=changes)
    if chain.shards is None:
        return execute(ArraySource(state, node, chain, find), plan, out)
    return _read_shards(ArraySource(state, node, chain, find), plan, out, changes)


def _read_shards(
    source: ArraySource, plan: ListPlan, out: Array, changes: ChangeSet | None
) -> Mask:
    """Whole shards as chunks; of others the inner chunks that are wanted."""
    shards = source.chain.shards
    assert shards is not None
    parts = [
        row
        for row in range(plan.count)
        if not plan.is_whole[row] and _is_box(plan.in_chunk[row], plan.shape(row))
    ]
    rest = sorted({*range(plan.count)} - {*parts})
    exists = np.zeros(plan.count, bool)
    if rest:
        exists[rest] = execute(source, plan.take(rest), out)

    def read(row: int) -> bool:
        shape, coords = plan.shape(row), plan.chunk_coords[row]
        finder = ShardFinder(
            source.state, source.node, shards, regular_grid(shape, shape), changes, origin=coords
        )
        inner = box_plan(regular_grid(shape, shards.inner_shape), plan.in_chunk[row])
        taken = np.empty(inner.full_shape, source.chain.dtype)
        inside = ArraySource(source.state, source.node, shards.inner, finder)
        execute(inside, inner, taken)
        out[plan.in_result[row]] = plan.squeezed(taken.reshape(inner.result_shape))
        return finder.has_any

    exists[parts] = fan_out(read, parts)
    return exists


def _is_box(selection: object, shape: Shape) -> bool:
    """Whether a selection is made of indices and slices, and not of all there is."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if not all(isinstance(item, slice) or is_index(item) for item in items):
        return False
    return any(
        is_index(item) or item.indices(n)[:2] != (0, n)
        for item, n in zip(items, shape, strict=False)
    )
