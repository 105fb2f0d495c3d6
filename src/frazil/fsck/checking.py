"""One walk over a repository: refs, snapshots, logs, manifests, chunk objects and sources.

Every file is read once, as long as what was read of it fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import REPO_KEY, RepoObjectRefs
from frazil.commit.file_refs import CONFIG_KEY
from frazil.errors import FormatError
from frazil.formats.envelope import HEADER, has_checksum
from frazil.formats.manifest import Manifest
from frazil.fsck.files import CheckedFile, FsckTarget, RepositoryFiles, open_anyway
from frazil.fsck.findings import (
    MAX_FINDINGS,
    OLD_RULES,
    REFERENCES,
    RULES,
    Code,
    Finding,
    Report,
)
from frazil.fsck.history import (
    CheckedHistory,
    SnapshotNode,
    check_commit,
    check_history,
    file_history,
    listed_history,
    lone_history,
)
from frazil.fsck.manifest_rules import check_manifest_file, decode_chunks
from frazil.fsck.objects import ALL, Needs, ask_source
from frazil.fsck.repo_rules import (
    check_backups,
    check_config_file,
    check_leftovers,
    read_ref_files,
    read_repo,
)
from frazil.fsck.snapshot_rules import ManifestUse, uses_of
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.listing import ID_NAME, batched, list_older
from frazil.maintenance.walk import WalkLimits, portions_by_size
from frazil.model.history import ManifestFile
from frazil.model.nodes import ArrayNode
from frazil.run import Progress
from frazil.statistics.files import Checksums, read_checksums
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

Uses: TypeAlias = dict[ManifestId, set[ManifestUse]]

NAMED: Final = (SNAPSHOTS, LOGS, MANIFESTS)
"""Folders looked through for foreign names; that of chunks may be too long for that."""
STRAY_NAMES: Final = 20
"""Unknown files that are named; the rest is counted."""
SOURCES_AT_ONCE: Final = 512
"""Sources of virtual chunks that are asked in one batch, between two reports of progress."""


def fsck(
    place: FsckTarget,
    *,
    refs: Sequence[str] | None = None,
    ancestors: bool = True,
    deep: bool = False,
    virtual: bool = False,
    max_findings: int = MAX_FINDINGS,
    progress: Progress | None = None,
) -> Report:
    """Check that a repository keeps every rule of the format.

    `place` is an open repository, or the storage of one, which may be too damaged to open. All else
    is that of `Repository.audit.fsck`.

    Raises:
        RepositoryNotFoundError: there is nothing of a repository.
        RefNotFoundError: a ref does not exist.
    """
    context = open_anyway(place)
    walk = _Walk(context, spec_rules_of(context), max_findings, progress)
    history, findings = read_history(context, walk.files)
    walk.report.record(findings)
    wanted = wanted_snapshots(history, refs, ancestors=ancestors)
    walk.report.record(check_history(history, wanted))
    uses = walk.snapshots(history.links(wanted), deep=deep)
    walk.manifests(uses, deep=deep, virtual=virtual)
    walk.objects(wanted, virtual=virtual)
    if refs is None and ancestors:
        walk.leftovers(wanted, history, uses)
    if deep and not context.generation.is_legacy:
        walk.uncovered()
    return walk.report


def verify(
    place: FsckTarget,
    snapshots: Sequence[str] | None = None,
    *,
    virtual: bool = False,
    max_findings: int = MAX_FINDINGS,
    progress: Progress | None = None,
) -> Report:
    """Check that everything some snapshots refer to is there: the rules `REFERENCES` of `fsck`.

    `snapshots` are the ids of those to check; None means all that branches and tags reach. All else
    is that of `fsck`.
    """
    context = open_anyway(place)
    walk = _Walk(context, REFERENCES, max_findings, progress)
    if snapshots is None:
        history, _ = read_history(context, walk.files)
    else:
        history = lone_history(map(SnapshotId.parse, snapshots))
    wanted = history.reached(history.refs.values())
    walk.snapshots(history.links(wanted))
    walk.manifests({})
    walk.objects(wanted, virtual=virtual)
    return walk.report


def spec_rules_of(context: Context) -> frozenset[Code]:
    """The rules that a repository must keep; one from before spec 1 is seen in the form of it."""
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
    """One check while it runs."""

    def __init__(
        self,
        context: Context,
        rules: frozenset[Code],
        max_findings: int,
        progress: Progress | None,
    ) -> None:
        self.report = Report(spec=context.generation.spec, limit=max_findings, rules=rules)
        self.files = RepositoryFiles(context.storage)
        self._whole = not rules <= REFERENCES
        """whether there is more to check than references"""
        self._context = context
        self._limits = WalkLimits()
        self._tell = progress or (lambda *_: None)
        self._sizes: dict[ManifestId, ManifestFile] = {}
        self._needs = Needs(self.files.objects)
        self._is_readable = True
        """whether everything that may refer to chunks could be read"""

    def snapshots(self, links: Sequence[SnapshotNode], *, deep: bool = False) -> Uses:
        """Check snapshots and their logs; return how they use manifests."""
        uses: Uses = {}
        work = partial(check_commit, self.files, whole=self._whole)
        for group in batched(links, self._limits.max_snapshots_in_memory):
            for checked in fan_out(work, group):
                self.report.record(checked.findings)
                self.report.snapshots += 1
                self.report.logs += checked.has_log
                self._is_readable &= checked.snapshot is not None
                if checked.snapshot is not None:
                    self._sizes.update((file.id, file) for file in checked.snapshot.manifest_files)
                    if self._whole:
                        add_uses(uses, uses_of(checked.snapshot, documents=deep))
            self._tell("snapshots", self.report.snapshots, len(links))
        return uses

    def manifests(self, uses: Uses, *, deep: bool = False, virtual: bool = False) -> None:
        """Check manifests, and decode their chunks if that is wanted."""
        unknown = uses.keys() - self._sizes.keys()
        wanted = [*self._sizes.values(), *(ManifestFile(one, 0, 0) for one in unknown)]
        checksums = self._checksums() if deep else None
        for group in portions_by_size(wanted, self._limits):
            for findings, read in fan_out(partial(self._manifest, uses), group):
                self.report.record(findings)
                self.report.manifests += 1
                if read is None or read.content is None:
                    self._is_readable = False
                    continue
                for node_id, table in read.content.tables():
                    self._needs.add(node_id, table)
            if checksums is not None:
                for file in group:
                    self._decode(file.id, uses.get(file.id, set()), checksums, virtual=virtual)
            self._tell("manifests", self.report.manifests, len(wanted))

    def _manifest(
        self, uses: Uses, file: ManifestFile
    ) -> tuple[Sequence[Finding], CheckedFile[Manifest] | None]:
        read = self.files.manifest(file.id)
        if read is not None and not self._whole:
            return read.findings, read
        users = uses.get(file.id, ())
        return [*check_manifest_file(file.id, read, users, self._context.containers)], read

    def _checksums(self) -> Checksums:
        found = read_checksums(self._context.place)
        self.report.record(damaged_statistics(found))
        return found

    def _decode(
        self,
        manifest_id: ManifestId,
        uses: set[ManifestUse],
        checksums: Checksums,
        *,
        virtual: bool,
    ) -> None:
        done = decode_chunks(
            self._context, self.files, manifest_id, uses, checksums, virtual=virtual
        )
        self.report.decoded_chunks += done.chunks
        for path, size in done.unchecked.items():
            self.report.leave_unchecked(f"chunks of {path}", size)
        self.report.record(done.findings)

    def objects(self, snapshots: Iterable[SnapshotId], *, virtual: bool) -> None:
        """Tell of chunk objects, and of sources if that is wanted, that are not as needed."""
        report, needs = self.report, self._needs
        report.native_references = needs.native_references
        report.native_objects = len(needs.named)
        report.virtual_references = needs.virtual_references
        report.record(needs.findings(self._paths(snapshots, needs.nodes)))
        self._tell("chunk objects", report.native_objects, report.native_objects)
        if not virtual:
            return
        for group in batched(sorted(needs.sources.items(), key=str), SOURCES_AT_ONCE):
            found = fan_out(lambda item: ask_source(self._context, item[0], *item[1]), group)
            report.record(filter(None, found))
            report.virtual_sources += len(group)
            self._tell("virtual sources", report.virtual_sources, len(needs.sources))

    def _paths(self, snapshots: Iterable[SnapshotId], nodes: set[NodeId]) -> dict[NodeId, str]:
        """Where arrays are, in the snapshots that can be read."""
        found: dict[NodeId, str] = {}
        for snapshot_id in sorted(snapshots) if nodes else ():
            read = self.files.snapshot(snapshot_id)
            if read is None or read.content is None:
                continue
            for node in read.content.nodes:
                if isinstance(node, ArrayNode) and node.id in nodes:
                    found.setdefault(node.id, node.path)
            if len(found) == len(nodes):
                break
        return found

    def uncovered(self) -> None:
        """Tell how many bytes of metadata no checksum covers."""
        for key, size in self.files.unchecked.items():
            self.report.leave_unchecked(key.partition("/")[0], size)
        for key in (REPO_KEY, CONFIG_KEY):
            blob = self.files.storage.get(key)
            is_sealed = key == REPO_KEY and blob is not None
            if blob is not None and not (is_sealed and has_checksum(blob[HEADER.size :])):
                self.report.leave_unchecked(key, len(blob))

    def leftovers(self, snapshots: set[SnapshotId], history: CheckedHistory, uses: Uses) -> None:
        """Count what nothing refers to; needs everything to be readable."""
        storage, pruned = self.files.storage, set[SnapshotId]()
        for entry in history.entries.values():
            pruned.update(entry.pruned_ancestor_tx_logs)
        self.report.record(_stray_names(storage))
        if not self._is_readable or not history.is_known:
            return
        kept: dict[str, Iterable[bytes]] = {
            SNAPSHOTS: snapshots,
            LOGS: snapshots | pruned,
            MANIFESTS: self._sizes.keys() | uses.keys(),
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
                self.report.record(
                    [Finding(Code.UNREFERENCED, folder, detail, references=len(rest))]
                )


def damaged_statistics(checksums: Checksums) -> Iterator[Finding]:
    """Tell of files of statistics that cannot be read."""
    for error in checksums.damaged:
        yield Finding(Code.STATISTICS_DAMAGED, str(error.facts.get("key")), str(error))


def add_uses(known: Uses, found: Iterable[tuple[ManifestId, ManifestUse]]) -> None:
    """Take over how a snapshot uses manifests."""
    for manifest_id, use in found:
        known.setdefault(manifest_id, set()).add(use)


def _stray_names(storage: Storage) -> Iterator[Finding]:
    for folder in NAMED:
        reported = 0
        for item in storage.list(folder):
            if not ID_NAME.fullmatch(item.key[len(folder) :]):
                yield Finding(Code.STRAY_NAME, item.key)
                reported += 1
                if reported == STRAY_NAMES:
                    break
