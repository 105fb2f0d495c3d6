"""Turns two versions and their base into a commit: what merge, cherry-pick and revert share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from frazil.arrays import U32
from frazil.commit.by_repo_object import require_moves
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    MergeConflictError,
    RefNotFoundError,
)
from frazil.formats.zarr_meta import parse_node
from frazil.ids import SnapshotId
from frazil.merging.policies import FAIL, Decide, Policy
from frazil.merging.records import (
    ChangeCounts,
    MergeConflict,
    MergeReport,
    MergeStatus,
    conflicts_summary,
)
from frazil.merging.states import StoredState
from frazil.merging.three_way import (
    MergedNode,
    MergeInputs,
    MergeResult,
    dimension_names_of,
    merge_states,
    shape_of,
)
from frazil.model.marks import Marks, with_marks
from frazil.model.nodes import ArrayNode, Node
from frazil.model.plain import JSON
from frazil.model.values import SessionMode
from frazil.session import Session
from frazil.tip import require_writable
from frazil.transaction.changeset import ArrayData, ChangeSet, GroupData, ReadyManifests
from frazil.transaction.context import Context
from frazil.transaction.draft import summarise

FastForward: TypeAlias = bool | Literal["only"]
"""True: where possible; False: always a merge commit; only: nothing else."""
TRIES: Final = 10
"""How often something is worked out anew because the branch moved meanwhile."""
_MOVED: Final = (ErrorKind.COMMIT_CONFLICT, ErrorKind.BRANCH_UPDATE_CONFLICT)


@dataclass(frozen=True, slots=True, eq=False)
class MergeOptions:
    """What the caller of a merge, cherry-pick, revert, squash or fast-forward said."""

    message: str | None = None
    metadata: Mapping[str, Any] | None = None
    dry_run: bool = False
    policy: Policy = FAIL
    ff: FastForward = True
    base: SnapshotId | None = None
    """what to compare with, instead of what history says"""
    source_name: str | None = None
    """what the default message calls the source"""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCommit:
    """A commit that can be made."""

    changes: ChangeSet
    counts: ChangeCounts
    conflicts: tuple[MergeConflict, ...]

    @property
    def is_open(self) -> bool:
        """Whether conflicts are left."""
        return any(each.resolution is None for each in self.conflicts)


@dataclass(frozen=True, slots=True, eq=False)
class ReportSubject:
    """What the report of one attempt says in any case."""

    operation: str
    branch: str
    source: SnapshotId
    ours: SnapshotId
    """the tip of the branch"""
    bases: tuple[SnapshotId, ...]
    options: MergeOptions

    def report(
        self,
        status: MergeStatus,
        snapshot_id: SnapshotId | str | None = None,
        planned: PlannedCommit | None = None,
    ) -> MergeReport:
        """The report of how it ended."""
        return MergeReport(
            operation=self.operation,
            status=status,
            branch=self.branch,
            source=str(self.source),
            previous_snapshot_id=str(self.ours),
            snapshot_id=None if snapshot_id is None else str(snapshot_id),
            bases=tuple(map(str, self.bases)),
            conflicts=() if planned is None else planned.conflicts,
            changes=ChangeCounts() if planned is None else planned.counts,
            dry_run=self.options.dry_run,
        )


def require_ability(context: Context, action: str, *, dry_run: bool) -> None:
    """Refuse what this repository cannot do.

    Raises:
        FormatError: it is of a generation before spec 1.
        ReadOnlyError: it takes no changes.
    """
    if not context.generation.keeps_documents:
        raise FormatError(
            f"cannot {action} in a repository of {context.generation.title}; upgrade it first",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    if not dry_run:
        require_writable(context, action)


def tip_to_change(context: Context, branch: str) -> SnapshotId:
    """The tip of a branch that is to be changed.

    Raises:
        InvalidInputError: it is a tag.
        RefNotFoundError: there is no such branch.
    """
    try:
        return context.refs.branch_tip(branch)
    except RefNotFoundError:
        if branch in context.refs.tags():
            raise InvalidInputError(
                f"{branch!r} is a tag, and tags never move; name a branch",
                kind=ErrorKind.INVALID_REF_TYPE,
            ) from None
        raise


def plan(context: Context, sides: MergeInputs, decide: Decide) -> PlannedCommit:
    """Work out what a three-way merge changes on our side."""
    merged = merge_states(sides, decide)
    if any(each.resolution is None for each in merged.conflicts):
        return PlannedCommit(ChangeSet(), ChangeCounts(), merged.conflicts)
    assert isinstance(sides.theirs, StoredState)
    changes = change_set(merged, sides.theirs, spec=context.generation.spec)
    log = summarise(changes, sides.theirs.snapshot_id)
    counts = ChangeCounts.of(log, {each.id: each.path for each in merged.nodes})
    return PlannedCommit(changes, counts, merged.conflicts)


def finish(
    context: Context,
    subject: ReportSubject,
    planned: PlannedCommit,
    message: str,
    origin: Mapping[str, JSON],
    marks: Marks,
) -> MergeReport:
    """Make a planned commit on the branch, if it still is where it was, and report it.

    `marks` are those of the work that it brings to the branch.
    """
    if planned.is_open:
        return subject.report(MergeStatus.CONFLICTS, planned=planned)
    if planned.changes.moves:
        require_moves(context.refs)
    if subject.options.dry_run:
        return subject.report(MergeStatus.COMMITTED, planned=planned)
    session = Session(
        context,
        subject.ours,
        branch=subject.branch,
        mode=SessionMode.writable,
        changes=planned.changes,
    )
    metadata = with_marks({**(subject.options.metadata or {}), **origin}, marks)
    made = session.commit(message, metadata, allow_empty=True)
    return subject.report(MergeStatus.COMMITTED, made, planned)


def until_still(attempt: Callable[[], MergeReport]) -> MergeReport:
    """Try until the branch has not moved meanwhile."""
    for number in range(1, TRIES + 1):
        try:
            return replace(attempt(), attempts=number)
        except ConflictError as error:
            if error.kind not in _MOVED or number == TRIES:
                raise
    raise AssertionError("the last attempt returns or raises")


def settled(report: MergeReport) -> MergeReport:
    """A report, unless conflicts are left and it was no dry run."""
    if report.status != MergeStatus.CONFLICTS or report.dry_run:
        return report
    left = report.unresolved
    raise MergeConflictError(
        f"{report.operation} into branch {report.branch!r} stopped, nothing was changed: "
        f"{len(left)} conflict{'s' if len(left) != 1 else ''} ({conflicts_summary(left)})",
        report,
    )


# --- from a merged result to the change set that makes it of our side ---


def change_set(merged: MergeResult, theirs: StoredState, *, spec: int) -> ChangeSet:
    """The changes that turn our side into the result: references go along, bytes of chunks stay.

    Raises:
        InvalidInputError: a document of theirs cannot be stored with this spec.
    """
    changes = ChangeSet(sources={theirs.snapshot_id})
    for node in merged.gone:
        changes.delete(node)
    for each in merged.nodes:
        ours = each.triple.ours
        if ours is not None and ours.id == each.id:
            _update(changes, each, ours, spec)
            continue
        if ours is not None:
            changes.delete(ours)
        _create(changes, each, theirs, spec)
    return changes


def _array_data(each: MergedNode, spec: int) -> ArrayData:
    parse_node(each.document, spec=spec)
    return ArrayData(each.id, each.document, shape_of(each), dimension_names_of(each))


def _update(changes: ChangeSet, each: MergedNode, ours: Node, spec: int) -> None:
    is_array = isinstance(ours, ArrayNode)
    if each.document != ours.user_data:
        if is_array:
            changes.updated_arrays[each.id] = _array_data(each, spec)
        else:
            changes.updated_groups[each.id] = GroupData(each.id, each.document)
    if each.path != ours.path:
        changes.record_move(ours.path, each.path, each.id, is_array=is_array)
    if each.delta is not None and len(each.delta):
        chunks = changes.chunk_changes(each.id, each.delta.table.ndim)
        chunks.drop_many(each.delta.dropped)
        chunks.set_many(each.delta.table)


def _create(changes: ChangeSet, each: MergedNode, theirs: StoredState, spec: int) -> None:
    if not each.triple.is_array:
        changes.new_groups[each.path] = GroupData(each.id, each.document)
        return
    changes.new_arrays[each.path] = _array_data(each, spec)
    assert each.table is not None
    table = each.table()
    if not len(table):
        return
    ready = _ready(each, theirs, table.coords)
    if ready is None:
        changes.chunk_changes(each.id, table.ndim).set_many(table)
    else:
        changes.ready[each.id] = ready
        changes.touched = True


def _ready(each: MergedNode, theirs: StoredState, coords: U32) -> ReadyManifests | None:
    """The manifests of theirs, if they can be taken as they are."""
    if each.ready is None:
        return None
    refs = each.ready.manifests
    files = tuple(theirs.manifest_files[ref.id] for ref in refs if ref.id in theirs.manifest_files)
    return ReadyManifests(refs, files, coords) if len(files) == len(refs) else None
