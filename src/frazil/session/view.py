"""The read-only part of a session: properties, `repr`, and reading nodes and chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from frazil.async_twins import async_twin, in_thread
from frazil.drawing.markup import Html, folded
from frazil.ids import SnapshotId, node_path
from frazil.model.chunks import ChunkType, InlineRef, NativeRef, VirtualRef
from frazil.model.config import RepositoryConfig
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.model.values import Diff, SessionMode
from frazil.naming import OURS, package
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.context import Context
from frazil.transaction.draft import diff_of, summarise
from frazil.transaction.preload import prefetch
from frazil.transaction.views import node_views, views
from frazil.transaction.working import WorkingState

# Imported when they are used: stores need zarr, and bulk reads need codecs.
if TYPE_CHECKING:
    from frazil.bulk.array import BulkArray
    from frazil.store import FrazilStore

_KINDS: Final = {
    NativeRef: ChunkType.native,
    VirtualRef: ChunkType.virtual,
    InlineRef: ChunkType.inline,
}
_KEPT: Final = ("pack_writes", "skip_identical", "reliance", "origin_id")
"""Attributes that a copy of a session keeps, besides the changes."""


class SnapshotView(HasRepr):
    """The part of a session that reads."""

    _shown_package = OURS

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
        from frazil.bulk.array import BulkArray

        return BulkArray(self, path)

    @property
    def config(self) -> RepositoryConfig:
        """The configuration of the repository."""
        return self.state.context.config

    @property
    def pack_writes(self) -> bool | None:
        """Whether small chunks of one write are packed into shared objects, also through zarr. The
        default, None, stands for the setting of `frazil.config`. Forks inherit it.
        """
        return self.state.pack_writes

    @pack_writes.setter
    def pack_writes(self, value: bool | None) -> None:
        self.state.pack_writes = value

    @property
    def skip_identical(self) -> bool | None:
        """Whether writing a chunk with unchanged bytes keeps its reference.

        The stored chunk is read first. The default, None, stands for the setting of
        `frazil.config`.
        """
        return self.state.skip_identical

    @skip_identical.setter
    def skip_identical(self, value: bool | None) -> None:
        self.state.skip_identical = value

    def _shown_fields(self) -> Iterable[Field]:
        """What `repr` shows."""
        yield Field("read_only", self.read_only)
        yield Field("snapshot_id", Verbatim(self.snapshot_id))
        if not self.read_only:
            yield Field("branch", Verbatim(str(self._branch)))
            yield Field("has_uncommitted_changes", self.has_uncommitted_changes)

    def _shown_below(self) -> Iterable[Html]:
        """In a notebook: the nodes at the top, and what is not yet committed."""
        if package() == OURS:
            yield from views(self._views())

    def _views(self) -> Iterable[Html]:
        yield from node_views(self.state)
        if self.has_uncommitted_changes:
            yield folded("not yet committed", Html(self.status()._repr_html_()), is_open=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SnapshotView):
            return False
        return self is other or (
            self.read_only
            and other.read_only
            and self.snapshot_id == other.snapshot_id
            and self.state.context.storage.url == other.state.context.storage.url
        )

    def __hash__(self) -> int:
        return hash(self.state.context.storage.url)  # the same for equal sessions; it never changes

    def require_picklable(self) -> None:
        """Refuse to pickle a session whose copy could never be committed."""
        if not self.read_only:
            raise ValueError(
                "a writable session cannot be pickled, because nothing could commit the changes "
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
        SnapshotView.__init__(
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
        node = self.state.array(node_path(from_root(array_path)))
        ref = self.state.chunk_ref(node, tuple(chunk_coordinates))
        return ChunkType.uninitialized if ref is None else _KINDS[type(ref)]

    async def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[tuple[int, ...]]:
        """The coordinates of all chunks that exist."""
        # One thread for all of them: handing a million over in batches takes as long again.
        for found in await in_thread(self._coordinates, array_path):
            yield found

    def _coordinates(self, array_path: str) -> Iterable[tuple[int, ...]]:
        changes = self.state.changes
        node = self.state.array(node_path(from_root(array_path)))
        coords = self.state.table(node, changes).coords
        axes = [coords[:, axis].tolist() for axis in range(coords.shape[1])]
        return zip(*axes, strict=True) if axes else [()] * len(coords)

    def prefetch(self, array_paths: Iterable[str] | None = None) -> int:
        """Fetch the manifests of arrays, or of all, into the caches; return their number.

        Lookups then need no storage, as long as the manifests stay in the caches (`CachingConfig`).
        """
        paths = None
        if array_paths is not None:
            paths = [node_path(from_root(path)) for path in array_paths]
        return prefetch(self.state, paths)

    def all_virtual_chunk_locations(self) -> list[str]:
        """The full locations of all virtual chunks."""
        return self.state.virtual_locations()

    all_virtual_chunk_locations_async = async_twin(all_virtual_chunk_locations)
    chunk_type_async = async_twin(chunk_type)
    get_node_id_async = async_twin(get_node_id)


def from_root(path: str) -> str:
    """A path from the root, whether or not it begins with a slash."""
    return path if path.startswith("/") else f"/{path}"
