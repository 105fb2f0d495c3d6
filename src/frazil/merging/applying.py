"""From sides to a commit: the steps that merge, cherry-pick and revert share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from frazil.commit.by_repo_object import require_moves
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    MergeConflictError,
    RefNotFoundError,
)
from frazil.ids import SnapshotId
from frazil.merging.changes import change_set, counts_of
from frazil.merging.policies import Decide
from frazil.merging.records import ChangeCounts, MergeConflict, MergeReport, MergeStatus, summary_of
from frazil.merging.states import StoredState
from frazil.merging.three_way import Sides, merge_states
from frazil.model.marks import Marks, with_marks
from frazil.model.plain import JSON
from frazil.model.values import SessionMode
from frazil.session import Session
from frazil.tip import require_writable
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.context import Context

TRIES: Final = 10
"""How often something is worked out anew because the branch moved meanwhile."""
_MOVED: Final = (ErrorKind.COMMIT_CONFLICT, ErrorKind.BRANCH_UPDATE_CONFLICT)


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What the caller of an operation said about its commit."""

    message: str | None = None
    metadata: Mapping[str, Any] | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A commit that can be made."""

    changes: ChangeSet
    counts: ChangeCounts
    conflicts: tuple[MergeConflict, ...]

    @property
    def is_open(self) -> bool:
        """Whether conflicts are left."""
        return any(each.resolution is None for each in self.conflicts)


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What the report of one attempt says in any case."""

    operation: str
    branch: str
    source: SnapshotId
    ours: SnapshotId
    """the tip of the branch"""
    bases: tuple[SnapshotId, ...]
    wish: Wish

    def report(
        self,
        status: MergeStatus,
        snapshot_id: SnapshotId | str | None = None,
        planned: Planned | None = None,
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
            dry_run=self.wish.dry_run,
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


def tip_of(context: Context, branch: str) -> SnapshotId:
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


def plan(context: Context, sides: Sides, decide: Decide) -> Planned:
    """Work out what a three-way merge changes on our side."""
    merged = merge_states(sides, decide)
    if any(each.resolution is None for each in merged.conflicts):
        return Planned(ChangeSet(), ChangeCounts(), merged.conflicts)
    assert isinstance(sides.theirs, StoredState)
    changes = change_set(merged, sides.theirs, spec=context.generation.spec)
    return Planned(changes, counts_of(changes, merged), merged.conflicts)


def finish(
    context: Context,
    subject: Subject,
    planned: Planned,
    message: str,
    origin: Mapping[str, JSON],
    marks: Marks,
) -> MergeReport:
    """Make a planned commit on the branch, if it still is where it was, and report it.

    `marks` are those of the work that it brings to the branch.

    Raises:
        ConflictError: it is not.
    """
    if planned.is_open:
        return subject.report(MergeStatus.CONFLICTS, planned=planned)
    if planned.changes.moves:
        require_moves(context.refs)
    if subject.wish.dry_run:
        return subject.report(MergeStatus.COMMITTED, planned=planned)
    session = Session(
        context,
        subject.ours,
        branch=subject.branch,
        mode=SessionMode.writable,
        changes=planned.changes,
    )
    metadata = with_marks({**(subject.wish.metadata or {}), **origin}, marks)
    made = session.commit(message, metadata, allow_empty=True)
    return subject.report(MergeStatus.COMMITTED, made, planned)


def until_still(attempt: Callable[[], MergeReport]) -> MergeReport:
    """Try until the branch has not moved meanwhile.

    Raises:
        ConflictError: it kept moving.
    """
    for number in range(1, TRIES + 1):
        try:
            return replace(attempt(), attempts=number)
        except ConflictError as error:
            if error.kind not in _MOVED or number == TRIES:
                raise
    raise AssertionError("the last attempt returns or raises")


def settled(report: MergeReport) -> MergeReport:
    """A report, unless conflicts are left and it was no dry run.

    Raises:
        MergeConflictError: there are.
    """
    if report.status != MergeStatus.CONFLICTS or report.dry_run:
        return report
    left = report.unresolved
    raise MergeConflictError(
        f"{report.operation} into branch {report.branch!r} stopped, nothing was changed: "
        f"{len(left)} conflict{'s' if len(left) != 1 else ''} ({summary_of(left)})",
        report,
    )
