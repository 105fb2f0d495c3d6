"""Chunk objects of an old repository get a new name, a copy, or stay and are referred to."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import (
    InvalidInputError,
)
from frazil.fsck import fsck
from frazil.repository import Repository
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_older
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    make_old,
    told,
)

SPECS = (1, 2)


@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_chunks_are_linked_or_copied(spec: str, tmp_path: Path) -> None:
    for mode, links in (("link", 2), ("copy", 1)):
        place = LocalStorage(str(tmp_path / mode))
        make_old(place, spec)
        upgrade_older(place, mode=mode)
        chunks = [path for path in (tmp_path / mode / "chunks").iterdir() if path.is_file()]
        assert chunks
        assert {path.stat().st_nlink for path in chunks} == {links}


@pytest.mark.parametrize("to", SPECS)
@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_virtual_chunks_stay(spec: str, to: int, tmp_path: Path) -> None:
    place = LocalStorage(str(tmp_path))
    make_old(place, spec)
    before = told(Repository.open(place))
    upgrade_older(place, to=to, mode="virtual")
    assert not [*place.list("chunks/")]
    config = Repository.fetch_config(place)
    assert config is not None
    (prefix,) = config.virtual_chunk_containers or {}
    assert prefix == f"{place.url}/c/"
    new = Repository.open(place, authorize_virtual_chunk_access={prefix: LocalFileSystemAccess})
    assert told(new) == before
    frazil.clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    assert told(new.reopen()) == before


def test_storage_that_no_container_reads() -> None:
    place = MemoryStorage()
    make_old(place, "g2")
    with pytest.raises(InvalidInputError, match="link or copy"):
        upgrade_older(place, mode="virtual")


@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_missing_chunks_do_not_stop_an_upgrade(spec: str) -> None:
    place = MemoryStorage()
    make_old(place, spec)
    chunk = next(iter(place.list("c/")))
    place.delete_many([chunk.key])
    report = upgrade_older(place)
    assert report.missing_chunks == 1
    new = Repository.open(place)
    assert sorted(new.list_branches()) == ["dev", "main"]
    assert not fsck(place).is_sound
