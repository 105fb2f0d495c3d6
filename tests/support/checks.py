"""Is a repository whole: a walk over everything that its refs reach, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np

from frazil.commit.base import OVERWRITTEN
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.formats.manifest import Manifest
from frazil.ids import MAIN, SnapshotId, crockford_many, parent_path
from frazil.model.chunks import ChunkType
from frazil.model.history import ManifestFile, Snapshot, SnapshotEntry, UpdateType
from frazil.model.nodes import ArrayNode, GroupNode, path_order
from frazil.repository import Repository
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS, log_key, manifest_key
from frazil.storage.assets import snapshot_key as key_of_snapshot
from frazil.storage.base import Storage
from frazil.transaction.opened import context_of

T = TypeVar("T")

FOLDERS = (SNAPSHOTS, LOGS, MANIFESTS, CHUNKS)


@dataclass
class Checked:
    """What a walk has seen."""

    histories: dict[str, list[SnapshotEntry]] = field(default_factory=dict)
    """of each branch and tag, newest first"""
    keys: set[str] = field(default_factory=set)
    """every object that is in use, apart from refs and repo objects"""

    def messages(self, ref: str = MAIN) -> list[str]:
        """The messages of a history, oldest first."""
        return [entry.message for entry in reversed(self.histories[ref])]


def check_repository(repository: Repository) -> Checked:
    """Open the repository anew and read everything its refs reach; fail on what is not whole."""
    return _Walk(Repository.open(repository.storage)).run()


def garbage_of(repository: Repository) -> set[str]:
    """Objects that are there and not in use."""
    storage = context_of(repository).storage
    there = {item.key for folder in FOLDERS for item in storage.list(folder)}
    return there - check_repository(repository).keys


class _Walk:
    def __init__(self, repository: Repository) -> None:
        self.context = context_of(repository)
        self.assets = context_of(repository).assets
        self.storage: Storage = context_of(repository).storage
        self.spec = context_of(repository).generation.spec
        self.is_old = context_of(repository).generation.dialect is not None
        listed = [item for folder in FOLDERS for item in self.storage.list(folder)]
        self.sizes = {item.key: item.size_bytes for item in [*self.storage.list(""), *listed]}
        self.manifests: dict[bytes, Manifest] = {}
        self.done: set[SnapshotId] = set()
        self.seen = Checked()

    def run(self) -> Checked:
        refs = self.context.refs
        branches, tags = refs.branches(), refs.tags()
        assert MAIN in branches
        for name, tip in [*branches.items(), *tags.items()]:
            history = list(refs.ancestry(tip))
            self.seen.histories[name] = history
            self.check_history(history)
        if isinstance(refs, RepoObjectRefs):
            self.check_repo_object(refs)
        if isinstance(refs, FileRefs):
            for tip in refs.roots():
                self.check_entry(refs.entry(tip))  # also those that no branch points to
        return self.seen

    def check_history(self, history: Sequence[SnapshotEntry]) -> None:
        ids = [entry.id for entry in history]
        assert len(set(ids)) == len(ids), "a snapshot is its own ancestor"
        assert [entry.parent_id for entry in history] == [*ids[1:], None]
        assert_descending([entry.flushed_at for entry in history])
        for entry in history:
            self.check_entry(entry)

    def check_entry(self, entry: SnapshotEntry) -> None:
        if entry.id in self.done:
            return
        self.done.add(entry.id)
        snapshot = self.there(key_of_snapshot(entry.id), self.assets.fresh_snapshot(entry.id))
        assert snapshot.id == entry.id
        assert (snapshot.message, snapshot.flushed_at) == (entry.message, entry.flushed_at)
        assert snapshot.metadata == entry.metadata
        if self.spec == 1:
            assert snapshot.parent_id == entry.parent_id
        self.check_nodes(snapshot)
        self.check_manifests(snapshot)
        if self.spec > 1 or entry.parent_id is not None:
            self.check_log(entry.id)
        for pruned in entry.pruned_ancestor_tx_logs:
            self.check_log(pruned)

    def check_nodes(self, snapshot: Snapshot) -> None:
        paths = [node.path for node in snapshot.nodes]
        assert_ascending([path_order(path) for path in paths])
        assert len({node.id for node in snapshot.nodes}) == len(paths)
        groups = {node.path for node in snapshot.nodes if isinstance(node, GroupNode)}
        for path in paths:
            assert path == "/" or parent_path(path) in groups | {"/"}, f"{path} has no parent"

    def check_manifests(self, snapshot: Snapshot) -> None:
        arrays = [node for node in snapshot.nodes if isinstance(node, ArrayNode)]
        used = {ref.id for node in arrays for ref in node.manifests}
        assert_ascending([info.id for info in snapshot.manifest_files])
        assert {info.id for info in snapshot.manifest_files} == used
        for info in snapshot.manifest_files:
            manifest = self.manifest(info)
            assert manifest.id == info.id
            # Not every dialect from before spec 1 counts references.
            assert info.num_chunk_refs in ((manifest.num_refs, 0)[: 1 + self.is_old])
        for node in arrays:
            self.check_array(node)

    def check_array(self, node: ArrayNode) -> None:
        coords: list[tuple[int, ...]] = []
        for ref in node.manifests:
            table = self.manifests[ref.id].table(node.id)
            assert table is not None, f"a manifest of {node.path} does not know it"
            assert len(table), f"an empty manifest of {node.path}"
            found = [tuple(row) for row in table.coords.tolist()]
            assert all(map(ref.covers, found)), f"chunks of {node.path} outside the extents"
            coords += found
        assert len(set(coords)) == len(coords), f"two references for a chunk of {node.path}"

    def manifest(self, info: ManifestFile) -> Manifest:
        known = self.manifests.get(info.id)
        if known is not None:
            return known
        key = manifest_key(info.id)
        manifest = self.manifests[info.id] = self.there(key, self.assets.fresh_manifest(info.id))
        assert info.size_bytes in ((self.sizes[key], 0)[: 1 + self.is_old])
        for node_id in manifest.nodes():
            table = manifest.table(node_id)
            assert table is not None
            native = table.kind == ChunkType.native
            ends = (table.offset + table.length)[native].tolist()
            for name, end in zip(crockford_many(table.chunk_id[native]), ends, strict=True):
                self.seen.keys.add(f"{CHUNKS}{name}")
                assert self.sizes.get(f"{CHUNKS}{name}", -1) >= end, f"chunk {name} is not whole"
        return manifest

    def check_log(self, snapshot_id: SnapshotId) -> None:
        log = self.there(log_key(snapshot_id), self.assets.fresh_log(snapshot_id))
        assert log.id == snapshot_id
        for ids in (log.new_groups, log.new_arrays, log.updated_arrays, log.updated_groups):
            assert_ascending(ids)
        for coords in log.updated_chunks.values():
            assert len(np.unique(coords, axis=0)) == len(coords)

    def check_repo_object(self, refs: RepoObjectRefs) -> None:
        info = refs.info()
        for entry in info.snapshots.values():
            assert entry.parent_id is None or entry.parent_id in info.snapshots
            self.check_entry(entry)  # also those that no branch points to
        updates = list(refs.updates())
        assert_descending([update.updated_at for update in updates])
        assert isinstance(updates[-1].kind, UpdateType.RepoInitialized | UpdateType.RepoMigrated), (
            "the log is cut"
        )
        backups = {update.backup_path for update in updates} - {None}
        assert {f"{OVERWRITTEN}{name}" for name in backups} <= self.sizes.keys()

    def there(self, key: str, found: T | None) -> T:
        assert found is not None, f"{key} is missing"
        self.seen.keys.add(key)
        return found


def assert_ascending(values: Iterable[bytes]) -> None:
    """Strictly."""
    items = [*values]
    assert all(a < b for a, b in pairwise(items)), "not in order"


def assert_descending(times: Sequence[int]) -> None:
    """Strictly."""
    assert all(a > b for a, b in pairwise(times)), "times do not decrease"
