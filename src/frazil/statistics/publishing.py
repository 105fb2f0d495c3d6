"""Publishes rows of statistics, and deletes them again if their snapshot was erased.

After writing rows, a writer checks that their snapshot is still in history, and deletes the rows
if not. A purge removes snapshots from history first, then destroys bytes, then searches for rows.
So one of the two always sees the other, and no statistics of erased data remain.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from frazil.errors import StorageError
from frazil.ids import SnapshotId
from frazil.statistics.files import DroppedRows, drop_rows, store
from frazil.statistics.records import Flags, Rows, found_in, row_keys
from frazil.transaction.context import Context

log = logging.getLogger(__name__)


def publish_rows(
    context: Context, held: Mapping[bytes, Sequence[Rows]], snapshot_id: SnapshotId
) -> None:
    """Write rows about chunks of a snapshot, by decoding.

    The commit is already made. If the rows cannot be written, that is only a warning.
    """
    try:
        store_rows(context, held)
        retract_if_gone(context, held, snapshot_id)
    except StorageError as error:
        log.warning("the statistics of %s could not be kept: %s", snapshot_id, error)


def store_rows(context: Context, held: Mapping[bytes, Sequence[Rows]]) -> int:
    """Write rows; `retract_if_gone` is to be called afterwards."""
    files = 0
    for decoding, parts in held.items():
        rows = [each for each in parts if len(each)]
        if rows:
            files += len(store(context.place, decoding, np.concatenate(rows)))
    return files


def retract_if_gone(
    context: Context, held: Mapping[bytes, Sequence[Rows]], snapshot_id: SnapshotId
) -> DroppedRows:
    """Delete rows if their snapshot is no longer in history, even if their files were merged."""
    if not any(map(len, held.values())) or context.refs.is_there(snapshot_id):
        return DroppedRows()
    keys = np.unique(np.concatenate([row_keys(each) for parts in held.values() for each in parts]))

    def stays(rows: Rows) -> Flags:
        return found_in(keys, row_keys(rows)) < 0

    return drop_rows(context.place, stays)
