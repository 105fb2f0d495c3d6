"""The public door: creating, opening and deleting repositories, and their settings."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    ReadOnlyError,
    RepositoryNotFoundError,
    StorageError,
)
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.config import ManifestConfig, RepositoryConfig, StorageSettings
from frazil.model.manifest_config import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.model.values import SpecVersion
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_repository
from tests.support.generations import (
    ALL,
    IDS,
    Spec,
    generation_of,
    keeps_config,
)
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment

ENTRIES = ("repo", "state.json")


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def commit(repository: Repository, number: int = 0, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    write_keys(session, {"zarr.json": group_document(number=number)})
    return session.commit(f"commit {number}")


def keys(storage: MemoryStorage) -> set[str]:
    return {item.key for item in storage.list("")}


# --- creating and opening ---


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_created_repositories_are_found_again(tmp_path: Path, spec: Spec) -> None:
    place = LocalStorage(str(tmp_path / "r"))
    assert not Repository.exists(place)
    assert not (tmp_path / "r").exists(), "asking must not create anything"
    with pytest.raises(RepositoryNotFoundError, match="doesn't exist"):
        Repository.open(place)
    made = Repository.create(place, spec_version=spec)
    assert Repository.exists(place)
    assert Repository.fetch_spec_version(place) == SpecVersion(generation_of(spec).number)
    assert made.lookup_branch("main") == str(INITIAL_SNAPSHOT_ID)
    again = Repository.open(str(tmp_path / "r"))
    assert again.spec_version == made.spec_version == SpecVersion(generation_of(spec).number)
    assert pickle.loads(pickle.dumps(again)).list_branches() == {"main"}


def test_creating_over_something_is_refused(tmp_path: Path) -> None:
    Repository.create(tmp_path / "r")
    with pytest.raises(InvalidInputError, match="already exists") as caught:
        Repository.create(tmp_path / "r")
    assert caught.value.kind == ErrorKind.PARENT_DIRECTORY_NOT_CLEAN
    for spec in ALL:
        with pytest.raises(ConflictError):
            Repository.create(
                tmp_path / "r",
                RepositoryConfig(max_concurrent_requests=1) if keeps_config(spec) else None,
                spec_version=spec,
                check_clean_root=False,
            )
    assert Repository.fetch_config(tmp_path / "r") is None
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError) as caught:
        Repository.create(tmp_path / "full")
    assert caught.value.kind == ErrorKind.PARENT_DIRECTORY_NOT_CLEAN
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine"
    Repository.create(tmp_path / "full", check_clean_root=False)


def test_open_or_create_does_either(tmp_path: Path) -> None:
    first = commit(Repository.open_or_create(tmp_path / "r"))
    assert Repository.open_or_create(tmp_path / "r").lookup_branch("main") == first


def test_deleting_needs_the_place_named_twice(tmp_path: Path) -> None:
    Repository.create(tmp_path / "r")
    with pytest.raises(InvalidInputError, match="confirm"):
        Repository.delete(tmp_path / "r", confirm="yes")
    assert Repository.exists(tmp_path / "r")
    assert Repository.delete(tmp_path / "r", confirm=str(tmp_path / "r")) > 0
    assert not Repository.exists(tmp_path / "r")


@pytest.mark.parametrize("spec", [1, 2, "g1", "g2", "g3"])
def test_nobody_opens_a_repository_that_is_being_deleted(spec: Spec) -> None:
    place = MemoryStorage()
    Repository.create(place, spec_version=spec)

    def die() -> None:
        raise KeyboardInterrupt

    dying = InterruptedStorage(place, [Moment("delete_many", "", die, call=2)])
    with pytest.raises(KeyboardInterrupt):
        Repository.delete(dying, confirm=place.url)
    assert not place.is_empty()
    assert not Repository.exists(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_can_be_read_but_not_written(tmp_path: Path) -> None:
    commit(Repository.create(tmp_path))
    tmp_path.chmod(0o555)
    repository = Repository.open(tmp_path)
    assert contents(repository.readonly_session("main"))
    with pytest.raises(ReadOnlyError):
        repository.writable_session("main")


@pytest.mark.parametrize("damage", [b"", b"garbage", b"ICE\xf0\x9f\xa7\x8aCHUNK" + b"\0" * 40])
def test_a_damaged_repo_object_is_named(damage: bytes) -> None:
    storage = MemoryStorage()
    Repository.create(storage)
    storage.put("repo", damage)
    with pytest.raises(FormatError, match="repo"):
        Repository.open(storage)


def test_a_newer_spec_says_so() -> None:
    storage = MemoryStorage()
    Repository.create(storage)
    blob = bytearray(storage.get("repo") or b"")
    blob[36] = 3
    storage.put("repo", bytes(blob))
    with pytest.raises(FormatError) as caught:
        Repository.open(storage)
    assert caught.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION


def test_a_missing_chunk_object_is_named(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(1), "a/c/0": b"x" * 1000})
    session.commit("data")
    (chunk,) = (tmp_path / "chunks").iterdir()
    chunk.unlink()
    with pytest.raises(StorageError, match=chunk.name):
        contents(Repository.open(tmp_path).readonly_session("main"))


# --- configuration ---


def test_saved_configuration_is_found_and_overridden(tmp_path: Path) -> None:
    for spec in filter(keeps_config, ALL):
        place = tmp_path / str(spec)
        made = Repository.create(
            place, config=RepositoryConfig(inline_chunk_threshold_bytes=7), spec_version=spec
        )
        assert Repository.open(place).config.inline_chunk_threshold_bytes == 7
        made.reopen(config=RepositoryConfig(max_concurrent_requests=3)).save_config()
        stored = Repository.fetch_config(place)
        assert stored is not None
        assert (stored.inline_chunk_threshold_bytes, stored.max_concurrent_requests) == (7, 3)
        mine = RepositoryConfig(inline_chunk_threshold_bytes=9)
        assert Repository.open(place, config=mine).config.inline_chunk_threshold_bytes == 9
        assert Repository.open(place).config.inline_chunk_threshold_bytes == 7


def test_stored_settings_cannot_make_commits_unsafe() -> None:
    storage = MemoryStorage()
    unsafe = StorageSettings(unsafe_use_conditional_update=False)
    Repository.create(storage, config=RepositoryConfig(storage=unsafe))
    opened = Repository.open(storage)
    assert opened.config.storage is not None
    assert opened.config.storage.unsafe_use_conditional_update is None
    asked = Repository.open(storage, config=RepositoryConfig(storage=unsafe))
    assert asked.config.storage is not None
    assert asked.config.storage.unsafe_use_conditional_update is False


def test_open_or_create_opens_what_appeared_meanwhile() -> None:
    storage = MemoryStorage()
    meanwhile = Moment("head", "refs/", lambda: Repository.create(storage))
    opened = Repository.open_or_create(InterruptedStorage(storage, [meanwhile]))
    assert opened.list_branches() == {"main"}


def test_splitting_a_wide_sparse_array_takes_no_time_for_its_empty_cells() -> None:
    storage = MemoryStorage()
    session = Repository.create(storage).writable_session("main")
    side = 2**20
    write_keys(session, {"a/zarr.json": array_document(side, side), "a/c/0/0": b"x"})
    write_keys(session, {f"a/c/{side - 1}/{side - 1}": b"y"})
    session.commit("one manifest")
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 1}}
    )
    config = RepositoryConfig(manifest=ManifestConfig(splitting=splitting))
    repository = Repository.open(storage, config)
    session = repository.writable_session("main")
    write_keys(session, {"a/c/0/1": b"z"})
    snapshot = session.commit("three manifests")
    assert len(repository.list_manifest_files(snapshot)) == 3
    found = contents(repository.readonly_session("main"))
    assert sorted(found.values())[:3] == [b"x", b"y", b"z"]


async def test_every_blocking_call_has_an_async_twin(newest: Repository) -> None:
    first = commit(newest)
    await newest.create_tag_async("v1", first)
    assert await newest.list_tags_async() == {"v1"}
    session = await newest.writable_session_async("main")
    write_keys(session, {"zarr.json": group_document(x=2)})
    second = await session.commit_async("async")
    assert [info.id async for info in newest.async_ancestry(branch="main")][:2] == [second, first]


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_an_interrupted_creation_can_be_repeated(spec: Spec) -> None:
    storage = MemoryStorage()
    configs: list[RepositoryConfig | None] = [None, None]
    if keeps_config(spec):
        configs = [RepositoryConfig(max_concurrent_requests=n) for n in (3, 4)]
    Repository.create(storage, configs[0], spec_version=spec)
    entries = [key for key in keys(storage) if key in ENTRIES or key.startswith(("refs/", "r/"))]
    storage.delete_many(entries)
    assert not Repository.exists(storage)
    assert keys(storage), "the first snapshot must be left behind"
    made = Repository.create(storage, configs[1], spec_version=spec)
    assert made.list_branches() == {"main"}
    if keeps_config(spec):
        assert Repository.open(storage).config.max_concurrent_requests == 4


def test_a_handle_from_before_an_upgrade_writes_nothing_unseen() -> None:
    storage = MemoryStorage()
    old = Repository.create(storage, spec_version=1)
    first = commit(old)
    upgrade_repository(Repository.open(storage), delete_unused_v1_files=False)
    for change in (
        lambda: old.create_branch("dev", first),
        lambda: old.create_tag("v1", first),
        lambda: old.save_config(),
        lambda: commit(old, 2),
    ):
        with pytest.raises(ConflictError, match="upgraded"):
            change()
