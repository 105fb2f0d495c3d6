"""Transaction logs that are gone, made of the difference of their snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from frazil.fsck.files import Files
from frazil.fsck.log_rules import changed_between
from frazil.fsck.state import State
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Move, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Node


def missing_logs(state: State) -> Iterator[TransactionLog]:
    """The logs that snapshots in use should have and have not."""
    done: set[SnapshotId] = set()
    for tip in sorted({*state.branches.values(), *state.tags.values()}):
        for one in state.ancestry(tip):
            if one in done:
                break
            done.add(one)
            entry = state.entries.get(one)
            if entry is None or entry.parent_id is None or state.files.log(one) is not None:
                continue
            snapshot, parent = state.snapshot(one), state.snapshot(entry.parent_id)
            if snapshot is None or parent is None:
                continue
            log = difference_log(parent, snapshot, state.files)
            if log is not None:
                yield log


def difference_log(parent: Snapshot, snapshot: Snapshot, files: Files) -> TransactionLog | None:
    """What changed from one snapshot to another; None where a manifest cannot be read."""
    old = {node.id: node for node in parent.nodes}
    new = {node.id: node for node in snapshot.nodes}
    added = [new[one] for one in sorted(new.keys() - old.keys())]
    removed = [old[one] for one in sorted(old.keys() - new.keys())]
    both = [(old[one], new[one]) for one in sorted(old.keys() & new.keys())]
    updated = [after for before, after in both if before.user_data != after.user_data]
    chunks: dict[NodeId, npt.NDArray[np.uint32]] = {}
    for one in sorted(new):
        node = new[one]
        if not isinstance(node, ArrayNode):
            continue
        changed = changed_between(old.get(one), node, files)
        if changed is None:
            return None
        if len(changed):
            chunks[one] = np.unique(changed, axis=0) if changed.shape[1] else changed[:1]
    return TransactionLog(
        snapshot.id,
        new_groups=_ids(added, is_array=False),
        new_arrays=_ids(added, is_array=True),
        deleted_groups=_ids(removed, is_array=False),
        deleted_arrays=_ids(removed, is_array=True),
        updated_arrays=_ids(updated, is_array=True),
        updated_groups=_ids(updated, is_array=False),
        updated_chunks=chunks,
        moved_nodes=tuple(
            Move(before.path, after.path, after.id, isinstance(after, ArrayNode))
            for before, after in both
            if before.path != after.path
        ),
    )


def _ids(nodes: list[Node], *, is_array: bool) -> tuple[NodeId, ...]:
    return tuple(node.id for node in nodes if isinstance(node, ArrayNode) == is_array)
