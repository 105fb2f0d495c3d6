"""Ids to keys to bytes to model, and back; the only cache of decoded files.

Snapshots, manifests, transaction logs and chunks are immutable and have random names, so they
are written without conditions and cached without doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Final, TypeAlias, TypeVar

from frazil.arrays import U8
from frazil.config import current
from frazil.errors import ErrorKind, FormatError, SnapshotNotFoundError, StorageError
from frazil.formats.generation import Generation
from frazil.formats.manifest import Manifest, decode_manifest, encode_manifest, native_chunk_ids
from frazil.formats.snapshot import decode_snapshot, encode_snapshot, manifest_files, snapshot_links
from frazil.formats.snapshot_nodes import keeps_well
from frazil.formats.txlog import decode_log, encode_log
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.model.config import RepositoryConfig
from frazil.model.history import ManifestFile, Snapshot, SnapshotEntry, TransactionLog
from frazil.storage.base import Attributes, Bytes, Listed, Storage, Version, Written
from frazil.storage.lru import Lru

SNAPSHOTS: Final = "snapshots/"
MANIFESTS: Final = "manifests/"
LOGS: Final = "transactions/"
CHUNKS: Final = "chunks/"
ATTRIBUTES: Final = "attributes/"
"""Only before spec 1."""
CHUNK: Final = Attributes(is_chunk=True, is_unnamed=True)
CLIENT: Final = "frazil-0.1.0"
SMALL_NODE_CACHE: Final = (
    "a snapshot with %d nodes is too large for the cache, which may keep %d nodes, and will be read"
    " each time it is needed; CachingConfig.num_snapshot_nodes sets the limit"
)
SMALL_REF_CACHE: Final = (
    "a manifest with %d chunk references is too large for the cache, which may keep %d references,"
    " and will be read each time it is needed; CachingConfig.num_chunk_refs sets the limit"
)

Links: TypeAlias = tuple[SnapshotEntry, tuple[ManifestFile, ...]]
"""What history records of a snapshot, and the manifests that it lists."""
V = TypeVar("V")


class Assets:
    """The immutable objects of one repository, as files of spec 1 or 2.

    `_read_*` and `_write_*` are what other generations do in their own way.
    """

    def __init__(
        self,
        storage: Storage,
        generation: Generation,
        config: RepositoryConfig,
        near: Storage | None = None,
    ) -> None:
        self.storage = storage
        self.near = near or storage
        """the same, with copies of what was read on a disk near by"""
        self.generation = generation
        self._level = config.compression_level()
        caching = config.cache_sizes()
        # Plain shared locations are smaller and far quicker than a dictionary, so one is only
        # trained when the configuration asks for it by name.
        asked = config.manifests().virtual_chunk_location_compression
        self._location_compression = config.location_compression() if asked else None
        self._snapshots: Lru[SnapshotId, Snapshot] = Lru(
            caching.num_snapshot_nodes, lambda snapshot: len(snapshot.nodes), SMALL_NODE_CACHE
        )
        self._manifests: Lru[ManifestId, Manifest] = Lru(
            caching.num_chunk_refs, lambda manifest: manifest.num_refs, SMALL_REF_CACHE
        )
        self._logs: Lru[SnapshotId, TransactionLog] = Lru(
            caching.num_transaction_changes, _log_weight
        )
        chunk_bytes = current().chunk_cache_bytes
        self._chunks: Lru[tuple[ChunkId, int, int], bytes] = Lru(
            caching.num_bytes_chunks if chunk_bytes is None else chunk_bytes, len
        )

    # --- snapshots ---

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Load a snapshot."""
        cached = self._snapshots.get(snapshot_id)
        if cached is not None:
            return cached
        snapshot = _snapshot_there(self._read_snapshot(snapshot_id, self.near), snapshot_id)
        self._snapshots.put(snapshot_id, snapshot)
        return snapshot

    def keeps(self, snapshot_id: SnapshotId) -> bool:
        """Whether a snapshot is in memory."""
        return self._snapshots.get(snapshot_id) is not None

    def _read_snapshot(self, snapshot_id: SnapshotId, storage: Storage) -> Snapshot | None:
        key = snapshot_key(snapshot_id)
        blob = storage.get(key)
        return None if blob is None else decode_snapshot(blob, key=key, of=snapshot_id)

    def stored_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Load a snapshot as it is in storage now; expiry may give one another parent."""
        self._snapshots.drop(snapshot_id)
        return self.snapshot(snapshot_id)

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Whether storage has a snapshot now, whatever was read before."""
        return self.storage.head(snapshot_key(snapshot_id)) is not None

    def save_snapshot(self, snapshot: Snapshot) -> str:
        """Write a snapshot and return its key."""
        self._write_snapshot(snapshot)
        if self.generation.keeps_documents and keeps_well(snapshot.nodes):
            self._snapshots.put(snapshot.id, snapshot)
        else:
            self._snapshots.drop(snapshot.id)
        return snapshot_key(snapshot.id)

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        blob = encode_snapshot(snapshot, spec=self.generation.spec, level=self._level)
        self.storage.put(snapshot_key(snapshot.id), blob, self._attributes("snapshot"))

    def replace_snapshot(self, snapshot: Snapshot, version: Version) -> bool:
        """Write a snapshot over its file, if that still has a version; False when it has not."""
        blob = encode_snapshot(snapshot, spec=self.generation.spec, level=self._level)
        self._snapshots.drop(snapshot.id)
        key, attributes = snapshot_key(snapshot.id), self._attributes("snapshot")
        return isinstance(self.storage.put_if(key, blob, version, attributes), Written)

    def save_file(self, file: Snapshot | TransactionLog) -> str:
        """Write a snapshot or a transaction log and return its key."""
        return self.save_snapshot(file) if isinstance(file, Snapshot) else self.save_log(file)

    # --- manifests ---

    def manifest(self, manifest_id: ManifestId, size_bytes: int = 0) -> Manifest:
        """Load a manifest; `size_bytes` is what the snapshot says, 0 for unknown."""
        cached = self._manifests.get(manifest_id)
        if cached is not None:
            return cached
        try:
            manifest = self._read_manifest(manifest_id, self.near, size_bytes)
        except FormatError as error:
            error.during("fetch_manifest")
            raise
        manifest = _manifest_there(manifest, manifest_id)
        self._manifests.put(manifest_id, manifest)
        return manifest

    def _read_manifest(
        self, manifest_id: ManifestId, storage: Storage, size_bytes: int = 0
    ) -> Manifest | None:
        key = manifest_key(manifest_id)
        blob = storage.get(key, 0, size_bytes) if size_bytes else storage.get(key)
        return None if blob is None else decode_manifest(blob, key=key, of=manifest_id)

    def save_manifest(
        self, manifest_id: ManifestId, arrays: Mapping[NodeId, ChunkTable]
    ) -> ManifestFile:
        """Write a manifest and tell what a snapshot must record of it."""
        info, put = self.pack_manifest(manifest_id, arrays)
        put()
        return info

    def pack_manifest(
        self, manifest_id: ManifestId, arrays: Mapping[NodeId, ChunkTable]
    ) -> tuple[ManifestFile, Callable[[], None]]:
        """What a snapshot must record of a manifest, and what writes it when it is called."""
        blob = self._encode_manifest(manifest_id, arrays)
        manifest = Manifest(manifest_id, self.generation.spec, arrays)
        info = ManifestFile(manifest_id, len(blob), sum(map(len, arrays.values())))
        return info, partial(self._put_manifest, manifest, blob)

    def _encode_manifest(
        self, manifest_id: ManifestId, arrays: Mapping[NodeId, ChunkTable]
    ) -> bytes:
        return encode_manifest(
            manifest_id,
            arrays,
            spec=self.generation.spec,
            level=self._level,
            compress_locations=self._location_compression,
        )

    def pack_patched(self, manifest: Manifest) -> tuple[ManifestFile, Callable[[], None]]:
        """The same for a manifest that was made of the bytes of another."""
        blob = manifest.seal(spec=self.generation.spec, level=self._level)
        info = ManifestFile(manifest.id, len(blob), manifest.num_refs)
        return info, partial(self._put_manifest, manifest, blob)

    def _put_manifest(self, manifest: Manifest, blob: bytes) -> None:
        self._write_manifest(manifest.id, blob)
        self._manifests.put(manifest.id, manifest)

    def _write_manifest(self, manifest_id: ManifestId, blob: bytes) -> None:
        self.storage.put(manifest_key(manifest_id), blob, self._attributes("manifest"))

    # --- transaction logs ---

    def log(self, snapshot_id: SnapshotId) -> TransactionLog | None:
        """Load the transaction log of a snapshot; None when there is no such file."""
        cached = self._logs.get(snapshot_id)
        if cached is not None:
            return cached
        log = self._read_log(snapshot_id, self.near)
        if log is not None:
            self._logs.put(snapshot_id, log)
        return log

    def _read_log(self, snapshot_id: SnapshotId, storage: Storage) -> TransactionLog | None:
        key = log_key(snapshot_id)
        blob = storage.get(key)
        return None if blob is None else decode_log(blob, key=key, of=snapshot_id)

    def save_log(self, log: TransactionLog) -> str:
        """Write a transaction log and return its key."""
        self._write_log(log)
        return log_key(log.id)

    def _write_log(self, log: TransactionLog) -> None:
        blob = encode_log(log, spec=self.generation.spec, level=self._level)
        self.storage.put(log_key(log.id), blob, self._attributes("transaction-log"))

    # --- past all caches ---

    # Maintenance reads nearly every file once, which would only drive useful ones out of the
    # caches, and it must see what storage has now.

    def fresh_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Load a snapshot."""
        return _snapshot_there(self._read_snapshot(snapshot_id, self.storage), snapshot_id)

    def fresh_links(self, snapshot_id: SnapshotId) -> Links:
        """Load of a snapshot whose file names its parent what history needs."""
        key = snapshot_key(snapshot_id)
        blob = _snapshot_there(self.storage.get(key), snapshot_id)
        return snapshot_links(blob, key=key, of=snapshot_id)

    def fresh_manifest_files(self, snapshot_id: SnapshotId) -> tuple[ManifestFile, ...]:
        """Load of a snapshot which manifests it lists."""
        key = snapshot_key(snapshot_id)
        blob = _snapshot_there(self.storage.get(key), snapshot_id)
        return manifest_files(blob, key=key, of=snapshot_id)

    def fresh_manifest(self, manifest_id: ManifestId) -> Manifest:
        """Load a manifest."""
        return _manifest_there(self._read_manifest(manifest_id, self.storage), manifest_id)

    def fresh_native_chunks(self, manifest_id: ManifestId) -> U8:
        """Load of a manifest which chunk objects it refers to, (n, 12); repeated ones repeat."""
        key = manifest_key(manifest_id)
        blob = _manifest_there(self.storage.get(key), manifest_id)
        return native_chunk_ids(blob, key=key, of=manifest_id)

    def fresh_log(self, snapshot_id: SnapshotId) -> TransactionLog | None:
        """Load a transaction log; None when there is no such file."""
        return self._read_log(snapshot_id, self.storage)

    # --- files ---

    def where(self, key: str) -> str:
        """The key under which a place has an object, or a folder of objects, that we call `key`."""
        return key

    def where_all(self, keys: Sequence[str]) -> Sequence[str]:
        """The same for objects that are about to be deleted, whose names must be known."""
        return keys

    def attribute_files(self) -> Iterable[Listed]:
        """Attribute files, which generations before spec 1 have, by their own keys."""
        return ()

    def attribute_files_of(self, snapshots: Iterable[SnapshotId]) -> set[str]:
        """The keys of the attribute files that some snapshots need."""
        return set()

    # --- chunks ---

    def chunk(self, ref: NativeRef, start: int, end: int) -> bytes:
        """Fetch bytes `start:end` of a native chunk."""
        key = chunk_key(ref.chunk_id)
        place = (ref.chunk_id, ref.offset + start, ref.offset + end)
        cached = self._chunks.get(place)
        if cached is not None:
            return cached
        data = self.near.get(key, ref.offset + start, ref.offset + end)
        if data is None:
            raise StorageError(
                "a chunk object is missing", kind=ErrorKind.OBJECT_NOT_FOUND, key=key
            )
        if len(data) != end - start:
            raise StorageError(
                "a chunk object is shorter than its reference says",
                kind=ErrorKind.INVALID_OBJECT_SIZE,
                key=key,
                expected=ref.offset + end,
            )
        self._chunks.put(place, data)
        return data

    def save_chunk(self, data: Bytes) -> NativeRef:
        """Write a chunk object of its own."""
        chunk_id = ChunkId.random()
        self.storage.put(chunk_key(chunk_id), data, CHUNK)
        return NativeRef(chunk_id, 0, len(data))

    def make_durable(self, keys: Iterable[str]) -> None:
        """Return once these objects would survive a power cut."""
        self.storage.make_durable(keys)

    def start_durable(self, keys: Iterable[str]) -> Callable[[], None]:
        """Begin with that; the answer, when called, waits for its end."""
        return self.storage.start_durable(keys)

    def forget(self) -> None:
        """Empty the caches, because files may have been deleted."""
        for kept in (self._snapshots, self._manifests, self._logs, self._chunks):
            kept.clear()

    def _attributes(self, file_type: str) -> Attributes:
        return file_attributes(file_type, self.generation.spec)


@cache
def file_attributes(file_type: str, spec: int) -> Attributes:
    """User metadata that stores may keep beside a binary file; informative only."""
    return Attributes(
        metadata={
            "ic_spec_ver": str(spec),
            "ic_client": CLIENT,
            "ic_file_type": file_type,
            "ic_comp_alg": "zstd",
        },
        is_unnamed=file_type != "repo-info",
    )


def snapshot_key(snapshot_id: SnapshotId) -> str:
    """Key of a snapshot file."""
    return f"{SNAPSHOTS}{snapshot_id}"


def manifest_key(manifest_id: ManifestId) -> str:
    """Key of a manifest file."""
    return f"{MANIFESTS}{manifest_id}"


def log_key(snapshot_id: SnapshotId) -> str:
    """Key of the transaction log of a snapshot."""
    return f"{LOGS}{snapshot_id}"


def chunk_key(chunk_id: ChunkId) -> str:
    """Key of a chunk object."""
    return f"{CHUNKS}{chunk_id}"


def _snapshot_there(found: V | None, snapshot_id: SnapshotId) -> V:
    if found is None:
        raise SnapshotNotFoundError("snapshot object not found", snapshot=snapshot_id)
    return found


def _manifest_there(found: V | None, manifest_id: ManifestId) -> V:
    if found is None:
        raise StorageError(
            "a manifest of this snapshot is missing",
            kind=ErrorKind.OBJECT_NOT_FOUND,
            key=manifest_key(manifest_id),
        )
    return found


def _log_weight(log: TransactionLog) -> int:
    ids = (
        log.new_groups
        + log.new_arrays
        + log.deleted_groups
        + log.deleted_arrays
        + log.updated_arrays
        + log.updated_groups
    )
    return len(ids) + sum(map(len, log.updated_chunks.values()))
