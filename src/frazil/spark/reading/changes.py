"""What commits changed: since when, as blocks of a scan, and as cells that differ from before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from frazil.arrays import I64, Mask
from frazil.bulk.grid import array_layout
from frazil.cf.decoding import Values
from frazil.errors import InvalidInputError, NotFoundError, invalid_option, unsuitable
from frazil.ids import SnapshotId
from frazil.model.nodes import ArrayNode
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.location import Pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.partitions import BlockGrid, Region
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.reading.stored import Places, chosen_of, length_of, numbers_of, read_stored
from frazil.spark.reading.variables import variable_of
from frazil.spark.worker import session_at

LATEST: Final = "latest"
_BEGINNINGS: Final = {
    "start-snapshot-id": "start_snapshot",
    "startingVersion": "starting_version",
    "stream-from-timestamp": "stream_from",
}
"""The options that tell since when changes count, and the fields that have them."""


def beginning(request: ReadRequest) -> str | None:
    """The option that tells since when changes count; None when there is none.

    Raises:
        InvalidInputError: there are several.
    """
    given = [name for name, field in _BEGINNINGS.items() if getattr(request, field) is not None]
    if len(given) > 1:
        names = " and ".join(map(repr, given))
        raise invalid_option(f"the beginning is given more than once, by {names}")
    return given[0] if given else None


def starts_latest(request: ReadRequest) -> bool:
    """Whether only changes count that come after the stream has begun."""
    return LATEST in (request.start_snapshot, request.starting_version)


def require_beginning(request: ReadRequest) -> None:
    """Refuse options about changes where nothing says that changes are to be read.

    Raises:
        InvalidInputError: there is one.
    """
    about_changes = {
        "end-snapshot-id": request.end_snapshot,
        "skipChangeCommits": request.skip_changes,
        "ignoreDeletes": request.ignore_deletes,
    }
    given = next((name for name, value in about_changes.items() if value), None)
    if given is not None and beginning(request) is None:
        raise invalid_option(
            f"option {given!r} is about changes; one of {', '.join(map(repr, _BEGINNINGS))} says "
            "since when"
        )


def starts_after(repository: Repository, request: ReadRequest, last: str) -> str | None:
    """The snapshot after which changes count, looking back from another; None for all of them.

    `start-snapshot-id` is that snapshot, as Iceberg has it; `startingVersion` is the first one
    that counts, as Delta has it.

    Raises:
        InvalidInputError: it is not in the history.
    """
    if beginning(request) is None:
        return None
    moment = request.stream_from
    if moment is not None:
        earlier = (c.id for c in repository.ancestry(snapshot_id=last) if c.written_at < moment)
        return next(earlier, None)
    first = repository.resolve(request.start_snapshot or request.starting_version or "")
    found = next((c for c in repository.ancestry(snapshot_id=last) if c.id == first), None)
    if found is None:
        raise invalid_option(f"snapshot {first} is no ancestor of {last}")
    return found.id if request.start_snapshot is not None else found.parent_id


def changed_blocks(owner: Session, scan: Scan, grid: BlockGrid) -> I64:
    """Numbers of the blocks that hold chunks which a snapshot's commit wrote, ascending.

    Raises:
        InvalidInputError: it is not recorded any more what the commit changed.
    """
    log = owner.state.context.assets.log(SnapshotId.parse(owner.snapshot_id))
    if log is None:
        raise unsuitable(
            f"what snapshot {owner.snapshot_id} changed is not recorded any more; start the "
            "stream anew"
        )
    found = [np.zeros(0, np.int64)]
    for column in scan.data_columns():
        assert column.variable is not None
        node = owner.state.array(column.variable.path)
        coords = log.updated_chunks.get(node.id)
        if coords is not None and len(coords):
            found.append(_blocks_of(column, node, coords.astype(np.int64), grid))
    return np.unique(np.concatenate(found))


def _blocks_of(column: Column, node: ArrayNode, coords: I64, grid: BlockGrid) -> I64:
    """Numbers of the blocks that some chunks lie in."""
    layout = array_layout(node)
    if layout is None:
        return np.arange(grid.total)  # a grid that we do not know: look everywhere
    low = np.zeros((len(coords), len(grid.shape)), np.int64)
    high = low.copy()
    for own, axis in enumerate(column.axes):
        along = layout.grid[own]
        start = along.start_of(coords[:, own])
        stop = np.minimum(start + along.size_of(coords[:, own]), along.length)
        low[:, axis] = start // grid.block[axis]
        high[:, axis] = np.maximum(stop - 1, start) // grid.block[axis]
    blocks = low if (low == high).all() else _spread(low, high)
    numbers = np.zeros(len(blocks), np.int64)
    is_inside = np.ones(len(blocks), bool)
    for axis, chosen in enumerate(grid.blocks):
        places = np.asarray(chosen, np.int64)
        if not len(places):
            return np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(places, blocks[:, axis]), len(places) - 1)
        is_inside &= places[at] == blocks[:, axis]
        numbers = numbers * len(places) + at
    return np.unique(numbers[is_inside])


def _spread(low: I64, high: I64) -> I64:
    """All blocks of boxes."""
    found = [
        np.stack(
            np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(*ends, strict=True)), indexing="ij"),
            -1,
        ).reshape(-1, low.shape[1])
        for ends in zip(low.tolist(), high.tolist(), strict=True)
    ]
    return np.unique(np.concatenate(found), axis=0)


@dataclass(frozen=True, slots=True)
class Differing:
    """Finds the cells that are not as they were in an earlier snapshot."""

    scan: Scan
    before: Pinned
    only_new: bool = False
    """whether only cells that did not exist before count"""

    def __call__(self, region: Region) -> Mask | None:
        """Which cells of a region differ in any variable; None for all."""
        found = np.zeros(tuple(map(length_of, region)), bool)
        for column in self.scan.data_columns():
            mask = self._of(column, region)
            if mask is None:
                return None
            found |= mask
        return None if found.all() else found

    def _of(self, column: Column, region: Region) -> Mask | None:
        variable = column.variable
        assert variable is not None
        try:
            node = session_at(self.before).state.array(variable.path)
        except (NotFoundError, InvalidInputError):
            return None
        old = variable_of(node)
        if old.dims != variable.dims or old.dtype != variable.dtype or old.attrs != variable.attrs:
            return None
        places = tuple(region[axis] for axis in column.axes)
        inside = [numbers_of(p) < size for p, size in zip(places, old.shape, strict=True)]
        differs = np.ones(tuple(map(length_of, places)), bool)
        if all(each.any() for each in inside):
            common = tuple(chosen_of(p, each) for p, each in zip(places, inside, strict=True))
            shared = np.ix_(*(np.flatnonzero(each) for each in inside))
            differs[shared] = False if self.only_new else self._changed(variable.path, common)
        return np.asarray(differs.transpose(np.argsort(column.axes)))

    def _changed(self, path: str, places: tuple[Places, ...]) -> Mask:
        now = read_stored(self.scan.pinned, path, places)
        return _unequal(now, read_stored(self.before, path, places))


def _unequal(now: Values, then: Values) -> Mask:
    found = now != then
    if now.dtype.kind in "fcMm":
        found &= ~((now != now) & (then != then))  # what is missing on both sides is the same
    return np.asarray(found)
