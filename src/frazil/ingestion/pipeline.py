"""`frazil.ingest`: from files to a commit, in order: scan, compare, plan, write, publish.

Nothing is written before all files were scanned and compared, and nothing that others can see
before the one commit. Work on files goes through a `Runner`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final, Unpack

from frazil import config
from frazil.errors import ConflictError, ErrorKind, invalid_option
from frazil.ids import MAIN, SnapshotId
from frazil.ingestion import writing
from frazil.ingestion.copying import CopyResult, copies, copy, digest_safely
from frazil.ingestion.isolation import ParserLimits
from frazil.ingestion.manifests import (
    WrittenManifest,
    cells,
    covered,
    merged_manifests,
    part_of,
    table_of,
    write_cell,
)
from frazil.ingestion.names import require_variables
from frazil.ingestion.planning import plan_ingest
from frazil.ingestion.plans import Findings, IngestPlan, PlannedArray, TransferKind
from frazil.ingestion.records import (
    FileReferences,
    FileScan,
    Outcome,
    ScanFailure,
    ScanTask,
    SkippedFile,
    as_metadata,
    name_mark,
)
from frazil.ingestion.reports import IngestReport, IngestStatus, refused
from frazil.ingestion.request import FAIL, Files, IngestOptions, IngestRequest, parse_ingest
from frazil.ingestion.scan import scan, unless_known
from frazil.ingestion.sources import Allowed, display_url, expand
from frazil.ingestion.target import IngestTarget, covering, prefixes_of
from frazil.model.nodes import ArrayNode
from frazil.model.values import ConflictDetector
from frazil.progress import Progress, Tell, silent
from frazil.run import LocalRunner, Runner
from frazil.session import ForkSession, Session
from frazil.spelling import require_known
from frazil.statistics.publishing import publish_rows
from frazil.statistics.recording import Recorder
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_from_url
from frazil.transaction.forks import merge_changes
from frazil.urls import branch_in, parse_url

PLANS: Final = 10
"""How often an ingest plans while others keep committing what it relied on."""
_OVERTAKEN: Final = (
    ErrorKind.COMMIT_CONFLICT,
    ErrorKind.REBASE_FAILED,
    ErrorKind.REPO_INFO_UPDATED,
)


def run_request(
    storage: Storage,
    request: IngestRequest,
    runner: Runner,
    progress: Tell = silent,
) -> IngestReport:
    """Ingest files into the repository at a place, which is made when there is none.

    Raises:
        InvalidInputError: files do not go together, or some failed; nothing is committed then.
            The error carries the report as `report`.
    """
    return _Ingest(storage, request, runner, progress).run()


@dataclass(eq=False)
class _Ingest:
    """One ingest at work."""

    storage: Storage
    request: IngestRequest
    runner: Runner
    tell: Tell

    def __post_init__(self) -> None:
        request = self.request
        self.started = time.monotonic()
        self.findings = self._no_findings()
        self.group = "/" + request.group.strip("/") if request.group.strip("/") else ""
        # A prefix that is given for virtual chunks allows what is below it.
        given = (*request.allow, *([request.container] if request.container else []))
        self.allowed = Allowed.of(given).prefixes
        settings = config.current()
        self.limits = ParserLimits(settings.scan_seconds, settings.scan_memory_bytes)

    # --- the steps ---

    def run(self) -> IngestReport:
        """Do it, planning again when others committed what the plan does not go with."""
        urls = expand(self.request.files, self.request.source_options)
        target = self._target()
        outcomes = self._scan(urls, target.known())
        for plans_left in reversed(range(PLANS)):
            try:
                return self._carried_out(outcomes, target)
            except ConflictError as conflict:
                if conflict.kind not in _OVERTAKEN or not plans_left:
                    raise
            target = self._target()
            known = target.known()
            outcomes = [unless_known(each, known) for each in outcomes]
            self.findings = self._no_findings()
        raise AssertionError("the last attempt returns or raises")

    def _no_findings(self) -> Findings:
        return Findings(refused=self.request.refused_warnings)

    def _target(self) -> IngestTarget:
        return IngestTarget(self.storage, self.request.branch, self.group)

    def _carried_out(self, outcomes: Sequence[Outcome], target: IngestTarget) -> IngestReport:
        """Plan for what the target is now, and write it."""
        request = self.request
        scans = [each for each in outcomes if isinstance(each, FileScan)]
        failures = tuple(each for each in outcomes if isinstance(each, ScanFailure))
        skipped = tuple(each.url for each in outcomes if isinstance(each, SkippedFile))
        files = tuple(each.url for each in scans)
        report = IngestReport(IngestStatus.PLANNED, files, skipped, failures)
        if failures and (request.on_error == FAIL or not scans):
            raise refused(self._finish(report, IngestStatus.REFUSED))
        if not scans:
            return self._finish(report, IngestStatus.UNCHANGED)
        plan, base = self._plan(scans, target)
        axes = tuple((axis.name, axis.length, axis.blocks) for axis in plan.axes)
        report = replace(report, arrays=tuple(plan.arrays), axes=axes)
        if self.findings.errors:
            raise refused(self._finish(report, IngestStatus.REFUSED))
        if request.dry_run:
            return self._finish(report, IngestStatus.PLANNED)
        prefixes = self._prefixes(plan)
        session, added = target.writing(plan, base, prefixes, request.source_options)
        report = replace(report, added_containers=tuple(added))
        return self._write(session, plan, report, prefixes)

    def _finish(self, report: IngestReport, status: IngestStatus, **facts: Any) -> IngestReport:  # noqa: ANN401 - fields of the report
        seconds = time.monotonic() - self.started
        return replace(
            report, status=status, findings=tuple(self.findings.found), seconds=seconds, **facts
        )

    def _scan(self, urls: Sequence[str], known: Mapping[bytes, bytes]) -> list[Outcome]:
        request = self.request
        tasks = [
            ScanTask(
                url,
                known.get(name_mark(url)),
                request.format,
                request.source_group,
                request.load,
                request.drop,
                self.allowed,
            )
            for url in urls
        ]
        found: list[Outcome | None] = [None] * len(tasks)
        state = Progress("scanning", total=len(tasks))
        self.tell(state)
        work = partial(scan, request.source_options, self.limits)
        for number, outcome in self.runner.run(work, tasks):
            # What was packed for the way takes its full size again until it is compact.
            found[number] = outcome.compact() if isinstance(outcome, FileScan) else outcome
            state = state.plus(1, *_referred(outcome))
            self.tell(state)
        return [each for each in found if each is not None]

    def _plan(
        self, scans: Sequence[FileScan], target: IngestTarget
    ) -> tuple[IngestPlan, FileScan | None]:
        base, wanted = None, self.request.wanted
        session = target.reading()
        if session is not None:
            found = writing.read_base(session, self.group)
            if found is not None and self.request.append:
                base = found[0]
                wanted = replace(wanted, native_arrays=found[1])
            elif found is not None:
                self.findings.error(
                    "exists",
                    f"the group {self.group or '/'!r} has arrays already; append to them, or"
                    " choose another group",
                )
        require_variables((*self.request.load, *self.request.drop), scans, self.findings)
        plan = plan_ingest(scans, wanted, self.findings, base)
        self._compare_static(plan)
        return plan, base

    def _compare_static(self, plan: IngestPlan) -> None:
        """Compare the values of variables that are not joined and were not loaded by the scan."""
        if self.findings.errors:
            return
        for array in plan.arrays:
            if array.kind is TransferKind.LOADED or any(plan.axis(dim) for dim in array.dims):
                continue
            files = [n for n, each in enumerate(plan.scans) if each.get(array.name) is not None]
            if len(files) < 2:
                continue
            origins = [plan.scans[n].origin(array.name) for n in files]
            work = partial(digest_safely, self.request.source_options, self.limits)
            marks = dict(self.runner.run(work, origins))
            odd = [plan.scans[files[n]].url for n, mark in marks.items() if mark != marks[0]]
            if odd:
                detail = (
                    "the values differ from those of the first file, and no dimension of it is"
                    " joined"
                )
                self.findings.error("values", detail, odd, array.name)

    # --- writing ---

    def _write(
        self, session: Session, plan: IngestPlan, report: IngestReport, prefixes: Sequence[str]
    ) -> IngestReport:
        is_new = not plan.has_base
        self.recorder = Recorder()
        session.state.watcher = self.recorder if self.request.statistics else None
        writing.make_groups(session, self.group, plan.attributes if is_new else None)
        for array in plan.arrays:
            writing.make_array(session, self._path(array), array, plan)
        loaded_bytes = sum(
            writing.write_loaded(session, self._path(array), array, plan)
            for array in plan.arrays
            if array.kind is TransferKind.LOADED
        )
        native_chunks, native_bytes = self._copy(session, plan)
        referred = [
            self._refer(session, plan, array)
            for array in plan.arrays
            if array.kind is TransferKind.VIRTUAL
        ]
        virtual_chunks = sum(count for count, _ in referred)
        self.tell(Progress("committing"))
        facts = {
            "virtual_chunks": virtual_chunks,
            "native_chunks": native_chunks,
            **self.runner.facts(),
        }
        snapshot = self._commit(session, plan, facts)
        publish_rows(session.state.context, self.recorder.held, SnapshotId.parse(snapshot))
        return self._finish(
            report,
            IngestStatus.COMMITTED,
            snapshot_id=snapshot,
            virtual_chunks=virtual_chunks,
            native_chunks=native_chunks,
            referenced_bytes=sum(size for _, size in referred),
            copied_bytes=native_bytes + loaded_bytes,
            containers=tuple(covering(session.config, prefixes)),
        )

    def _commit(self, session: Session, plan: IngestPlan, facts: Mapping[str, object]) -> str:
        scans = plan.scans[1:] if plan.has_base else plan.scans
        metadata = as_metadata([(each.url, each.identity) for each in scans], self.group, **facts)
        where = f" into {self.group}" if self.group else ""
        named = (
            display_url(scans[0].url).rpartition("/")[2]
            if len(scans) == 1
            else f"{len(scans)} files"
        )
        message = self.request.message or f"Ingest {named}{where}"
        return session.commit(message, metadata, rebase_with=ConflictDetector())

    def _path(self, array: PlannedArray) -> str:
        return f"{self.group}/{array.name}"

    def _prefixes(self, plan: IngestPlan) -> list[str]:
        """Where references of the plan point to."""
        if self.request.container is not None:
            return [self.request.container]
        locations = dict.fromkeys(
            location
            for array in plan.arrays
            if array.kind is TransferKind.VIRTUAL
            for file in array.files
            for location in _references(plan, array, file).locations
        )
        return prefixes_of(locations)

    def _refer(self, session: Session, plan: IngestPlan, array: PlannedArray) -> tuple[int, int]:
        """Put the references of an array into the session; tell their number and bytes."""
        state = session.state
        node = state.array(self._path(array))
        count = sum(len(_references(plan, array, file)) for file in array.files)
        if array.base_shape is None and count >= self.request.refs_by_tasks:
            return self._write_manifests(session, plan, array, node)
        table = table_of([part_of(plan, array, n) for n in array.files], len(array.dims))
        table = covered(state.context, table)
        state.set_table(node, table)
        return len(table), int(table.length.sum())

    def _write_manifests(
        self, session: Session, plan: IngestPlan, array: PlannedArray, node: ArrayNode
    ) -> tuple[int, int]:
        """Let tasks write the manifests of an array, and take what they return."""
        context = session.state.context
        items = [*cells(plan, array, node, context)]
        state = Progress(f"writing manifests of {array.name}", total=len(items))
        self.tell(state)
        written: list[WrittenManifest] = []
        for _, found in self.runner.run(partial(write_cell, context), items):
            written += found
            chunks = sum(each.file.num_chunk_refs for each in found)
            state = state.plus(1, chunks, sum(each.nbytes for each in found))
            self.tell(state)
        session.state.set_manifests(node, merged_manifests(written, len(array.dims)))
        return state.chunks, state.nbytes

    def _copy(self, session: Session, plan: IngestPlan) -> tuple[int, int]:
        """Copy the values of native arrays; tell how many chunks and bytes that was."""
        items = [
            item
            for array in plan.arrays
            if array.kind is TransferKind.NATIVE
            for item in copies(plan, array, self._path(array))
        ]
        if not items:
            return 0, 0
        fork = ForkSession.with_nodes_of(session)
        state = Progress("copying", total=len(items))
        self.tell(state)
        options, statistics = self.request.source_options, self.request.statistics
        work = partial(copy, fork, options, self.limits, statistics=statistics)
        size = sum(prod(item.shape) * item.dtype.itemsize for item in items)
        for _, done in self.runner.run(work, items, size_bytes=size):
            assert isinstance(done, CopyResult)
            merge_changes(session.state.changes, done.changes)
            self.recorder.add(done.known)
            state = state.plus(1, done.chunks, done.nbytes)
            self.tell(state)
        session.state.move_base(session.state.base_id)
        return state.chunks, state.nbytes


def _referred(outcome: Outcome) -> tuple[int, int]:
    """The chunks that a file can be referred to by, and their bytes."""
    variables = outcome.variables if isinstance(outcome, FileScan) else ()
    found = [each.references for each in variables if each.references is not None]
    return sum(map(len, found)), sum(each.nbytes for each in found)


def _references(plan: IngestPlan, array: PlannedArray, file: int) -> FileReferences:
    found = plan.scans[file][array.name].references
    assert found is not None, "what is not copied has references from every file"
    return found


def ingest(
    files: Files,
    target: Storage | str | os.PathLike[str],
    *,
    runner: Runner = LocalRunner(),  # noqa: B008 - a frozen record
    progress: Tell | None = None,
    **options: Unpack[IngestOptions],
) -> IngestReport:
    """Take files into a repository in one commit, by reference or by copy.

    Files are NetCDF 3 and 4, HDF5, GRIB, TIFF, Zarr 2 and 3, or kerchunk references. They are
    joined in the order of their coordinates, along the dimensions whose coordinates differ.

    Args:
        files: paths, URLs and patterns (`data/*.nc`).
        target: the repository, which is made when there is none: `URL[@branch]` or a storage.
        runner: what scans and copies; threads of this process by default.
        progress: called now and then with how far it is.
        options: how to do it; see `IngestOptions`.

    Raises:
        InvalidInputError: files do not go together, or some failed; nothing is committed then,
            and the error has the whole report as `report`.
    """
    require_known(options, IngestOptions)
    in_url = None
    if not isinstance(target, Storage):
        place = parse_url(os.fspath(target))
        in_url = branch_in(place)
        target = storage_from_url(place.url, **(options.get("storage_options") or {}))
    request = parse_ingest(files, branch_of(in_url, options), options)
    return run_request(target, request, runner, progress or silent)


def branch_of(in_url: str | None, options: IngestOptions) -> str:
    """The branch to commit to: as an option, or as the URL names it."""
    named = options.get("branch")
    if named is not None and in_url not in (None, named):
        raise invalid_option("the branch is chosen twice, in the URL and as an argument")
    return named or in_url or MAIN
