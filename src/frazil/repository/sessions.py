"""Sessions of a repository: to read a snapshot, to change a branch, to move nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from frazil.async_twins import async_twin
from frazil.commit.by_repo_object import require_moves
from frazil.errors import ErrorKind, InvalidInputError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.model.history import to_micros
from frazil.model.values import CommitMethod, ConflictSolver, SessionMode
from frazil.repository.history import HistoryMethods
from frazil.session import Session
from frazil.tip import Tip, require_writable, tip_of
from frazil.transaction.preload import start_preload, tip_with_snapshot

if TYPE_CHECKING:
    from frazil.store import FrazilStore


class SessionMethods(HistoryMethods):
    """Methods that make sessions."""

    _session_class: ClassVar[type[Session]] = Session

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session:
        """A session to read a snapshot: of a branch (perhaps at an earlier time), a tag or an id.

        Raises:
            SnapshotNotFoundError: no snapshot there, or none so early.
        """
        if as_of is not None and branch is None:
            raise ValueError("as_of is only allowed together with a branch")
        if branch is not None and as_of is None and tag is None and snapshot_id is None:
            found = self._tip(branch, self._context.refs.branch_tip)
        else:
            found = self._selected(branch, tag, snapshot_id)
        if as_of is not None:
            found = self._at_time(found, as_of)
        self._context.refs.require_known(found)
        session = self._session_class(self._context, found)
        start_preload(session.state)
        return session

    def tip(self, branch: str, *, snapshot_id: str | None = None) -> Tip:
        """The present tip of a branch, for jobs that plan first and write later.

        Plan with its `readonly_session` and write with its `writable_session`: both are at the
        same snapshot, so that the commit notices what others committed in between. With
        `writable_session(branch)` after planning it could not.

        Args:
            branch: the branch to look at and to commit to.
            snapshot_id: where it was, for a plan that was made elsewhere.

        Raises:
            RefNotFoundError: there is no such branch.
        """
        return tip_of(self._context, branch, snapshot_id)

    def writable_session(self, branch: str) -> Session:
        """A session to change a branch."""
        return self._session(branch, SessionMode.writable)

    def rearrange_session(self, branch: str) -> Session:
        """A session to move nodes of a branch."""
        generation = self._context.generation
        if not generation.moves_nodes:
            raise generation.lacks("moving nodes")
        session = self._session(branch, SessionMode.rearrange)
        require_moves(self._context.refs)
        return session

    def _session(self, branch: str, mode: SessionMode) -> Session:
        require_writable(self._context)
        tip = self._tip(branch, self._context.refs.writable_tip)
        session = self._session_class(self._context, tip, branch=branch, mode=mode)
        start_preload(session.state)
        return session

    def _tip(self, branch: str, ask: Callable[[str], SnapshotId]) -> SnapshotId:
        return tip_with_snapshot(self._context, branch, lambda: ask(branch))

    @contextlib.contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
    ) -> Iterator[FrazilStore]:
        """A store to write to; leaving the block without an error commits."""
        session = self.writable_session(branch)
        yield session.store
        session.commit(message, metadata, rebase_with=rebase_with, rebase_tries=rebase_tries)

    def rewrite_manifests(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        """Build the manifests of a branch anew by the present settings, in a commit."""
        if commit_method not in ("new_commit", "amend"):
            raise InvalidInputError(
                f"commit_method must be 'new_commit' or 'amend', not {commit_method!r}",
                kind=ErrorKind.INVALID_COMMIT_CONFIGURATION,
            )
        session = self.writable_session(branch)
        return session.rewrite_manifests(message, metadata, amend=commit_method == "amend")

    def _at_time(self, tip: SnapshotId, as_of: datetime) -> SnapshotId:
        if as_of.tzinfo is None:
            raise ValueError("as_of needs a time zone")
        found = self._context.refs.last_before(tip, to_micros(as_of))
        if found is not None:
            return found
        raise SnapshotNotFoundError(
            f"no snapshot as early as {as_of.isoformat()}", kind=ErrorKind.NO_SNAPSHOT_AT_TIME
        )

    readonly_session_async = async_twin(readonly_session)
    tip_async = async_twin(tip)
    writable_session_async = async_twin(writable_session)
    rearrange_session_async = async_twin(rearrange_session)
    rewrite_manifests_async = async_twin(rewrite_manifests)
