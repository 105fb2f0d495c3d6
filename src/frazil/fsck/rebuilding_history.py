"""Snapshots whose files are gone or damaged, taken out of the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.commit.base import OVERWRITTEN
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import FrazilError
from frazil.formats.config_codec import config_from_yaml
from frazil.formats.ref_files import branch_key
from frazil.formats.repo_info import REPO_KEY
from frazil.fsck.files import RepositoryFiles
from frazil.fsck.history import circle_in
from frazil.fsck.log_rules import changed_between
from frazil.fsck.plans import Action, RepairState, RepairStep
from frazil.fsck.repo_rules import RefFiles, check_config, read_repo
from frazil.ids import INITIAL_SNAPSHOT_ID, MAIN, NodeId, SnapshotId
from frazil.maintenance.file_history import FileHistory
from frazil.maintenance.lineage import drop_snapshots, mask_of
from frazil.model.history import (
    JSON,
    Move,
    RepoInfo,
    Snapshot,
    SnapshotEntry,
    SnapshotTable,
    TransactionLog,
)
from frazil.model.nodes import ArrayNode, Node
from frazil.storage.assets import snapshot_key
from frazil.storage.base import Storage


def plan_history(
    state: RepairState, tips: Mapping[str, SnapshotId]
) -> tuple[list[RepairStep], list[str], RepairState]:
    """Plan where branches go back to, and what is cut out; return the state after that.

    `tips` says where a branch should go, if the caller knows.
    """
    bad = _unreadable(state)
    if not bad:
        return [], [], state
    steps: list[RepairStep] = []
    losses: list[str] = []
    branches = dict(state.branches)
    for name, tip in sorted(state.branches.items()):
        if tip not in bad:
            continue
        found = tips.get(name) or _fall_back(state, name, tip, losses)
        if found is None:
            losses.append(f"branch {name!r}: no snapshot of its history can be read")
            continue
        branches[name] = found
        losses.append(f"the commit {tip} of branch {name!r} is lost with its snapshot file")
        steps.append(_reset_step(name, tip, found))
    losses += [
        f"tag {name!r}: its snapshot {target} cannot be read"
        for name, target in sorted(state.tags.items())
        if target in bad
    ]
    after = replace(state, branches=branches)
    if state.info is None:
        return steps, losses, after
    gone = bad - {*branches.values(), *state.tags.values()}
    if not gone:
        return steps, losses, after
    steps.append(_cut_step(gone))
    table = without(state.info.snapshots, gone)
    entries = {entry.id: entry for entry in table.entries()}
    info = replace(state.info, snapshots=table)
    return steps, losses, replace(after, entries=entries, info=info)


def _reset_step(branch: str, tip: SnapshotId, found: SnapshotId) -> RepairStep:
    return RepairStep(
        Action.RESET_BRANCH,
        branch,
        f"from {tip} back to {found}",
        {"branch": branch, "from": str(tip), "to": str(found)},
    )


def _cut_step(gone: Iterable[SnapshotId]) -> RepairStep:
    names = sorted(map(str, gone))
    detail = f"{', '.join(names)} out of the history"
    return RepairStep(Action.CUT_SNAPSHOTS, "repo", detail, {"snapshots": names})


def without(table: SnapshotTable, gone: Iterable[SnapshotId]) -> SnapshotTable:
    """The history without some snapshots; those that followed them take over their logs."""
    return drop_snapshots(table, mask_of(table, gone), to_root=False)


def _unreadable(state: RepairState) -> set[SnapshotId]:
    """Snapshots that are listed or that a ref leads to, and that cannot be read."""
    wanted = {*state.branches.values(), *state.tags.values()}
    if state.info is not None:
        wanted |= state.entries.keys()
    return {one for one in wanted if state.snapshot(one) is None}


def _fall_back(
    state: RepairState, name: str, tip: SnapshotId, losses: list[str]
) -> SnapshotId | None:
    """The newest ancestor that can be read, or the best guess where ancestors are not known."""
    for one in state.ancestry(tip):
        if state.snapshot(one) is not None:
            return one
    if state.info is not None:
        return None
    others = [at for other, at in state.branches.items() if other != name]
    choice = choose_tip(state.entries, others)
    if choice is None:
        return None
    if choice.others:
        detail = ", ".join(map(str, choice.others))
        losses.append(
            f"the parent of {tip} is assumed to be {choice.tip}, the newest snapshot that no "
            f"other branch leads to; it may be {detail}"
        )
    return choice.tip


def plan_parents(state: RepairState) -> tuple[list[RepairStep], list[str], RepairState]:
    """Plan which snapshots get another parent; return the state after that.

    A parent is older than its child. In a circle one is not, and that is the one to change: to
    the newest older snapshot that has lost its child, or to the first of all, which has no parent.
    """
    steps: list[RepairStep] = []
    losses: list[str] = []
    entries = dict(state.entries)
    if state.info is not None:  # a repo object tells parents by their place in its own list
        return steps, losses, state
    while circle := circle_in({one: e.parent_id for one, e in entries.items()}, entries):
        is_first = INITIAL_SNAPSHOT_ID in circle
        child = INITIAL_SNAPSHOT_ID if is_first else max(circle, key=partial(_lead, entries))
        was, parent = entries[child].parent_id, None if is_first else _likely_parent(entries, child)
        entries[child] = replace(entries[child], parent_id=parent)
        facts = {"snapshot": str(child), "from": str(was), "to": str(parent or "")}
        taken = "not its parent: it is the first of all" if is_first else f"taken to be {parent}"
        detail = f"its parent {was}, which descends from it, is {taken}"
        steps.append(RepairStep(Action.CHANGE_PARENT, snapshot_key(child), detail, facts))
        if not is_first:
            losses.append(f"the parent of {child} is assumed to be {parent}")
    return steps, losses, replace(state, entries=entries)


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


@dataclass(frozen=True, slots=True)
class TipChoice:
    """Where a branch must have been, or may have been."""

    tip: SnapshotId
    others: tuple[SnapshotId, ...] = ()
    """tips that are just as possible, but older"""


def choose_tip(
    entries: Mapping[SnapshotId, SnapshotEntry], tips: Iterable[SnapshotId]
) -> TipChoice | None:
    """The newest end of a line that no other ref needs; any end where all are needed."""
    parents = {entry.parent_id for entry in entries.values()}
    ends = {one for one in entries if one not in parents}
    claimed: set[SnapshotId] = set()
    for tip in tips:
        one: SnapshotId | None = tip
        while one is not None and one in entries and one not in claimed:
            claimed.add(one)
            one = entries[one].parent_id
    free = sorted(ends - claimed or ends, key=lambda one: entries[one].flushed_at)
    if not free:
        return None
    *others, tip = free
    return TipChoice(tip, tuple(others))


def rebuild_refs(
    refs: RefFiles, history: FileHistory, tips: Mapping[str, SnapshotId], *, encoded: bool
) -> tuple[list[RepairStep], list[str]]:
    """Plan the files of branches that cannot be read, and of main if there is none.

    `tips` says where branches were, as far as the caller knows.
    """
    steps: list[RepairStep] = []
    losses: list[str] = []
    broken = dict(refs.damaged)
    if MAIN not in refs.branches and MAIN not in broken:
        broken[MAIN] = branch_key(MAIN, encoded=encoded)
    entries = {one: known.entry for one, known in history.known.items()}
    taken = [*refs.branches.values(), *refs.tags.values()]
    # Main first: without it there is no repository.
    for name in sorted(broken, key=lambda name: (name != MAIN, name)):
        choice = TipChoice(tips[name]) if name in tips else choose_tip(entries, taken)
        if choice is None:
            losses.append(f"branch {name!r}: no snapshot can be read")
            continue
        if choice.others:
            others = ", ".join(map(str, choice.others))
            losses.append(
                f"branch {name!r} is assumed to have been at {choice.tip}, the newest snapshot "
                f"that no other ref leads to; it may have been at {others}"
            )
        taken.append(choice.tip)
        steps.append(
            RepairStep(
                Action.RESTORE_REF,
                broken[name],
                f"branch {name!r} at {choice.tip}",
                {"branch": name, "snapshot": str(choice.tip)},
            )
        )
    return steps, losses


# --- a configuration that cannot be read, which keeps a repository from being opened ---


NO_CONFIG: Final = b"{}\n"
"""A file that sets nothing: unlike its deletion, it takes the place of a certain version."""


@dataclass(frozen=True, slots=True)
class ConfigFix:
    """What takes the place of a configuration that cannot be read."""

    step: RepairStep
    loss: str
    blob: bytes = NO_CONFIG
    """the file, for version 1"""
    config: JSON | None = None
    """the same for the repo object"""


def fix_config_file(storage: Storage) -> ConfigFix | None:
    """Plan another `config.yaml`, if that of the repository cannot be read."""
    blob = storage.get(CONFIG_KEY)
    if blob is None or is_readable(blob):
        return None
    for key in _backups(storage, CONFIG_KEY):
        older = storage.get(key)
        if older is not None and is_readable(older):
            return ConfigFix(*_restored_config(CONFIG_KEY, key), older)
    return ConfigFix(*_restored_config(CONFIG_KEY, None))


def fix_config(storage: Storage, info: RepoInfo) -> ConfigFix | None:
    """Plan another configuration, if that of the repo object cannot be read."""
    if not [*check_config(info.config, REPO_KEY)]:
        return None
    for key in _backups(storage, REPO_KEY):
        blob = storage.get(key)
        older = None if blob is None else read_repo(blob, key)[0]
        if older is not None and not [*check_config(older.config, key)]:
            return ConfigFix(*_restored_config(REPO_KEY, key), config=older.config)
    return ConfigFix(*_restored_config(REPO_KEY, None))


def _backups(storage: Storage, key: str) -> list[str]:
    """Keys of the backups of an object, newest first."""
    start = f"{OVERWRITTEN}{key}."
    return sorted(item.key for item in storage.list(OVERWRITTEN) if item.key.startswith(start))


def is_readable(blob: bytes) -> bool:
    """Whether a configuration of version 1 can be used."""
    try:
        config_from_yaml(blob, key=CONFIG_KEY)
    except FrazilError:
        return False
    return True


def _restored_config(target: str, backup: str | None) -> tuple[RepairStep, str]:
    detail = "no configuration" if backup is None else f"the configuration of {backup}"
    lost = "there is no older one" if backup is None else f"that of {backup} takes its place"
    return RepairStep(
        Action.RESTORE_CONFIG, target, detail, {"backup": backup}
    ), f"the configuration is lost: {lost}"


def missing_logs(state: RepairState) -> Iterator[TransactionLog]:
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


def difference_log(
    parent: Snapshot, snapshot: Snapshot, files: RepositoryFiles
) -> TransactionLog | None:
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
