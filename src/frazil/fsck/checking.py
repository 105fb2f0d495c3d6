"""The whole check: from refs through snapshots and logs to manifests and chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import REPO_KEY, RepoObjectRefs
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import FormatError
from frazil.formats.envelope import HEADER, has_checksum
from frazil.fsck.decoding import decode_chunks
from frazil.fsck.files import Files
from frazil.fsck.findings import MAX_FINDINGS, RULES, Code, Finding, Report
from frazil.fsck.history import (
    History,
    Link,
    check_history,
    file_history,
    listed_history,
)
from frazil.fsck.log_rules import Change, check_change, check_log_file, claims_of
from frazil.fsck.manifest_rules import check_manifest_file
from frazil.fsck.place import Place, open_anyway
from frazil.fsck.ref_rules import check_config_file, read_ref_files
from frazil.fsck.repo_rules import check_backups, check_leftovers, read_repo
from frazil.fsck.snapshot_rules import Use, check_snapshot_file, uses_of
from frazil.ids import INITIAL_SNAPSHOT_ID, ManifestId, SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.id_sets import U8, RowSet
from frazil.maintenance.listing import ID_NAME, list_older
from frazil.maintenance.needs import native_needs
from frazil.maintenance.reading import portions
from frazil.maintenance.verifying import ALL, Progress, Trouble, verify_references
from frazil.maintenance.walk import WalkLimits, portions_by_size
from frazil.model.history import ManifestFile, Metadata, Snapshot, TransactionLog
from frazil.model.marks import CARRIED
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS, log_key, snapshot_key
from frazil.storage.base import Storage, fan_out
from frazil.transaction.context import Context

Uses: TypeAlias = dict[ManifestId, set[Use]]

NAMED: Final = (SNAPSHOTS, LOGS, MANIFESTS)
"""Folders looked through for foreign names; that of chunks may be too long for that."""
STRAY_NAMES: Final = 20
OLD_RULES: Final = frozenset(
    {code for code in Code if code.startswith(("file-", "source-", "history-", "chunk-"))}
    | {Code.REF_DAMAGED, Code.MAIN_MISSING, Code.UNREFERENCED}
    | {Code.SNAPSHOT_MISSING, Code.SNAPSHOT_ID, Code.MANIFEST_MISSING, Code.MANIFEST_UNLISTED}
    | {Code.NODE_ORDER, Code.NODE_PATH, Code.NODE_ID, Code.NODE_METADATA, Code.NODE_KIND}
    | {Code.NODE_SHAPE, Code.NODE_INSIDE_ARRAY, Code.CONTAINER_UNDECLARED, Code.LOCATION_INVALID}
) - {Code.HISTORY_ROOTS}
"""What repositories from before spec 1 have in common with those since.

They need no first snapshot that all histories share: expiry in G1 leaves one for each branch.
"""
NATIVE_CODES: Final = {
    Trouble.MISSING: Code.CHUNK_MISSING,
    Trouble.SHORT: Code.CHUNK_SHORT,
}
SOURCE_CODES: Final = {
    Trouble.SHORT: Code.SOURCE_SHORT,
    Trouble.CHANGED: Code.SOURCE_CHANGED,
    Trouble.UNAUTHORIZED: Code.SOURCE_UNAUTHORIZED,
}


def fsck(
    place: Place,
    *,
    refs: Sequence[str] | None = None,
    ancestors: bool = True,
    deep: bool = False,
    virtual: bool = False,
    max_findings: int = MAX_FINDINGS,
    limits: WalkLimits | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check that a repository keeps every rule of the format.

    Args:
        place: an open repository, or the storage of one, which may be too damaged to open.
        refs: branches, tags and snapshot ids whose history is checked; None means everything.
        ancestors: False checks only what refs point to, not what that descends from.
        deep: decode every chunk.
        virtual: ask the sources of virtual chunks, which must be authorised.
        max_findings: how many are told in full; the rest is counted.
        limits: what may be in memory at one time.
        progress: is told how far the work is.

    Raises:
        RepositoryNotFoundError: there is nothing of a repository.
        RefNotFoundError: a ref does not exist.
    """
    context = open_anyway(place)
    report = Report(spec=context.generation.spec, limit=max_findings, rules=rules_of(context))
    run = _Run(context, report, limits or WalkLimits(), progress or (lambda *_: None))
    history, findings = read_history(context)
    report.record(findings)
    wanted = wanted_snapshots(history, refs, ancestors=ancestors)
    report.record(check_history(history, wanted))
    uses = run.snapshots(history.links(wanted), deep=deep)
    run.manifests(uses, deep=deep, virtual=virtual)
    run.objects(sorted(wanted), virtual=virtual)
    if refs is None and ancestors:
        run.leftovers(wanted, history, uses)
    if deep and context.generation.dialect is None:
        run.uncovered()
    return report


