"""Giving a snapshot another parent where its file names it, which is rewritten in place.

Only the file that was read is replaced: one that somebody has erased meanwhile does not come
back.
"""

from __future__ import annotations

from dataclasses import replace

from frazil.commit.base import attempts
from frazil.formats.snapshot import decode_snapshot
from frazil.ids import SnapshotId
from frazil.model.history import Metadata
from frazil.storage.assets import snapshot_key
from frazil.storage.base import Fetched
from frazil.transaction.context import Context


def adopt(
    context: Context, snapshot_id: SnapshotId, parent_id: SnapshotId | None, metadata: Metadata
) -> None:
    """Let a snapshot be the child of another one, unless its file is gone by now.

    Raises:
        ConflictError: the repository was upgraded meanwhile.
    """
    key = snapshot_key(snapshot_id)
    for _ in attempts(context.config.update_retries()):
        found = context.storage.fetch(key)
        if not isinstance(found, Fetched):
            return
        old = decode_snapshot(found.data, key=key)
        new = replace(old, parent_id=parent_id, metadata=metadata)
        context.refs.require_online()
        if new == old or context.assets.replace_snapshot(new, found.version):
            context.storage.make_durable([key])
            return
