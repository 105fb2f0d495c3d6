"""The files of a legacy repository: as records, and by the keys that spec 1 would give them.

Snapshots, manifests and logs are records of the model. Bytes are those of the files, as they are:
only the keys are others, made of a kind and an id. Commit protocols use the storage below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

import numpy as np

from frazil.arrays import U8
from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.formats.generation import Generation
from frazil.formats.legacy.names import Kind
from frazil.formats.manifest import Manifest
from frazil.formats.metadata import codec_of
from frazil.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.config import RepositoryConfig
from frazil.model.history import ManifestFile, Snapshot, TransactionLog
from frazil.model.nodes import path_order
from frazil.storage.assets import ATTRIBUTES, CHUNKS, LOGS, MANIFESTS, SNAPSHOTS, Assets, Links
from frazil.storage.base import PLAIN, Attributes, Bytes, Deleted, Found, Listed, Piece, Storage
from frazil.storage.legacy.files import LegacyFiles
from frazil.storage.legacy.name_book import CLASSES
from frazil.storage.wrapped import WrappedStorage, with_disk_cache

KINDS: Final[dict[str, Kind]] = {
    SNAPSHOTS: "snapshots",
    MANIFESTS: "manifests",
    LOGS: "transactions",
    CHUNKS: "chunks",
    ATTRIBUTES: "attributes",
}


class LegacyObjects(WrappedStorage):
    """Another storage, whose legacy files are called by the keys of spec 1.

    What is read or written by its version has no id, and the same key.
    """

    def __init__(self, inner: Storage, files: LegacyFiles) -> None:
        super().__init__(inner)
        self.files: Final = files
        """what knows their names"""

    def _around(self, inner: Storage) -> Self:
        raise InvalidInputError(
            "the objects of an open repository cannot get other settings; open it anew",
            kind=ErrorKind.NOT_ALLOWED,
        )

    # --- keys ---

    def _parsed(self, key: str) -> tuple[Kind, ObjectId] | None:
        """The kind and id of a file that a key of spec 1 names; None for other keys."""
        folder, slash, name = key.partition("/")
        kind = KINDS.get(folder + slash)
        if kind is None or kind not in CLASSES or kind not in self.files.folders:
            return None
        try:
            return kind, CLASSES[kind].parse(name)
        except InvalidInputError:
            return None

    def where(self, key: str, *, new: bool = False) -> str:
        """The key below which the storage has an object, or will have a new one; or a folder."""
        if self.files.names_are_ids:
            return key
        parsed = self._parsed(key)
        if parsed is None:
            return self.files.folders.get(KINDS[key], key) if key in KINDS else key
        if new and parsed[0] == "chunks":
            self.files.written.add(ChunkId(parsed[1]))
        return self.files.key(*parsed)

    def where_all(self, keys: Sequence[str]) -> Sequence[str]:
        """Where objects are whose names no file that was read may have mentioned."""
        if not self.files.names_are_ids:
            parsed = [each for each in map(self._parsed, keys) if each is not None]
            for kind in sorted({kind for kind, id in parsed if id not in self.files.written}):
                self.files.learn_names(kind)
        return [*map(self.where, keys)]

    def _find(self, key: str) -> str | None:
        """Where an object is that is not where it should be."""
        parsed = self._parsed(key)
        return None if parsed is None else self.files.find(*parsed)

    # --- reading ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return a file or a part of it."""
        found = self.inner.get(self.where(key), start, end)
        if found is not None:
            return found
        elsewhere = self._find(key)
        return None if elsewhere is None else self.inner.get(elsewhere, start, end)

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Many `get`s at once, in order."""
        wanted = [(self.where(key), start, end) for key, start, end in ranges]
        found = self.inner.get_many(wanted)
        return [
            self.get(*item) if data is None else data
            for item, data in zip(ranges, found, strict=True)
        ]

    def read_into(self, pieces: Sequence[Piece]) -> None:
        """Fill memory with parts of objects."""
        if self.files.names_are_ids:
            self.inner.read_into(pieces)
            return
        try:
            self.inner.read_into([(self.where(key), at, view) for key, at, view in pieces])
        except StorageError as error:
            if error.kind != ErrorKind.OBJECT_NOT_FOUND:
                raise
            # Some may have names that no file has mentioned yet.
            for key in {key for key, _, _ in pieces}:
                if self.inner.head(self.where(key)) is None:
                    self._find(key)
            self.inner.read_into([(self.where(key), at, view) for key, at, view in pieces])

    def head(self, key: str) -> Listed | None:
        """Tell size and time of a file, or None."""
        found = self.inner.head(self.where(key))
        if found is None:
            elsewhere = self._find(key)
            found = None if elsewhere is None else self.inner.head(elsewhere)
        return None if found is None else Listed(key, found.size_bytes, found.created_at)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the files below a prefix, those of a kind under the keys of spec 1."""
        kind = KINDS.get(prefix)
        if kind is None or kind not in CLASSES:
            yield from self.inner.list(prefix)
            return
        found = [
            Listed(f"{prefix}{id}", item.size_bytes, item.created_at)
            for id, item in self.files.listed(kind)
        ]
        yield from sorted(found, key=lambda item: item.key)

    # --- writing ---

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write an object."""
        self.inner.put(self.where(key, new=True), data, attributes)

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Many objects at once."""
        self.inner.put_many([(self.where(key, new=True), data) for key, data in items], attributes)

    def put_parts(self, key: str, parts: Sequence[Bytes], attributes: Attributes = PLAIN) -> None:
        """Write an object that is these bytes, one after the other."""
        self.inner.put_parts(self.where(key, new=True), parts, attributes)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects; missing ones are fine."""
        names = dict(zip(self.where_all(keys), keys, strict=True))
        done = self.inner.delete_many([*names])
        return replace(done, failed=tuple((names[key], reason) for key, reason in done.failed))

    def make_durable(self, keys: Iterable[str]) -> None:
        """Return once the files of these objects would survive a power cut."""
        self.inner.make_durable(self._stored(keys))

    def start_durable(self, keys: Iterable[str]) -> Callable[[], None]:
        """Begin with that."""
        return self.inner.start_durable(self._stored(keys))

    def _stored(self, keys: Iterable[str]) -> Iterator[str]:
        """The keys of files that there are; not every generation has logs."""
        has_logs = self.files.dialect.has_logs
        return (self.where(key) for key in keys if has_logs or not key.startswith(LOGS))


# --- as records ---


class LegacyAssets(Assets):
    """Assets that are files of a generation before spec 1; chunks are found through `storage`."""

    def __init__(
        self,
        storage: LegacyObjects,
        generation: Generation,
        config: RepositoryConfig,
        near: Storage | None = None,
    ) -> None:
        super().__init__(storage, generation, config, near)
        self.files: Final = storage.files
        self._objects = storage
        folder = self.files.folders["manifests"]
        self._near_files = with_disk_cache(self.files.storage, prefixes=(folder,))

    def keep(self, snapshot: Snapshot) -> None:
        """Remember a snapshot that was just read."""
        self._snapshots.put(snapshot.id, snapshot)

    def _read_snapshot(self, snapshot_id: SnapshotId, storage: Storage) -> Snapshot | None:
        return self.files.snapshot(snapshot_id)

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        self.files.save_snapshot(sorted_snapshot(snapshot))

    def _read_manifest(
        self, manifest_id: ManifestId, storage: Storage, size_bytes: int = 0
    ) -> Manifest | None:
        is_fresh = storage is self.storage
        tables = self.files.manifest(manifest_id, None if is_fresh else self._near_files)
        return None if tables is None else Manifest(manifest_id, self.generation.spec, tables)

    def _encode_manifest(
        self, manifest_id: ManifestId, arrays: Mapping[NodeId, ChunkTable]
    ) -> bytes:
        return self.files.encode_manifest(manifest_id, arrays)

    def _write_manifest(self, manifest_id: ManifestId, blob: bytes) -> None:
        self.files.put("manifests", manifest_id, blob)

    def _read_log(self, snapshot_id: SnapshotId, storage: Storage) -> TransactionLog | None:
        return self.files.log(snapshot_id)

    def _write_log(self, log: TransactionLog) -> None:
        self.files.save_log(log)

    # --- past all caches ---

    def fresh_links(self, snapshot_id: SnapshotId) -> Links:
        found = self.fresh_snapshot(snapshot_id)
        return found.entry(found.parent_id), found.manifest_files

    def fresh_manifest_files(self, snapshot_id: SnapshotId) -> tuple[ManifestFile, ...]:
        return self.fresh_snapshot(snapshot_id).manifest_files

    def fresh_native_chunks(self, manifest_id: ManifestId) -> U8:
        tables = (table for _, table in self.fresh_manifest(manifest_id).tables())
        parts = (table.chunk_id[table.kind == ChunkType.native] for table in tables)
        return np.concatenate([np.zeros((0, ChunkId.width), np.uint8), *parts])

    # --- files ---

    def where(self, key: str) -> str:
        return self._objects.where(key)

    def where_all(self, keys: Sequence[str]) -> Sequence[str]:
        return self._objects.where_all(keys)

    def attribute_files(self) -> Iterable[Listed]:
        return self.files.storage.list(self.files.folders["attributes"])

    def attribute_files_of(self, snapshots: Iterable[SnapshotId]) -> set[str]:
        folder = self.files.folders["attributes"]
        return {folder + name for one in snapshots for name in self.files.attribute_files_of(one)}


def sorted_snapshot(snapshot: Snapshot) -> Snapshot:
    """A snapshot with its nodes, manifests and metadata in the order in which files have them.

    Raises:
        InvalidInputError: the metadata has a value that no generation can hold.
    """
    codec = codec_of(1, "snapshot")
    metadata = snapshot.metadata
    return replace(
        snapshot,
        nodes=tuple(sorted(snapshot.nodes, key=lambda node: path_order(node.path))),
        manifest_files=tuple(sorted(snapshot.manifest_files, key=lambda file: bytes(file.id))),
        metadata={
            name: codec.unpack(codec.pack(metadata[name]))
            for name in sorted(metadata, key=str.encode)
        },
    )
