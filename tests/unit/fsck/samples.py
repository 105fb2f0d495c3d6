"""A repository with something of everything, and tools to damage it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from frazil.flatbuf.reader import Buffer, Table
from frazil.formats.envelope import HEADER, FileKind, seal, unseal
from frazil.formats.generation import V1, V2
from frazil.formats.manifest import Manifest, decode_manifest, encode_manifest
from frazil.formats.repo_info import REPO_KEY, decode_repo_info, encode_repo_info
from frazil.formats.snapshot import decode_snapshot, encode_snapshot
from frazil.formats.txlog import decode_log, encode_log
from frazil.fsck.files import RepositoryFiles
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    VirtualChunkContainer,
)
from frazil.model.history import RepoInfo, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Node
from frazil.repository import Repository
from frazil.storage.assets import Assets, log_key, manifest_key, snapshot_key
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import array_document, group_document, write_keys

CHUNK = b"8 bytes!"
PREFIX = "file:///somewhere/data/"


def config() -> RepositoryConfig:
    """Chunks of more than four bytes are objects, and manifests have four references."""
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 4}}
    )
    container = VirtualChunkContainer(PREFIX, ObjectStoreConfig.LocalFileSystem("/somewhere/data"))
    return RepositoryConfig(
        inline_chunk_threshold_bytes=4,
        manifest=ManifestConfig(splitting=splitting),
        virtual_chunk_containers={PREFIX: container},
    )


def commit(
    repository: Repository,
    message: str,
    keys: Mapping[str, bytes] | None = None,
    *,
    branch: str = "main",
    **more: bytes,
) -> str:
    """Set keys and commit; `__` in a name stands for `/`."""
    session = repository.writable_session(branch)
    named = {**(keys or {}), **more}
    write_keys(session, {name.replace("__", "/"): value for name, value in named.items()})
    return session.commit(message, {"by": "us", "to": "all"})


def make(storage: Storage, spec: int) -> Repository:
    """A repository: groups, arrays of native, inline and virtual chunks, branches and tags."""
    repository = Repository.create(storage, config(), spec_version=spec)
    chunks = {f"a__c__{index}": CHUNK for index in range(8)}
    arrays = {
        "a__zarr.json": array_document(64, chunks=(8,), dimension_names=["x"]),
        "b__zarr.json": array_document(4, chunks=(2,)),
        "old__zarr.json": array_document(2),
        "b__c__0": b"ab",
        "b__c__1": b"cd",
    }
    groups = {"zarr.json": group_document(), "g__zarr.json": group_document()}
    commit(repository, "first", {**groups, **arrays, **chunks})
    second = commit(
        repository, "second", {"g__zarr.json": group_document(n=2), "a__c__1": CHUNK[::-1]}
    )
    repository.create_branch("dev", second)
    repository.create_tag("v1", second)
    repository.create_tag("gone", second)
    repository.delete_tag("gone")
    commit(repository, "aside", branch="dev", b__c__0=b"xy")
    session = repository.writable_session("main")
    write_keys(session, {"v/zarr.json": array_document(2), "a/c/2": CHUNK[::-1]})
    session.store.set_virtual_ref("v/c/0", f"{PREFIX}one.bin", offset=0, length=1)
    session.store.set_virtual_ref("v/c/1", f"{PREFIX}two.bin", offset=1, length=1)
    session.store._keys.delete("old/zarr.json")
    session.commit("third", {"by": "us", "to": "all"})
    if spec == 2:
        moving = repository.rearrange_session("main")
        moving.move("/b", "/g/b")
        moving.commit("moved")
    commit(repository, "last", {"a__c__5": CHUNK[::-1], "g__zarr.json": group_document(n=3)})
    return repository


@cache
def healthy(spec: int) -> MemoryStorage:
    """The repository that tests copy."""
    storage = MemoryStorage()
    make(storage, spec)
    return storage


def copy(storage: Storage) -> MemoryStorage:
    """The same objects elsewhere."""
    made = MemoryStorage()
    for item in storage.list(""):
        data = storage.get(item.key)
        assert data is not None
        made.put(item.key, data)
    return made


def patched(blob: bytes, kind: FileKind, edit: Callable[[bytearray], None]) -> bytes:
    """A file whose unpacked body was edited."""
    body = bytearray(unseal(blob, kind, key="").body)
    edit(body)
    return seal(bytes(body), kind, spec=blob[36])


def root_of(blob: bytes) -> tuple[Table, Buffer]:
    """The root table of a file."""
    buffer = Buffer(unseal(blob, None, key="").body, "")
    return buffer.root(), buffer


@dataclass
class Sick:
    """A repository that is about to be damaged."""

    storage: MemoryStorage
    spec: int

    # --- files ---

    def get(self, key: str) -> bytes:
        """A file, which must be there."""
        blob = self.storage.get(key)
        assert blob is not None, key
        return blob

    def delete(self, key: str) -> None:
        """Lose a file."""
        assert self.storage.head(key) is not None
        self.storage.delete_many([key])

    def header(self, key: str, at: int, value: bytes) -> None:
        """Change bytes of a header."""
        blob = self.get(key)
        assert at < HEADER.size
        self.storage.put(key, blob[:at] + value + blob[at + len(value) :])

    def swap(self, key: str, one: bytes, other: bytes) -> None:
        """Exchange two texts of the same length wherever they are in a file."""
        assert len(one) == len(other)
        blob = self.get(key)

        def edit(body: bytearray) -> None:
            assert one in body
            mark = b"\xfe" * len(one)
            body[:] = body.replace(one, mark).replace(other, one).replace(mark, other)

        self.storage.put(key, patched(blob, FileKind(blob[37]), edit))

    def patch(self, key: str, at: int, value: bytes) -> None:
        """Change bytes of the unpacked body."""
        blob = self.get(key)

        def edit(body: bytearray) -> None:
            body[at : at + len(value)] = value

        self.storage.put(key, patched(blob, FileKind(blob[37]), edit))

    # --- what there is ---

    @property
    def repository(self) -> Repository:
        """The repository, as long as it opens."""
        return Repository.open(self.storage)

    @property
    def history(self) -> list[SnapshotId]:
        """Snapshots of main, newest first."""
        return [SnapshotId.parse(info.id) for info in self.repository.ancestry(branch="main")]

    def find(self, message: str) -> SnapshotId:
        """The snapshot of main with this message."""
        found = [
            info for info in self.repository.ancestry(branch="main") if info.message == message
        ]
        return SnapshotId.parse(found[0].id)

    @property
    def tip(self) -> SnapshotId:
        """The newest snapshot of main."""
        return self.history[0]

    def snapshot(self, snapshot_id: SnapshotId | None = None) -> Snapshot:
        """A snapshot; the newest of main by default."""
        key = snapshot_key(snapshot_id or self.tip)
        return decode_snapshot(self.get(key), key=key)

    def node(self, path: str) -> ArrayNode:
        """An array of the newest snapshot."""
        found = next(node for node in self.snapshot().nodes if node.path == path)
        assert isinstance(found, ArrayNode)
        return found

    def manifest_id(self, path: str = "/a") -> ManifestId:
        """The manifest with the first chunks of an array."""
        return min(self.node(path).manifests, key=lambda ref: ref.extents).id

    def manifest_key(self, path: str = "/a") -> str:
        """Its key."""
        return manifest_key(self.manifest_id(path))

    def manifest(self, path: str = "/a") -> Manifest:
        """Its content."""
        key = self.manifest_key(path)
        return decode_manifest(self.get(key), key=key)

    def log(self, snapshot_id: SnapshotId | None = None) -> TransactionLog:
        """A transaction log."""
        key = log_key(snapshot_id or self.tip)
        return decode_log(self.get(key), key=key)

    def info(self) -> RepoInfo:
        """The repo object."""
        return decode_repo_info(self.get(REPO_KEY), key=REPO_KEY)

    # --- changing it ---

    def write_snapshot(
        self,
        snapshot_id: SnapshotId | None = None,
        **changes: Any,  # noqa: ANN401  # fields of the record
    ) -> None:
        """Write a snapshot with other fields, under its old name."""
        name = snapshot_id or self.tip
        made = replace(self.snapshot(name), **changes)
        self.storage.put(snapshot_key(name), encode_snapshot(made, spec=self.spec))

    def write_node(self, path: str, **changes: Any) -> None:  # noqa: ANN401
        """Change a node of the newest snapshot."""

        def edited(node: Node) -> Node:
            return replace(node, **changes) if node.path == path else node

        self.write_snapshot(nodes=tuple(map(edited, self.snapshot().nodes)))

    def write_files(self, edit: Callable[[Any], Any], path: str = "/a") -> None:
        """Change what the newest snapshot says of a manifest."""
        wanted = self.manifest_id(path)
        files = self.snapshot().manifest_files
        self.write_snapshot(
            manifest_files=tuple(edit(file) if file.id == wanted else file for file in files)
        )

    def write_manifest(
        self, arrays: dict[NodeId, ChunkTable], path: str = "/a", name: ManifestId | None = None
    ) -> None:
        """Write other references under the name of a manifest, and say so in the snapshot."""
        wanted = self.manifest_id(path)
        blob = encode_manifest(name or wanted, arrays, spec=self.spec)
        self.storage.put(manifest_key(wanted), blob)
        count = sum(map(len, arrays.values()))
        self.write_files(
            lambda file: replace(file, size_bytes=len(blob), num_chunk_refs=count), path
        )

    def write_log(
        self,
        snapshot_id: SnapshotId | None = None,
        **changes: Any,  # noqa: ANN401
    ) -> None:
        """Write a log with other fields, under its old name."""
        name = snapshot_id or self.tip
        made = replace(self.log(name), **changes)
        self.storage.put(log_key(name), encode_log(made, spec=self.spec))

    def write_info(self, **changes: Any) -> None:  # noqa: ANN401
        """Write the repo object with other fields."""
        self.storage.put(REPO_KEY, encode_repo_info(replace(self.info(), **changes)))


def files_of(storage: Storage, spec: int = 2) -> RepositoryFiles:
    """The files of a repository, or of one that is to be."""
    return RepositoryFiles(Assets(storage, V2 if spec == 2 else V1, config()))
