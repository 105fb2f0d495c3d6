"""Refs and configuration as the texts allow them, whoever wrote them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from frazil.errors import InvalidInputError
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_older
from tests.support.generations import Spec
from tests.support.seed_files import G2, G3, Array, sequence

ARRAYS = [Array("/line", np.arange(6, dtype=np.int32), (2,))]
SLASHED = ["v/1", "releases/2024/09", "releases/20240901", "x/ref"]


@pytest.mark.parametrize("name", SLASHED)
def test_tags_of_g2_may_have_slashes(name: str) -> None:
    """The text forbids them in names of branches only."""
    storage = MemoryStorage()
    G2().write(storage, ARRAYS)
    tip = f"r/main/{sequence(1)}.json"
    storage.put(f"r/{name}.json", storage.get(tip) or b"")
    repository = Repository.open(storage)
    assert repository.list_tags() == {name}
    assert repository.list_branches() == {"main"}
    assert repository.lookup_tag(name) == repository.lookup_branch("main")
    repository.create_tag("ours/1", repository.lookup_branch("main"))
    assert storage.get("r/ours/1.json") is not None
    assert Repository.open(storage).list_tags() == {name, "ours/1"}
    for bad in ("main/" + sequence(5), "dev/" + sequence(0), "a//b", "/a", "a/", "a/../b"):
        with pytest.raises(InvalidInputError):
            repository.create_tag(bad, repository.lookup_branch("main"))
    with pytest.raises(InvalidInputError):
        upgrade_older(storage, to=1)
    upgrade_older(storage, to=2)
    assert Repository.open(storage).list_tags() == {name, "ours/1"}


@pytest.mark.parametrize("make", [G2(), G3()])
def test_the_first_files_of_a_branch_are_not_needed(make: G2 | G3) -> None:
    storage = MemoryStorage()
    make.write(storage, ARRAYS, ARRAYS)
    expected = Repository.open(storage).lookup_branch("main")
    gone = [item.key for item in storage.list("") if item.key.endswith(f"{sequence(0)}.json")]
    assert len(gone) == 1
    storage.delete_many(gone)
    assert Repository.exists(storage)
    repository = Repository.open(storage)
    assert repository.lookup_branch("main") == expected
    session = repository.writable_session("main")
    zarr.open_group(session.store)["line"][0] = 9  # type: ignore[index]
    session.commit("next")
    keys = [item.key for item in storage.list("") if "main" in item.key]
    assert any(key.endswith(f"{sequence(3)}.json") for key in keys)
    upgrade_older(storage)
    found = zarr.open_array(Repository.open(storage).readonly_session("main").store, path="line")
    assert np.asarray(found[...]).tolist() == [9, 1, 2, 3, 4, 5]


def test_an_empty_place_has_no_repository() -> None:
    assert not Repository.exists(MemoryStorage())


@pytest.mark.parametrize("spec", ["g3", "3e-27"])
def test_configuration_is_json_where_the_text_says_so(spec: Spec) -> None:
    storage = MemoryStorage()
    config = RepositoryConfig(inline_chunk_threshold_bytes=7)
    repository = Repository.create(storage, config, spec_version=spec)
    assert json.loads(storage.get("config.yaml") or b"")["inline_chunk_threshold_bytes"] == 7
    repository.reopen(RepositoryConfig(inline_chunk_threshold_bytes=9)).save_config()
    stored = json.loads(storage.get("config.yaml") or b"")
    assert stored["inline_chunk_threshold_bytes"] == 9
    assert Repository.open(storage).config.inline_chunk_threshold_bytes == 9


def test_configuration_of_released_dialects_stays_as_they_read_it() -> None:
    storage = MemoryStorage()
    config = RepositoryConfig(inline_chunk_threshold_bytes=7)
    Repository.create(storage, config, spec_version="3i")
    assert (storage.get("config.yaml") or b"").startswith(b"inline_chunk_threshold_bytes: 7\n")
