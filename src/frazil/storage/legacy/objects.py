"""The objects of a legacy repository under the keys of spec 1.

Chunks are the same bytes under another key. Sessions and commits get all else as records from
`LegacyAssets`. Maintenance, fsck and the trash look at the bytes of files: what they read here
was made from the files of the legacy generation, and what they put back becomes such files.
Commit protocols use the storage below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.formats.generation import Generation
from frazil.formats.legacy.names import Kind
from frazil.formats.manifest import Manifest, decode_manifest, encode_manifest
from frazil.formats.metadata import codec_of
from frazil.formats.snapshot import decode_snapshot, encode_snapshot
from frazil.formats.txlog import decode_log, encode_log
from frazil.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.config import RepositoryConfig
from frazil.model.history import Snapshot, TransactionLog
from frazil.model.nodes import path_order
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS, Assets
from frazil.storage.base import (
    PLAIN,
    Attributes,
    Bytes,
    Deleted,
    Fetched,
    Found,
    Listed,
    LostRace,
    Piece,
    Storage,
    Unchanged,
    Version,
    Written,
    byte_span,
)
from frazil.storage.legacy.files import CLASSES, LegacyFiles
from frazil.storage.wrapped import WrappedStorage, with_disk_cache

KINDS: Final[dict[str, Kind]] = {
    SNAPSHOTS: "snapshots",
    MANIFESTS: "manifests",
    LOGS: "transactions",
    CHUNKS: "chunks",
}
SPEC: Final = 1
LEVEL: Final = 1
"""Nobody keeps what is made here, so it is packed quickly."""


class LegacyObjects(WrappedStorage):
    """Another storage, whose legacy files appear as objects of spec 1."""

    def __init__(self, inner: Storage, files: LegacyFiles) -> None:
        super().__init__(inner)
        self.files: Final = files
        """what the objects are made from"""

    def _around(self, inner: Storage) -> Self:
        raise InvalidInputError(
            "the objects of an open repository cannot get other settings; open it anew",
            kind=ErrorKind.NOT_ALLOWED,
        )

    # --- keys ---

    def _parsed(self, key: str) -> tuple[Kind, ObjectId] | None:
        """The kind and id that a key of spec 1 names; None for other keys."""
        folder, slash, name = key.partition("/")
        kind = KINDS.get(folder + slash)
        if kind is None:
            return None
        try:
            return kind, CLASSES[kind].parse(name)
        except InvalidInputError:
            return None

    def where(self, key: str, *, new: bool = False) -> str:
        """The key below which the storage has an object, or will have a new one."""
        parsed = None if self.files.names_are_ids else self._parsed(key)
        if parsed is None or parsed[0] not in self.files.folders:
            return key
        if new and parsed[0] == "chunks":
            self.files.written.add(ChunkId(parsed[1]))
        return self.files.key(*parsed)

    def _made(self, key: str) -> tuple[Kind, ObjectId] | None:
        """What a key names if its bytes are made here, not taken as they are."""
        parsed = self._parsed(key)
        return None if parsed is None or parsed[0] == "chunks" else parsed

    # --- reading ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it.

        A request for the beginning of what is made from a legacy file gets all of it, since sizes
        that snapshots tell are those of the legacy file.
        """
        made = self._made(key)
        if made is None:
            return self._get_chunk(key, start, end)
        whole = self._read(*made)
        if whole is None or not start:
            return whole
        first, last = byte_span(len(whole), start, end)
        return whole[first:last]

    def _get_chunk(self, key: str, start: int | None, end: int | None) -> bytes | None:
        found = self.inner.get(self.where(key), start, end)
        if found is not None:
            return found
        elsewhere = self._find(key)
        return None if elsewhere is None else self.inner.get(elsewhere, start, end)

    def _find(self, key: str) -> str | None:
        """Where an object is that is not where it should be."""
        parsed = self._parsed(key)
        return None if parsed is None else self.files.find(*parsed)

    def _read(self, kind: Kind, id: ObjectId) -> bytes | None:
        files = self.files
        if kind == "snapshots":
            snapshot = files.snapshot(SnapshotId(id))
            return None if snapshot is None else encode_snapshot(snapshot, spec=SPEC, level=LEVEL)
        if kind == "manifests":
            tables = files.manifest(ManifestId(id))
            if tables is None:
                return None
            return encode_manifest(ManifestId(id), tables, spec=SPEC, level=LEVEL)
        log = files.log(SnapshotId(id))
        return None if log is None else encode_log(log, spec=SPEC, level=LEVEL)

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Return the object with the version of the file it is made from."""
        found = self.inner.fetch(self.where(key), known)
        made = self._made(key)
        if made is None or not isinstance(found, Fetched):
            return found
        whole = self._read(*made)
        return None if whole is None else Fetched(whole, found.version)

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Many `get`s at once, in order."""
        if any(self._made(key) for key, _, _ in ranges):
            return [self.get(*item) for item in ranges]
        wanted = [(self.where(key), start, end) for key, start, end in ranges]
        found = self.inner.get_many(wanted)
        return [
            self._get_chunk(*item) if data is None else data
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
        """Tell size and time of the file that an object is made from, or None."""
        found = self.inner.head(self.where(key))
        if found is None:
            elsewhere = self._find(key)
            found = None if elsewhere is None else self.inner.head(elsewhere)
        return None if found is None else Listed(key, found.size_bytes, found.created_at)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the objects below a prefix, under the keys of spec 1 where they have such."""
        kind = KINDS.get(prefix)
        if kind is None:
            yield from self.inner.list(prefix)
            return
        found = [
            Listed(f"{prefix}{id}", item.size_bytes, item.created_at)
            for id, item in self.files.listed(kind)
        ]
        yield from sorted(found, key=lambda item: item.key)

    # --- writing ---

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write the object as a file of the legacy generation."""
        made = self._made(key)
        if made is None:
            self.inner.put(self.where(key, new=True), data, attributes)
            return
        kind, _ = made
        if kind == "snapshots":
            self.files.save_snapshot(decode_snapshot(bytes(data), key=key))
        elif kind == "manifests":
            manifest = decode_manifest(bytes(data), key=key)
            blob = self.files.encode_manifest(manifest.id, dict(manifest.tables()))
            self.files.put(kind, manifest.id, blob)
        else:
            self.files.save_log(decode_log(bytes(data), key=key))

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Many chunks at once."""
        self.inner.put_many([(self.where(key, new=True), data) for key, data in items], attributes)

    def put_parts(self, key: str, parts: Sequence[Bytes], attributes: Attributes = PLAIN) -> None:
        """Write a chunk that is these bytes, one after the other."""
        self.inner.put_parts(self.where(key, new=True), parts, attributes)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write an object that is no file of a kind conditionally."""
        return self.inner.put_if(self.where(key), data, expected, attributes)

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Copy an object if its version is still `expected`."""
        return self.inner.copy_if(self.where(source), self.where(target), expected)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects; missing ones are fine."""
        names = dict(zip(map(self.where, keys), keys, strict=True))
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


def stored_key(storage: Storage, key: str) -> str:
    """The key under which a place has an object that a repository knows by `key`."""
    return storage.where(key) if isinstance(storage, LegacyObjects) else key


def legacy_files(storage: Storage) -> LegacyFiles | None:
    """The files that the objects of a legacy repository are made from; None for others."""
    return storage.files if isinstance(storage, LegacyObjects) else None


def attribute_files(storage: Storage) -> Iterator[Listed]:
    """The attribute files of a repository, by their own keys."""
    if isinstance(storage, LegacyObjects):
        yield from storage.inner.list(storage.files.folders["attributes"])


def attribute_files_of(storage: Storage, snapshots: Iterable[SnapshotId]) -> set[str]:
    """The keys of the attribute files that some snapshots need."""
    if not isinstance(storage, LegacyObjects):
        return set()
    folder = storage.files.folders["attributes"]
    return {folder + name for one in snapshots for name in storage.files.attribute_files_of(one)}


# --- as records ---


class LegacyAssets(Assets):
    """Assets that are files of a generation before spec 1; chunks are found through `storage`."""

    def __init__(
        self, storage: Storage, generation: Generation, config: RepositoryConfig, files: LegacyFiles
    ) -> None:
        super().__init__(storage, generation, config)
        self._files = files
        self._near = with_disk_cache(files.storage, prefixes=(files.folders["manifests"],))

    def keep(self, snapshot: Snapshot) -> None:
        """Remember a snapshot that was just read."""
        self._snapshots.put(snapshot.id, snapshot)

    def _read_snapshot(self, snapshot_id: SnapshotId) -> Snapshot | None:
        return self._files.snapshot(snapshot_id)

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        self._files.save_snapshot(sorted_snapshot(snapshot))

    def _read_manifest(self, manifest_id: ManifestId, size_bytes: int) -> Manifest | None:
        tables = self._files.manifest(manifest_id, self._near)
        return None if tables is None else Manifest(manifest_id, self.generation.spec, tables)

    def _encode_manifest(
        self, manifest_id: ManifestId, arrays: Mapping[NodeId, ChunkTable]
    ) -> bytes:
        return self._files.encode_manifest(manifest_id, arrays)

    def _write_manifest(self, manifest_id: ManifestId, blob: bytes) -> None:
        self._files.put("manifests", manifest_id, blob)

    def _read_log(self, snapshot_id: SnapshotId) -> TransactionLog | None:
        return self._files.log(snapshot_id)

    def _write_log(self, log: TransactionLog) -> None:
        self._files.save_log(log)


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