def rules_of(context: Context) -> Set[Code]:
    """The rules that a repository must keep; one from before spec 1 is seen in the form of it."""
    return RULES.keys() if context.generation.dialect is None else OLD_RULES


def read_history(context: Context) -> tuple[History, list[Finding]]:
    """What a repository begins with, and what is wrong with it."""
    storage = context.storage
    match context.refs:
        case RepoObjectRefs():
            return _read_repo(storage)
        case RefFileRefs():
            refs = read_ref_files(storage)
            found = [*refs.findings, *check_config_file(storage)]
            return file_history(read_file_history(storage), refs.branches, refs.tags), found
        case _:
            return _read_old_refs(context)


def _read_old_refs(context: Context) -> tuple[History, list[Finding]]:
    """The refs of a repository from before spec 1."""
    try:
        branches, tags = context.refs.branches(), context.refs.tags()
    except FormatError as error:
        return _all_files(context.storage, spec=1), [Finding(Code.REF_DAMAGED, "refs", str(error))]
    past = read_file_history(context.storage)
    return file_history(past, branches, tags, has_logs=False), []


def _read_repo(storage: Storage) -> tuple[History, list[Finding]]:
    blob = storage.get(REPO_KEY)
    if blob is None:
        info, found = None, [Finding(Code.ENTRY_MISSING, REPO_KEY)]
    else:
        info, found = read_repo(blob)
    if info is None:
        return _all_files(storage, spec=2), found
    found += [*check_backups(storage, info), *check_leftovers(storage)]
    return listed_history(info), found


def _all_files(storage: Storage, *, spec: int) -> History:
    """Every snapshot file, readable or not, where nothing tells which ones are needed."""
    known = file_history(read_file_history(storage), {}, {}, spec=spec, is_known=False)
    start = len(SNAPSHOTS)
    names = (item.key[start:] for item in storage.list(SNAPSHOTS))
    listed = {SnapshotId.parse(name): None for name in names if ID_NAME.fullmatch(name)}
    return replace(known, parents={**listed, **known.parents})


def wanted_snapshots(
    history: History, refs: Sequence[str] | None, *, ancestors: bool
) -> set[SnapshotId]:
    """The snapshots to check: all that is listed, or that refs lead to, or what was asked for."""
    if refs is not None or not ancestors:
        chosen = [*history.refs.values()] if refs is None else history.chosen(refs)
        return history.reached(chosen) if ancestors else set(chosen)
    reached = history.reached(history.refs.values())
    if history.entries:
        return reached | history.entries.keys()
    return reached if history.is_known else set(history.parents)


# --- one snapshot, one manifest ---


@dataclass(slots=True)
class SnapshotAnswer:
    """What was found in a snapshot and its log, and the manifests it uses."""

    findings: list[Finding] = field(default_factory=list)
    uses: list[tuple[ManifestId, Use]] = field(default_factory=list)
    files: tuple[ManifestFile, ...] = ()
    is_readable: bool = False
    has_log: bool = False


