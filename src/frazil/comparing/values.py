"""The comparison itself: chunks of both sides are read in bulk, compared, and tallied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Array, Mask, Shape
from frazil.bulk.grid import array_layout, grid_of
from frazil.bulk.read import open_array, read_chunks, read_region
from frazil.comparing.pairing import (
    ComparisonPart,
    Pair,
    RemainingRegions,
    cell_shape,
    comparison_parts,
    plan_pairs,
)
from frazil.comparing.records import ArrayChange, ArrayDiff, Box, Sample, Tally, ValueDiff
from frazil.ids import SnapshotId
from frazil.model.documents import document_of
from frazil.model.nodes import ArrayNode
from frazil.progress import Progress, Tell, silent
from frazil.session import Session
from frazil.transaction.context import Context

MAX_SAMPLES: Final = 10
"""Differing cells of an array that are shown unless the caller says otherwise."""
_FAMILY: Final = {kind: family for family in ("biufc", "UTO", "M", "m") for kind in family}
_NOT_EQUAL_TO_ITSELF: Final = "fcMmO"
_PLAIN: Final = "biufUTO"


def diff_values(
    context: Context,
    first: SnapshotId,
    last: SnapshotId,
    *,
    paths: Sequence[str] | None = None,
    max_samples: int = MAX_SAMPLES,
    progress: Tell | None = None,
) -> ValueDiff:
    """Compare the values of two snapshots, reading only chunks that may differ.

    `progress` is called with the path of an array and how many of its chunks were compared.

    Raises:
        NodeNotFoundError: neither snapshot has a node at one of the paths.
    """
    old, new = Session(context, first), Session(context, last)
    found: list[ArrayDiff] = []
    tell = progress or silent
    for pair in plan_pairs(context, first, last, paths):
        tally, read, chunks = Tally(), 0, 0 if pair.chunks is None else len(pair.chunks)
        for portion in comparison_parts(
            pair, old.state, new.state, leave_rest=has_known_fill(pair)
        ):
            tally = tally.merged(compare_portion(old, new, pair, portion, max_samples), max_samples)
            if portion.rest is None:
                read += 1 if portion.chunks is None else len(portion.chunks)
            tell(Progress(pair.path, read, chunks))
        difference = array_diff(pair, tally, read)
        if not difference.is_equal:
            found.append(difference)
    return ValueDiff(str(first), str(last), tuple(found))


def array_diff(pair: Pair, tally: Tally, chunks_read: int = 0) -> ArrayDiff:
    """The record of an array, once all of it was compared."""
    old, new = pair.old, pair.new
    shared = math.prod(pair.common) if pair.common is not None else 0
    change = ArrayChange.CHANGED
    if old is None or new is None:
        change = ArrayChange.ADDED if old is None else ArrayChange.DELETED
    return ArrayDiff(
        path=pair.path,
        change=change,
        found_by=pair.found_by,
        old_path=old.path if old is not None and old.path != pair.path else None,
        old_shape=None if old is None else cell_shape(old),
        new_shape=None if new is None else cell_shape(new),
        old_dtype=None if old is None else type_name(old),
        new_dtype=None if new is None else type_name(new),
        chunks_read=chunks_read,
        cells_compared=tally.compared,
        cells_changed=tally.changed,
        cells_added=0 if new is None else math.prod(cell_shape(new)) - shared,
        cells_removed=0 if old is None else math.prod(cell_shape(old)) - shared,
        differences=tally.differences,
        min_difference=tally.least,
        max_difference=tally.most,
        mean_difference=tally.mean,
        bounding_box=tally.box,
        samples=tally.samples,
    )


def type_name(node: ArrayNode) -> str:
    """The data type of an array, as its `zarr.json` names it."""
    kind = document_of(node).get("data_type")
    return str(kind.get("name")) if isinstance(kind, dict) else str(kind)


def compare_portion(
    old: Session, new: Session, pair: Pair, portion: ComparisonPart, max_samples: int = 0
) -> Tally:
    """Read a part of both sides and compare it."""
    assert pair.old is not None
    assert pair.new is not None
    assert pair.common is not None
    if portion.rest is not None:
        return _compare_fills(pair, portion.rest, max_samples)
    if portion.chunks is not None:
        one = _read(old, pair.old.path, portion.chunks)
        other = _read(new, pair.new.path, portion.chunks)
        if one is not None and other is not None:
            shape = np.array(one.shape[1:], np.int64)
            return compare_cells(one, other, portion.chunks * shape, pair.common, max_samples)
        # Zarr's own codecs: chunk by chunk.
        tally = Tally()
        for box in _boxes_of(pair.new, portion.chunks, pair.common):
            part = compare_portion(old, new, pair, ComparisonPart(box=box), max_samples)
            tally = tally.merged(part, max_samples)
        return tally
    region = tuple(slice(*edge) for edge in portion.box)
    one = np.asarray(read_region(old, pair.old.path, region or ...))[None]
    other = np.asarray(read_region(new, pair.new.path, region or ...))[None]
    starts = np.array([[start for start, _ in portion.box]], np.int64).reshape(1, len(region))
    return compare_cells(one, other, starts, pair.common, max_samples)


def has_known_fill(pair: Pair) -> bool:
    """Whether the value of missing chunks is known without zarr, on both sides."""
    nodes = [node for node in (pair.old, pair.new) if node is not None]
    return all(array_layout(node) is not None for node in nodes) and bool(pair.common)


def _compare_fills(pair: Pair, rest: RemainingRegions, max_samples: int) -> Tally:
    """Compare cells of which both sides have none stored: each is its fill value."""
    cells = rest.cells
    if not cells:
        return Tally()
    assert pair.old is not None
    assert pair.new is not None
    old, new = _fill(pair.old), _fill(pair.new)
    one = compare_cells(old, new, np.zeros((1, 1), np.int64), (1,), 1)
    if not one.changed:
        return Tally(compared=cells)
    shown = one.samples[0]
    return replace(
        one,
        compared=cells,
        changed=cells,
        differences=one.differences * cells,
        total=one.total * cells,
        box=rest.box(),
        samples=tuple(replace(shown, coords=at) for at in rest.first_cells(max_samples)),
    )


def _fill(node: ArrayNode) -> Array:
    layout = array_layout(node)
    assert layout is not None
    made = np.empty((1, 1), layout.chain.dtype)
    made[...] = layout.chain.fill_value
    return made


def _read(session: Session, path: str, chunks: npt.NDArray[np.int64]) -> Array | None:
    """Whole chunks, (n, *shape of a chunk); None where only zarr can read them."""
    opened = open_array(session, path)
    layout = opened.layout
    shape = None if layout is None else layout.chunks
    if layout is None or shape is None:
        return None
    count = len(chunks)
    out = np.empty((count, *shape), layout.chain.dtype)
    read_chunks(
        opened.state,
        opened.node,
        layout.chain,
        chunks,
        shape,
        [...] * count,
        [(row,) for row in range(count)],
        out,
        is_whole=[True] * count,
        changes=opened.changes,
    )
    return out


def _boxes_of(
    node: ArrayNode, chunks: npt.NDArray[np.int64], common: Shape
) -> list[tuple[tuple[int, int], ...]]:
    """The cells of chunks that both sides have."""
    sizes = [axis.sizes[0] for axis in grid_of(node)]
    return [
        tuple(
            (n * size, min((n + 1) * size, length))
            for n, size, length in zip(row, sizes, common, strict=True)
        )
        for row in chunks.tolist()
    ]


# --- cell by cell ---
# Two NaNs are equal, and so are two NaTs and zeros of different sign. Differences of numbers are
# counted in the widest float there is where 64-bit integers are among them.


def differing(old: Array, new: Array) -> Mask:
    """Where two arrays of one shape differ."""
    names = old.dtype.names
    if names is not None or new.dtype.names is not None:
        if names != new.dtype.names or names is None:
            return np.ones(old.shape, np.bool_)
        found = np.zeros(old.shape, np.bool_)
        for name in names:
            part = differing(old[name], new[name])
            found |= part.any(axis=tuple(range(found.ndim, part.ndim)))  # of fields with a shape
        return found
    kinds = old.dtype.kind + new.dtype.kind
    families = [_FAMILY.get(kind, kind) for kind in kinds]
    if families[0] != families[1] or (kinds == "VV" and old.dtype != new.dtype):
        return np.ones(old.shape, np.bool_)
    found = np.asarray(old != new, np.bool_)
    if all(kind in _NOT_EQUAL_TO_ITSELF for kind in kinds):
        found &= ~np.asarray((old != old) & (new != new), np.bool_)
    return found


def compare_cells(old: Array, new: Array, starts: I64, limit: Shape, max_samples: int = 0) -> Tally:
    """Compare boxes of cells: `old` and `new` are (n, *shape of a box).

    `starts` is (n, ndim), the first cell of each box; cells at or beyond `limit` do not count.
    """
    inside = _inside(starts, old.shape[1:], limit)
    compared = int(np.prod([each.sum(axis=1) for each in inside], axis=0).sum()) if inside else 1
    changed = differing(old, new)
    for axis, flags in enumerate(inside):
        if not flags.all():
            rest = [1] * len(inside)
            rest[axis] = flags.shape[1]
            changed &= flags.reshape(len(flags), *rest)
    count = int(changed.sum())
    if not count:
        return Tally(compared=compared)
    differences = _differences(old[changed], new[changed])
    has_some = len(differences) > 0
    return Tally(
        compared,
        count,
        len(differences),
        float(differences.min()) if has_some else None,
        float(differences.max()) if has_some else None,
        float(differences.sum()) if has_some else 0.0,
        _box(changed, starts),
        _samples(old, new, changed, starts, max_samples) if max_samples else (),
    )


def _inside(starts: I64, shape: Shape, limit: Shape) -> list[Mask]:
    """For each axis which cells of each box are in the array, (n, length)."""
    return [
        starts[:, axis, None] + np.arange(length) < limit[axis] for axis, length in enumerate(shape)
    ]


def _differences(old: Array, new: Array) -> npt.NDArray[np.floating[Any]]:
    """New minus old, where that is a finite number."""
    if old.dtype.kind not in "iuf" or new.dtype.kind not in "iuf":
        return np.zeros(0)
    is_wide = any(a.dtype.itemsize > 8 or a.dtype.kind + str(a.dtype.itemsize) in ("i8", "u8")
                  for a in (old, new))  # fmt: skip
    wide = np.longdouble if is_wide else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        found = new.astype(wide) - old.astype(wide)
    return np.asarray(found[np.isfinite(found)])


def _box(changed: Mask, starts: I64) -> Box:
    """The smallest box around the cells that differ."""
    edges = []
    for axis in range(1, changed.ndim):
        others = tuple(n for n in range(1, changed.ndim) if n != axis)
        rows, places = np.nonzero(changed.any(axis=others))
        cells = starts[rows, axis - 1] + places
        edges.append((int(cells.min()), int(cells.max()) + 1))
    return tuple(edges)


def _samples(
    old: Array, new: Array, changed: Mask, starts: I64, max_samples: int
) -> tuple[Sample, ...]:
    """The cells that differ with the smallest coordinates."""
    found: list[tuple[Shape, Shape]] = []
    for row in _in_order(starts):
        # All cells of this box and of later ones come after what was found.
        if len(found) == max_samples and starts[row, :1].tolist() > [*found[-1][0][:1]]:
            break
        first = np.flatnonzero(changed[row])[:max_samples]
        inner = np.unravel_index(first, changed.shape[1:]) if changed.ndim > 1 else ()
        places = list(zip(*(axis.tolist() for axis in inner), strict=True)) or [()] * len(first)
        origin = starts[row].tolist()
        found += [
            (tuple(a + b for a, b in zip(origin, place, strict=True)), (row, *place))
            for place in places
        ]
        found = sorted(found)[:max_samples]
    return tuple(
        Sample(coords, _scalar(old, place), _scalar(new, place)) for coords, place in found
    )


def _in_order(starts: I64) -> list[int]:
    """The boxes by their first cells."""
    order = np.lexsort(starts.T[::-1]) if starts.shape[1] else np.arange(len(starts))
    rows: list[int] = order.tolist()
    return rows


def _scalar(array: Array, place: Shape) -> Any:  # noqa: ANN401 - an element of any type
    value = array[place]
    is_plain = array.dtype.kind in _PLAIN and hasattr(value, "item")
    return value.item() if is_plain else value
