"""Chunk objects of an old repository get a new name, a copy, or stay and are referred to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError, StorageError
from frazil.formats.generation import BY_SPEC
from frazil.fsck import fsck
from frazil.ids import ChunkId
from frazil.maintenance.id_sets import RowSet
from frazil.model.chunks import ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from frazil.upgrading.chunks import (
    Transfer,
    Transfers,
    move_chunks,
    mover,
    relocation,
    require_moved,
    transfers_of,
)
from frazil.upgrading.source import ChunkMode, UpgradeSource, source_of
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import make_old, make_small, told

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


# --- what is to be done ---


def source(place: Storage, spec: str = "g2") -> UpgradeSource:
    make_small(place, spec)
    return source_of(context_of(Repository.open(place)))


def old_chunks(made: UpgradeSource) -> RowSet:
    """The ids of all chunk objects."""
    needs = RowSet()
    ids = [one for one, _ in made.files.listed("chunks")]
    needs.add(np.array([[*one] for one in ids], np.uint8))
    return needs


@pytest.mark.parametrize("mode", [ChunkMode.LINK, ChunkMode.COPY])
def test_chunks_that_have_their_new_name_are_left_out(mode: ChunkMode) -> None:
    made = source(MemoryStorage())
    needs = old_chunks(made)
    found = transfers_of(made, needs, mode)
    assert len(found.wanted) == len(needs.rows()) > 0
    assert found.missing == 0
    first, *rest = found.wanted
    data = made.place.get(first.source)
    assert data is not None
    made.place.put(first.target, data)
    assert transfers_of(made, needs, mode).wanted == tuple(rest)
    made.place.put(first.target, data[:-1])  # as a copy that was interrupted may leave it
    assert transfers_of(made, needs, mode).wanted == found.wanted


def test_chunks_that_stay_need_no_new_name() -> None:
    for spec, mode in (("g2", ChunkMode.VIRTUAL), ("g3", ChunkMode.LINK)):
        made = source(MemoryStorage(), spec)
        assert transfers_of(made, old_chunks(made), mode).wanted == ()


def test_chunks_that_are_gone_are_counted() -> None:
    made = source(MemoryStorage())
    needs = old_chunks(made)
    needs.add(np.zeros((1, ChunkId.width), np.uint8))
    found = transfers_of(made, needs, ChunkMode.LINK)
    assert found.missing == 1
    assert len(found.wanted) == len(needs.rows()) - 1
    assert transfers_of(made, RowSet(), ChunkMode.LINK) == Transfers()


# --- doing it ---


def test_a_chunk_that_was_not_copied_as_a_whole_is_named() -> None:
    made = source(MemoryStorage())
    found = transfers_of(made, old_chunks(made), ChunkMode.COPY)
    with pytest.raises(StorageError, match="run the upgrade again") as refusal:
        require_moved(made, found)
    assert found.wanted[0].target in str(refusal.value)
    mover(made, ChunkMode.COPY)(found.wanted)
    require_moved(made, found)
    require_moved(made, Transfers())


def test_chunks_are_copied_from_another_storage() -> None:
    root, place = MemoryStorage(), MemoryStorage()
    root.put("c/one", b"data")
    move_chunks(root, place, ChunkMode.LINK, [Transfer("c/one", "chunks/ONE", 4)])
    assert place.get("chunks/ONE") == b"data"
    with pytest.raises(StorageError, match="c/two"):
        move_chunks(root, place, ChunkMode.LINK, [Transfer("c/two", "chunks/TWO", 4)])


# --- references ---


def test_references_point_to_where_old_chunks_are(tmp_path: Path) -> None:
    place = LocalStorage(str(tmp_path))
    made = source(place)
    (chunk, item), *_ = made.files.listed("chunks")
    native = ChunkTable.from_refs(
        1, [((0,), NativeRef(ChunkId(chunk), 0, item.size_bytes)), ((1,), InlineRef(b"abc"))]
    )
    name = item.key.rpartition("/")[2]
    for to, above in ((BY_SPEC[1], f"{place.url}/c/"), (BY_SPEC[2], "vcc://legacy-chunks/")):
        moved = relocation(made, to, ChunkMode.VIRTUAL)(native)
        (_, first), (_, second) = moved.refs()
        assert isinstance(first, VirtualRef)
        assert (first.location, first.length) == (above + name, item.size_bytes)
        assert isinstance(second, InlineRef)
        assert relocation(made, to, ChunkMode.LINK)(native) is native
