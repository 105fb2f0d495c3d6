"""A damaged or missing repo object, made again from its backups and the snapshot files.

Before each change the repo object is copied below `overwritten/`, so that the newest backup lacks
the last change only. If that was a commit, its files are there, and `parents` finds out which
snapshot it follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from frazil.commit.base import OVERWRITTEN
from frazil.commit.repo_object import first_repo_info
from frazil.errors import SnapshotNotFoundError
from frazil.formats.repo_info import REPO_KEY, snapshot_table
from frazil.fsck.files import RepositoryFiles, content_of
from frazil.fsck.findings import Code, Finding
from frazil.fsck.parents import PlacedSnapshots, find_parents
from frazil.fsck.plans import Action, RepairStep
from frazil.fsck.rebuilding_history import choose_tip
from frazil.fsck.repo_rules import read_repo
from frazil.ids import INITIAL_SNAPSHOT_ID, MAIN, SnapshotId
from frazil.maintenance.listing import ID_NAME
from frazil.model.history import (
    Micros,
    RepoInfo,
    Snapshot,
    UpdateEntry,
    UpdateKind,
    UpdateLog,
    UpdateType,
)
from frazil.storage.assets import SNAPSHOTS
from frazil.storage.base import Storage

BACKUP: Final = f"{OVERWRITTEN}{REPO_KEY}."
FORK: Final = "fork"
"""Message of snapshots that official writers leave behind for forked sessions."""
SHORT: Final = 8
UNTIDY: Final = frozenset(
    {Code.REF_ORDER, Code.METADATA_ORDER, Code.FLAG_ORDER, Code.STATUS_UNKNOWN, Code.MAIN_MISSING}
    | {Code.UPDATES_EMPTY, Code.UPDATE_BACKUP, Code.REPO_SPEC}
)
"""Broken rules that writing the repo object again repairs."""


@dataclass(frozen=True, slots=True, eq=False)
class Rebuilt:
    """A repo object that may take the place of a damaged one."""

    info: RepoInfo
    step: RepairStep
    losses: tuple[str, ...]
    verbatim: bytes | None = None
    """the backup itself, if nothing has to be added to it"""


def rewrite_repo(info: RepoInfo, findings: Sequence[Finding]) -> RepairStep | None:
    """Plan to write a repo object anew whose order or operations log break rules."""
    codes = {finding.code for finding in findings} & UNTIDY
    if not codes:
        return None
    facts = {"branches": {name: str(tip) for name, tip in sorted(with_main(info).items())}}
    return RepairStep(Action.REWRITE_REPO, REPO_KEY, ", ".join(sorted(map(str, codes))), facts)


def with_main(info: RepoInfo) -> Mapping[str, SnapshotId]:
    """The branches; a missing main becomes the newest line that no other ref reaches."""
    if MAIN in info.branches:
        return info.branches
    entries = {entry.id: entry for entry in info.snapshots.entries()}
    choice = choose_tip(entries, [*info.branches.values(), *info.tags.values()])
    return info.branches if choice is None else {**info.branches, MAIN: choice.tip}


def rebuild_repo(files: RepositoryFiles, tips: Mapping[str, SnapshotId]) -> Rebuilt | None:
    """Plan a repo object; None when neither a backup nor a snapshot can be read.

    `tips` are the known tips of branches.
    """
    backup = _newest_backup(files.storage)
    loose = _loose(files, set() if backup is None else {*backup[1].snapshots})
    if backup is not None:
        name, info, blob = backup
        base, losses = info, [_ONE_LOST]
    else:
        first = _first(loose)
        if first is None:
            return None
        loose = [one for one in loose if one.id != first.id]
        entry = first.entry(None)
        base = first_repo_info(entry, snapshot_table([entry]), None)
        begun = UpdateEntry(UpdateType.RepoInitialized(), first.flushed_at)
        base = replace(base, latest_updates=UpdateLog.of([begun]))
        name, blob, losses = None, None, [_ALL_LOST]
    known = {entry.id: entry.flushed_at for entry in base.snapshots.entries()}
    placed = find_parents(files, known, loose)
    times = {one.id: one for one in loose}
    growth = _grow(base, placed, times, tips, is_backed=backup is not None)
    losses += growth.losses
    step = RepairStep(
        Action.RESTORE_REPO,
        REPO_KEY,
        _described(name, growth),
        {
            "backup": name,
            "branches": {key: str(tip) for key, tip in sorted(growth.branches.items())},
            "attached": {str(one): branch for one, branch in growth.attached},
        },
    )
    new = _with_growth(base, name, placed, growth, times)
    return Rebuilt(new, step, tuple(losses), None if growth.is_changed(base) else blob)


_ONE_LOST: Final = (
    "if the last change before the damage was not a commit, but one of a branch, a tag, the "
    "configuration, attributes, flags or the status, it cannot be known"
)
_ALL_LOST: Final = (
    "there is no backup of the repo object: names of branches, all tags, the configuration, "
    "attributes, flags, the status and the operations log cannot be known"
)


def _described(name: str | None, growth: _Growth) -> str:
    source = f"from the backup {name}" if name else "from snapshot files alone"
    named = [f"{one} as the tip of {branch!r}" for one, branch in growth.tips()]
    return source + (f", with {', '.join(named)}" if named else "")


# --- what there is ---


def _newest_backup(storage: Storage) -> tuple[str, RepoInfo, bytes] | None:
    names = sorted(item.key for item in storage.list(OVERWRITTEN) if item.key.startswith(BACKUP))
    for key in names:  # the newest sorts first
        blob = storage.get(key)
        if blob is None:
            continue
        info, _ = read_repo(blob, key)
        if info is not None and MAIN in info.branches and len(info.latest_updates):
            return key.removeprefix(OVERWRITTEN), info, blob
    return None


def _loose(files: RepositoryFiles, listed: set[SnapshotId]) -> list[Snapshot]:
    """Valid snapshot files that are not listed."""
    start = len(SNAPSHOTS)
    found: list[Snapshot] = []
    for item in files.storage.list(SNAPSHOTS):
        if not ID_NAME.fullmatch(item.key[start:]):
            continue
        one = SnapshotId.parse(item.key[start:])
        snapshot = None if one in listed else content_of(files.snapshot(one), one)
        if snapshot is not None:
            found.append(snapshot)
    return found


def _first(loose: Sequence[Snapshot]) -> Snapshot | None:
    """The snapshot that a history begins with: the well-known one, else the oldest."""
    known = [one for one in loose if one.id == INITIAL_SNAPSHOT_ID]
    return min(known or loose, key=lambda one: one.flushed_at, default=None)


# --- where it belongs ---


@dataclass(slots=True)
class _Growth:
    """Branches after loose snapshots were put on them."""

    branches: dict[str, SnapshotId]
    attached: list[tuple[SnapshotId, str]]
    """snapshots and the branches they came to, oldest first"""
    created: list[str]
    losses: list[str]

    def tips(self) -> list[tuple[SnapshotId, str]]:
        """The snapshots that became tips."""
        return [(one, branch) for one, branch in self.attached if self.branches[branch] == one]

    def is_changed(self, base: RepoInfo) -> bool:
        """Whether anything was added to the backup."""
        return bool(self.attached) or self.branches != base.branches


def _grow(
    base: RepoInfo,
    placed: PlacedSnapshots,
    loose: dict[SnapshotId, Snapshot],
    tips: Mapping[str, SnapshotId],
    *,
    is_backed: bool,
) -> _Growth:
    growth = _Growth(dict(base.branches), [], [], [])
    for name, tip in tips.items():
        if tip not in loose and tip not in base.snapshots:
            raise SnapshotNotFoundError("there is no snapshot to point a branch to", snapshot=tip)
        _attach(growth, name, tip, placed, loose)
        if name not in base.branches:
            growth.created.append(name)
    holders: dict[SnapshotId, list[str]] = {}
    for name, tip in base.branches.items():
        if name not in tips:
            holders.setdefault(tip, []).append(name)
    for tip, names in holders.items():
        if len(names) == 1:
            _advance(growth, names[0], tip, placed, loose, is_backed=is_backed)
    newest = base.latest_updates[0].updated_at
    done = {one for one, _ in growth.attached}
    for leaf in sorted(placed.leaves(), key=lambda one: loose[one].flushed_at):
        if leaf in done:
            continue
        # Older snapshots that the backup does not list were garbage already.
        if is_backed and loose[leaf].flushed_at <= newest:
            continue
        _aside(growth, leaf, placed, loose)
    return growth


def _advance(
    growth: _Growth,
    branch: str,
    tip: SnapshotId,
    placed: PlacedSnapshots,
    loose: dict[SnapshotId, Snapshot],
    *,
    is_backed: bool,
) -> None:
    """Move a branch forward as long as its next snapshot is unambiguous."""
    while True:
        done = {one for one, _ in growth.attached}
        children = [one for one in placed.children(tip) if one not in done]
        nexts = [one for one in children if loose[one].message != FORK]
        if not nexts:
            return
        if len(nexts) > 1:
            if is_backed:
                return
            detail = ", ".join(sorted(map(str, nexts)))
            growth.losses.append(
                f"branch {branch!r} may go on from {tip} with any of {detail}; it is assumed to be "
                "the line with the newest snapshot"
            )
            nexts.sort(key=lambda one: _newest_below(one, placed, loose))
        tip = nexts[-1]
        growth.branches[branch] = tip
        growth.attached.append((tip, branch))


def _newest_below(
    one: SnapshotId, placed: PlacedSnapshots, loose: dict[SnapshotId, Snapshot]
) -> Micros:
    newest, rest = 0, [one]
    while rest:
        here = rest.pop()
        newest = max(newest, loose[here].flushed_at)
        rest += placed.children(here)
    return newest


def _aside(
    growth: _Growth, leaf: SnapshotId, placed: PlacedSnapshots, loose: dict[SnapshotId, Snapshot]
) -> None:
    """Put a line of snapshots that may or may not have been published on a new branch."""
    name = f"recovered-{str(leaf)[:SHORT]}"
    _attach(growth, name, leaf, placed, loose)
    growth.created.append(name)
    where = (
        "its parent is not known" if leaf in placed.alone else "it may never have been committed"
    )
    growth.losses.append(f"snapshot {leaf} ({loose[leaf].message!r}) is kept as {name!r}: {where}")


def _attach(
    growth: _Growth,
    branch: str,
    tip: SnapshotId,
    placed: PlacedSnapshots,
    loose: dict[SnapshotId, Snapshot],
) -> None:
    """Point a branch to a snapshot, with those before it that are not listed yet."""
    done = {one for one, _ in growth.attached}
    line: list[SnapshotId] = []
    one: SnapshotId | None = tip
    while one is not None and one in loose and one not in done:
        line.append(one)
        one = placed.parents.get(one)
    growth.branches[branch] = tip
    growth.attached += [(each, branch) for each in reversed(line)]


def _with_growth(
    base: RepoInfo,
    backup: str | None,
    placed: PlacedSnapshots,
    growth: _Growth,
    loose: dict[SnapshotId, Snapshot],
) -> RepoInfo:
    """The repo object with what was found, each snapshot a line of the operations log."""
    if not growth.is_changed(base):
        return base
    entries = [loose[one].entry(placed.parents.get(one)) for one, _ in growth.attached]
    newest, *older = base.latest_updates
    lines = [replace(newest, backup_path=backup), *older]
    last = newest.updated_at

    def add(kind: UpdateKind, time: Micros) -> None:
        nonlocal last
        last = max(last + 1, time)
        lines.insert(0, UpdateEntry(kind, last))

    for one, branch in sorted(growth.attached, key=lambda item: loose[item[0]].flushed_at):
        time = loose[one].flushed_at
        if branch in growth.created:
            add(UpdateType.NewDetachedSnapshot(one), time)
        else:
            add(UpdateType.NewCommit(branch, one), time)
    attached = {branch for _, branch in growth.attached}
    for name, tip in growth.branches.items():
        if name in growth.created:
            add(UpdateType.BranchCreated(name), last)
        elif name not in attached and base.branches[name] != tip:
            add(UpdateType.BranchReset(name, base.branches[name]), last)
    return replace(
        base,
        snapshots=base.snapshots.with_entries(entries),
        branches=growth.branches,
        latest_updates=UpdateLog.of(lines),
    )
