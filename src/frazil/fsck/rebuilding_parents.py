"""Parents that run in a circle, where snapshot files name them: one is taken to be another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from frazil.fsck.plans import Action, Step
from frazil.fsck.state import State
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.model.history import SnapshotEntry
from frazil.storage.assets import snapshot_key


def plan_parents(state: State) -> tuple[list[Step], list[str], State]:
    """Plan which snapshots get another parent; return the state after that.

    A parent is older than its child. In a circle one is not, and that is the one to change: to
    the newest older snapshot that has lost its child, or to the first of all.
    """
    steps: list[Step] = []
    losses: list[str] = []
    entries = dict(state.entries)
    if state.info is not None:  # a repo object tells parents by their place in its own list
        return steps, losses, state
    while circle := _circle(entries):
        child = max(circle, key=lambda one: _lead(entries, one))
        was, parent = entries[child].parent_id, _likely_parent(entries, child)
        entries[child] = replace(entries[child], parent_id=parent)
        facts = {"snapshot": str(child), "from": str(was), "to": str(parent)}
        told = f"its parent {was}, which descends from it, is taken to be {parent}"
        steps.append(Step(Action.CHANGE_PARENT, snapshot_key(child), told, facts))
        losses.append(f"the parent of {child} is assumed to be {parent}")
    return steps, losses, replace(state, entries=entries)


def _circle(entries: Mapping[SnapshotId, SnapshotEntry]) -> list[SnapshotId]:
    """The snapshots of a circle, or none."""
    done: set[SnapshotId] = set()
    for one in sorted(entries):
        path: list[SnapshotId] = []
        here: SnapshotId | None = one
        while here is not None and here in entries and here not in done:
            if here in path:
                return path[path.index(here) :]
            path.append(here)
            here = entries[here].parent_id
        done.update(path)
    return []


def _lead(entries: Mapping[SnapshotId, SnapshotEntry], child: SnapshotId) -> int:
    """By how much a parent is younger than its child."""
    parent = entries[child].parent_id
    assert parent is not None
    return entries[parent].flushed_at - entries[child].flushed_at


def _likely_parent(entries: Mapping[SnapshotId, SnapshotEntry], child: SnapshotId) -> SnapshotId:
    parents = {entry.parent_id for entry in entries.values()}
    lost = [
        one
        for one, entry in entries.items()
        if one not in parents and entry.flushed_at < entries[child].flushed_at
    ]
    return max(lost, key=lambda one: entries[one].flushed_at, default=INITIAL_SNAPSHOT_ID)