def check_snapshot(files: Files, link: Link, *, deep: bool) -> SnapshotAnswer:
    """Check a snapshot, its log, and that the log tells all that changed."""
    answer = SnapshotAnswer()
    read = files.snapshot(link.id)
    snapshot = None
    if read is None:
        code = Code.SNAPSHOT_MISSING if link.is_needed else Code.SNAPSHOT_GONE
        answer.findings.append(Finding(code, snapshot_key(link.id)))
    else:
        answer.findings += check_snapshot_file(link.id, read)
        snapshot = read.content
    if snapshot is not None:
        answer.findings += _against_entry(link, snapshot)
        answer.uses += uses_of(snapshot, documents=deep)
        answer.files = snapshot.manifest_files
        answer.is_readable = True
    spec = 0 if read is None else read.spec
    answer.has_log = _check_log(files, link, snapshot, spec, answer.findings)
    return answer


def _against_entry(link: Link, snapshot: Snapshot) -> Iterator[Finding]:
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
    """Metadata without what expiry adds to the entry of a snapshot that it gives another parent."""
    return {name: value for name, value in metadata.items() if name != CARRIED}


def _check_log(
    files: Files, link: Link, snapshot: Snapshot | None, spec: int, findings: list[Finding]
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
    # Expiry in version 1 makes a snapshot the child of the first one, and tells nobody. What is
    # expired after an upgrade hands its logs on, which then begin where those of version 1 did.
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
    files: Files, link: Link, findings: list[Finding]
) -> tuple[list[TransactionLog], bool, bool]:
    """The logs of ancestors that were cut out: all of them? and are there some of version 1?"""
    logs: list[TransactionLog] = []
    was_version_1 = False
    for one in link.pruned:
        read = files.log(one)
        if read is None:
            told = f"{snapshot_key(link.id)} has taken it over"
            findings.append(Finding(Code.LOG_PRUNED_MISSING, log_key(one), told))
        elif read.content is None:
            findings += read.findings
        else:
            logs.append(read.content)
            was_version_1 |= read.spec == 1
    return logs, len(logs) == len(link.pruned), was_version_1


# --- all of them ---


