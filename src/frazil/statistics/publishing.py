"""Publishes rows of statistics, unless their snapshot was erased.

Rows are written only while their snapshot is in history. A purge removes snapshots from history
first, then destroys bytes, then deletes rows and files that wait for rows. So no statistics of
erased data remain.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from frazil.arrays import StructRows
from frazil.errors import FrazilError
from frazil.ids import SnapshotId
from frazil.statistics.files import store
from frazil.transaction.context import Context

log = logging.getLogger(__name__)


def publish_rows(
    context: Context, held: Mapping[bytes, Sequence[StructRows]], snapshot_id: SnapshotId
) -> None:
    """Write rows about chunks of a snapshot, by decoding.

    The commit is already made. If the rows cannot be written, that is only a warning.
    """
    try:
        store_rows(context, held, snapshot_id)
    except FrazilError as error:
        log.warning("the statistics of %s could not be kept: %s", snapshot_id, error)


def store_rows(
    context: Context, held: Mapping[bytes, Sequence[StructRows]], snapshot_id: SnapshotId
) -> int:
    """Write rows about chunks of a snapshot that is still there; tell how many files it took."""
    files = 0
    for decoding, parts in held.items():
        rows = [each for each in parts if len(each)]
        if rows:
            made = store(
                context.place,
                decoding,
                np.concatenate(rows),
                lambda: context.refs.is_there(snapshot_id),
            )
            files += len(made or ())
    return files
