"""Repositories from before spec 1 with a history worth keeping, and all that can be told of one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import zarr

from frazil.commit.base import Publication
from frazil.formats.legacy.snapshots import ROOT_MARK
from frazil.fsck import fsck
from frazil.ids import SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.nodes import path_order
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from frazil.upgrading.source import LEGACY_ID
from tests.support.generations import Spec

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=8)
"""Chunks of one cell are inline, others native."""


def make_old(storage: Storage, spec: Spec) -> Repository:
    """Two branches, tags (one on the first snapshot), a deleted tag where there can be one."""
    Repository.create(storage, spec_version=spec)
    return fill(storage)


def with_colons(storage: Storage, spec: Spec = "3a") -> Repository:
    """The same with names of refs as the first releases wrote them."""
    Repository.create(storage, spec_version=spec)
    for item in [*storage.list("refs/")]:
        data = storage.get(item.key)
        assert data is not None
        storage.put(item.key.replace("branch.", "branch:"), data)
        storage.delete_many([item.key])
    repo = fill(storage)
    assert not [*storage.list("refs/branch.main/")]
    return repo


def fill(storage: Storage) -> Repository:
    """Commits upon an empty repository."""
    repo = Repository.open(storage, CONFIG)
    repo.create_tag("start", repo.lookup_branch("main"))
    with repo.transaction("main", message="one") as store:
        root = zarr.create_group(store, attributes={"title": "old", "n": [1, 2.5, None]})
        line = root.create_array("grid/x", shape=(6, 4), chunks=(2, 2), dtype="i4",
                                 attributes={"units": "m"}, dimension_names=("y", "x"))  # fmt: skip
        line[:] = np.arange(24).reshape(6, 4)
        root.create_array("small", shape=(3,), chunks=(1,), dtype="f8")[:2] = [0.5, 1.5]
        root.create_array("scalar", shape=(), dtype="i2")[...] = 7
        root.create_array("line", shape=(3,), chunks=(1,), dtype="i8")[:1] = 4
    first = repo.lookup_branch("main")
    repo.create_branch("dev", first)
    repo.create_tag("v1", first)
    session = repo.writable_session("dev")
    put(session.store, "grid/x", (0, 0), 99)
    group = zarr.open_group(session.store)
    group.create_array("new", shape=(2, 2), dtype="u1")[:] = 3
    session.commit("on dev", metadata={"author": "a", "numbers": [1, 2]})
    session = repo.writable_session("main")
    group = zarr.open_group(session.store)
    zarr.open_array(session.store, path="grid/x", mode="r+").resize((4, 4))
    group["grid/x"].attrs["units"] = "km"
    del group["small"]
    session.commit("smaller")
    if context_of(repo).generation.deletes_tags:
        repo.create_tag("gone", first)
        repo.delete_tag("gone")
    return repo


def make_small(storage: Storage, spec: Spec) -> Repository:
    """The least that has all kinds of files: two branches, a tag, a chunk of each kind."""
    Repository.create(storage, spec_version=spec)
    repo = Repository.open(storage, CONFIG)
    with repo.transaction("main", message="one") as store:
        root = zarr.create_group(store, attributes={"title": "small"})
        root.create_array("x", shape=(4,), chunks=(4,), dtype="i8")[:] = [1, 2, 3, 4]
        root.create_array("scalar", shape=(), dtype="i2")[...] = 7
    repo.create_branch("dev", repo.lookup_branch("main"))
    repo.create_tag("v1", repo.lookup_branch("main"))
    session = repo.writable_session("dev")
    put(session.store, "x", 0, 9)
    session.commit("on dev")
    return repo


def put(store: FrazilStore, path: str, where: Any, value: int) -> None:  # noqa: ANN401 - zarr's
    """Set cells of an array."""
    zarr.open_array(store, path=path, mode="r+")[where] = value


def told(repo: Repository) -> dict[str, Any]:
    """Branches, tags, the history and every value of every snapshot."""
    branches = {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}
    tags = {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}
    history = {name: [_info(info) for info in repo.ancestry(branch=name)] for name in branches}
    ids = {info["id"] for infos in history.values() for info in infos} | set(tags.values())
    values = {id: values_of(repo, id) for id in sorted(ids)}
    return {"branches": branches, "tags": tags, "history": history, "values": values}


def _info(info: Any) -> dict[str, Any]:  # noqa: ANN401 - of either package
    """What history tells of a snapshot, without what an upgrade adds or drops."""
    added = (LEGACY_ID, ROOT_MARK)
    metadata = {name: value for name, value in info.metadata.items() if name not in added}
    return {
        "id": info.id,
        "parent": info.parent_id,
        "message": info.message,
        "written_at": info.written_at,
        "metadata": metadata,
    }


def values_of(repo: Repository, snapshot_id: str) -> dict[str, Any]:
    """Attributes of all nodes and values of all arrays of a snapshot."""
    store = repo.readonly_session(snapshot_id=snapshot_id).store
    try:
        root = zarr.open_group(store, mode="r")
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {"/": dict(root.attrs)}
    for path, node in root.members(max_depth=None):
        found[path] = {"attributes": dict(node.attrs)}
        if isinstance(node, zarr.Array):
            found[path] |= {
                "values": np.asarray(node[...]).tolist(),
                "dtype": str(node.dtype),
                "chunks": node.chunks,
                "names": node.metadata.dimension_names,  # type: ignore[union-attr]
            }
    return found


def files_at(storage: Storage) -> dict[str, bytes | None]:
    """Everything at a place."""
    return {item.key: storage.get(item.key) for item in storage.list("")}


@cache
def sample(spec: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of an old repository, and what it holds."""
    place = MemoryStorage()
    make_small(place, spec)
    found = {key: data or b"" for key, data in files_at(place).items()}
    return found, told(Repository.open(place))


