"""Copies of repositories: one version or all of them, whole, at an empty place."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from frazil.errors import AlreadyExistsError, ErrorKind, StorageError
from frazil.model.config import RepositoryConfig
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.constructors import s3_storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from frazil.transfer.cloning import (
    CopyChunks,
    CopyObjects,
    clone,
    fetch_all,
    place_name,
)
from tests.races.test_cloning import SPECS, is_sound, place, read
from tests.support.generations import Spec
from tests.support.runners import Elsewhere


def objects(storage: Storage) -> dict[str, bytes | None]:
    return {item.key: storage.get(item.key) for item in storage.list("")}


@pytest.mark.parametrize("spec", SPECS)
def test_one_version_of_any_generation_is_copied(spec: Spec) -> None:
    source, target = place(spec), MemoryStorage()
    clone(Repository.open(source).readonly_session("dev"), target)
    assert read(target) == read(source, "dev")
    assert is_sound(target)


@pytest.mark.parametrize("spec", SPECS)
def test_the_work_of_a_clone_can_be_sent_to_others(tmp_path: Path, spec: Spec) -> None:
    Repository.create(tmp_path, spec_version=spec)
    context = context_of(Repository.open(tmp_path))
    assert pickle.loads(pickle.dumps(CopyChunks(context, context)))(([], [])) == 0


@pytest.mark.parametrize("spec", SPECS)
def test_all_of_a_repository_is_copied_as_it_is(spec: Spec) -> None:
    source, target = place(spec), MemoryStorage()
    Repository.open(source).create_tag("v1", Repository.open(source).lookup_branch("dev"))
    report = clone(Repository.open(source), target)
    assert objects(target) == objects(source)
    assert report.snapshot_id == Repository.open(source).lookup_branch("main")
    assert is_sound(target)


def test_one_version_becomes_the_only_commit(tmp_path: Path) -> None:
    source = Repository.open(place(2))
    tip = source.lookup_branch("dev")
    report = clone(source.readonly_session("dev"), tmp_path / "copy", message="copied")
    copy = Repository.open(tmp_path / "copy")
    newest, first = copy.ancestry(branch="main")
    assert (newest.message, first.message) == ("copied", "Repository initialized")
    assert newest.id == report.snapshot_id
    assert newest.metadata["cloned-snapshot"] == tip
    assert (copy.list_branches(), copy.list_tags()) == ({"main"}, set())


def test_settings_and_generation_go_along() -> None:
    source = MemoryStorage()
    config = RepositoryConfig(inline_chunk_threshold_bytes=7)
    Repository.create(source, config, spec_version=1)
    for what in (Repository.open(source), Repository.open(source).readonly_session("main")):
        target = MemoryStorage()
        clone(what, target)
        copy = Repository.open(target)
        assert copy.spec_version == 1
        assert copy.config.inline_chunk_threshold_bytes == 7


def test_nothing_is_copied_over_something() -> None:
    source = place(2)
    used = place(2)
    before = objects(used)
    for what in (Repository.open(source), Repository.open(source).readonly_session("main")):
        with pytest.raises(AlreadyExistsError) as caught:
            clone(what, used)
        assert caught.value.kind is ErrorKind.PARENT_DIRECTORY_NOT_CLEAN
    assert objects(used) == before
    notes = MemoryStorage()
    notes.put("notes.txt", b"mine")
    with pytest.raises(AlreadyExistsError, match="not empty"):
        clone(Repository.open(source), notes)
    assert objects(notes) == {"notes.txt": b"mine"}


def test_an_empty_repository_at_the_target_will_do_for_a_version() -> None:
    source, target = place(2), MemoryStorage()
    Repository.create(target)
    clone(Repository.open(source).readonly_session("dev"), target)
    assert read(target) == read(source, "dev")


@pytest.mark.parametrize("spec", [1, 2])
def test_a_copy_that_breaks_off_is_no_repository(spec: Spec) -> None:
    source = place(spec)
    target = FaultyStorage(MemoryStorage(), [Fault(Trouble.FAIL, "put", call=3)])
    with pytest.raises(StorageError):
        clone(Repository.open(source), target)
    assert not Repository.exists(target)
    assert not target.is_empty()


@pytest.mark.parametrize("whole", [True, False], ids=["all", "one version"])
def test_others_may_copy_and_progress_is_told(tmp_path: Path, whole: bool) -> None:
    source = place(2)
    repository = Repository.create(tmp_path / "source")
    clone(Repository.open(source).readonly_session("main"), repository.storage)
    repository = Repository.open(tmp_path / "source")
    runner, told = Elsewhere(), list[Progress]()
    what = repository if whole else repository.readonly_session("main")
    clone(what, tmp_path / "copy", runner=runner, progress=told.append)
    assert read(LocalStorage(tmp_path / "copy")) == read(source)
    assert runner.items > 0
    assert told[0].done == 0
    assert told[-1].done == told[-1].total > 0


def test_an_object_that_is_missing_is_named() -> None:
    storage = MemoryStorage()
    storage.put("chunks/a", b"x")
    assert fetch_all(storage, ["chunks/a"]) == [("chunks/a", b"x")]
    with pytest.raises(StorageError, match="chunks/b"):
        CopyObjects(storage, MemoryStorage())((["chunks/a", "chunks/b"], [1, 1]))


def test_places_are_named_as_people_write_them(tmp_path: Path) -> None:
    assert place_name(LocalStorage(tmp_path)) == str(tmp_path)
    assert place_name(s3_storage(bucket="b", prefix="p", anonymous=True)) == "s3://b/p"
