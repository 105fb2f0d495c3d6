"""Snapshots, manifests and transaction logs of a legacy repository, as records of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from frazil.formats.generation import Generation
from frazil.formats.manifest import Manifest
from frazil.formats.metadata import codec_of
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.config import RepositoryConfig
from frazil.model.history import Snapshot, TransactionLog
from frazil.model.nodes import path_order
from frazil.storage.assets import Assets
from frazil.storage.base import Storage
from frazil.storage.cached import with_disk_cache
from frazil.storage.legacy.files import LegacyFiles


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
        self._files.save_snapshot(in_order(snapshot))

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


def in_order(snapshot: Snapshot) -> Snapshot:
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
