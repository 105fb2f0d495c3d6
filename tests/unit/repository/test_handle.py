"""The stored configuration is edited: what others saved meanwhile stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import ConflictError, ErrorKind
from frazil.formats.config_keys import merged_config
from frazil.model.config import (
    CachingConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    VirtualChunkContainer,
)
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.support.generations import ALL, IDS, Spec, keeps_config
from tests.support.stepping import InterruptedStorage, Moment


@pytest.fixture(params=ALL, ids=IDS)
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    """A repository of each generation that keeps a configuration."""
    spec: Spec = request.param
    if not keeps_config(spec):
        pytest.skip("this generation keeps no configuration")
    made = MemoryStorage()
    Repository.create(made, spec_version=spec)
    return made


def stored(storage: Storage) -> RepositoryConfig:
    """What the next one to open the repository gets."""
    return Repository.fetch_config(storage) or RepositoryConfig()


def test_two_who_save_different_settings_keep_both(storage: MemoryStorage) -> None:
    ours = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=7))
    theirs = Repository.open(storage, RepositoryConfig(get_partial_values_concurrency=3))
    theirs.save_config()
    ours.save_config()
    assert stored(storage).inline_chunk_threshold_bytes == 7
    assert stored(storage).get_partial_values_concurrency == 3


def test_settings_of_one_section_and_containers_are_told_apart(storage: MemoryStorage) -> None:
    def with_container(name: str) -> RepositoryConfig:
        config = RepositoryConfig()
        store = ObjectStoreConfig.LocalFileSystem(f"/{name}")
        config.set_virtual_chunk_container(VirtualChunkContainer(f"file:///{name}/", store))
        return config

    ours, theirs = with_container("a"), with_container("b")
    ours.caching = CachingConfig(num_chunk_refs=5)
    theirs.caching = CachingConfig(num_snapshot_nodes=6)
    handles = [Repository.open(storage, config) for config in (ours, theirs)]
    for handle in handles:
        handle.save_config()
    found = stored(storage)
    assert set(found.virtual_chunk_containers or {}) == {"file:///a/", "file:///b/"}
    assert found.caching == CachingConfig(num_chunk_refs=5, num_snapshot_nodes=6)


def test_two_values_for_one_setting_are_an_error(storage: MemoryStorage) -> None:
    ours = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=7))
    theirs = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=8))
    theirs.save_config()
    with pytest.raises(ConflictError, match="inline_chunk_threshold_bytes") as failure:
        ours.save_config()
    assert failure.value.kind == ErrorKind.CONFIG_UPDATED
    assert stored(storage).inline_chunk_threshold_bytes == 8


def test_a_handle_may_save_again_and_again(storage: MemoryStorage) -> None:
    handle = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=7))
    handle.save_config()
    handle.save_config()
    changed = handle.reopen(RepositoryConfig(inline_chunk_threshold_bytes=9))
    changed.save_config()
    assert stored(storage).inline_chunk_threshold_bytes == 9


def test_who_changed_nothing_takes_nothing_back(storage: MemoryStorage) -> None:
    ours = Repository.open(storage)
    Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=8)).save_config()
    ours.save_config()
    assert stored(storage).inline_chunk_threshold_bytes == 8


@pytest.mark.parametrize("spec", [1, 2])
def test_who_loses_the_race_puts_the_change_on_top(tmp_path: Path, spec: int) -> None:
    Repository.create(LocalStorage(tmp_path), spec_version=spec)

    def theirs() -> None:
        config = RepositoryConfig(get_partial_values_concurrency=3)
        Repository.open(LocalStorage(tmp_path), config).save_config()

    storage = InterruptedStorage(LocalStorage(tmp_path), [Moment("put_if", "", theirs)])
    Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=7)).save_config()
    found = stored(LocalStorage(tmp_path))
    assert found.inline_chunk_threshold_bytes == 7
    assert found.get_partial_values_concurrency == 3


def test_merging_maps() -> None:
    base = {"a": 1, "b": {"x": 1, "y": 1}, "c": None}
    ours = {"a": 1, "b": {"x": 2, "y": 1}, "c": {"n": 1}}
    theirs = {"a": 5, "b": {"y": 1}, "c": {"m": 2}}
    with pytest.raises(ConflictError, match=r"b\.x"):
        merged_config(base, ours, theirs)
    theirs = {"a": 5, "b": {"x": 1, "y": 3}, "c": {"m": 2}}
    assert merged_config(base, ours, theirs) == {
        "a": 5,
        "b": {"x": 2, "y": 3},
        "c": {"n": 1, "m": 2},
    }
    assert merged_config({"a": {"k": 1}}, {"a": {}}, {"a": {"k": 1, "l": 2}}) == {"a": {"l": 2}}
