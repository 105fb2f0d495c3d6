"""`repo.audit`: checks of what is stored, and of changes before they are published.

A check of changes runs on the committed snapshot, before the branch moves there.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from frazil.async_twins import async_twin
from frazil.commit.base import Publication, later_than
from frazil.errors import AuditFailedError, ConflictError, ErrorKind, FrazilError, InvalidInputError
from frazil.ids import SnapshotId
from frazil.model.history import Metadata
from frazil.model.values import ConflictSolver, SessionMode
from frazil.operations import Effect, VersionName, verb
from frazil.repository.checks import AuditReport, Check, CheckFunction, as_checks, run_checks
from frazil.repository.reports import Namespace
from frazil.session import Session
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.context import Context

if TYPE_CHECKING:
    from frazil.fsck.findings import Report
    from frazil.progress import Tell
    from frazil.run import Runner
    from frazil.statistics.analyzing import Analysis


KeepBranch: TypeAlias = Literal["never", "on_failure", "always"]
KEEP: Final = ("never", "on_failure", "always")
AUDIT: Final = "frazil.audit"
"""Key of commit metadata that holds the report."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Work:
    """The state of one `staged` block."""

    branch: str
    audit: str
    base: SnapshotId
    """the tip of the branch that the work builds upon"""
    session: Session
    checks: tuple[Check, ...]
    message: str
    metadata: dict[str, Any] | None
    changes: ChangeSet = field(default_factory=ChangeSet)
    """those of the session, to be rebased on another tip if necessary"""
    own: set[SnapshotId] = field(default_factory=set)
    """where this block has put the audit branch; others may have committed to it since"""


class Audit(Namespace):
    """Checks of the repository itself, and of changes before others see them."""

    @verb(Effect.READS)
    def fsck(
        self,
        *,
        refs: Sequence[str] | None = None,
        ancestors: bool = True,
        deep: bool = False,
        virtual: bool = False,
        max_findings: int = 1000,
        runner: Runner | None = None,
        progress: Tell | None = None,
    ) -> Report:
        """Check every rule of the format; `frazil.fsck.fsck` also takes what cannot be opened.

        Args:
            refs: branches, tags and snapshot ids whose history is checked; None means everything.
            ancestors: False checks only the snapshots that refs point to, not their ancestors.
            deep: decode every chunk.
            virtual: ask the sources of virtual chunks, which must be authorised.
            max_findings: how many are reported in full; the rest is counted.
            runner: where files are read; threads of this process by default.
            progress: is called with the progress so far.

        Raises:
            RefNotFoundError: a ref does not exist.
        """
        from frazil.fsck.checking import fsck

        return fsck(
            self._context,
            refs=refs,
            ancestors=ancestors,
            deep=deep,
            virtual=virtual,
            max_findings=max_findings,
            runner=runner,
            progress=progress,
        )

    @verb(Effect.READS)
    def verify(
        self,
        version: VersionName | None = None,
        *,
        virtual: bool = False,
        runner: Runner | None = None,
        progress: Tell | None = None,
    ) -> Report:
        """Check that everything a snapshot refers to exists, with enough bytes.

        Args:
            version: the snapshot to check; None means all that branches and tags reach.
            virtual: also ask whether the sources of virtual chunks changed.
            runner: where files are read; threads of this process by default.
            progress: is called with the progress so far.
        """
        from frazil.fsck.checking import verify

        chosen = None if version is None else [str(self._snapshot(version))]
        return verify(self._context, chosen, virtual=virtual, runner=runner, progress=progress)

    @verb(Effect.CHANGES)
    def analyze(
        self,
        version: VersionName = "main",
        path: str = "/",
        *,
        dry_run: bool = False,
        runner: Runner | None = None,
        progress: Tell | None = None,
    ) -> Analysis:
        """Read the chunks that have no statistics yet, and keep count, extremes, sum and checksum.

        Statistics lie beside the files of the repository and belong to the bytes of a chunk, so
        that they hold in every version that refers to these. No commit is made. Queries with a
        condition on values read fewer chunks then, and a deep check tells damaged bytes.

        Args:
            version: the snapshot whose chunks are looked at.
            path: an array, or a group above some.
            dry_run: only tell what would be read.
            runner: what has others read chunks, such as tasks of Spark.
            progress: is called with the progress so far.

        Raises:
            NodeNotFoundError: there is no node at `path`.
        """
        from frazil.statistics.analyzing import analyze

        return analyze(
            self._context,
            SnapshotId.parse(str(self._snapshot(version))),
            path,
            dry_run=dry_run,
            runner=runner,
            progress=progress,
        )

    @verb(Effect.CHANGES)
    @contextlib.contextmanager
    def staged(
        self,
        branch: str,
        checks: Iterable[Check | CheckFunction] = (),
        audit_branch: str | None = None,
        *,
        message: str = "staged changes",
        metadata: dict[str, Any] | None = None,
        keep_audit_branch: KeepBranch = "on_failure",
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 100,
    ) -> Iterator[Session]:
        """A session on an audit branch; leaving the block runs the checks and then publishes.

        What was written is committed to the audit branch, and each check gets a read-only session
        of that snapshot. When all pass, the branch is moved there if it still is where it was; the
        report is in the metadata of the commit, under `frazil.audit`, and `session.snapshot_id`
        is what was published. Otherwise the branch stays as it is. With `rebase_with` changes of
        one session are put on top of what others have published meanwhile, and checked again.

        Raises:
            AuditFailedError: a check failed; `report` tells which and why.
            ConflictError: the branch has moved, and `rebase_with` was not given.
            SessionStateError: nothing was changed.
        """
        if keep_audit_branch not in KEEP:
            raise InvalidInputError(
                f"keep_audit_branch must be one of {', '.join(KEEP)}, not {keep_audit_branch!r}",
                kind=ErrorKind.INVALID_OPTION,
            )
        chosen = as_checks(checks)
        base = self._repository.lookup_branch(branch)
        audit = audit_branch or f"audit-{branch}-{secrets.token_hex(4)}"
        self._repository.create_branch(audit, base)
        own = {SnapshotId.parse(base)}
        try:
            session = self._repository.writable_session(audit)
            work = _Work(
                branch, audit, SnapshotId.parse(base), session, chosen, message, metadata, own=own
            )
            yield session
            work.changes = session.state.changes
            _publish(self._context, work, rebase_with, rebase_tries)
        except BaseException as error:
            self._clean_up(audit, base, own, keep_audit_branch, error)
            raise
        self._clean_up(audit, base, own, keep_audit_branch, None)

    def _clean_up(
        self,
        audit: str,
        base: str,
        own: set[SnapshotId],
        keep: KeepBranch,
        error: BaseException | None,
    ) -> None:
        """Delete the audit branch, unless it shall be kept; a failure is not an error.

        If others have committed to it, it stays: these commits are nowhere else.
        """
        try:
            tip = self._context.refs.branches().get(audit)
            is_needed = error is not None and tip != SnapshotId.parse(base)
            keeps = keep == "always" or (keep == "on_failure" and is_needed)
            if tip is not None and not keeps:
                if tip not in own:
                    raise ConflictError(
                        message="others have committed to it", actual_parent=str(tip)
                    )
                self._context.refs.delete_branch(audit, tip)
        except FrazilError as failure:
            left = f"the audit branch {audit!r} could not be cleaned up: {failure}"
            if error is not None:
                error.add_note(left)
            else:
                log.warning("published, but %s; delete it by hand", left)

    fsck_async = async_twin(fsck)
    verify_async = async_twin(verify)
    analyze_async = async_twin(analyze)


