"""Reads the files of a repository for a check, and tells exactly what is wrong with damaged ones.

Decoders refuse a damaged file with one general error. Here the same bytes are decoded again, column
by column, to name the rule that is broken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from frazil.errors import (
    ErrorKind,
    FormatError,
    InvalidInputError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.flatbuf.columns import table_columns
from frazil.flatbuf.reader import U32, Buffer, Table
from frazil.formats.envelope import HEADER, MAGIC, ZSTD, FileKind, has_checksum, unseal
from frazil.formats.generation import LEGACY, V1, V2, Generation
from frazil.formats.legacy.header import is_sealed
from frazil.formats.manifest import Manifest, decode_manifest
from frazil.formats.ref_files import REFS, branch_key
from frazil.formats.refs import CHUNK_ID, INDEX, INLINE, LOCATION, PACKED, ref_groups
from frazil.formats.repo_info import REPO_KEY
from frazil.formats.snapshot import decode_snapshot
from frazil.formats.snapshot_nodes import SMALLEST_NODE
from frazil.formats.txlog import decode_log
from frazil.fsck.findings import Code, Finding
from frazil.fsck.objects import ChunkObjects
from frazil.fsck.tuning import KEPT_NODES, KEPT_REFS
from frazil.ids import MAIN, ManifestId, NodeId, ObjectId, SnapshotId, node_path
from frazil.model.chunks import ChunkTable
from frazil.model.config import RepositoryConfig
from frazil.model.history import Snapshot, TransactionLog
from frazil.model.lookup import is_ascending
from frazil.opening import open_context
from frazil.storage.assets import SNAPSHOTS, Assets, log_key, manifest_key, snapshot_key
from frazil.storage.base import Storage
from frazil.storage.legacy.branch_files import find_main
from frazil.storage.lru import Lru
from frazil.storage.pool import inline
from frazil.transaction.context import Context, make_context
from frazil.transaction.opened import OpenRepository, context_of

T = TypeVar("T")
K = TypeVar("K", SnapshotId, ManifestId)

SPECS: Final = (1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedFile(Generic[T]):
    """A file: its content if it can be trusted, and why not if it cannot."""

    size_bytes: int = 0
    spec: int = 0
    root: Table | None = None
    """the raw root table, where there is one and the body can be unpacked"""
    content: T | None = None
    findings: tuple[Finding, ...] = ()
    is_checked: bool = False
    """whether a checksum covers the body"""


class _Named(Protocol):
    @property
    def id(self) -> ObjectId:
        """The id in the file."""


N = TypeVar("N", bound=_Named)


def content_of(read: CheckedFile[N] | None, name: ObjectId) -> N | None:
    """The content of a file that can be read and is the one of its name, as for all readers."""
    content = None if read is None else read.content
    return content if content is not None and content.id == name else None


def read_snapshot_file(blob: bytes, key: str) -> CheckedFile[Snapshot]:
    """A snapshot file."""
    return _read(blob, key, FileKind.SNAPSHOT, decode_snapshot, _snapshot_trouble)


def read_manifest_file(blob: bytes, key: str) -> CheckedFile[Manifest]:
    """A manifest file, with the references of all its arrays decoded."""

    def decode(data: bytes, *, key: str) -> Manifest:
        manifest = decode_manifest(data, key=key)
        for _, table in manifest.tables():
            # Packed texts are unpacked when they are asked for.
            tuple(table.locations)
            tuple(table.etags)
        return manifest

    read = _read(blob, key, FileKind.MANIFEST, decode, _manifest_trouble)
    return replace(read, root=None)  # columns are kept for comparisons, the raw bytes need not be


def read_log_file(blob: bytes, key: str) -> CheckedFile[TransactionLog]:
    """A transaction log."""
    return _read(blob, key, FileKind.TRANSACTION_LOG, decode_log, lambda _: None)


def _read(
    blob: bytes,
    key: str,
    kind: FileKind,
    decode: Callable[..., T],
    trouble: Callable[[Table], Finding | None],
) -> CheckedFile[T]:
    root, found = open_root(blob, key, kind)
    if root is None:
        return CheckedFile(len(blob), findings=found)
    spec = blob[36]
    try:
        content = decode(blob, key=key)
        is_checked = has_checksum(memoryview(blob)[HEADER.size :])
        return CheckedFile(len(blob), spec, root, content, is_checked=is_checked)
    except FormatError as error:
        finding = _look(trouble, root) or Finding(Code.FILE_DAMAGED, key, str(error))
        return CheckedFile(len(blob), spec, root, findings=(finding,))


def open_root(blob: bytes, key: str, kind: FileKind) -> tuple[Table | None, tuple[Finding, ...]]:
    """The root table of a file, or what is wrong with its header or body."""
    try:
        body = unseal(blob, kind, key=key).body
    except FormatError as error:
        return None, (Finding(_header_trouble(blob, kind), key, str(error)),)
    try:
        return Buffer(body, key).root(), ()
    except FormatError as error:
        return None, (Finding(Code.FILE_DAMAGED, key, str(error)),)


def _header_trouble(blob: bytes, expected: FileKind) -> Code:
    if len(blob) < HEADER.size:
        return Code.FILE_SHORT
    magic, _, spec, kind, packing = HEADER.unpack_from(blob)
    if magic != MAGIC:
        return Code.FILE_MAGIC
    if spec not in SPECS:
        return Code.FILE_SPEC
    if kind != expected:
        return Code.FILE_KIND
    return Code.FILE_COMPRESSION if packing != ZSTD else Code.FILE_BODY


def _look(trouble: Callable[[Table], Finding | None], root: Table) -> Finding | None:
    """Look for the broken rule; bytes that cannot be decoded at all give no further finding."""
    try:
        return trouble(root)
    except FormatError:
        return None


def _snapshot_trouble(root: Table) -> Finding | None:
    key = root.buffer.key
    tables = table_columns(root, 2, "nodes", smallest=SMALLEST_NODE)
    paths = tables.vectors(1, 1, "path").slices(bytes(root.buffer.data))
    for before, after in pairwise(paths):
        if after <= before:
            return Finding(
                Code.NODE_ORDER, key, f"{display_bytes(after)} comes after {display_bytes(before)}"
            )
    for raw in paths:
        if not _is_path(raw):
            return Finding(Code.NODE_PATH, key, f"{display_bytes(raw)} is not the path of a node")
    return None


def _is_path(raw: bytes) -> bool:
    try:
        return node_path(raw.decode()) == raw.decode()
    except (UnicodeDecodeError, InvalidInputError):
        return False


def _manifest_trouble(root: Table) -> Finding | None:
    key = root.buffer.key
    arrays = list(root.tables(1, "arrays"))
    ids = [array.required_bytes(0, 8, "node_id") for array in arrays]
    if any(after <= before for before, after in pairwise(ids)):
        return Finding(Code.ARRAY_ORDER, key)
    for array, node in zip(arrays, ids, strict=True):
        start, count = array.required_vector(1, 4, "refs")
        if found := _reference_trouble(root.buffer, start, count):
            return Finding(found, key, f"array with id {NodeId(node)}")
    for node_id, table in Manifest.lazily(SPECS[-1], root.buffer).tables():
        try:
            tuple(table.locations)
        except FormatError as error:
            return Finding(Code.LOCATION_DAMAGED, key, f"array with id {node_id}: {error}")
    return None


def _reference_trouble(buffer: Buffer, start: int, count: int) -> Code | None:
    if not count:
        return None
    first = Table(buffer, start + buffer.read(U32, start))
    _, ndim = first.required_vector(INDEX, 4, "index")
    if count * max(ndim, 1) * 4 > buffer.size:
        return None
    coords = np.zeros((count, ndim), np.uint32)
    for group in ref_groups(buffer, start, count):
        if not any(group.has(slot) for slot in (CHUNK_ID, PACKED, LOCATION, INLINE)):
            return Code.CHUNK_NOWHERE
        coords[group.rows] = group.equal_vectors(INDEX, ndim, "index")
    return None if is_ascending(coords) else Code.CHUNK_ORDER


def display_bytes(raw: bytes) -> str:
    """Bytes that should be text, for a message."""
    return repr(raw.decode(errors="replace"))


def ascends(items: Sequence[bytes]) -> bool:
    """Whether items ascend, none being there twice."""
    return all(before < after for before, after in pairwise(items))


class RepositoryFiles:
    """The files of a repository, straight from its storage; a few are kept for comparisons."""

    def __init__(self, assets: Assets) -> None:
        self.assets = assets
        self.storage = assets.storage
        self.objects = ChunkObjects(self.storage)
        self.large: Final = Lock()
        """held while much memory is taken"""
        self._unchecked: dict[str, int] = {}
        self._under_way: dict[str, Lock] = {}
        self._snapshots: Lru[SnapshotId, CheckedFile[Snapshot]] = Lru(
            KEPT_NODES, lambda read: len(read.content.nodes) if read.content else 1
        )
        self._manifests: Lru[ManifestId, CheckedFile[Manifest]] = Lru(
            KEPT_REFS, lambda read: read.content.num_refs if read.content else 1
        )

    def snapshot(self, snapshot_id: SnapshotId) -> CheckedFile[Snapshot] | None:
        """A snapshot, or None when there is no such file."""
        key, fresh = snapshot_key(snapshot_id), self.assets.fresh_snapshot
        return self._load(self._snapshots, snapshot_id, key, read_snapshot_file, fresh)

    def manifest(self, manifest_id: ManifestId) -> CheckedFile[Manifest] | None:
        """A manifest, or None when there is no such file."""
        key, fresh = manifest_key(manifest_id), self.assets.fresh_manifest
        return self._load(self._manifests, manifest_id, key, read_manifest_file, fresh)

    def log(self, snapshot_id: SnapshotId) -> CheckedFile[TransactionLog] | None:
        """A transaction log, or None when there is no such file."""
        key, fresh = log_key(snapshot_id), self.assets.fresh_log
        return self._fetch(snapshot_id, key, read_log_file, fresh)

    def tables(self, manifest_id: ManifestId, node_id: NodeId) -> ChunkTable | None:
        """The references of an array in a manifest; None when it cannot be read."""
        manifest = content_of(self.manifest(manifest_id), manifest_id)
        if manifest is None:
            return None
        return manifest.table(node_id) or ChunkTable.empty(0)

    def _load(
        self,
        cache: Lru[K, CheckedFile[T]],
        name: K,
        key: str,
        read: Callable[[bytes, str], CheckedFile[T]],
        fresh: Callable[[K], T | None],
    ) -> CheckedFile[T] | None:
        found = cache.get(name)
        if found is not None:
            return found
        # Snapshots are checked side by side, each with its parent: one of two threads reads a file.
        with self._under_way.setdefault(key, Lock()), inline():
            found = cache.get(name) or self._fetch(name, key, read, fresh)
            if found is not None:
                cache.put(name, found)
        self._under_way.pop(key, None)
        return found

    def _fetch(
        self,
        name: K,
        key: str,
        read: Callable[[bytes, str], CheckedFile[T]],
        fresh: Callable[[K], T | None],
    ) -> CheckedFile[T] | None:
        if self.assets.generation.is_legacy:
            # A log that is no file is derived from snapshots, which are checked themselves.
            blob = self.storage.get(key)
            found = None if blob is None else self._record(name, key, fresh)
            is_read = found is not None and found.content is not None
            if blob is not None and is_read and not is_sealed(blob):
                self._unchecked[key] = len(blob)
            return found
        blob = self.storage.get(key)
        return None if blob is None else self._remember_unchecked(key, read(blob, key))

    def _record(self, name: K, key: str, fresh: Callable[[K], T | None]) -> CheckedFile[T] | None:
        """A file of an older generation; of its bytes its decoder alone can tell anything."""
        try:
            return CheckedFile(spec=self.assets.generation.spec, content=fresh(name))
        except SnapshotNotFoundError:
            return None  # its successor is there, which an upgrade has made
        except (FormatError, StorageError) as error:
            if isinstance(error, StorageError) and error.kind != ErrorKind.OBJECT_NOT_FOUND:
                raise
            return CheckedFile(findings=(Finding(Code.FILE_DAMAGED, key, str(error)),))

    def _remember_unchecked(self, key: str, read: CheckedFile[T]) -> CheckedFile[T]:
        if read.content is not None and not read.is_checked:
            self._unchecked[key] = read.size_bytes
        return read

    def unchecked(self) -> dict[str, int]:
        """Files read since the last call whose content no checksum covers, and their sizes."""
        found: dict[str, int] = {}
        with contextlib.suppress(KeyError):  # other threads add files meanwhile, and ask too
            while True:
                found.update([self._unchecked.popitem()])
        return found


def metadata_order(root: Table, slot: int, target: str) -> Iterator[Finding]:
    """Metadata names that are not in ascending order; a decoded map does not show that."""
    names = [item.required_text(0, "name").encode() for item in root.tables(slot)]
    if not ascends(names):
        yield Finding(Code.METADATA_ORDER, target)


FsckTarget: TypeAlias = OpenRepository | Context | Storage
"""An open repository, or where one is or was."""


def open_anyway(place: FsckTarget) -> Context:
    """The parts of a repository, with default settings where it cannot be opened.

    Raises:
        RepositoryNotFoundError: there is nothing of a repository.
    """
    if isinstance(place, Context):
        return place
    if not isinstance(place, Storage):
        return context_of(place)
    try:
        return open_context(place, None, None)
    except FormatError:
        return make_context(place, _guess(place) or V2, RepositoryConfig(), None)
    except RepositoryNotFoundError:
        generation = _guess(place)
        if generation is None:
            raise
        return make_context(place, generation, RepositoryConfig(), None)


def _guess(storage: Storage) -> Generation | None:
    """The generation of a repository whose entry point is damaged, by its other files."""
    if storage.head(REPO_KEY) is not None:
        return V2
    old = find_main(storage) if storage.head(branch_key(MAIN, encoded=False)) is None else ()
    # One that was upgraded has left a fence.
    if old and b'"moved_to"' not in (storage.get(old[0].steps[0].key) or b""):
        return LEGACY[old[0].layout.generation]
    if next(iter(storage.list(REFS)), None) is not None:
        return V1
    specs = set()
    for item in storage.list(SNAPSHOTS):
        header = storage.get(item.key, 0, min(HEADER.size, item.size_bytes)) or b""
        if len(header) == HEADER.size and header.startswith(MAGIC):
            specs.add(header[36])
    if not specs:
        return None
    # An upgraded repository keeps files of version 1 beside those written since.
    return V2 if 2 in specs else V1