@dataclass(slots=True, eq=False)
class _Run:
    """One check while it runs."""

    context: Context
    report: Report
    limits: WalkLimits
    tell: Callable[[str, int, int], None]
    files: Files = field(init=False)
    sizes: dict[ManifestId, ManifestFile] = field(default_factory=dict)
    native: RowSet = field(default_factory=RowSet)
    is_readable: bool = True
    """whether everything that may refer to chunks could be read"""

    def __post_init__(self) -> None:
        self.files = Files(self.context.storage)

    def snapshots(self, links: Sequence[Link], *, deep: bool) -> Uses:
        """Check snapshots and their logs; return how they use manifests."""
        uses: Uses = {}
        work = partial(check_snapshot, self.files, deep=deep)
        for group in portions(links, self.limits.max_snapshots_in_memory):
            for answer in fan_out(work, group):
                self.report.record(answer.findings)
                self.report.snapshots += 1
                self.report.logs += answer.has_log
                self.is_readable &= answer.is_readable
                self.sizes.update((file.id, file) for file in answer.files)
                for manifest_id, use in answer.uses:
                    uses.setdefault(manifest_id, set()).add(use)
            self.tell("snapshots", self.report.snapshots, len(links))
        return uses

    def manifests(self, uses: Uses, *, deep: bool, virtual: bool) -> None:
        """Check manifests, and decode their chunks if that is wanted."""
        unknown = uses.keys() - self.sizes.keys()
        wanted = [*self.sizes.values(), *(ManifestFile(one, 0, 0) for one in unknown)]
        for group in portions_by_size(wanted, self.limits):
            for findings, ids in fan_out(partial(self._manifest, uses), group):
                self.report.record(findings)
                self.report.manifests += 1
                self.is_readable &= ids is not None
                if ids is not None:
                    self.native.add(ids)
            if deep:
                for file in group:
                    self._decode(file.id, uses.get(file.id, set()), virtual=virtual)
            self.tell("manifests", self.report.manifests, len(wanted))

    def _manifest(self, uses: Uses, file: ManifestFile) -> tuple[list[Finding], U8 | None]:
        read = self.files.manifest(file.id)
        found = check_manifest_file(file.id, read, uses.get(file.id, ()), self.context.containers)
        if read is None or read.content is None:
            return [*found], None
        ids = RowSet()
        for _, table in read.content.tables():
            ids.add(native_needs(table)[0])
        return [*found], ids.rows()

    def _decode(self, manifest_id: ManifestId, uses: set[Use], *, virtual: bool) -> None:
        done = decode_chunks(self.context, self.files, manifest_id, uses, virtual=virtual)
        self.report.decoded_chunks += done.chunks
        for path, size in done.unchecked.items():
            self.report.leave_unchecked(f"chunks of {path}", size)
        self.report.record(done.findings)

    def uncovered(self) -> None:
        """Tell how many bytes of metadata no checksum covers."""
        for key, size in self.files.unchecked.items():
            self.report.leave_unchecked(key.partition("/")[0], size)
        for key in (REPO_KEY, CONFIG_KEY):
            blob = self.context.storage.get(key)
            is_sealed = key == REPO_KEY and blob is not None
            if blob is not None and not (is_sealed and has_checksum(blob[HEADER.size :])):
                self.report.leave_unchecked(key, len(blob))

    def objects(self, snapshots: Sequence[SnapshotId], *, virtual: bool) -> None:
        """Check that chunk objects, and sources if that is wanted, have what references need."""
        found = verify_references(
            self.context,
            snapshots=snapshots,
            virtual=virtual,
            limits=self.limits,
            progress=self.tell,
        )
        report = self.report
        report.native_references = found.native_references
        report.native_objects = found.native_objects
        report.virtual_references = found.virtual_references
        report.virtual_sources = found.virtual_sources
        for one in found.findings:
            if one.target.startswith((SNAPSHOTS, MANIFESTS)):
                continue  # told already
            is_native = one.target.startswith(CHUNKS)
            codes = NATIVE_CODES if is_native else SOURCE_CODES
            code = codes.get(one.trouble, Code.SOURCE_UNREADABLE)
            finding = Finding(code, one.target, one.detail, one.path, one.chunks, one.references)
            report.record([finding])

    def leftovers(self, snapshots: set[SnapshotId], history: History, uses: Uses) -> None:
        """Count what nothing refers to; needs everything to be readable."""
        storage, pruned = self.context.storage, set[SnapshotId]()
        for entry in history.entries.values():
            pruned.update(entry.pruned_ancestor_tx_logs)
        self.report.record(_stray_names(storage))
        if not self.is_readable or not history.is_known:
            return
        kept: dict[str, Iterable[bytes] | RowSet] = {
            SNAPSHOTS: snapshots,
            LOGS: snapshots | pruned,
            MANIFESTS: self.sizes.keys() | uses.keys(),
            CHUNKS: self.native,
        }
        for folder, needed in kept.items():
            if isinstance(needed, RowSet):
                rows = needed
            else:
                rows = RowSet()
                rows.add_ids(needed)
            rest = list_older(storage, folder, ALL).without(rows)
            self.report.unreferenced[folder.rstrip("/")] = len(rest)
            self.report.unreferenced_bytes += rest.size_bytes
            if len(rest):
                told = f"{len(rest)} objects with {rest.size_bytes} bytes"
                self.report.record([Finding(Code.UNREFERENCED, folder, told, references=len(rest))])


def _stray_names(storage: Storage) -> Iterator[Finding]:
    for folder in NAMED:
        told = 0
        for item in storage.list(folder):
            if not ID_NAME.fullmatch(item.key[len(folder) :]):
                yield Finding(Code.STRAY_NAME, item.key)
                told += 1
                if told == STRAY_NAMES:
                    break