def _publish(context: Context, work: _Work, solver: ConflictSolver | None, tries: int) -> None:
    """Commit, check and move the branch; again on a newer tip where that is wanted."""
    session = work.session
    for attempt in range(tries + 1):
        tip = context.refs.branch_tip(work.audit)
        # Others may have committed to the audit branch in sessions of their own.
        if session.branch is not None and (session.has_uncommitted_changes or tip == work.base):
            tip = SnapshotId.parse(session.commit(work.message, work.metadata))
            work.own.add(tip)
        report = run_checks(Session(context, tip), work.checks)
        labelled = _labelled(context, work.audit, tip, {AUDIT: report.as_metadata()})
        work.own.add(labelled)
        if session.state.base_id == tip:
            session.state.move_base(labelled)
        if not report.passed:
            raise _failure(report, work)
        try:
            _fast_forward(context, work, labelled)
        except ConflictError:
            if solver is None or attempt == tries or session.state.base_id != labelled:
                raise
        else:
            work.session.state.move_base(session.state.base_id)
            return
        session = _moved_on(context, work, labelled, solver)


def _failure(report: AuditReport, work: _Work) -> AuditFailedError:
    detail = "; ".join(f"{each.name}: {each.message}" for each in report.failed)
    error = AuditFailedError(
        f"not published to {work.branch!r}: {len(report.failed)} of {len(report.results)} checks "
        f"failed: {detail}",
        audit_branch=work.audit,
    )
    error.report = report
    return error


def _fast_forward(context: Context, work: _Work, target: SnapshotId) -> None:
    if all(entry.id != work.base for entry in context.refs.ancestry(target)):
        raise ConflictError(
            message=f"the audit branch {work.audit!r} does not build upon branch {work.branch!r} "
            "any more, so that it cannot be published",
            kind=ErrorKind.BRANCH_UPDATE_CONFLICT,
        )
    context.refs.reset_branch(work.branch, target, work.base)


def _moved_on(
    context: Context, work: _Work, labelled: SnapshotId, solver: ConflictSolver
) -> Session:
    """The changes again, rebased on the present tip of the branch.

    The audit branch goes there last: if the changes conflict, it still has them.
    """
    ahead = Session(
        context, work.base, branch=work.branch, mode=SessionMode.writable, changes=work.changes
    )
    ahead.state.reliance = work.session.state.reliance
    ahead.rebase(solver)
    tip = ahead.state.base_id
    context.refs.reset_branch(work.audit, tip, labelled)
    work.own.add(tip)
    work.base, work.changes = tip, ahead.state.changes
    session = Session(
        context, tip, branch=work.audit, mode=SessionMode.writable, changes=work.changes
    )
    session.state.reliance = ahead.state.reliance
    return session


def _labelled(context: Context, branch: str, tip: SnapshotId, metadata: Metadata) -> SnapshotId:
    """Replace the tip of a branch by the same snapshot with more metadata."""
    old, entry = context.assets.snapshot(tip), context.refs.entry(tip)
    new = replace(
        old,
        id=SnapshotId.random(),
        flushed_at=later_than(old.flushed_at),
        metadata={**entry.metadata, **metadata},
    )
    log = context.assets.log(tip)
    keys = [context.assets.save_snapshot(new)]
    if log is not None:
        keys.append(context.assets.save_log(replace(log, id=new.id)))
    context.assets.make_durable(keys)
    made = replace(entry, id=new.id, flushed_at=new.flushed_at, metadata=new.metadata)
    if context.generation.repo_object:
        context.refs.publish(Publication(branch, tip, made, amends=True))
    else:
        context.refs.register_detached(made)
        context.refs.reset_branch(branch, new.id, tip)
    return new.id
