"""Commits that change a few chunks of a large manifest in its bytes."""

from __future__ import annotations

import pytest

from frazil.formats import manifest
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.nodes import array_document, contents, write_keys

COUNT = 40


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Opened anew, so that references are not decoded yet."""
    monkeypatch.setattr(manifest, "PATCHED_FROM", 10)
    storage = MemoryStorage()
    session = Repository.create(storage, spec_version=request.param).writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(COUNT + 5)})
    write_keys(session, {f"a/c/{n}": b"%d" % n for n in range(COUNT)})
    session.commit("many")
    return Repository.open(storage)


@pytest.mark.parametrize(
    ("written", "deleted"),
    [
        ([3], []),
        ([3, 5], []),
        ([3], [4]),
        ([], [4]),
        ([3], [3]),
        ([COUNT], []),
        ([3, COUNT], [0]),
        (range(COUNT), []),
        ([0, COUNT - 1], [COUNT]),
    ],
)
def test_what_was_written_and_deleted_is_there_or_gone(
    repository: Repository, written: list[int], deleted: list[int]
) -> None:
    before = contents(repository.readonly_session("main"))
    session = Repository.open(repository.storage).writable_session("main")
    write_keys(session, {f"a/c/{n}": b"new %d" % n for n in written})
    for n in deleted:
        KeySpace(session.state).delete(f"a/c/{n}")
    session.commit("few")
    expected = {**before, **{f"a/c/{n}": b"new %d" % n for n in written}}
    for n in deleted:
        expected.pop(f"a/c/{n}", None)
    assert contents(Repository.open(repository.storage).readonly_session("main")) == expected


def test_a_resized_array_loses_what_is_cut_off(repository: Repository) -> None:
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(10), "a/c/3": b"new"})
    session.commit("smaller")
    session = Repository.open(repository.storage).writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(COUNT)})
    session.commit("as large again")
    found = contents(Repository.open(repository.storage).readonly_session("main"))
    assert {key for key in found if "/c/" in key} == {f"a/c/{n}" for n in range(10)}
    assert found["a/c/3"] == b"new"
