"""Which manifests are fetched ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self, TypeVar

import pytest

from frazil.errors import NodeNotFoundError
from frazil.model.chunks import ChunkType
from frazil.model.config import (
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    RepositoryConfig,
)
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage, WrappedStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.preload import choose, preload
from tests.support.nodes import array_document, group_document, write_keys

T = TypeVar("T")


def chosen(config: ManifestPreloadConfig | None) -> list[str]:
    settings = RepositoryConfig(manifest=ManifestConfig(preload=config)) if config else None
    repository = Repository.create(MemoryStorage(), config=settings)
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "time/zarr.json": array_document(3),
            "time/c/0": b"t",
            "temperature/zarr.json": array_document(30),
            **{f"temperature/c/{i}": b"x" for i in range(30)},
        },
    )
    session.commit("data")
    state = repository.readonly_session("main").state
    assert preload(state) == len(choose(state))
    owners = {ref.id: node.path for node in state.arrays() for ref in node.manifests}
    return sorted(owners[ref.id] for ref in choose(state))


def test_coordinates_are_fetched_ahead_by_default() -> None:
    assert chosen(None) == ["/time"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            ManifestPreloadConfig(preload_if=ManifestPreloadCondition.true()),
            ["/temperature", "/time"],
        ),
        (ManifestPreloadConfig(preload_if=ManifestPreloadCondition.false()), []),
        (
            ManifestPreloadConfig(max_total_refs=5, preload_if=ManifestPreloadCondition.true()),
            ["/time"],
        ),
        (
            ManifestPreloadConfig(preload_if=ManifestPreloadCondition.name_matches("temp.*")),
            ["/temperature"],
        ),
    ],
)
def test_configuration_decides(config: ManifestPreloadConfig, expected: list[str]) -> None:
    assert chosen(config) == expected


def test_all_that_lookups_need_can_be_fetched_ahead() -> None:
    storage = FaultyStorage(MemoryStorage())
    session = Repository.create(storage).writable_session("main")
    for name in ("a", "b"):
        write_keys(session, {f"{name}/zarr.json": array_document(3), f"{name}/c/0": b"x"})
    session.commit("data")
    session = Repository.open(storage).readonly_session("main")
    assert session.prefetch(["/a"]) == 1
    assert session.prefetch() == 2
    storage.forget_calls()
    assert session.chunk_type("/a", [0]) == session.chunk_type("/b", [0]) == ChunkType.inline
    assert not [key for _, key in storage.calls if key.startswith("manifests/")]
    with pytest.raises(NodeNotFoundError):
        session.prefetch(["/nowhere"])


def test_a_commit_after_preloading_writes_only_what_changed() -> None:
    """With thousands of nodes the rest is neither read nor written anew."""
    storage = MemoryStorage()
    session = Repository.create(storage).writable_session("main")
    documents = {f"g{n:03}/zarr.json": group_document() for n in range(300)}
    write_keys(session, documents | {"time/zarr.json": array_document(3), "time/c/0": b"t"})
    session.commit("many")
    session = Repository.open(LatencyStorage(storage)).writable_session("main")
    assert preload(session.state) == 1
    write_keys(session, {"g007/zarr.json": group_document(changed=True)})
    edits = session.state.tree.edits
    assert edits is not None
    assert [*edits.put] == ["/g007"]
    assert "_all" not in vars(edits.base)
    session.commit("one")
    changed = Repository.open(storage).readonly_session("main").state.node("/g007")
    assert changed.user_data == group_document(changed=True)


def test_only_so_many_arrays_are_looked_at() -> None:
    few = ManifestPreloadConfig(preload_if=ManifestPreloadCondition.true(), max_arrays_to_scan=1)
    assert chosen(few) == ["/temperature"]


@pytest.mark.parametrize("limit", [1, 30, 100])
def test_arrays_of_large_snapshots_are_found_among_the_groups(limit: int) -> None:
    config = ManifestPreloadConfig(
        preload_if=ManifestPreloadCondition.true(), max_arrays_to_scan=limit
    )
    settings = RepositoryConfig(manifest=ManifestConfig(preload=config))
    repository = Repository.create(MemoryStorage(), config=settings)
    session = repository.writable_session("main")
    for n in range(40):
        write_keys(
            session,
            {
                f"g{n:02}/zarr.json": group_document(),
                f"g{n:02}/a/zarr.json": array_document(3),
                f"g{n:02}/a/c/0": b"x",
            },
        )
    session.commit("data")
    state = repository.writable_session("main").state
    owners = {ref.id: node.path for node in state.arrays() for ref in node.manifests}
    found = [owners[ref.id] for ref in choose(state)]
    assert found == [f"/g{n:02}/a" for n in range(min(limit, 40))]


class Meeting(WrappedStorage):
    """A storage whose repo object is not told before somebody asks for a snapshot, if it can be."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.answers_inline = False
        self.waits = False
        self.met = threading.Event()
        self.asked: list[str] = []

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if self.waits:
            self.asked.append(key.partition("/")[0])
            if key.startswith("snapshots/"):
                self.met.set()
            elif key == "repo":
                assert self.met.wait(10), "nobody asks for the snapshot meanwhile"
        return work()

    def _around(self, inner: Storage) -> Self:
        return self


def history(*messages: str) -> MemoryStorage:
    """A repository with such commits."""
    place = MemoryStorage()
    repository = Repository.create(place)
    for message in messages:
        session = repository.writable_session("main")
        write_keys(
            session, {"zarr.json": group_document(), f"{message}/zarr.json": array_document(1)}
        )
        session.commit(message)
    return place


@pytest.mark.parametrize("method", ["readonly_session", "writable_session"])
def test_the_snapshot_comes_while_the_branch_is_asked_for(method: str) -> None:
    far = Meeting(history("a"))
    repository = Repository.open(far)
    far.waits = True
    session = getattr(repository, method)("main")
    assert [node.path for node in session.state.arrays()] == ["/a"]
    assert sorted(far.asked) == ["repo", "snapshots"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_branch_that_has_moved_is_where_it_is_now(is_gone: bool) -> None:
    place = history("a")
    repository = Repository.open(LatencyStorage(place))
    mine = Repository.open(place)
    old = mine.lookup_branch("main")
    session = mine.writable_session("main")
    write_keys(session, {"b/zarr.json": array_document(1)})
    session.commit("b")
    if is_gone:
        place.delete_many([f"snapshots/{old}"])
    found = repository.readonly_session("main")
    assert [node.path for node in found.state.arrays()] == ["/a", "/b"]
