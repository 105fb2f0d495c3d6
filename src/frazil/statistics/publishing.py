"""Rows of statistics that are kept only while what they describe is.

Whoever writes rows looks afterwards whether the snapshot that they are about is still there, and
takes them back if not. Whoever erases takes snapshots out of history first, then destroys bytes,
then looks for rows. So one of the two sees the other, and nothing that was erased is told later.
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


def publish(
    context: Context, held: Mapping[bytes, Sequence[Rows]], snapshot_id: SnapshotId
) -> None:
    """Write rows about chunks of a snapshot, by decoding.

    The commit is done, and stays so where they cannot be written: nobody relies on statistics.
    """
    try:
        keep(context, held)
        retract_if_gone(context, held, snapshot_id)
    except StorageError as error:
        log.warning("the statistics of %s could not be kept: %s", snapshot_id, error)


def keep(context: Context, held: Mapping[bytes, Sequence[Rows]]) -> int:
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
    """Take rows back when their snapshot has left history, whoever has merged their files since."""
    if not any(map(len, held.values())) or context.refs.is_there(snapshot_id):
        return DroppedRows()
    told = np.unique(np.concatenate([row_keys(each) for parts in held.values() for each in parts]))

    def stays(rows: Rows) -> Flags:
        return found_in(told, row_keys(rows)) < 0

    return drop_rows(context.place, stays)
