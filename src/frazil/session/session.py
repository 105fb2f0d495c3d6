"""Sessions: a view of one snapshot, and the transaction that makes the next one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from frazil.async_twins import async_twin
from frazil.commit.base import stand_back
from frazil.commit.by_repo_object import require_moves
from frazil.errors import ConflictError, ErrorKind, ReadOnlyError, SessionStateError
from frazil.ids import SnapshotId, node_path
from frazil.model.values import ConflictSolver, SessionMode
from frazil.session.view import SnapshotView, from_root
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.committing import NodeIds, Saved, commit_metadata, save
from frazil.transaction.context import Context
from frazil.transaction.forks import merge_state
from frazil.transaction.long_open import require_chunks
from frazil.transaction.moving import check_move, reindex_array, shift_array
from frazil.transaction.publishing import Publisher
from frazil.transaction.rebasing import rebase
from frazil.transaction.reliance import Reliance
from frazil.transaction.working import rearranges_only

NO_NUMBERS: Final[NodeIds] = {}


class Session(SnapshotView):
    """A view of one snapshot, with the changes made to it since.

    Sessions come from `Repository.readonly_session`, `writable_session` and
    `rearrange_session`. After a commit the session is read-only, at the new snapshot.
    """

    _shown_name = "session.Session"
    is_fork: ClassVar[bool] = False
    origins: NodeIds = NO_NUMBERS
    """of nodes that a fork knows by numbers: their ids in the session the fork came from"""

    def __init__(
        self,
        context: Context,
        base: SnapshotId,
        *,
        branch: str | None = None,
        mode: SessionMode = SessionMode.readonly,
        changes: ChangeSet | None = None,
    ) -> None:
        super().__init__(context, base, branch=branch, mode=mode, changes=changes)
        self._publisher = Publisher(self.state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._publisher = Publisher(self.state)

    # --- changing ---

    def discard_changes(self) -> None:
        """Forget every uncommitted change."""
        self.state.discard()

    def move(self, from_path: str, to_path: str) -> None:
        """Give a node, with everything below it, another path; needs a rearrange session."""
        if self.read_only:
            raise ReadOnlyError("a read-only session cannot move nodes")
        if self._mode != SessionMode.rearrange:
            raise SessionStateError(
                "nodes can only be moved in a session of Repository.rearrange_session",
                kind=ErrorKind.NON_REARRANGE_SESSION,
            )
        source, target = node_path(from_path), node_path(to_path)
        check_move(self.state.tree, source, target)
        self.state.move_node(source, target)

    def shift_array(self, array_path: str, chunk_offset: Iterable[int]) -> None:
        """Move all chunks of an array by an offset in chunks; no data is copied."""
        node = self.state.array(node_path(from_root(array_path)))
        shift_array(self.state, node, [int(step) for step in chunk_offset])

    def reindex_array(
        self,
        array_path: str,
        forward: Callable[[list[int]], Iterable[int] | None],
        backward: Callable[[list[int]], Iterable[int] | None] | None = None,
    ) -> None:
        """Move all chunks of an array to where `forward` says; no data is copied."""
        node = self.state.array(node_path(from_root(array_path)))
        reindex_array(self.state, node, forward, backward)

    def rely_on(self, *paths: str, values: bool = True) -> None:
        """Declare nodes that this session has read and that must not change before the commit.

        It is then a conflict if another commit has changed, deleted or created a node at one of
        these paths, although this session does not write it.

        Args:
            paths: paths of arrays or groups, also of nodes that do not exist.
            values: whether the chunks of arrays matter, and not only their metadata.
        """
        chosen = frozenset(node_path(from_root(path)) for path in paths)
        relied = Reliance(values=chosen) if values else Reliance(nodes=chosen)
        self.state.reliance |= relied

    def rely_on_dimensions(self, group: str, *dims: str, members: bool = False) -> None:
        """Declare dimensions of a group whose lengths must not change before the commit.

        Args:
            group: path of the group.
            dims: names of dimensions.
            members: whether no array may get or lose one of the dimensions either, as for a
                change of its length.
        """
        pairs = frozenset((node_path(from_root(group)), dim) for dim in dims)
        self.state.reliance |= Reliance(members=pairs) if members else Reliance(lengths=pairs)

    # --- finishing ---

    def commit(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        """Make the changes the newest snapshot of the branch, and return its id.

        Raises:
            ConflictError: the branch has moved, and `rebase_with` was not given.
            RebaseFailedError: it has moved, and the changes conflict.
            SessionStateError: there is nothing to commit, or this session cannot commit.
        """
        if earlier := self._publisher.landed():
            return self._finish(earlier)
        self._require_commit(allow_empty=allow_empty)
        if rebase_with is None:
            return self._put(message, metadata, {})
        storage, bases = self.state.context.storage, {self.state.base_id}

        def advance() -> None:
            if self._publisher.landed() is None:
                self.rebase(rebase_with)
                bases.add(self.state.base_id)

        # Others should not wait for a large commit that may not even lose a race.
        first_with_turn = 1 if self.state.changes.is_large else 0
        with contextlib.ExitStack() as turn:
            for attempt in range(rebase_tries):
                if attempt == first_with_turn:
                    turn.enter_context(storage.commit_turn(advance))
                began = time.monotonic()
                try:
                    return self._put(message, metadata, {"rebase_attempts": len(bases) - 1})
                except ConflictError as conflict:
                    if conflict.kind != ErrorKind.COMMIT_CONFLICT:
                        raise
                    if not storage.answers_inline:
                        stand_back(attempt + 1, time.monotonic() - began)
                    advance()
            return self._put(message, metadata, {"rebase_attempts": len(bases) - 1})

    def _put(
        self,
        message: str,
        metadata: dict[str, Any] | None,
        own: dict[str, Any],
        *,
        amends: bool = False,
        rewrite_manifests: bool = False,
    ) -> str:
        return self._publisher.commit(
            self._on_branch(),
            message,
            metadata,
            own,
            self._finish,
            amends=amends,
            rewrite_manifests=rewrite_manifests,
        )

    def amend(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        allow_empty: bool = False,
    ) -> str:
        """Replace the newest snapshot of the branch by one that holds these changes as well.

        Raises:
            ConflictError: the branch has moved.
        """
        if earlier := self._publisher.landed():
            return self._finish(earlier)
        self._require_commit(allow_empty=allow_empty)
        return self._put(message, metadata, {}, amends=True)

    def flush(self, message: str, metadata: dict[str, Any] | None = None) -> str:
        """Save the changes as a snapshot that no branch points to, and return its id."""
        context, base = self.state.context, self.state.base_id
        context.refs.require_online()
        with self.state.closing():
            own = commit_metadata(self.state, metadata, {})
            saved = save(self.state, message, own, parent=base)
            requires = frozenset(self.state.changes.sources)
            context.refs.register_detached(saved.snapshot.entry(base), requires)
            require_chunks(context, self.state.changes)
            return self._finish(saved)

    def rewrite_manifests(
        self, message: str, metadata: dict[str, Any] | None, *, amend: bool
    ) -> str:
        """Commit the same hierarchy with all manifests rebuilt by the present settings."""
        self._require_commit(allow_empty=True)
        own = {"splitting_config": self.state.context.splitting_summary()}
        return self._put(message, metadata, own, amends=amend, rewrite_manifests=True)

    def rebase(self, solver: ConflictSolver) -> None:
        """Put the changes on top of the newest snapshot of the branch.

        Raises:
            RebaseFailedError: there are conflicts that the solver does not solve.
            ConflictError: these changes were committed already, although `commit` raised.
        """
        branch = self._on_branch()
        if earlier := self._publisher.landed():
            raise ConflictError(
                message="nothing to rebase: the commit of this session, which seemed to fail, is "
                f"in the history as snapshot {earlier.snapshot.id}; committing again returns it",
                expected_parent=self.snapshot_id,
                actual_parent=str(earlier.snapshot.id),
            )
        if rebase(self.state, branch, solver):
            self._publisher.unresolved.clear()

    # --- working together ---

    def fork(self) -> ForkSession:
        """A picklable copy for a worker, to be merged back.

        With uncommitted changes their files are written first, so that workers see them.
        """
        if self.read_only:
            raise SessionStateError(
                "cannot fork a read-only session", kind=ErrorKind.CANNOT_FORK_READ_ONLY_SESSION
            )
        if self._mode == SessionMode.rearrange:
            raise rearranges_only()
        base, numbers = self.state.base_id, NO_NUMBERS
        if self.has_uncommitted_changes:
            with self.state.frozen():
                saved = save(self.state, "fork", {}, parent=base)
            base, numbers = saved.snapshot.id, saved.numbers
        forked = self._fork_at(base)
        forked.pack_writes = self.pack_writes
        forked.skip_identical = self.skip_identical
        forked.origins = {number: node_id for node_id, number in numbers.items()}
        forked.state.origin_id = self.state.known_base
        return forked

    def _fork_at(self, base: SnapshotId) -> ForkSession:
        return ForkSession(self.state.context, base, mode=SessionMode.writable)

    def merge(self, *others: Session) -> None:
        """Take over the changes of forks, or of other sessions that began at the same snapshot.

        A session may have been rebased since it was forked: the fork's changes are then put on
        top of the same commits, which must not conflict with them.

        Raises:
            ReadOnlyError: this session takes no changes.
            SessionStateError: the changes do not go together.
            RebaseFailedError: the fork changed what a commit since then has changed.
        """
        for session in (self, *others):
            if session._mode == SessionMode.rearrange:
                raise rearranges_only()
        self.state.require_editable()
        for other in others:
            self._require_mergeable(other)
        for other in others:
            if other is not self:
                merge_state(self.state, other.state, other.origins, fork=other.is_fork)

    def _require_mergeable(self, other: Session) -> None:
        if other.is_fork or other is self or not other.has_uncommitted_changes:
            return
        if self.is_fork:
            raise SessionStateError(
                "only forks can be merged into a fork: merge it into the session it came from",
                kind=ErrorKind.MERGE_NOT_ALLOWED,
            )
        if other.snapshot_id != self.snapshot_id:
            raise SessionStateError(
                "sessions that began at different snapshots cannot be merged: commit one and"
                " rebase the other",
                kind=ErrorKind.MERGE_NOT_ALLOWED,
            )

    # --- rules ---

    def _finish(self, saved: Saved) -> str:
        """Become a read-only session at the new snapshot."""
        self.state.close(saved.snapshot.id)
        self._mode = SessionMode.readonly
        self._branch = None
        # Last, because after an interrupt above, this still shows that the commit was made.
        self._publisher.unresolved.clear()
        return str(saved.snapshot.id)

    def _on_branch(self) -> str:
        if self._branch is None:
            raise SessionStateError(
                "commits are not allowed in this session: it is not on a branch",
                kind=ErrorKind.COMMIT_NOT_ALLOWED,
            )
        return self._branch

    def _require_commit(self, *, allow_empty: bool) -> None:
        self._on_branch()
        if not allow_empty and not self.has_uncommitted_changes:
            raise SessionStateError(
                "cannot commit, no changes made to the session",
                kind=ErrorKind.NO_CHANGES_TO_COMMIT,
            )
        if self._mode == SessionMode.rearrange:
            require_moves(self.state.context.refs)

    amend_async = async_twin(amend)
    commit_async = async_twin(commit)
    flush_async = async_twin(flush)
    merge_async = async_twin(merge)
    move_async = async_twin(move)
    rebase_async = async_twin(rebase)


class ForkSession(Session):
    """A writable copy of a session for a worker: it pickles, and is merged back to commit."""

    _shown_name = "session.ForkSession"
    is_fork = True

    @classmethod
    def with_nodes_of(cls, session: Session) -> ForkSession:
        """A fork that carries the nodes of a session as they are now, and none of its chunks.

        `Session.fork` writes files for workers to read, which are garbage after the commit. This
        is for jobs whose tasks hand back references to chunks: it leaves no files.
        """
        with session.state.lock:
            nodes = session.state.changes.of_nodes()
        made = cls(
            session.state.context, session.state.base_id, mode=SessionMode.writable, changes=nodes
        )
        made.pack_writes, made.skip_identical = session.pack_writes, session.skip_identical
        made.state.origin_id = session.state.origin_id
        return made

    @property
    def read_only(self) -> bool:
        """Forks take changes."""
        return False

    @property
    def mode(self) -> SessionMode:
        """The mode of forks, which take changes but cannot commit."""
        return SessionMode.readonly

    def require_picklable(self) -> None:
        """Forks are made to be pickled."""

    def _pickled(self) -> dict[str, Any]:
        return {**super()._pickled(), "origins": self.origins}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.origins = state["origins"]

    def _require_commit(self, *, allow_empty: bool) -> None:
        raise SessionStateError(
            "commits are not allowed in a fork: merge it into the session it came from",
            kind=ErrorKind.COMMIT_NOT_ALLOWED,
        )

    def flush(self, message: str, metadata: dict[str, Any] | None = None) -> str:
        """Not allowed: merge the fork into the session it came from."""
        raise SessionStateError(
            "cannot flush a forked session: merge it into the session it came from",
            kind=ErrorKind.COMMIT_NOT_ALLOWED,
        )
