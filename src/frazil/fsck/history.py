"""The history that is to be checked: targets of refs, and parents of snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.fsck.files import RepositoryFiles
from frazil.fsck.findings import Code, Finding
from frazil.fsck.log_rules import Change, check_change, check_log_file, claims_of
from frazil.fsck.snapshot_rules import check_snapshot_file, check_snapshot_name
from frazil.fsck.tuning import LARGE_COMMIT
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.listing import ID_NAME, batched
from frazil.maintenance.tuning import FILES_AT_ONCE
from frazil.model.history import Metadata, Micros, RepoInfo, Snapshot, SnapshotEntry, TransactionLog
from frazil.model.marks import CARRIED
from frazil.storage.assets import SNAPSHOTS, log_key, snapshot_key
from frazil.storage.pool import fan_out


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """A snapshot, its parent, and whether refs lead to it."""

    id: SnapshotId
    parent: SnapshotId | None
    """None for a first snapshot, or where it is not known"""
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
class CheckedHistory:
    """Refs, and every snapshot that is listed or that they lead to."""

    spec: int
    refs: Mapping[str, SnapshotId]
    """by their names in messages: `branch main`, `tag v1`"""
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

    def links(self, wanted: Iterable[SnapshotId]) -> list[SnapshotNode]:
        """What is to be checked of some snapshots, parents before their children."""
        needed = self.reached(self.refs.values())
        return [
            SnapshotNode(
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


def listed_history(info: RepoInfo) -> CheckedHistory:
    """The history that a repo object lists."""
    entries = {entry.id: entry for entry in info.snapshots.entries()}
    return CheckedHistory(
        info.spec_version,
        _refs(info.branches, info.tags),
        {one: entry.parent_id for one, entry in entries.items()},
        entries,
        times={one: entry.flushed_at for one, entry in entries.items()},
    )


def file_history(
    files: RepositoryFiles,
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
    *,
    spec: int = 1,
    is_known: bool = True,
    has_logs: bool = True,
) -> CheckedHistory:
    """The history that snapshot files tell of; where refs are lost, every file counts."""
    start = len(SNAPSHOTS)
    names = (item.key[start:] for item in files.storage.list(SNAPSHOTS))
    parents: dict[SnapshotId, SnapshotId | None] = {}
    times: dict[SnapshotId, Micros] = {}
    for group in batched(filter(ID_NAME.fullmatch, names), FILES_AT_ONCE):
        ids = [SnapshotId.parse(name) for name in group]
        for one, read in zip(ids, fan_out(files.snapshot, ids), strict=True):
            if read is not None and read.content is not None:
                parents[one], times[one] = read.content.parent_id, read.content.flushed_at
            elif not is_known:
                parents[one] = None
    return CheckedHistory(
        spec,
        _refs(branches, tags),
        parents,
        is_known=is_known,
        has_logs=has_logs,
        times=times,
    )


def lone_history(snapshots: Iterable[SnapshotId]) -> CheckedHistory:
    """A history of some snapshots alone; their ancestors are not read."""
    ids = [*snapshots]
    return CheckedHistory(0, {str(one): one for one in ids}, dict.fromkeys(ids), has_logs=False)


def _refs(
    branches: Mapping[str, SnapshotId], tags: Mapping[str, SnapshotId]
) -> dict[str, SnapshotId]:
    named = {f"branch {name}": tip for name, tip in branches.items()}
    return named | {f"tag {name}": target for name, target in tags.items()}


def check_history(history: CheckedHistory, wanted: Iterable[SnapshotId]) -> Iterator[Finding]:
    """Check how snapshots follow each other."""
    wanted = set(wanted)
    for one in sorted(wanted):
        parent = history.parents.get(one)
        if parent is None or parent not in history.times or one not in history.times:
            continue
        if history.times[one] <= history.times[parent]:
            detail = f"it is not younger than its parent {parent}"
            yield Finding(Code.SNAPSHOT_TIME, snapshot_key(one), detail)
    for one in circle_in(history.parents, wanted)[:1]:
        yield Finding(Code.HISTORY_CIRCLE, snapshot_key(one), "it is its own ancestor")
    tips = set(history.refs.values()) & wanted
    roots = {one for one in history.reached(tips) if history.parents.get(one, one) is None}
    if len(roots) > 1 and history.is_known:
        names = ", ".join(map(str, sorted(roots)))
        yield Finding(Code.HISTORY_ROOTS, "refs", names, references=len(roots))


def circle_in(
    parents: Mapping[SnapshotId, SnapshotId | None], wanted: Iterable[SnapshotId]
) -> list[SnapshotId]:
    """Snapshots that are their own ancestors, if some descend from such."""
    done: set[SnapshotId] = set()
    for one in sorted(wanted):
        path: dict[SnapshotId, None] = {}
        here: SnapshotId | None = one
        while here is not None and here not in done:
            if here in path:
                line = [*path]
                return line[line.index(here) :]
            path[here] = None
            here = parents.get(here)
        done.update(path)
    return []


@dataclass(slots=True)
class CheckedCommit:
    """What was found in a commit, and its snapshot if that can be read."""

    findings: list[Finding] = field(default_factory=list)
    snapshot: Snapshot | None = None
    has_log: bool = False


def check_commit(files: RepositoryFiles, link: SnapshotNode, *, whole: bool) -> CheckedCommit:
    """Check a snapshot, its log, and that the log tells all that changed.

    Unless `whole`, only whether the snapshot can be read.
    """
    checked = CheckedCommit()
    read = files.snapshot(link.id)
    if read is None:
        code = Code.SNAPSHOT_MISSING if link.is_needed else Code.SNAPSHOT_GONE
        checked.findings.append(Finding(code, snapshot_key(link.id)))
    else:
        check = check_snapshot_file if whole else check_snapshot_name
        checked.findings += check(link.id, read)
        checked.snapshot = read.content
    if whole:
        if checked.snapshot is not None:
            checked.findings += _against_entry(link, checked.snapshot)
        spec = 0 if read is None else read.spec
        large = _new_references(files, link, checked.snapshot) > LARGE_COMMIT
        with files.large if large else nullcontext():
            checked.has_log = _check_log(files, link, checked.snapshot, spec, checked.findings)
    return checked


def _new_references(files: RepositoryFiles, link: SnapshotNode, snapshot: Snapshot | None) -> int:
    """References in manifests that the parent of a snapshot does not have."""
    if snapshot is None:
        return 0
    parent = None if link.parent is None else files.snapshot(link.parent)
    old = parent.content.manifest_files if parent and parent.content else ()
    known = {file.id for file in old}
    return sum(file.num_chunk_refs for file in snapshot.manifest_files if file.id not in known)


def _against_entry(link: SnapshotNode, snapshot: Snapshot) -> Iterator[Finding]:
    key, entry = snapshot_key(link.id), link.entry
    # History that expired in G1 begins with another one, also after an upgrade.
    if link.is_root and link.id == INITIAL_SNAPSHOT_ID and len(snapshot.nodes):
        yield Finding(Code.ROOT_NODES, key)
    if entry is None:
        return
    for name in ("flushed_at", "message"):
        if getattr(entry, name) != getattr(snapshot, name):
            yield Finding(Code.SNAPSHOT_ENTRY, key, name)
    if _unmarked(entry.metadata) != _unmarked(snapshot.metadata):
        yield Finding(Code.SNAPSHOT_ENTRY, key, "metadata")


def _unmarked(metadata: Metadata) -> Metadata:
    """Metadata without what expiry adds to snapshots that get another parent."""
    return {name: value for name, value in metadata.items() if name != CARRIED}


def _check_log(
    files: RepositoryFiles,
    link: SnapshotNode,
    snapshot: Snapshot | None,
    spec: int,
    findings: list[Finding],
) -> bool:
    key = log_key(link.id)
    read = files.log(link.id)
    if read is None:
        if link.has_log and snapshot is not None:
            findings.append(Finding(Code.LOG_MISSING, key))
        return False
    findings += check_log_file(link.id, read)
    log = read.content
    if log is None:
        return True
    if link.is_root:
        if not claims_of([log]).is_empty:
            findings.append(Finding(Code.LOG_ROOT, key))
        return True
    parent = None if link.parent is None else files.snapshot(link.parent)
    if snapshot is None or parent is None or parent.content is None:
        return True
    older, is_whole, was_version_1 = _pruned_logs(files, link, findings)
    # Expiry in version 1 makes a snapshot the child of the first one without a record of it. An
    # expiry after an upgrade passes the logs on, which then begin where those of version 1 did.
    may_be_cut = link.parent_is_root and (spec == 1 or was_version_1)
    change = Change(
        key,
        parent.content,
        snapshot,
        claims_of([*older, log]),
        is_complete=is_whole and not may_be_cut,
        is_single=not link.pruned,
    )
    findings += check_change(change, files)
    return True


def _pruned_logs(
    files: RepositoryFiles, link: SnapshotNode, findings: list[Finding]
) -> tuple[list[TransactionLog], bool, bool]:
    """The logs of ancestors that were cut out: all of them? and are there some of version 1?"""
    logs: list[TransactionLog] = []
    was_version_1 = False
    for one in link.pruned:
        read = files.log(one)
        if read is None:
            detail = f"{snapshot_key(link.id)} has taken it over"
            findings.append(Finding(Code.LOG_PRUNED_MISSING, log_key(one), detail))
        elif read.content is None:
            findings += read.findings
        else:
            logs.append(read.content)
            was_version_1 |= read.spec == 1
    return logs, len(logs) == len(link.pruned), was_version_1
