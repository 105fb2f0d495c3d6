"""One walk over a repository: refs, snapshots, logs, manifests, chunk objects and sources.

Every file is read once, as long as what was read of it fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import FormatError
from frazil.formats.envelope import HEADER, has_checksum
from frazil.formats.legacy.dialects import STATE_FILES
from frazil.formats.ref_files import REFS
from frazil.formats.repo_info import REPO_KEY
from frazil.fsck.files import FsckTarget, RepositoryFiles, open_anyway
from frazil.fsck.findings import MAX_FINDINGS, OLD_RULES, REFERENCES, RULES, Code, Finding, Report
from frazil.fsck.history import (
    CheckedHistory,
    SnapshotNode,
    check_history,
    file_history,
    listed_history,
    lone_history,
)
from frazil.fsck.inspector import Inspector, ManifestFindings, Uses
from frazil.fsck.manifest_rules import decoded_bytes
from frazil.fsck.objects import ALL, Needs
from frazil.fsck.repo_rules import (
    check_backups,
    check_config_file,
    check_leftovers,
    read_ref_files,
    read_repo,
)
from frazil.fsck.tuning import ITEM_BYTES, ITEM_FILES
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.listing import ID_NAME, batched, list_older
from frazil.maintenance.tuning import DECODED_REF_BYTES
from frazil.model.history import ManifestFile
from frazil.progress import Progress, Tell, silent
from frazil.run import LocalRunner, Runner, by_size, in_order, run_with_progress
from frazil.statistics.files import Checksums
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage
from frazil.transaction.context import Context

T = TypeVar("T")
R = TypeVar("R")

NAMED: Final = (SNAPSHOTS, LOGS, MANIFESTS)
"""Folders looked through for foreign names; that of chunks may be too long for that."""
STRAY_NAMES: Final = 20
"""Unknown files that are named; the rest is counted."""


def fsck(
    place: FsckTarget,
    *,
    refs: Sequence[str] | None = None,
    ancestors: bool = True,
    deep: bool = False,
    virtual: bool = False,
    max_findings: int = MAX_FINDINGS,
    runner: Runner | None = None,
    progress: Tell | None = None,
) -> Report:
    """Check that a repository keeps every rule of the format.

    `place` is an open repository, or the storage of one, which may be too damaged to open. All else
    is that of `Repository.audit.fsck`.

    Raises:
        RepositoryNotFoundError: there is nothing of a repository.
        RefNotFoundError: a ref does not exist.
    """
    context = open_anyway(place)
    rules = spec_rules_of(context)
    report = Report(spec=context.generation.spec, limit=max_findings, rules=rules)
    inspector = Inspector(context, whole=True, deep=deep, virtual=virtual)
    walk = _Walk(inspector, report, runner, progress)
    history, findings = read_history(context, walk.files)
    walk.record(findings)
    wanted = wanted_snapshots(history, refs, ancestors=ancestors)
    walk.record(check_history(history, wanted))
    walk.snapshots(history.links(wanted))
    walk.manifests()
    walk.objects()
    if refs is None and ancestors:
        walk.leftovers(wanted, history)
    if deep:
        walk.uncovered()
    return report


def verify(
    place: FsckTarget,
    snapshots: Sequence[str] | None = None,
    *,
    virtual: bool = False,
    max_findings: int = MAX_FINDINGS,
    runner: Runner | None = None,
    progress: Tell | None = None,
) -> Report:
    """Check that everything some snapshots refer to is there: the rules `REFERENCES` of `fsck`.

    `snapshots` are the ids of those to check; None means all that branches and tags reach. All else
    is that of `fsck`.
    """
    context = open_anyway(place)
    report = Report(spec=context.generation.spec, limit=max_findings, rules=REFERENCES)
    inspector = Inspector(context, whole=False, deep=False, virtual=virtual)
    walk = _Walk(inspector, report, runner, progress)
    if snapshots is None:
        history, _ = read_history(context, walk.files)
    else:
        history = lone_history(map(SnapshotId.parse, snapshots))
    walk.snapshots(history.links(history.reached(history.refs.values())))
    walk.manifests()
    walk.objects()
    return report


def spec_rules_of(context: Context) -> frozenset[Code]:
    """The rules that a repository must keep."""
    return RULES if not context.generation.is_legacy else OLD_RULES


def read_history(context: Context, files: RepositoryFiles) -> tuple[CheckedHistory, list[Finding]]:
    """What a repository begins with, and what is wrong with it."""
    match context.refs:
        case RepoObjectRefs():
            return _read_repo(files)
        case RefFileRefs():
            refs = read_ref_files(files.storage)
            found = [*refs.findings, *check_config_file(files.storage)]
            return file_history(files, refs.branches, refs.tags), found
        case _:
            return _read_old_refs(context, files)


def _read_old_refs(
    context: Context, files: RepositoryFiles
) -> tuple[CheckedHistory, list[Finding]]:
    """The refs of a repository from before spec 1."""
    try:
        branches, tags = context.refs.branches(), context.refs.tags()
    except FormatError as error:
        found = [Finding(Code.REF_DAMAGED, "refs", str(error))]
        return file_history(files, {}, {}, is_known=False), found
    return file_history(files, branches, tags, has_logs=False), []


def _read_repo(files: RepositoryFiles) -> tuple[CheckedHistory, list[Finding]]:
    blob = files.storage.get(REPO_KEY)
    if blob is None:
        info, found = None, [Finding(Code.ENTRY_MISSING, REPO_KEY)]
    else:
        info, found = read_repo(blob)
    if info is None:
        return file_history(files, {}, {}, spec=2, is_known=False), found
    found += [*check_backups(files.storage, info), *check_leftovers(files.storage)]
    return listed_history(info), found


def wanted_snapshots(
    history: CheckedHistory, refs: Sequence[str] | None, *, ancestors: bool
) -> set[SnapshotId]:
    """The snapshots to check: all that is listed, or that refs lead to, or what was asked for."""
    if refs is not None or not ancestors:
        chosen = [*history.refs.values()] if refs is None else history.chosen(refs)
        return history.reached(chosen) if ancestors else set(chosen)
    reached = history.reached(history.refs.values())
    if history.entries:
        return reached | history.entries.keys()
    return reached if history.is_known else set(history.parents)


class _Walk:
    """One running check: a runner checks files, and their findings are collected here."""

    def __init__(
        self,
        inspector: Inspector,
        report: Report,
        runner: Runner | None,
        progress: Tell | None,
    ) -> None:
        self.report = report
        self.files = inspector.files
        self._inspector = inspector
        self._runner = runner or LocalRunner()
        self._tell = progress or silent
        self._sizes: dict[ManifestId, ManifestFile] = {}
        self._uses: Uses = {}
        self._unchecked: dict[str, int] = {}
        self._needs = Needs(self.files.objects)
        self._is_readable = True
        """whether everything that may refer to chunks could be read"""

    def record(self, findings: Iterable[Finding]) -> None:
        """Keep findings, with the keys that files have where they are."""
        where = self._inspector.context.key_in_place
        self.report.record(replace(each, target=where(each.target)) for each in findings)

    def _run(
        self,
        work: Callable[[T], R],
        items: Sequence[T],
        what: str,
        counts: Sequence[int] | None = None,
        size_bytes: int = 0,
    ) -> Iterator[R]:
        run = run_with_progress(
            self._runner, work, items, self._tell, what, counts=counts, size_bytes=size_bytes
        )
        return in_order(run)

    def snapshots(self, links: Sequence[SnapshotNode]) -> None:
        """Check snapshots and their logs; note how they use manifests."""
        groups = [*batched(links, ITEM_FILES)]
        counts = [*map(len, groups)]
        for done in self._run(self._inspector.commits, groups, "snapshots", counts):
            self.record(done.findings)
            self.report.logs += done.logs
            self._is_readable &= done.is_readable
            self._sizes.update(done.sizes)
            self._unchecked.update(done.unchecked)
            for manifest_id, uses in done.uses.items():
                self._uses.setdefault(manifest_id, set()).update(uses)
        self.report.snapshots += len(links)

    def manifests(self) -> None:
        """Check manifests, and decode their chunks if that is wanted."""
        deep, unlisted = self._inspector.deep, sorted(self._uses.keys() - self._sizes.keys())
        wanted = [*self._sizes.values(), *(ManifestFile(one, 0, 0) for one in unlisted)]
        size = sum(file.size_bytes for file in wanted)
        if deep:
            self.record(damaged_statistics(self._inspector.checksums))
            size = sum(map(decoded_bytes, self._uses.values()))
        parts = by_size(
            (file.num_chunk_refs * DECODED_REF_BYTES for file in wanted),
            ITEM_BYTES,
            1 if deep else ITEM_FILES,
        )
        items = [
            [(file.id, self._uses.get(file.id, set())) for file in wanted[part.start : part.stop]]
            for part in parts
        ]
        counts = [*map(len, items)]
        for found in self._run(self._inspector.manifests, items, "manifests", counts, size):
            for refs in found:
                self._take(refs)
        self.report.manifests += len(wanted)

    def _take(self, refs: ManifestFindings) -> None:
        report, decoded = self.report, refs.decoded
        self.record(refs.findings)
        self.record(decoded.findings)
        report.decoded_chunks += decoded.chunks
        for path, size in decoded.unchecked.items():
            report.leave_unchecked(f"chunks of {path}", size)
        report.native_references += refs.native
        report.virtual_references += refs.virtual
        self._is_readable &= refs.is_readable
        self._unchecked.update(refs.unchecked)
        self._needs.add_objects(refs.id, refs.objects, refs.ends)
        self._needs.add_sources(refs.sources.items())

    def objects(self) -> None:
        """Report chunk objects and sources that are missing, too short or changed."""
        report, needs = self.report, self._needs
        report.native_objects = len(needs.named)
        items = [(one, ids, self._paths(one)) for one, ids in needs.short.items()]
        for users in in_order(self._runner.run(self._inspector.users, items)):
            needs.add_users(users)
        self.record(needs.findings())
        self._tell(Progress("chunk objects", report.native_objects, report.native_objects))
        if not self._inspector.virtual:
            return
        groups = [*batched(sorted(needs.sources.items(), key=str), ITEM_FILES)]
        counts = [*map(len, groups)]
        for found in self._run(self._inspector.sources, groups, "virtual sources", counts):
            self.record(found)
        report.virtual_sources += len(needs.sources)

    def _paths(self, manifest_id: ManifestId) -> dict[NodeId, str]:
        """Where the arrays of a manifest are; one that was moved, at the first of its paths."""
        uses = sorted((use.path, use.node_id) for use in self._uses.get(manifest_id, ()))
        return {node_id: path for path, node_id in reversed(uses)}

    def uncovered(self) -> None:
        """Tell how many bytes of metadata no checksum covers."""
        for key, size in sorted({**self._unchecked, **self.files.unchecked()}.items()):
            self.report.leave_unchecked(key.partition("/")[0], size)
        generation = self.files.assets.generation
        for key in (REPO_KEY, CONFIG_KEY, *(STATE_FILES if generation.is_legacy else ())):
            blob = self.files.storage.get(key)
            is_sealed = key == REPO_KEY and blob is not None
            if blob is not None and not (is_sealed and has_checksum(blob[HEADER.size :])):
                self.report.leave_unchecked(key, len(blob))
        if not generation.repo_object:
            for item in self.files.storage.list(REFS):
                self.report.leave_unchecked("refs", item.size_bytes)

    def leftovers(self, snapshots: set[SnapshotId], history: CheckedHistory) -> None:
        """Count what nothing refers to; needs everything to be readable."""
        storage, pruned = self.files.storage, set[SnapshotId]()
        for entry in history.entries.values():
            pruned.update(entry.pruned_ancestor_tx_logs)
        self.record(_stray_names(storage))
        if not self._is_readable or not history.is_known:
            return
        kept: dict[str, Iterable[bytes]] = {
            SNAPSHOTS: snapshots,
            LOGS: snapshots | pruned,
            MANIFESTS: self._sizes.keys() | self._uses.keys(),
        }
        for folder in (*kept, CHUNKS):
            if folder == CHUNKS:
                rest = self.files.objects.listed().without(self._needs.named)
            else:
                rows = RowSet()
                rows.add_ids(kept[folder])
                rest = list_older(storage, folder, ALL).without(rows)
            self.report.unreferenced[folder.rstrip("/")] = len(rest)
            self.report.unreferenced_bytes += rest.size_bytes
            if len(rest):
                detail = f"{len(rest)} objects with {rest.size_bytes} bytes"
                self.record([Finding(Code.UNREFERENCED, folder, detail, references=len(rest))])


def damaged_statistics(checksums: Checksums) -> Iterator[Finding]:
    """Tell of files of statistics that cannot be read."""
    for error in checksums.damaged:
        yield Finding(Code.STATISTICS_DAMAGED, str(error.facts.get("key")), str(error))


def _stray_names(storage: Storage) -> Iterator[Finding]:
    for folder in NAMED:
        reported = 0
        for item in storage.list(folder):
            if not ID_NAME.fullmatch(item.key[len(folder) :]):
                yield Finding(Code.STRAY_NAME, item.key)
                reported += 1
                if reported == STRAY_NAMES:
                    break
