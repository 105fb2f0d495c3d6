"""The history that is to be checked: what refs point to, and who descends from whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.fsck.files import Files
from frazil.fsck.findings import Code, Finding
from frazil.ids import SnapshotId
from frazil.maintenance.listing import ID_NAME
from frazil.maintenance.reading import portions
from frazil.model.history import Micros, RepoInfo, SnapshotEntry
from frazil.storage.assets import SNAPSHOTS, snapshot_key
from frazil.storage.base import fan_out

FILES_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Link:
    """A snapshot and how it is tied to others."""

    id: SnapshotId
    parent: SnapshotId | None
    """None for a first snapshot, or where nobody knows"""
    is_root: bool
    is_needed: bool
    """whether a branch or tag leads to it"""
    has_log: bool
    """whether it must have a transaction log"""
    pruned: tuple[SnapshotId, ...] = ()
    """ancestors that were cut out between it and its parent"""
    entry: SnapshotEntry | None = None
    """what the repo object says of it"""
    parent_is_root: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Refs, and every snapshot that is listed or that they lead to."""

    spec: int
    refs: Mapping[str, SnapshotId]
    """by what people call them: `branch main`, `tag v1`"""
    parents: Mapping[SnapshotId, SnapshotId | None]
    entries: Mapping[SnapshotId, SnapshotEntry] = field(default_factory=dict)
    """where a repo object lists snapshots"""
    is_known: bool = True
    """False when what a repository begins with cannot be read, and only files are known"""
    times: Mapping[SnapshotId, Micros] = field(default_factory=dict)
    has_logs: bool = True
    """whether snapshots must have transaction logs"""

    def reached(self, tips: Iterable[SnapshotId]) -> set[SnapshotId]:
        """Snapshots that some tips descend from, tips included, known or not."""
        found: set[SnapshotId] = set()
        for tip in tips:
            one: SnapshotId | None = tip
            while one is not None and one not in found:
                found.add(one)
                one = self.parents.get(one)
        return found

    def chosen(self, names: Iterable[str]) -> list[SnapshotId]:
        """The snapshots that branches, tags or ids name.

        Raises:
            RefNotFoundError: there is no such ref or snapshot.
        """
        return [self._named(name) for name in names]

    def _named(self, name: str) -> SnapshotId:
        for kind in ("branch", "tag"):
            if f"{kind} {name}" in self.refs:
                return self.refs[f"{kind} {name}"]
        try:
            found = SnapshotId.parse(name)
        except InvalidInputError:
            found = None
        if found is None or found not in self.parents:
            raise RefNotFoundError(f"no branch, tag or snapshot {name!r}")
        return found

    def links(self, wanted: Iterable[SnapshotId]) -> list[Link]:
        """What is to be checked of some snapshots, parents before their children."""
        needed = self.reached(self.refs.values())
        return [
            Link(
                one,
                self.parents.get(one),
                is_root=self.is_known and self._is_root(one),
                is_needed=one in needed or not self.is_known,
                has_log=self.has_logs and self.is_known and not self._is_root(one),
                pruned=self.entries[one].pruned_ancestor_tx_logs if one in self.entries else (),
                entry=self.entries.get(one),
                parent_is_root=self._is_root(self.parents.get(one)),
            )
            for one in sorted(wanted, key=lambda one: (self.times.get(one, 0), one))
        ]

    def _is_root(self, one: SnapshotId | None) -> bool:
        return one is not None and one in self.parents and self.parents[one] is None


def listed_history(info: RepoInfo) -> History:
    """The history that a repo object lists."""
    entries = {entry.id: entry for entry in info.snapshots.entries()}
    return History(
        info.spec_version,
        _refs(info.branches, info.tags),
        {one: entry.parent_id for one, entry in entries.items()},
        entries,
        times={one: entry.flushed_at for one, entry in entries.items()},
    )


def file_history(
    files: Files,
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
    *,
    spec: int = 1,
    is_known: bool = True,
    has_logs: bool = True,
) -> History:
    """The history that snapshot files tell of; where refs are lost, every file counts."""
    start = len(SNAPSHOTS)
    names = (item.key[start:] for item in files.storage.list(SNAPSHOTS))
    parents: dict[SnapshotId, SnapshotId | None] = {}
    times: dict[SnapshotId, Micros] = {}
    for group in portions(filter(ID_NAME.fullmatch, names), FILES_AT_ONCE):
        ids = [SnapshotId.parse(name) for name in group]
        for one, read in zip(ids, fan_out(files.snapshot, ids), strict=True):
            if read is not None and read.content is not None:
                parents[one], times[one] = read.content.parent_id, read.content.flushed_at
            elif not is_known:
                parents[one] = None
    return History(
        spec,
        _refs(branches, tags),
        parents,
        is_known=is_known,
        has_logs=has_logs,
        times=times,
    )


def lone_history(snapshots: Iterable[SnapshotId]) -> History:
    """Some snapshots without what they descend from, which then nobody has to read."""
    ids = [*snapshots]
    return History(0, {str(one): one for one in ids}, dict.fromkeys(ids), has_logs=False)


def _refs(
    branches: Mapping[str, SnapshotId], tags: Mapping[str, SnapshotId]
) -> dict[str, SnapshotId]:
    named = {f"branch {name}": tip for name, tip in branches.items()}
    return named | {f"tag {name}": target for name, target in tags.items()}


def check_history(history: History, wanted: Iterable[SnapshotId]) -> Iterator[Finding]:
    """Check how snapshots follow each other."""
    wanted = set(wanted)
    for one in sorted(wanted):
        parent = history.parents.get(one)
        if parent is None or parent not in history.times or one not in history.times:
            continue
        if history.times[one] <= history.times[parent]:
            told = f"it is not younger than its parent {parent}"
            yield Finding(Code.SNAPSHOT_TIME, snapshot_key(one), told)
    if circle := _circle(history, wanted):
        yield Finding(Code.HISTORY_CIRCLE, snapshot_key(circle), "it is its own ancestor")
    tips = set(history.refs.values()) & wanted
    roots = {one for one in history.reached(tips) if history.parents.get(one, one) is None}
    if len(roots) > 1 and history.is_known:
        names = ", ".join(map(str, sorted(roots)))
        yield Finding(Code.HISTORY_ROOTS, "refs", names, references=len(roots))


def _circle(history: History, wanted: set[SnapshotId]) -> SnapshotId | None:
    done: set[SnapshotId] = set()
    for one in sorted(wanted):
        path: set[SnapshotId] = set()
        here: SnapshotId | None = one
        while here is not None and here not in done:
            if here in path:
                return here
            path.add(here)
            here = history.parents.get(here)
        done |= path
    return None