def place_of(spec: str) -> MemoryStorage:
    """A repository of its own."""
    place = MemoryStorage()
    for key, data in sample(spec)[0].items():
        place.put(key, data)
    return place


@cache
def upgraded_files(spec: str, to: int) -> dict[str, bytes]:
    """The files of a repository that was upgraded."""
    place = place_of(spec)
    upgrade_older(place, to=to)
    return {key: data or b"" for key, data in files_at(place).items()}


def upgraded(spec: str, to: int) -> MemoryStorage:
    """One of its own."""
    place = MemoryStorage()
    for key, data in upgraded_files(spec, to).items():
        place.put(key, data)
    return place


def last_message(place: Storage) -> str:
    """The last commit on main."""
    return next(iter(Repository.open(place).ancestry(branch="main"))).message


def assert_as_before(place: Storage, files: dict[str, bytes]) -> None:
    """All files are there as they were; only G1 counts how often its state was written."""
    found = files_at(place)
    if "state.json" in files:
        assert Repository.open(place).writable_session("main").branch == "main"
        found["state.json"] = files["state.json"]
    assert found == files


def move_array(repo: Repository, source: str, target: str, seconds: float = 1) -> str:
    """Commit what sessions of that age cannot: the same node at another path."""
    context = context_of(repo)
    base = context.assets.snapshot(context.refs.branch_tip("main"))
    nodes = [replace(n, path=target) if n.path == source else n for n in base.nodes]
    made = replace(
        base,
        id=SnapshotId.random(),
        parent_id=base.id,
        nodes=sorted(nodes, key=lambda node: path_order(node.path)),
        flushed_at=base.flushed_at + int(seconds * 1e6),
        message="moved",
    )
    context.assets.save_snapshot(made)
    context.refs.publish(Publication("main", base.id, made.entry(made.parent_id)))
    return str(made.id)


def assert_sound(place: Storage) -> None:
    """The new repository keeps every rule of the format."""
    report = fsck(place, deep=True)
    assert report.is_clean, "\n".join(map(str, report.findings))
