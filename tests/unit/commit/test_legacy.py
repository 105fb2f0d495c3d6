"""Repositories from before spec 1 get the refs and the objects of their generation."""

from __future__ import annotations

import pytest

from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_state_file import StateFileRefs
from frazil.commit.file_refs import FileRefs
from frazil.commit.legacy import legacy_parts
from frazil.errors import RepositoryNotFoundError, StorageError
from frazil.ids import SnapshotId
from frazil.model.config import RepositoryConfig, StorageSettings
from frazil.repository import Repository
from frazil.storage.legacy.opening import find_legacy
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.generations import OLD, Spec, generation_of
from tests.support.old_repositories import make_small

KINDS: dict[Spec, type[FileRefs]] = {
    "g1": StateFileRefs,
    "g2": NumberedRefs,
    "g3": NumberedRefs,
}


@pytest.mark.parametrize("spec", OLD)
def test_refs_move_as_those_of_the_generation_do(spec: Spec) -> None:
    storage = MemoryStorage()
    tip = make_small(storage, spec).lookup_branch("main")
    parts = legacy_parts(storage, generation_of(spec), RepositoryConfig())
    refs = parts.refs(parts.assets(parts.objects))
    assert type(refs) is KINDS[spec]
    assert str(refs.branch_tip("main")) == tip


@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_what_was_read_while_the_repository_was_found_is_not_read_again(spec: Spec) -> None:
    storage = MemoryStorage()
    tip = SnapshotId.parse(make_small(storage, spec).lookup_branch("main"))
    watched = FaultyStorage(storage)
    found = find_legacy(watched)
    assert found is not None
    watched.forget_calls()
    parts = legacy_parts(watched, found.generation, RepositoryConfig(), found)
    assets = parts.assets(parts.objects)
    assert assets.snapshot(tip).id == tip
    assert not watched.calls


@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_an_empty_place_has_no_refs(spec: Spec) -> None:
    parts = legacy_parts(MemoryStorage(), generation_of(spec), RepositoryConfig())
    refs = parts.refs(parts.assets(parts.objects))
    assert not refs.branches()
    assert not refs.tags()


def test_without_a_state_file_there_is_no_repository() -> None:
    parts = legacy_parts(MemoryStorage(), generation_of("g1"), RepositoryConfig())
    with pytest.raises(RepositoryNotFoundError):
        parts.refs(parts.assets(parts.objects)).branches()


@pytest.mark.parametrize("asked", [None, True, False])
def test_a_state_file_is_replaced_conditionally_unless_the_settings_forbid_it(
    asked: bool | None,
) -> None:
    storage = MemoryStorage()
    tip = make_small(storage, "g1").lookup_branch("main")
    settings = StorageSettings(unsafe_use_conditional_update=asked)
    repository = Repository.open(storage, RepositoryConfig(storage=settings))
    if asked is False:
        with pytest.raises(StorageError, match="unsafe_use_conditional_update"):
            repository.create_tag("new", tip)
    else:
        repository.create_tag("new", tip)
    assert ("new" in Repository.open(storage).list_tags()) == (asked is not False)
