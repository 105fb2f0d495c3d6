"""Pure rules on the table of snapshots: what refs reach, and history with parts cut out.

Cutting a snapshot out of a history must not lose what it changed: the snapshot that follows
takes over its transaction log by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TypeAlias

import numpy as np

from frazil.arrays import U8, Mask
from frazil.errors import FormatError
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.model.history import Metadata, SnapshotTable
from frazil.model.marks import MARK_KEYS, merged_marks, with_marks
from frazil.model.snapshots import NO_PARENT

Link: TypeAlias = tuple[SnapshotId | None, list[SnapshotId]]
"""A parent and the ancestors between, oldest first, whose logs are taken over."""


def table_ids(table: SnapshotTable) -> U8:
    """The ids of all snapshots as rows."""
    raw = np.ascontiguousarray(table.columns.rows["id"])
    return raw.view(np.uint8).reshape(-1, SnapshotId.width)


def ids_where(table: SnapshotTable, mask: Mask) -> frozenset[SnapshotId]:
    """The snapshots picked by a mask of rows."""
    return frozenset(compress(table.ids, mask.tolist()))


def mask_of(table: SnapshotTable, ids: Iterable[SnapshotId]) -> Mask:
    """The mask of some snapshots; unknown ones are passed over."""
    mask = np.zeros(len(table), np.bool_)
    mask[[table.row(one) for one in ids if one in table]] = True
    return mask


def reachable(table: SnapshotTable, tips: Iterable[SnapshotId]) -> Mask:
    """The snapshots that some tips descend from, tips included."""
    return with_ancestors(table, map(table.row, set(tips)))


def with_ancestors(table: SnapshotTable, rows: Iterable[int]) -> Mask:
    """The snapshots of some rows and all that they descend from."""
    parents = table.columns.rows["parent"].tolist()
    seen = np.zeros(len(table), np.bool_)
    for row in rows:
        while row != NO_PARENT and not seen[row]:
            seen[row] = True
            row = parents[row]
    return seen


def orphaned(table: SnapshotTable, gone: Mask) -> list[int]:
    """The rows that stay and whose parents are gone."""
    parents = table.columns.rows["parent"]
    rows = np.flatnonzero(~gone & (parents != NO_PARENT) & gone[parents])
    found: list[int] = rows.tolist()
    return found


def drop_snapshots(table: SnapshotTable, gone: Mask, *, to_root: bool) -> SnapshotTable:
    """The table without some snapshots, orphans being adopted by an ancestor.

    That is the root of their history, or else the nearest ancestor that stays; the initial
    snapshot if there is none. The adopted record the logs of all snapshots between.
    """
    if not gone.any():
        return table
    parents = table.columns.rows["parent"]
    ends: list[bool] = (parents == NO_PARENT if to_root else ~gone).tolist()
    above: list[int] = parents.tolist()
    links = {table.id_at(row): _adoption(table, row, above, ends) for row in orphaned(table, gone)}
    if any(parent is None for parent, _ in links.values()) and _has_initial(table, gone):
        links = {one: (link[0] or INITIAL_SNAPSHOT_ID, link[1]) for one, link in links.items()}
    return table.reparent(links).without(gone)


def carried_marks(table: SnapshotTable, gone: Mask) -> dict[SnapshotId, Metadata]:
    """New metadata of those that a cut makes children of the root: with the marks of all between.

    So work that is marked as done is not repeated when the commits with the marks expire.
    """
    if not any(key.encode() in table.columns.arena for key in MARK_KEYS):
        return {}  # without marks, the metadata of a long history need not be read
    parents = table.columns.rows["parent"].tolist()
    found: dict[SnapshotId, Metadata] = {}
    for row in orphaned(table, gone):
        between: list[int] = []
        ancestor = parents[row]
        while ancestor != NO_PARENT and len(between) <= len(parents):
            between.append(ancestor)
            ancestor = parents[ancestor]
        rows = table.columns.rows
        marks = merged_marks(table.metadata_of(rows[between]))
        own = table.metadata_of(rows[[row]])[0]
        if (made := with_marks(own, marks)) != own:
            found[table.id_at(row)] = made
    return found


def _has_initial(table: SnapshotTable, gone: Mask) -> bool:
    """Whether the initial snapshot, the ancestor of all others, is there and stays."""
    if INITIAL_SNAPSHOT_ID not in table:
        return False
    row = table.row(INITIAL_SNAPSHOT_ID)
    return not gone[row] and int(table.columns.rows["parent"][row]) == NO_PARENT


def _adoption(table: SnapshotTable, row: int, parents: Sequence[int], ends: Sequence[bool]) -> Link:
    between: list[int] = []
    ancestor = parents[row]
    for _ in parents:
        if ancestor == NO_PARENT or ends[ancestor]:
            break
        between.append(ancestor)
        ancestor = parents[ancestor]
    else:
        raise FormatError("damaged file: the history runs in a circle", key="repo")
    between.reverse()
    ids, pruned = table.ids, list[SnapshotId]()
    if table.columns.rows["pruned_count"][between].any():
        for one in between:
            pruned += (*_pruned(table, one), ids[one])
    else:
        pruned += [ids[one] for one in between]
    pruned.extend(_pruned(table, row))
    return None if ancestor == NO_PARENT else table.id_at(ancestor), pruned


def _pruned(table: SnapshotTable, row: int) -> tuple[SnapshotId, ...]:
    first, count = table.columns.rows[["pruned_at", "pruned_count"]][row].item()
    return table.columns.pruned[first : first + count]


def pruned_logs(table: SnapshotTable) -> Iterator[SnapshotId]:
    """Every log that a snapshot of the table took over from an ancestor."""
    for row in np.flatnonzero(table.columns.rows["pruned_count"]).tolist():
        yield from _pruned(table, row)
