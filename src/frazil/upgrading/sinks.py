"""Where the files go that a conversion makes: to the storage, or nowhere to be counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Final

from frazil.formats.generation import Generation
from frazil.formats.legacy.header import is_flat
from frazil.formats.manifest import encode_manifest
from frazil.formats.snapshot import encode_snapshot
from frazil.formats.txlog import encode_log
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.id_sets import RowSet, native_needs
from frazil.model.chunks import ChunkTable
from frazil.model.history import ManifestFile, Snapshot, TransactionLog
from frazil.storage.assets import file_attributes, log_key, manifest_key, snapshot_key
from frazil.storage.base import Storage, Unchanged
from frazil.storage.pool import start_in_pool
from frazil.upgrading.tuning import MANIFESTS_AT_ONCE


class Sink(ABC):
    """Takes what a conversion makes; objects come before those that refer to them."""

    @abstractmethod
    def manifest(self, id: ManifestId, node: NodeId, table: ChunkTable) -> ManifestFile:
        """Take a manifest, and tell what a snapshot records of it."""

    @abstractmethod
    def commit(self, snapshot: Snapshot, log: TransactionLog | None) -> None:
        """Take a snapshot with the log that goes with it."""


@dataclass(slots=True)
class CountingSink(Sink):
    """Notes what there is, and which chunk objects are needed."""

    manifests: int = 0
    references: int = 0
    needs: RowSet = field(default_factory=RowSet)

    def manifest(self, id: ManifestId, node: NodeId, table: ChunkTable) -> ManifestFile:
        """Count a manifest."""
        self.manifests += 1
        self.references += len(table)
        self.needs.add(native_needs(table)[0])
        return ManifestFile(id, 0, len(table))

    def commit(self, snapshot: Snapshot, log: TransactionLog | None) -> None:
        """Do nothing: a snapshot needs no counting."""


class WritingSink(Sink):
    """Writes files; each of them as a whole or not at all."""

    def __init__(self, place: Storage, generation: Generation, level: int) -> None:
        self._place: Final = place
        self._spec: Final = generation.spec
        self._level: Final = level
        self._begun: list[Future[None]] = []
        self.keys: Final[list[str]] = []
        """what must be made durable"""

    def manifest(self, id: ManifestId, node: NodeId, table: ChunkTable) -> ManifestFile:
        """Write a manifest."""
        blob = encode_manifest(id, {node: table}, spec=self._spec, level=self._level)
        if self._place.answers_inline:
            self._put(manifest_key(id), blob, "manifest")
        else:
            if len(self._begun) >= MANIFESTS_AT_ONCE:
                self._finish()
            self._begun.append(start_in_pool(lambda: self._put(manifest_key(id), blob, "manifest")))
        return ManifestFile(id, len(blob), len(table))

    def _finish(self) -> None:
        """Wait for what is being written."""
        begun, self._begun = self._begun, []
        wait(begun)
        for future in begun:
            future.result()

    def commit(self, snapshot: Snapshot, log: TransactionLog | None) -> None:
        """Write a log and then its snapshot, once the manifests are there."""
        self._finish()
        if log is not None:
            blob = encode_log(log, spec=self._spec, level=self._level)
            self._put(log_key(snapshot.id), blob, "transaction-log")
        key = snapshot_key(snapshot.id)
        found = self._place.fetch(key)
        assert not isinstance(found, Unchanged)
        if found is None or not is_flat(found.data):
            blob = encode_snapshot(snapshot, spec=self._spec, level=self._level)
            # Another process may have finished the upgrade since, and an expiry changed the file.
            version = None if found is None else found.version
            self._place.put_if(key, blob, version, file_attributes("snapshot", self._spec))
        self.keys.append(key)

    def _put(self, key: str, blob: bytes, kind: str) -> None:
        # Old files may be under these keys, and other processes may be reading them.
        attributes = replace(file_attributes(kind, self._spec), is_unnamed=False)
        self._place.put(key, blob, attributes)
        self.keys.append(key)

    def make_durable(self) -> None:
        """Return once all that was written would survive a power cut."""
        self._place.make_durable(self.keys)
        self.keys.clear()
