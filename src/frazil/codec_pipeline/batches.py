"""Chunks that one call of zarr reads or writes, and the selection that zarr has cut into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from zarr.core.array_spec import ArraySpec

from frazil.arrays import Shape
from frazil.bulk.grid import regular_grid
from frazil.bulk.plan import BoxPlan, box_plan
from frazil.model.nodes import ArrayNode, GroupNode
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.working import WorkingState

BatchItem: TypeAlias = tuple[Any, ArraySpec, Any, Any, bool]
"""Where a chunk is, its spec, the selections in chunk and array, whether they cover it all."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Chunks of one array of a Frazil store that one call reads or writes."""

    items: Sequence[BatchItem]
    state: WorkingState
    changes: ChangeSet
    """as they were before `node` was looked up"""
    node: ArrayNode
    coords: npt.NDArray[np.int64]
    """(n, ndim)"""

    @property
    def spec(self) -> ArraySpec:
        """zarr's spec of the chunks: in a regular grid all are the same."""
        return self.items[0][1]

    @cached_property
    def columns(self) -> tuple[tuple[Any, ...], ...]:
        """The items as columns: paths, specs, selections in chunks and in the array, flags."""
        return tuple(zip(*self.items, strict=True))


def batch_of(items: Sequence[BatchItem], state: WorkingState, ndim: int) -> Batch | None:
    """Look up the array of zarr's keys; None for other keys, which zarr's own pipeline handles."""
    path, coords = _parse([item[0].path for item in items], ndim)
    changes = state.changes  # before the tree: the order that reads during a commit need
    node = state.tree.get(path)
    if node is None or isinstance(node, GroupNode):
        return None
    highest = coords[0] if len(items) == 1 else coords.max(axis=0)
    if not node.holds(tuple(highest.tolist())):
        return None
    return Batch(items, state, changes, node, coords)


def _parse(keys: Sequence[str], ndim: int) -> tuple[str, npt.NDArray[np.int64]]:
    """Split keys `path/c/0/0` of one array into its path and the coordinates of the chunks."""
    if not ndim:
        return f"/{keys[0]}"[: -len("/c")] or "/", np.zeros((len(keys), 0), np.int64)
    above, _, digits = f"/{keys[0]}".rpartition("/c/")
    start = len(keys[0]) - len(digits)
    # Parsing all numbers of all keys at once is five times as quick as splitting each key.
    text = "/".join([key[start:] for key in keys])
    return above or "/", np.fromstring(text, np.int64, sep="/").reshape(len(keys), ndim)


def batch_box(batch: Batch, shape: Shape) -> tuple[BoxPlan, Shape] | None:
    """The selection that zarr has cut into a batch, if it was one of slices and integers.

    Neighbouring chunks can then be handled together. `shape` is that of the caller's array; the
    axes it lacks come second. None for all other selections, and whenever anything is in doubt.
    """
    ndim, sizes = batch.coords.shape[1], batch.spec.shape
    first, last = batch.items[0][2], batch.items[-1][2]
    if not (ndim and isinstance(first, tuple) and len(first) == len(last) == ndim):
        return None
    starts = (batch.coords[0] * sizes).tolist()
    ends = (batch.coords[-1] * sizes).tolist()
    slices: list[slice] = []
    dropped: list[int] = []
    for axis, (a, b, start, end) in enumerate(zip(first, last, starts, ends, strict=True)):
        if isinstance(a, slice) and isinstance(b, slice):
            if a.start is None or b.stop is None:
                return None
            slices.append(slice(start + a.start, end + b.stop, a.step))
        elif isinstance(a, int | np.integer) and isinstance(b, int | np.integer):
            slices.append(slice(start + index(a), end + index(b) + 1))
            dropped.append(axis)
        else:
            return None
    lengths = tuple(axis.array_length for axis in batch.node.shape)
    plan = box_plan(regular_grid(lengths, sizes), tuple(slices))
    kept = tuple(n for axis, n in enumerate(plan.full_shape) if axis not in dropped)
    if kept != shape or plan.count != len(batch.items):
        return None
    if not np.array_equal(plan.coords(range(plan.count)), batch.coords):
        return None
    return plan, tuple(dropped)


def covers_as_claimed(plan: BoxPlan, batch: Batch) -> bool:
    """Whether zarr and our plan agree on which chunks are written completely."""
    covered = np.ones(plan.counts, bool)
    for axis, cut in enumerate(plan.cuts):
        covered &= cut.covers.reshape([-1 if axis == n else 1 for n in range(len(plan.cuts))])
    claimed = np.fromiter((item[4] for item in batch.items), bool, len(batch.items))
    return bool((covered.reshape(-1) == claimed).all())
