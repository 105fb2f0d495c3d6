"""The working state of a session: base snapshot plus changes, read and edited.

Everything here happens in memory except that chunks above the inline threshold are written at
once, under fresh names, and manifests and chunks of the base are fetched when needed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil import config
from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.formats.manifest import Manifest
from frazil.formats.zarr_meta import ArrayMeta, parse_node
from frazil.ids import NodeId, SnapshotId, require_usable_name
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, StringPool, VirtualRef
from frazil.model.combining import concat, overlay
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Coordinates, GroupNode, ManifestRef, Node
from frazil.storage.assets import snapshot_key
from frazil.storage.base import Bytes
from frazil.transaction.changeset import ArrayData, ChangeSet, GroupData, ReadyManifests
from frazil.transaction.chunk_changes import Unset
from frazil.transaction.context import Context
from frazil.transaction.draft import in_grid
from frazil.transaction.reliance import Reliance
from frazil.transaction.tree import NodeTree, array_node, build_tree, updated_array
from frazil.transaction.watching import ChunkWatcher


class WorkingState:
    """One hierarchy that can be read and, unless closed, edited."""

    def __init__(
        self, context: Context, base_id: SnapshotId, changes: ChangeSet | None = None
    ) -> None:
        self.context = context
        self.changes = changes if changes is not None else ChangeSet()
        self.lock = threading.RLock()
        self.editable = False
        self.rearranges = False
        """whether nodes are moved here, and nothing else is changed"""
        self.pack_writes: bool | None = None
        """whether several chunks written at once share objects; None: as configured"""
        self.skip_identical: bool | None = None
        """whether chunks written with the bytes they have are left alone; None: as configured"""
        self.watcher: ChunkWatcher | None = None
        """sees the values of chunks that are written in bulk"""
        self.reliance = Reliance()
        """what the plan of the changes has read, which must not change before the commit"""
        self.origin_id: SnapshotId | None = None
        """the snapshot that was forked, if `base_id` is a snapshot that is in no history"""
        self._freezers = 0
        self._is_closed = False
        self.inline_limit = context.config.inline_chunk_threshold()
        self._keeps_checksums = context.generation.keeps_checksums
        self.move_base(base_id)

    def refer_to_base(self) -> None:
        """Note that changes refer to chunks of the base, wherever they are committed later."""
        with self.lock:
            self.changes.sources.add(self.known_base)

    @property
    def known_base(self) -> SnapshotId:
        """The snapshot of the history that the changes are based on."""
        return self.origin_id or self.base_id

    def move_base(self, base_id: SnapshotId) -> None:
        """Put the changes on top of another snapshot, which is loaded when it is needed."""
        with self.lock:
            self.base_id = base_id
            self._base: Snapshot | None = None
            self._tree: NodeTree | None = None
            self._manifest_files: dict[bytes, ManifestFile] = {}

    @property
    def base(self) -> Snapshot:
        """The snapshot below the changes.

        Raises:
            StorageError: its file is missing. That must not look like a missing key: zarr would
                take damage for an empty repository.
        """
        base = self._base
        if base is None:
            with self.lock:
                try:
                    base = self._base = self.context.assets.snapshot(self.base_id)
                except SnapshotNotFoundError as error:
                    raise StorageError(
                        "object not found: the snapshot of this session is missing in storage",
                        kind=ErrorKind.OBJECT_NOT_FOUND,
                        key=snapshot_key(self.base_id),
                    ) from error
        return base

    @property
    def tree(self) -> NodeTree:
        """The hierarchy with the changes applied."""
        tree = self._tree
        if tree is None:
            with self.lock:
                tree = self._tree
                if tree is None:
                    tree = self._tree = build_tree(self.base.nodes, self.changes)
        return tree

    @property
    def manifest_files(self) -> dict[bytes, ManifestFile]:
        """The manifests the base snapshot lists, and those that wait for the next one."""
        if not self._manifest_files:
            self._manifest_files = {info.id: info for info in self.base.manifest_files}
            for ready in self.changes.ready.values():
                self._manifest_files.update((info.id, info) for info in ready.files)
        return self._manifest_files

    # --- reading nodes ---

    def node(self, path: str) -> Node:
        """The node at a path."""
        found = self.tree.get(path)
        if found is None:
            raise NodeNotFoundError(f"node not found at {path!r}")
        return found

    def array(self, path: str) -> ArrayNode:
        """The array at a path.

        Raises:
            NodeNotFoundError: there is no node.
            InvalidInputError: it is a group.
        """
        found = self.node(path)
        if not isinstance(found, ArrayNode):
            raise not_an_array(path)
        return found

    # --- reading chunks ---

    def chunk_ref(
        self, node: ArrayNode, coords: Coordinates, changes_then: ChangeSet | None = None
    ) -> ChunkRef | None:
        """Where a chunk is; None if it was never written.

        Pass `changes_then` if another thread may commit: the change set read before `node` was
        looked up. An old node without its changes would give an old value.
        """
        if not node.holds(coords):
            return None
        changes = (changes_then or self.changes).chunks.get(node.id)
        if changes is not None:
            found = changes.get(coords)
            if not isinstance(found, Unset):
                return found
        for ref in node.manifests:
            if ref.covers(coords):
                found = self.manifest(ref).find(node.id, coords)
                if found is not None:
                    return found
        return None

    def table(self, node: ArrayNode, changes_then: ChangeSet | None = None) -> ChunkTable:
        """All references of an array as columns; `changes_then` as for `chunk_ref`."""
        changes = (changes_then or self.changes).chunks.get(node.id)
        base = concat(self.load_tables(node, node.manifests), len(node.shape))
        if changes:
            with self.lock:  # `columns` rearranges the changes, so no thread may write now
                columns = changes.columns()
            base = overlay(base, *columns)
        return in_grid(base, node.grid)

    def has_chunks(self, node: ArrayNode, changes_then: ChangeSet | None = None) -> bool:
        """Whether any chunk of an array exists; quick unless chunks were deleted or cut off."""
        changes = changes_then or self.changes
        is_changed = node.id in changes.chunks or node.id in changes.updated_arrays
        return len(self.table(node, changes)) > 0 if is_changed else bool(node.manifests)

    def manifest(self, ref: ManifestRef) -> Manifest:
        """Load a manifest of the base snapshot."""
        info = self.manifest_files.get(ref.id)
        return self.context.assets.manifest(ref.id, info.size_bytes if info else 0)

    def load_tables(
        self, node: ArrayNode, refs: Sequence[ManifestRef], limit: int | None = None
    ) -> list[ChunkTable]:
        """Load the references an array has in some of its manifests, at most `limit` at once."""

        def load(ref: ManifestRef) -> ChunkTable:
            table = self.manifest(ref).table(node.id)
            return ChunkTable.empty(len(node.shape)) if table is None else table

        known = [self.manifest_files.get(ref.id) for ref in refs]
        references = sum(info.num_chunk_refs for info in known if info is not None)
        return list(self.context.each_manifest(load, refs, references, limit))

    # --- editing nodes ---

    def require_editable(self) -> None:
        """Refuse edits of a read-only session, and of one that is being committed."""
        self._require_thawed()
        if self.rearranges:
            raise rearranges_only()
        if not self.editable:
            raise ReadOnlyError(
                "cannot write to a read-only store: open the session with "
                "Repository.writable_session",
                kind=ErrorKind.READ_ONLY_SESSION,
            )

    def _require_thawed(self) -> None:
        if self._freezers:
            raise ReadOnlyError(
                "cannot change a session while it is being committed or forked",
                kind=ErrorKind.READ_ONLY_SESSION,
            )

    @contextlib.contextmanager
    def editing(self) -> Iterator[None]:
        """Hold the state for one edit; refused while another thread commits it."""
        with self.lock:
            self.require_editable()
            yield

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Hold the state for the one commit that may close it; another meanwhile is refused."""
        with contextlib.ExitStack() as held:
            with self.lock:
                self._require_thawed()
                if self._is_closed:
                    raise ReadOnlyError(
                        "another thread has committed this session",
                        kind=ErrorKind.READ_ONLY_SESSION,
                    )
                held.enter_context(self.frozen())
            yield

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Refuse edits while a snapshot is made of the state, which stays open.

        Waiting instead could deadlock: writers may fill the pool that the commit needs.
        """
        with self.lock:
            self._freezers += 1
        try:
            yield
        finally:
            with self.lock:
                self._freezers -= 1

    @property
    def is_closed(self) -> bool:
        """Whether a commit was made of this state."""
        return self._is_closed

    def close(self, base_id: SnapshotId) -> None:
        """Become a view of the snapshot that was made of this state."""
        with self.lock:
            self.editable = self.rearranges = False
            self._is_closed = True
            self.move_base(base_id)
            self.changes = ChangeSet()  # last: readers look here first, then into the tree

    def discard(self) -> None:
        """Forget every change."""
        with self.lock:
            self._require_thawed()
            self.changes = ChangeSet()
            self.reliance = Reliance()
            self.move_base(self.base_id)

    def set_metadata(self, path: str, document: bytes) -> None:
        """Create or update a node from the bytes of its `zarr.json`.

        Raises:
            InvalidInputError: the document is not valid Zarr v3 metadata, or a new node would have
                a name that no client can use.
            AlreadyExistsError: a node of the other kind is there.
        """
        self.require_editable()
        generation = self.context.generation
        meta = parse_node(document, spec=generation.spec)
        document = generation.stored_form(document)
        with self.editing():
            old = self.tree.get(path)
            if old is not None and isinstance(old, ArrayNode) != isinstance(meta, ArrayMeta):
                raise AlreadyExistsError(
                    f"a node of another kind already exists at {path!r}",
                    kind=ErrorKind.NODE_ALREADY_EXISTS,
                )
            if old is not None and old.user_data == document:
                return
            if old is None:
                require_usable_name(path)
            node_id = NodeId.random() if old is None else old.id
            if isinstance(meta, ArrayMeta):
                data = ArrayData(node_id, document, meta.shape, meta.dimension_names)
                if isinstance(old, ArrayNode) and len(old.shape) != len(meta.shape):
                    self.changes.forget_chunks(node_id)  # they have no place on other axes
                self.changes.set_array(path, data, is_new=old is None)
                made = array_node(path, data)
                self.tree.put(updated_array(old, data) if isinstance(old, ArrayNode) else made)
            else:
                group = GroupData(node_id, document)
                self.changes.set_group(path, group, is_new=old is None)
                self.tree.put(GroupNode(node_id, path, document))

    def delete_node(self, path: str) -> None:
        """Delete a node, and everything below a group."""
        with self.editing():
            node = self.node(path)
            gone = [node]
            if isinstance(node, GroupNode):
                gone += self.tree.descendants(path)
            for each in gone:
                self.changes.delete(each)
                self.tree.remove(each.path)

    def move_node(self, source: str, target: str) -> None:
        """Give a node and everything below it new paths; the caller has checked the rules."""
        require_usable_name(target)
        with self.lock:
            self._require_thawed()
            node = self.node(source)
            moving = [node]
            if isinstance(node, GroupNode):
                moving += self.tree.descendants(source)
            for each in moving:
                self.tree.remove(each.path)
            for each in moving:
                new_path = target + each.path[len(source) :]
                self.changes.record_move(
                    each.path, new_path, each.id, is_array=isinstance(each, ArrayNode)
                )
                self.tree.put(replace(each, path=new_path))

    # --- editing chunks ---

    def payload(self, data: Bytes) -> ChunkRef:
        """Store chunk bytes: inside the manifest when small, else as an object of their own."""
        if not len(data):
            raise InvalidInputError(
                "zero-length chunks cannot be stored", kind=ErrorKind.ZERO_LENGTH_CHUNK
            )
        if len(data) <= self.inline_limit:
            return InlineRef(bytes(data))
        return self.context.assets.save_chunk(data)

    def set_chunk(self, node: ArrayNode, coords: Coordinates, ref: ChunkRef) -> None:
        """Record where a chunk is."""
        self.require_held(node, coords)
        if not self._keeps_checksums and isinstance(ref, VirtualRef) and ref.checksum is not None:
            raise _no_checksums(self.context)
        with self.editing():
            self.changes.chunk_changes(node.id, len(node.shape)).set(coords, ref)

    def add_chunk(self, node: ArrayNode, coords: Coordinates, ref: ChunkRef) -> None:
        """Record where an absent chunk is, unless another thread has set it since."""
        with self.editing():
            changes = self.changes.chunk_changes(node.id, len(node.shape))
            if isinstance(changes.get(coords), Unset | None):
                changes.set(coords, ref)

    def require_held(self, node: ArrayNode, coords: Coordinates) -> None:
        """Refuse coordinates outside an array's grid."""
        if not node.holds(coords):
            raise InvalidInputError(
                f"chunk {coords} is outside the chunk grid {node.grid} of {node.path!r}",
                kind=ErrorKind.INVALID_CHUNK_INDEX,
            )

    def set_table(self, node: ArrayNode, table: ChunkTable) -> None:
        """Record where many chunks are."""
        if len(table):
            self.require_held(node, tuple(table.coords.max(axis=0).tolist()))
        if not self._keeps_checksums and (table.last_modified.any() or (table.etag >= 0).any()):
            raise _no_checksums(self.context)
        with self.editing():
            self.changes.chunk_changes(node.id, len(node.shape)).set_many(table)

    def set_manifests(self, node: ArrayNode, ready: ReadyManifests) -> None:
        """Give an array that was made here, and has no chunks yet, manifests that are written."""
        with self.editing():
            made = self.changes.new_arrays.get(node.path)
            has_chunks = node.id in self.changes.chunks or node.id in self.changes.ready
            if made is None or made.id != node.id or has_chunks:
                raise InvalidInputError(
                    f"{node.path!r} is not a new array without chunks",
                    kind=ErrorKind.NOT_ALLOWED,
                )
            if len(ready.coords):
                self.require_held(node, tuple(ready.coords.max(axis=0).tolist()))
            self.changes.ready[node.id] = ready
            self.changes.touched = True
            self.tree.put(replace(node, manifests=ready.refs))
            self._manifest_files = {}

    def delete_chunk(self, node: ArrayNode, coords: Coordinates) -> None:
        """Record that a chunk is gone; impossible coordinates are ignored."""
        with self.editing():
            if node.holds(coords):
                self.changes.chunk_changes(node.id, len(node.shape)).set(coords, None)

    def delete_chunks(self, node: ArrayNode, coords: npt.NDArray[np.uint32]) -> None:
        """Record that many chunks are gone."""
        with self.editing():
            self.changes.chunk_changes(node.id, len(node.shape)).drop_many(coords)

    def note_shift(self, node: ArrayNode) -> None:
        """Record that all chunks of an array went to other coordinates."""
        with self.editing():
            self.changes.shifted.add(node.id)

    def skips_identical(self, choice: bool | None = None) -> bool:
        """Whether writes leave chunks alone that are equal already, so that those are read."""
        wanted = self.skip_identical if choice is None else choice
        return config.current().skip_identical_chunks if wanted is None else wanted

    # --- all arrays ---

    def arrays(self) -> Iterator[ArrayNode]:
        """Every array of the hierarchy."""
        return (node for node in self.tree if isinstance(node, ArrayNode))

    def virtual_locations(self) -> list[str]:
        """Locations of all virtual chunks, one for each chunk."""
        found: list[str] = []
        changes = self.changes
        for node in self.arrays():
            table = self.table(node, changes)
            pool = StringPool.of(table.locations)
            texts = self.context.containers.expand_many(pool)
            numbers = table.location[table.location >= 0]
            if len(numbers) == len(texts) and (np.diff(numbers, prepend=-1) == 1).all():
                found.extend(texts)
            else:
                found += np.array(texts, object)[numbers].tolist()
        return found


def rearranges_only() -> SessionStateError:
    """The error for edits of a session that moves nodes."""
    return SessionStateError(
        "this session was made to move nodes and takes no other changes; use a session of"
        " Repository.writable_session",
        kind=ErrorKind.REARRANGE_SESSION_ONLY,
    )


def not_an_array(path: str) -> InvalidInputError:
    """The error for a group where an array is wanted."""
    return InvalidInputError(f"{path!r} is a group, not an array", kind=ErrorKind.NOT_AN_ARRAY)


def _no_checksums(context: Context) -> InvalidInputError:
    return InvalidInputError(
        f"repositories of {context.generation.title}, as this one is written, cannot keep the"
        " checksum of a virtual chunk; leave it out",
        kind=ErrorKind.NOT_REPRESENTABLE,
        field="checksum",
    )
