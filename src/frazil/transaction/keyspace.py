"""A working state as keys and values: what a Zarr store does, without Zarr and without async."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import (
    ErrorKind,
    FormatError,
    InvalidInputError,
    NodeNotFoundError,
    SessionStateError,
    StorageError,
)
from frazil.ids import paths_above
from frazil.model.chunks import ChunkRef, VirtualRef
from frazil.model.documents import require_json
from frazil.model.nodes import ArrayNode, Coordinates, GroupNode, Node
from frazil.storage.base import Bytes
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.context import Context
from frazil.transaction.keys import (
    METADATA,
    USUAL,
    ChunkKey,
    Key,
    MetadataKey,
    ZarrV2Key,
    clean_path,
    key_encoding,
    metadata_key,
    parse_key,
)
from frazil.transaction.working import WorkingState, not_an_array


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `start:end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BytesFrom:
    """Bytes from an offset on."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastBytes:
    """The last so many bytes."""

    count: int


ByteSelection: TypeAlias = ByteRange | BytesFrom | LastBytes


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that was found but not fetched: where it is, and which bytes were asked for."""

    path: str
    coords: tuple[int, ...]
    ref: ChunkRef
    start: int
    end: int

    def read(self, context: Context) -> bytes:
        """The bytes.

        Raises:
            StorageError: the object that holds them is missing, too short or has changed.
        """
        try:
            return context.read_chunk(self.ref, self.start, self.end)
        except (FormatError, StorageError) as error:
            error.of_chunk(self.path, self.coords)
            raise


def byte_offsets(span: ByteSelection | None, size: int) -> tuple[int, int]:
    """Turn a byte request into offsets."""
    match span:
        case None:
            return 0, size
        case ByteRange(start, end):
            fits = 0 <= start <= end <= size and (start < size or start == end)
            bounds = (start, end)
        case BytesFrom(offset):
            fits, bounds = offset >= 0 and (offset < size or size == 0), (offset, size)
        case LastBytes(count):
            fits, bounds = 0 <= count <= size, (size - count, size)
    if not fits:
        raise InvalidInputError(
            f"byte range {span} is outside a value of {size} bytes",
            kind=ErrorKind.INVALID_BYTE_RANGE,
        )
    return bounds


class KeySpace:
    """Keys of one working state."""

    __slots__ = ("state",)

    def __init__(self, state: WorkingState) -> None:
        self.state = state

    # --- single keys ---

    def parse(self, key: str) -> Key:
        """Parse a key; some arrays use another chunk key encoding than the default.

        Raises:
            InvalidInputError: the key names neither metadata nor a chunk.
        """
        try:
            return parse_key(key)
        except InvalidInputError:
            found = self._array_above(clean_path(key))
            if found is None:
                raise
            node, name = found
            coords = key_encoding(node.user_data).parse(name, len(node.shape))
            if coords is None:
                raise
            return ChunkKey(node.path, coords)

    def _array_above(self, path: str) -> tuple[ArrayNode, str] | None:
        """The array that a path leads into, and the rest of the path."""
        for above in paths_above(path):
            array = self.state.tree.get(above)
            if isinstance(array, ArrayNode):
                return array, path[len(above.rstrip("/")) + 1 :]
        return None

    def find(self, key: str, span: ByteSelection | None = None) -> bytes | PendingChunk | None:
        """Metadata bytes, or where a chunk is; None when there is nothing."""
        match self.parse(key):
            case ChunkKey(path, coords):
                changes = self.state.changes
                node = self.state.tree.get(path)
                if node is None:
                    return None
                if isinstance(node, GroupNode):
                    raise not_an_array(path)
                try:
                    ref = self.state.chunk_ref(node, coords, changes)
                except (FormatError, StorageError) as error:
                    error.during(f"get {key}")
                    raise
                if ref is None:
                    return None
                return PendingChunk(path, coords, ref, *byte_offsets(span, ref.length))
            case MetadataKey(path):
                node = self.state.tree.get(path)
                if node is None:
                    return None
                require_json(node.user_data, path)
                start, end = self._document_part(span, len(node.user_data))
                return node.user_data[start:end]
            case ZarrV2Key():
                return None

    def _document_part(self, span: ByteSelection | None, size: int) -> tuple[int, int]:
        """The bytes of a metadata document that a request means."""
        return byte_offsets(span, size)

    def get(self, key: str, span: ByteSelection | None = None) -> bytes | None:
        """The value of a key."""
        found = self.find(key, span)
        return found.read(self.state.context) if isinstance(found, PendingChunk) else found

    def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        self._refuse_v2(key)
        return self.find(key) is not None

    def size(self, key: str) -> int:
        """Size of a value in bytes."""
        self._refuse_v2(key)
        found = self.find(key)
        if isinstance(found, PendingChunk):
            return found.ref.length
        if found is not None:
            return len(found)
        parsed = self.parse(key)
        if isinstance(parsed, ChunkKey):
            self.state.array(parsed.path)
            return 0
        raise NodeNotFoundError(f"key not found: {key!r}", kind=ErrorKind.KEY_NOT_FOUND)

    def set(self, key: str, value: Bytes) -> None:
        """Store metadata or a chunk."""
        match self.parse(key):
            case ChunkKey(path, coords):
                self.state.require_editable()
                node = self.state.array(path)
                self.state.require_held(node, coords)
                if not self.state.skips_identical() or not _holds(self.state, node, coords, value):
                    self.state.set_chunk(node, coords, self.state.payload(value))
            case MetadataKey(path):
                self.state.set_metadata(path, bytes(value))
            case ZarrV2Key():
                raise SessionStateError(
                    f"{key!r} belongs to Zarr v2; only Zarr v3 hierarchies can be stored",
                    kind=ErrorKind.UNIMPLEMENTED,
                )

    def set_if_absent(self, key: str, value: Bytes) -> None:
        """Store a value unless the key has one."""
        match self.parse(key):
            case ChunkKey(path, coords):
                # Not under the lock: manifests are read here and chunks are written.
                self.state.require_editable()
                node = self.state.array(path)
                self.state.require_held(node, coords)
                if not self.exists(key):
                    self.state.add_chunk(node, coords, self.state.payload(value))
            case _:
                with self.state.lock:
                    if not self.exists(key):
                        self.set(key, value)

    def delete(self, key: str) -> None:
        """Delete a node or a chunk; a missing one is no error."""
        match self.parse(key):
            case ChunkKey(path, coords):
                self.state.require_editable()
                node = self.state.tree.get(path)
                if isinstance(node, ArrayNode) and not (
                    self.state.skips_identical() and self.state.chunk_ref(node, coords) is None
                ):
                    self.state.delete_chunk(node, coords)
            case MetadataKey(path):
                self.state.require_editable()
                if self.state.tree.get(path) is not None:
                    self.state.delete_node(path)
            case ZarrV2Key():
                pass

    def _refuse_v2(self, key: str) -> None:
        if isinstance(self.parse(key), ZarrV2Key):
            raise NodeNotFoundError(f"key not found: {key!r}", kind=ErrorKind.KEY_NOT_FOUND)

    # --- folders ---

    def delete_dir(self, prefix: str) -> None:
        """Delete a node with all below it, or the chunks below a part of a chunk key."""
        self.state.require_editable()
        path = clean_path(prefix)
        with self.state.lock:
            if path == "/":
                self.clear()
                return
            if self.state.tree.get(path) is not None:
                self.state.delete_node(path)
                return
        # Not under the lock: the pool loads manifests, and its threads may be waiting for the lock.
        found = self._chunks_below(path)
        if found is not None:
            self.state.delete_chunks(*found)

    def clear(self) -> None:
        """Delete every node."""
        self.state.require_editable()
        with self.state.lock:
            for node in list(self.state.tree):
                if self.state.tree.get(node.path) is not None:
                    self.state.delete_node(node.path)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """All keys of a node and of the nodes below it."""
        if prefix.startswith("/") and prefix != "/":
            return iter(())
        changes = self.state.changes
        return self._keys_of(self._nodes_at(prefix), changes)

    def _nodes_at(self, prefix: str) -> list[Node]:
        """A node and all below it."""
        path, tree = clean_path(prefix), self.state.tree
        if path == "/":
            return list(tree)
        node = tree.get(path)
        if node is None:
            raise InvalidInputError(
                f"bad key prefix {prefix!r}: no node there", kind=ErrorKind.BAD_KEY_PREFIX
            )
        return [node, *tree.descendants(path)]

    def _keys_of(self, nodes: list[Node], changes: ChangeSet) -> Iterator[str]:
        for node in nodes:
            yield metadata_key(node.path)
            if isinstance(node, ArrayNode):
                keys = key_encoding(node.user_data)
                begin = "" if node.path == "/" else f"{node.path[1:]}/"
                for coords in self.state.table(node, changes).coords.tolist():
                    yield begin + keys.chunk_name(coords)

    def list_dir(self, prefix: str) -> list[str]:
        """Names directly below a prefix."""
        path = clean_path(prefix)
        changes = self.state.changes
        node = self.state.tree.get(path)
        if isinstance(node, ArrayNode):
            return [METADATA, *self._chunk_entries(node, changes)]
        if isinstance(node, GroupNode):
            return [METADATA, *self.state.tree.children(path)]
        found = self._chunks_below(path) if path != "/" else None
        if found is None:
            return []
        array, coords = found
        parts = path[len(array.path.rstrip("/")) + 1 :].split("/")
        depth = len(parts) - (key_encoding(array.user_data).folder is not None)
        if depth >= coords.shape[1]:
            return []
        return [str(index) for index in np.unique(coords[:, depth]).tolist()]

    def _chunk_entries(self, node: ArrayNode, changes: ChangeSet) -> list[str]:
        """What is directly below an array because of its chunks."""
        keys = key_encoding(node.user_data)
        if not self._shows_chunks(node, changes):
            return []
        if keys == USUAL:
            return ["c"]
        coords = self.state.table(node, changes).coords.tolist()
        return sorted({keys.chunk_name(each).partition("/")[0] for each in coords})

    def _shows_chunks(self, node: ArrayNode, changes: ChangeSet) -> bool:
        """Whether the folder of an array's chunks is listed: not if there is nothing in it."""
        return self.state.has_chunks(node, changes)

    def prefix_size(self, prefix: str) -> int:
        """Summed size of all values below a node."""
        total, changes = 0, self.state.changes
        for each in self._nodes_at(prefix):
            total += len(each.user_data)
            if isinstance(each, ArrayNode):
                total += int(self.state.table(each, changes).length.sum())
        return total

    def _chunks_below(self, path: str) -> tuple[ArrayNode, npt.NDArray[np.uint32]] | None:
        """The array whose chunk keys begin with `path`, and the chunks that do."""
        changes = self.state.changes
        found = self._array_above(path)
        if found is None:
            return None
        array, rest = found
        wanted, folder = rest.split("/"), key_encoding(array.user_data).folder
        if folder is not None and wanted.pop(0) != folder:
            return None
        if not all(part.isascii() and part.isdigit() for part in wanted):
            return None
        coords = self.state.table(array, changes).coords
        if len(wanted) > coords.shape[1]:
            return array, coords[:0]
        chosen = np.ones(len(coords), bool)
        for axis, part in enumerate(wanted):
            chosen &= coords[:, axis] == int(part)
        return array, coords[chosen]


def is_equal(one: Bytes, other: Bytes) -> bool:
    """Whether two pieces of memory hold the same bytes."""
    if len(one) != len(other):
        return False
    return bool((np.frombuffer(one, np.uint8) == np.frombuffer(other, np.uint8)).all())


def _holds(state: WorkingState, node: ArrayNode, coords: Coordinates, data: Bytes) -> bool:
    """Whether a chunk has exactly these bytes; not if it is virtual or cannot be read."""
    ref = state.chunk_ref(node, coords)
    if ref is None or isinstance(ref, VirtualRef) or ref.length != len(data):
        return False
    try:
        return is_equal(state.context.read_chunk(ref), data)
    except StorageError:
        return False
