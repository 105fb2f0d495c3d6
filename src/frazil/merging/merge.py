"""Merging a version into a branch, and moving a branch that only lags behind."""

from __future__ import annotations

from typing import Final

from frazil.errors import ConflictError, ErrorKind, InvalidInputError, SessionStateError
from frazil.ids import SnapshotId
from frazil.merging.applying import (
    MergeOptions,
    ReportSubject,
    finish,
    plan,
    require_ability,
    settled,
    tip_to_change,
    until_still,
)
from frazil.merging.graph import Graph
from frazil.merging.policies import Decide, decider
from frazil.merging.records import MergeReport, MergeStatus
from frazil.merging.states import MergedState, State, StoredState, logged_between
from frazil.merging.three_way import MergeInputs, merge_bases
from frazil.model.lineage import merge_metadata
from frazil.model.marks import merged_marks
from frazil.transaction.context import Context

MAX_DEPTH: Final = 32
"""Bases of bases that are merged before giving up."""


def merge(context: Context, source: SnapshotId, into: str, options: MergeOptions) -> MergeReport:
    """Merge a snapshot into a branch.

    Raises:
        MergeConflictError: both sides changed the same, and the policy does not decide.
        SessionStateError: the histories have nothing in common, or nothing that still exists.
        ConflictError: the branch kept moving, or cannot be fast-forwarded.
    """
    if options.ff not in (True, False, "only"):
        raise InvalidInputError(
            f"ff must be True, False or 'only', not {options.ff!r}", kind=ErrorKind.INVALID_OPTION
        )
    decide = decider(options.policy)
    require_ability(context, "merge", dry_run=options.dry_run)
    context.refs.entry(source)
    return settled(until_still(lambda: _merge_once(context, source, into, options, decide)))


def _merge_once(
    context: Context, source: SnapshotId, into: str, options: MergeOptions, decide: Decide
) -> MergeReport:
    ours, graph = tip_to_change(context, into), Graph(context)
    common = graph.common((ours,), (source,), strict=options.base is None)
    bases = common.bases if options.base is None else (options.base,)
    subject = ReportSubject("merge", into, source, ours, bases, options)
    if common.bases == (source,):
        return subject.report(MergeStatus.UP_TO_DATE, ours)
    is_behind = options.base is None and common.bases == (ours,)
    if is_behind and options.ff is not False and descends(context, source, ours):
        return _forward(context, subject)
    if options.ff == "only":
        raise not_forward(into, source)
    if not bases:
        raise SessionStateError(
            f"{source} and branch {into!r} have no snapshot in common",
            kind=ErrorKind.UNRELATED_HISTORIES,
        )
    planned = plan(context, _sides(context, graph, bases, ours, source), decide)
    message = options.message
    if message is None:
        message = f"merge {options.source_name or source} into {into}"
    origin = merge_metadata(ours, source, common.only_theirs)
    marks = merged_marks(graph.metadata(one) for one in common.only_theirs)
    return finish(context, subject, planned, message, origin, marks)


def _sides(
    context: Context,
    graph: Graph,
    bases: tuple[SnapshotId, ...],
    ours: SnapshotId,
    theirs: SnapshotId,
) -> MergeInputs:
    base = base_state(context, graph, bases)
    sides = (StoredState(context, ours), StoredState(context, theirs))
    if len(bases) > 1:
        return MergeInputs(base, *sides)
    logged = [logged_between(context, bases[0], tip) for tip in (ours, theirs)]
    return MergeInputs(base, *sides, *logged)


def base_state(
    context: Context, graph: Graph, bases: tuple[SnapshotId, ...], depth: int = 0
) -> State:
    """The state that several bases stand for: they are merged, by their own bases."""
    if not bases:
        return MergedState((), {})
    if depth > MAX_DEPTH:
        raise SessionStateError(
            "the histories cross each other too often to find what they have in common; name a "
            "snapshot to compare with as the base",
            kind=ErrorKind.MERGE_NOT_ALLOWED,
        )
    state: State = StoredState(context, bases[0])
    for number, one in enumerate(bases[1:], 1):
        common = graph.common(bases[:number], (one,))
        inner = base_state(context, graph, common.bases, depth + 1)
        state = merge_bases(MergeInputs(inner, state, StoredState(context, one)))
    return state


# --- fast-forward ---


def fast_forward(
    context: Context, branch: str, to: SnapshotId, *, dry_run: bool = False
) -> MergeReport:
    """Point a branch to a descendant of its tip.

    Raises:
        ConflictError: the branch has commits of its own, or kept moving.
    """
    if not dry_run:
        context.refs.require_online()

    def attempt() -> MergeReport:
        ours = tip_to_change(context, branch)
        subject = ReportSubject(
            "fast-forward", branch, to, ours, (ours,), MergeOptions(dry_run=dry_run)
        )
        if ours == to:
            return subject.report(MergeStatus.UP_TO_DATE, ours)
        if not descends(context, to, ours):
            raise not_forward(branch, to)
        return _forward(context, subject)

    context.refs.entry(to)
    return until_still(attempt)


def descends(context: Context, snapshot_id: SnapshotId, ancestor: SnapshotId) -> bool:
    """Whether parents alone lead from a snapshot to another, so that none would be left out."""
    limit = context.refs.entry(ancestor).flushed_at
    for entry in context.refs.ancestry(snapshot_id):
        if entry.id == ancestor:
            return True
        if entry.flushed_at < limit:
            return False
    return False


def not_forward(branch: str, to: SnapshotId) -> ConflictError:
    """The error for a branch that has gone its own way."""
    return ConflictError(
        message=f"branch {branch!r} cannot be fast-forwarded to {to}: it has commits of its own",
        kind=ErrorKind.NOT_FAST_FORWARD,
    )


def _forward(context: Context, subject: ReportSubject) -> MergeReport:
    if not subject.options.dry_run:
        context.refs.reset_branch(subject.branch, subject.source, subject.ours)
    return subject.report(MergeStatus.FAST_FORWARD, subject.source)
