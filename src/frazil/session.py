"""Sessions: a view of one snapshot, and the transaction that makes the next one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from frazil.async_twins import AsyncItems, async_twin
from frazil.commit.base import Publication, moved
from frazil.commit.by_repo_object import require_moves
from frazil.drawing.markup import Html, folded
from frazil.errors import (
    ConflictError,
    ErrorKind,
    ReadOnlyError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId, node_path
from frazil.model.chunks import ChunkType, InlineRef, NativeRef, VirtualRef
from frazil.model.config import RepositoryConfig
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.model.history import SnapshotEntry, TransactionLog
from frazil.model.values import ConflictSolver, Diff, SessionMode
from frazil.naming import OURS, package
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.committing import (
    NodeIds,
    Saved,
    UnresolvedCommits,
    commit_metadata,
    save,
    start_save,
)
from frazil.transaction.context import Context
from frazil.transaction.draft import diff_of, summarise
from frazil.transaction.forks import merge_state
from frazil.transaction.long_open import confirm_chunks
from frazil.transaction.moving import check_move, reindex_array, shift_array
from frazil.transaction.preload import prefetch
from frazil.transaction.rebasing import rebase
from frazil.transaction.reliance import Reliance
from frazil.transaction.views import node_views, views
from frazil.transaction.working import WorkingState, rearranges_only

# Stores bring zarr along, which whoever only looks at a snapshot need not wait for.
if TYPE_CHECKING:
    from frazil.bulk.array import BulkArray
    from frazil.store import FrazilStore

NO_NUMBERS: Final[NodeIds] = {}
_KINDS: Final = {
    NativeRef: ChunkType.native,
    VirtualRef: ChunkType.virtual,
    InlineRef: ChunkType.inline,
}
_KEPT: Final = ("pack_writes", "skip_identical", "reliance", "origin_id")
"""What of its state a copy of a session has besides the changes."""


class Session(HasRepr):
    """A view of one snapshot, with the changes made to it since.

    Sessions come from `Repository.readonly_session`, `writable_session` and
    `rearrange_session`. After a commit the session is read-only, at the new snapshot.
    """

    shown_name = "session.Session"
    shown_package = OURS
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
        self.state = WorkingState(context, base, changes)
        self._branch = branch
        self._mode = mode
        self._unresolved = UnresolvedCommits()
        self.state.editable = mode == SessionMode.writable
        self.state.rearranges = mode == SessionMode.rearrange

    # --- what it is ---

    @property
    def read_only(self) -> bool:
        """Whether the session takes no changes at all."""
        return self._mode == SessionMode.readonly

    @property
    def mode(self) -> SessionMode:
        """What the session may do."""
        return self._mode

    @property
    def snapshot_id(self) -> str:
        """The snapshot this session is based on."""
        return str(self.state.base_id)

    @property
    def branch(self) -> str | None:
        """The branch a commit would move; None when it cannot commit."""
        return self._branch

    @property
    def has_uncommitted_changes(self) -> bool:
        """Whether there is something to commit."""
        return not self.state.changes.is_empty

    @property
    def store(self) -> FrazilStore:
        """The Zarr store of this session."""
        from frazil.store import FrazilStore

        return FrazilStore(self)

    def array(self, path: str) -> BulkArray:
        """An array of this session that reads regions into numpy, many chunks at once.

        Raises:
            NodeNotFoundError: there is no node at the path.
            InvalidInputError: it is a group.
        """
        from frazil.bulk.array import BulkArray  # codecs, for those who read values

        return BulkArray(self, path)

    @property
    def config(self) -> RepositoryConfig:
        """The configuration of the repository."""
        return self.state.context.config

    @property
    def pack_writes(self) -> bool | None:
        """Whether small chunks that are written at once share objects, also through zarr.

        None, unless it is set, for what `frazil.config` says. Forks do as their session does.
        """
        return self.state.pack_writes

    @pack_writes.setter
    def pack_writes(self, value: bool | None) -> None:
        self.state.pack_writes = value

    @property
    def skip_identical(self) -> bool | None:
        """Whether chunks that are written with the bytes they have keep their references.

        What is there is read first. None, unless it is set, for what `frazil.config` says.
        """
        return self.state.skip_identical

    @skip_identical.setter
    def skip_identical(self, value: bool | None) -> None:
        self.state.skip_identical = value

    def shown_fields(self) -> Iterable[Field]:
        """What `repr` shows."""
        yield Field("read_only", self.read_only)
        yield Field("snapshot_id", Verbatim(self.snapshot_id))
        if not self.read_only:
            yield Field("branch", Verbatim(str(self._branch)))
            yield Field("has_uncommitted_changes", self.has_uncommitted_changes)

    def shown_below(self) -> Iterable[Html]:
        """In a notebook: the nodes at the top, and what is not yet committed."""
        if package() == OURS:
            yield from views(self._views())

    def _views(self) -> Iterable[Html]:
        yield from node_views(self.state)
        if self.has_uncommitted_changes:
            yield folded("not yet committed", Html(self.status()._repr_html_()), is_open=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Session):
            return False
        return self is other or (
            self.read_only
            and other.read_only
            and self.snapshot_id == other.snapshot_id
            and self.state.context.storage.url == other.state.context.storage.url
        )

    def __hash__(self) -> int:
        return hash(self.state.context.storage.url)  # equal sessions share it, whatever they do

    def require_picklable(self) -> None:
        """Refuse to pickle a session whose copy could never be committed."""
        if not self.read_only:
            raise ValueError(
                "a writable session cannot be pickled, because nobody could commit the changes "
                "of the copy; send the workers forks made with Session.fork() and merge them "
                "with Session.merge(), or use to_icechunk of frazil.xarray to write dask arrays"
            )

    def __getstate__(self) -> dict[str, Any]:
        self.require_picklable()
        return self._pickled()

    def _pickled(self) -> dict[str, Any]:
        return {
            "context": self.state.context,
            "base": self.state.base_id,
            "branch": self._branch,
            "mode": int(self._mode),
            "changes": self.state.changes,
            "settings": {name: getattr(self.state, name) for name in _KEPT},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        context: Context = state["context"]
        Session.__init__(
            self,
            context,
            SnapshotId(state["base"]),
            branch=state["branch"],
            mode=SessionMode(state["mode"]),
            changes=state["changes"],
        )
        for name, value in state["settings"].items():
            setattr(self.state, name, value)

    # --- looking ---

    def status(self) -> Diff:
        """What has changed in this session."""
        with self.state.lock:
            log = summarise(self.state.changes, self.state.base_id)
        return diff_of([log], self.state.base.nodes, self.state.tree)

    def get_node_id(self, path: str) -> str:
        """The id a node keeps for its whole life.

        Raises:
            NodeNotFoundError: there is no node.
        """
        return str(self.state.node(node_path(path)).id)

    def chunk_type(self, array_path: str, chunk_coordinates: Sequence[int]) -> ChunkType:
        """Where the bytes of a chunk are."""
        node = self.state.array(node_path(_absolute(array_path)))
        ref = self.state.chunk_ref(node, tuple(chunk_coordinates))
        return ChunkType.uninitialized if ref is None else _KINDS[type(ref)]

    def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[tuple[int, ...]]:
        """The coordinates of all chunks that exist."""

        def found() -> Iterable[tuple[int, ...]]:
            changes = self.state.changes
            node = self.state.array(node_path(_absolute(array_path)))
            coords = self.state.table(node, changes).coords
            axes = [coords[:, axis].tolist() for axis in range(coords.shape[1])]
            return zip(*axes, strict=True) if axes else [()] * len(coords)

        return AsyncItems(found)

    def prefetch(self, array_paths: Iterable[str] | None = None) -> int:
        """Fetch the manifests of arrays, or of all, into the caches; return their number.

        Lookups then wait for no storage, as long as `CachingConfig` lets them stay.
        """
        paths = None
        if array_paths is not None:
            paths = [node_path(_absolute(path)) for path in array_paths]
        return prefetch(self.state, paths)

    def all_virtual_chunk_locations(self) -> list[str]:
        """The full locations of all virtual chunks."""
        return self.state.virtual_locations()

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
        node = self.state.array(node_path(_absolute(array_path)))
        shift_array(self.state, node, [int(step) for step in chunk_offset])

    def reindex_array(
        self,
        array_path: str,
        forward: Callable[[list[int]], Iterable[int] | None],
        backward: Callable[[list[int]], Iterable[int] | None] | None = None,
    ) -> None:
        """Move all chunks of an array to where `forward` says; no data is copied."""
        node = self.state.array(node_path(_absolute(array_path)))
        reindex_array(self.state, node, forward, backward)

    def rely_on(self, *paths: str, values: bool = True) -> None:
        """Say that changes of this session were planned by nodes that must stay as they are.

        A rebase then takes it for a conflict when somebody else has changed, deleted or made a
        node at one of these paths, although this session does not write it.

        Args:
            paths: of arrays or groups, or where there is nothing yet.
            values: whether the chunks of arrays matter, and not only their metadata.
        """
        chosen = frozenset(node_path(_absolute(path)) for path in paths)
        relied = Reliance(values=chosen) if values else Reliance(nodes=chosen)
        self.state.reliance |= relied

    def rely_on_dimensions(self, group: str, *dims: str, members: bool = False) -> None:
        """The same for dimensions of a group, which must stay as long as they are.

        Args:
            group: path of the group.
            dims: names of dimensions.
            members: whether no array may get or lose one of the dimensions either, as for a
                change of its length.
        """
        pairs = frozenset((node_path(_absolute(group)), dim) for dim in dims)
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
        if earlier := self._landed():
            return self._finish(earlier)
        self._require_commit(allow_empty=allow_empty)
        if rebase_with is None:
            return self._put(message, metadata, {})
        with contextlib.ExitStack() as lock:
            for attempt in range(rebase_tries):
                try:
                    return self._put(message, metadata, {"rebase_attempts": attempt})
                except ConflictError as conflict:
                    if conflict.kind != ErrorKind.COMMIT_CONFLICT:
                        raise
                    if attempt == 0:
                        lock.enter_context(self.state.context.storage.advisory_lock())
                    if self._landed() is None:
                        self.rebase(rebase_with)
            return self._put(message, metadata, {"rebase_attempts": rebase_tries})

    def _put(
        self,
        message: str,
        metadata: dict[str, Any] | None,
        own: dict[str, Any],
        *,
        amends: bool = False,
        rewrite_manifests: bool = False,
    ) -> str:
        """Save the changes and make them the tip of the branch, or take the place of the tip."""
        branch, state, base = self._on_branch(), self.state, self.state.base_id
        if amends:
            state.context.generation.require_repo_object("amend")
        tip = state.context.refs.writable_tip(branch)
        if tip != base:
            if landed := self._landed():
                return self._finish(landed)
            raise moved(base, tip, branch)
        replaced, earlier = self._replaced() if amends else (None, None)
        parent = base if replaced is None else replaced.parent_id
        pruned = () if replaced is None else replaced.pruned_ancestor_tx_logs
        with state.closing():
            saved, wait = start_save(
                state,
                message,
                commit_metadata(state, metadata, own, replaces=amends),
                parent=parent,
                earlier=earlier,
                rewrite_manifests=rewrite_manifests,
            )
            entry = saved.snapshot.entry(parent, pruned)
            requires = frozenset(state.changes.sources)
            return self._publish(Publication(branch, base, entry, amends, requires), saved, wait)

    def _replaced(self) -> tuple[SnapshotEntry, TransactionLog | None]:
        """The commit that an amended one takes the place of, and its log."""
        entry = self.state.context.refs.entry(self.state.base_id)
        if entry.parent_id is None or entry.id == INITIAL_SNAPSHOT_ID:
            raise SessionStateError(
                "the first snapshot of a repository cannot be amended",
                kind=ErrorKind.NO_AMEND_FOR_INITIAL_COMMIT,
            )
        log = self.state.context.assets.log(entry.id)
        if log is not None and log.moved_nodes and self._mode == SessionMode.writable:
            raise SessionStateError(
                "the commit to amend moved nodes; only a rearrange session can amend it",
                kind=ErrorKind.REARRANGE_SESSION_ONLY,
            )
        return entry, log

    def _publish(self, publication: Publication, saved: Saved, wait: Callable[[], None]) -> str:
        changes = self.state.changes
        self._unresolved.begin(publication, saved)
        try:
            self.state.context.refs.publish(publication, wait)
            confirm_chunks(self.state.context, publication, changes)
            return self._finish(saved)
        except (ConflictError, SnapshotNotFoundError, RefNotFoundError):
            self._unresolved.drop()  # the repository has said no
            raise
        except BaseException:
            # An interrupt tells as little as a lost reply does: the commit may have landed.
            self._unresolved.keep(changes)
            raise

    def _landed(self) -> Saved | None:
        """A commit of these changes that seemed to fail and is in the history all the same."""
        changes = None if self.state.is_closed else self.state.changes
        return self._unresolved.landed(self.state.context.refs, changes)

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
        if earlier := self._landed():
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
            return self._finish(saved)

    def rewrite_manifests(
        self, message: str, metadata: dict[str, Any] | None, *, amend: bool
    ) -> str:
        """Commit the same hierarchy with all manifests built anew by the present settings."""
        self._require_commit(allow_empty=True)
        own = {"splitting_config": self.state.context.splitting_summary()}
        return self._put(message, metadata, own, amends=amend, rewrite_manifests=True)

    def rebase(self, solver: ConflictSolver) -> None:
        """Put the changes on top of the newest snapshot of the branch.

        Raises:
            RebaseFailedError: there are conflicts that the solver does not solve.
            ConflictError: these changes are committed already, although that seemed to fail.
        """
        branch = self._on_branch()
        if earlier := self._landed():
            raise ConflictError(
                message="nothing to rebase: the commit of this session, which seemed to fail, is "
                f"in the history as snapshot {earlier.snapshot.id}; committing again returns it",
                expected_parent=self.snapshot_id,
                actual_parent=str(earlier.snapshot.id),
            )
        if rebase(self.state, branch, solver):
            self._unresolved.clear()

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
        self._unresolved.clear()  # last: an interrupt above leaves what tells that this was done
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

    all_virtual_chunk_locations_async = async_twin(all_virtual_chunk_locations)
    amend_async = async_twin(amend)
    chunk_type_async = async_twin(chunk_type)
    commit_async = async_twin(commit)
    flush_async = async_twin(flush)
    get_node_id_async = async_twin(get_node_id)
    merge_async = async_twin(merge)
    move_async = async_twin(move)
    rebase_async = async_twin(rebase)


class ForkSession(Session):
    """A writable copy of a session for a worker: it pickles, and is merged back to commit."""

    shown_name = "session.ForkSession"
    is_fork = True

    @classmethod
    def with_nodes_of(cls, session: Session) -> ForkSession:
        """A fork that carries the nodes of a session as they are now, and none of its chunks.

        `Session.fork` writes files for workers to see, which nobody needs after the commit. This
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
        """Forks cannot commit, so they are no writable sessions."""
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


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"
