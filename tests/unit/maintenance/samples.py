"""Small repositories with a history, and ways to look at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import zarr

from frazil.bulk.write import write_region
from frazil.commit.base import Publication, now_micros
from frazil.ids import MAIN, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkRef, ChunkTable
from frazil.model.config import RepositoryConfig
from frazil.model.history import Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Coordinates, Dimension, ManifestRef
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec, keeps_config
from tests.support.nodes import array_document

LENGTH = 8
LINE = NodeId(bytes(8))
DOCUMENT = array_document(9, chunks=(1,))


def later() -> datetime:
    """A time after everything that was written so far."""
    return datetime.now(UTC) + timedelta(hours=1)


COLLECTIONS: dict[str, Callable[[Repository], object]] = {
    "full": lambda repo: repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE),
    "incremental": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE),
        unsafe_minimum_age=AT_ONCE,
    ),
    "quarantine": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE),
        quarantine=True,
        unsafe_minimum_age=AT_ONCE,
    ),
}
"""All ways to collect garbage."""


def make(storage: Storage, spec: Spec) -> Repository:
    """A repository with one array of eight chunks, each an object of its own."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    kept = config if keeps_config(spec) else None
    Repository.create(storage, config=kept, spec_version=spec)
    repo = Repository.open(storage, config)
    with repo.transaction(MAIN, message="array") as store:
        zarr.create_array(store, name="line", shape=(LENGTH,), chunks=(1,), dtype="i4")
    return repo


def overwritten(path: Path) -> Repository:
    """Two arrays of small chunks, once overwritten."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = Repository.create(path, config=config)
    for value in (1, 2):
        session = repository.writable_session("main")
        for name in ("a", "b"):
            zarr.create_array(
                session.store, name=name, shape=(64,), chunks=(8,), dtype="f8", overwrite=True
            )
            write_region(session, name, ..., np.arange(1.0, 65) * value, packing=False)
        session.commit(f"write {value}")
    return repository


def put(repo: Repository, index: int, value: int, branch: str = MAIN) -> str:
    """Commit one chunk."""
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path="line")[index] = value
    return session.commit(f"{index}={value}")


def values(repo: Repository, branch: str = MAIN) -> list[int]:
    """What the array holds."""
    array = zarr.open_array(repo.readonly_session(branch).store, path="line", mode="r")
    return [int(value) for value in np.asarray(array[:])]


def messages(repo: Repository, branch: str = MAIN) -> list[str]:
    """A history, newest first."""
    return [info.message for info in repo.ancestry(branch=branch)]


def written_at(repo: Repository, snapshot_id: str) -> datetime:
    """When a commit was made."""
    return repo.lookup_snapshot(snapshot_id).written_at


def keys(storage: Storage, prefix: str = "") -> set[str]:
    """What is there."""
    return {item.key for item in storage.list(prefix)}


def with_lost(storage: Storage, spec: Spec) -> tuple[Repository, list[str]]:
    """A repository, and two commits that expired or, where none can, were of a deleted branch."""
    repo = make(storage, spec)
    expires = context_of(repo).generation.expires_snapshots
    if not expires:
        repo.create_branch("gone", repo.lookup_branch("main"))
    lost = [put(repo, 0, value, "main" if expires else "gone") for value in (1, 2)]
    last = put(repo, 0, 3)
    put(repo, 1, 7)
    if expires:
        repo.expire_snapshots(written_at(repo, last))
    else:
        repo.delete_branch("gone")
    return repo, lost


def expired(storage: Storage, spec: Spec) -> Repository:
    """The same without their ids."""
    return with_lost(storage, spec)[0]


def commit_refs(
    repo: Repository, refs: Mapping[Coordinates, ChunkRef], branch: str = MAIN
) -> SnapshotId:
    """Commit an array with just these references, whatever they are."""
    context = context_of(repo)
    base = context.refs.branch_tip(branch)
    table = ChunkTable.from_refs(1, refs.items())
    file = context.assets.save_manifest(ManifestId.random(), {LINE: table})
    node = ArrayNode(
        LINE, "/line", DOCUMENT, (Dimension(9, 9),), None, (ManifestRef(file.id, table.extents),)
    )
    parent = base if context.generation.stores_parent else None
    snapshot = Snapshot(SnapshotId.random(), parent, (node,), now_micros(), "refs", {}, (file,))
    log = TransactionLog(snapshot.id, new_arrays=(LINE,))
    context.assets.save_snapshot(snapshot)
    context.assets.save_log(log)
    context.refs.publish(Publication(branch, base, snapshot.entry(base)))
    return snapshot.id
