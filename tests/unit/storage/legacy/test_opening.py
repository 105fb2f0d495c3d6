"""What is found at a place that holds files from before spec 1."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from frazil.errors import FormatError, InvalidInputError, RepositoryNotFoundError
from frazil.formats.legacy.dialects import Dialect
from frazil.model.config import RepositoryConfig
from frazil.opening import detect_generation
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.generations import OLD, Spec
from tests.support.nodes import array_document, contents, group_document, write_keys

WRITABLE = [
    dialect.value for dialect in Dialect if dialect.is_writable and dialect is not Dialect.G1
]


def state_of(storage: Storage) -> list[tuple[str, bytes | None, datetime]]:
    """Every object, and when it was written."""
    return [(item.key, storage.get(item.key), item.created_at) for item in storage.list("")]


def filled(storage: Storage, spec: Spec) -> Repository:
    """A repository with two commits, a tag, a branch, and chunks of both kinds."""
    repository = Repository.create(storage, spec_version=spec)
    session = repository.writable_session("main")
    keys = {
        "zarr.json": group_document(title="a"),
        "g/a/zarr.json": array_document(600, 2, chunks=(600, 1)),
        "g/a/c/0/0": b"small",
        "g/a/c/0/1": bytes(600),
    }
    write_keys(session, keys)
    first = session.commit("first", {"by": "me"})
    repository.create_tag("v 1!", first)
    repository.create_branch("dev", first)
    session = repository.writable_session("main")
    write_keys(session, {"g/a/c/0/0": b"other", "b/zarr.json": array_document(3)})
    session.commit("second")
    return repository


def told(repository: Repository) -> object:
    """Everything that a reader can see of a repository."""
    branches = {name: repository.lookup_branch(name) for name in repository.list_branches()}
    tags = {name: repository.lookup_tag(name) for name in repository.list_tags()}
    history = list(repository.ancestry(branch="main"))
    states = [contents(repository.readonly_session(snapshot_id=one.id)) for one in history]
    changes = repository.diff(from_tag="v 1!", to_branch="main")
    return branches, tags, [(one.id, one.message, one.metadata) for one in history], states, changes


@pytest.mark.parametrize("spec", OLD)
def test_opening_and_reading_writes_nothing(spec: Spec) -> None:
    storage = MemoryStorage()
    seen, before = told(filled(storage, spec)), state_of(storage)
    reader = Repository.open(storage)
    assert told(reader) == seen
    reader.inspect_snapshot(reader.lookup_branch("main"))
    assert reader.chunk_storage_stats().native_bytes == 600
    assert state_of(storage) == before
    write(storage)
    assert state_of(storage) != before


def write(storage: Storage) -> None:
    session = Repository.open(storage).writable_session("main")
    write_keys(session, {"zarr.json": group_document(title="b")})
    session.commit("third")


@pytest.mark.parametrize("dialect", WRITABLE)
def test_a_repository_goes_on_in_the_dialect_it_uses(dialect: str) -> None:
    storage = MemoryStorage()
    repository = filled(storage, dialect)
    seen = told(repository)
    found = detect_generation(storage)
    assert found is not None
    # Nothing in files without virtual chunks tells these two apart.
    assert found.generation.dialect == (Dialect.G3B if dialect == "3c" else Dialect(dialect))
    again = Repository.open(storage)
    assert told(again) == seen
    write(storage)
    session = Repository.open(storage).readonly_session("main")
    assert json.loads(contents(session)["zarr.json"])["attributes"] == {"title": "b"}
    later = detect_generation(storage)
    assert later is not None
    assert later.generation == found.generation


@pytest.mark.parametrize(("one", "other"), [("g1", "g2"), ("g1", "g3"), ("g2", "g3")])
def test_two_repositories_in_one_place_are_told_apart_by_nobody(one: Spec, other: Spec) -> None:
    storage, second = MemoryStorage(), MemoryStorage()
    Repository.create(storage, spec_version=one)
    Repository.create(second, spec_version=other)
    for item in second.list(""):
        storage.put(item.key, second.get(item.key) or b"")
    with pytest.raises(FormatError, match="more than one repository") as caught:
        Repository.open(storage)
    assert f"{one} and {other}".upper() in str(caught.value).upper()


@pytest.mark.parametrize("spec", OLD)
def test_newer_refs_beside_old_files_count(spec: Spec) -> None:
    storage, newer = MemoryStorage(), MemoryStorage()
    Repository.create(storage, spec_version=spec)
    Repository.create(newer)
    for item in newer.list(""):
        storage.put(item.key, newer.get(item.key) or b"")
    assert Repository.open(storage).spec_version == 2


def test_a_file_of_the_same_name_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"version": 4}')
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(tmp_path)
    (tmp_path / "state.json").write_text('{"id": "x", "snapshots": 3}')
    with pytest.raises(FormatError, match=r"state\.json"):
        Repository.open(tmp_path)


@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_configuration_that_cannot_be_kept_is_refused_at_once(spec: Spec) -> None:
    storage = MemoryStorage()
    config = RepositoryConfig(inline_chunk_threshold_bytes=7)
    with pytest.raises(InvalidInputError, match="cannot keep a configuration"):
        Repository.create(storage, config, spec_version=spec)
    assert storage.is_empty()
    made = Repository.create(storage, spec_version=spec)
    with pytest.raises(FormatError, match="cannot keep a configuration"):
        made.save_config()
    assert Repository.open(storage, config).config.inline_chunk_threshold_bytes == 7


@pytest.mark.parametrize("spec", OLD)
def test_a_local_repository_can_be_moved_and_opened_read_only(spec: Spec, tmp_path: Path) -> None:
    repository = filled(LocalStorage(tmp_path / "here"), spec)
    seen = told(repository)
    (tmp_path / "here").rename(tmp_path / "there")
    assert told(Repository.open(tmp_path / "there")) == seen


@pytest.mark.parametrize("spec", [*OLD, "g2-msgpack", "3b", "3e"])
def test_each_question_is_asked_once(spec: Spec) -> None:
    storage = MemoryStorage()
    seen = contents(filled(storage, spec).readonly_session("main"))
    watched = FaultyStorage(storage)
    repository = Repository.open(watched)
    asked = Counter(watched.calls)
    assert max(asked.values()) == 1
    assert len(asked) <= 12
    watched.forget_calls()
    assert contents(repository.readonly_session("main")) == seen
    if spec != "g1":  # there the state file is asked for whether it has changed
        # The branch, which may have moved, a manifest and a chunk: nothing that was read before.
        assert [operation for operation, _ in watched.calls] == ["list", "get", "get", "get"]
