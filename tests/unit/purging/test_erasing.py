"""Objects are deleted, or overwritten where other chunks are in them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import zarr

from frazil.bulk.write import write_region
from frazil.formats.manifest import encode_manifest
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.maintenance.space import native_ranges
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.model.config import RepositoryConfig
from frazil.purging.erasing import Erasure, erase, leftovers, plan_erasure, unnamed_objects
from frazil.purging.finding import PurgeMatches
from frazil.purging.records import PurgeTarget
from frazil.repository import Repository
from frazil.storage.assets import chunk_key, manifest_key
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys
from tests.unit.purging.samples import SECRET, assert_whole, make, read


def test_objects_that_hold_other_chunks_are_overwritten(storage: MemoryStorage, spec: int) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    options = {"shape": (4,), "chunks": (2,), "dtype": "<i8", "compressors": None}
    zarr.create_array(session.store, name="a", **options)  # type: ignore[arg-type]
    write_region(session, "a", ..., [SECRET, SECRET, 3, 4], packing=True)
    session.commit("packed")
    session = repo.writable_session("main")
    write_region(session, "a", slice(2, 4), [5, 6], packing=True)
    session.commit("half of it")
    [pack, *_] = sorted(keys(storage, "chunks/"), key=lambda key: -len(storage.get(key) or b""))
    report = repo.space.purge("a", [slice(0, 2)], confirm="a", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert (report.objects_overwritten, report.bytes_erased) == (1, 16)
    assert storage.get(pack) == bytes(16) + np.array([3, 4], "<i8").tobytes()
    assert read(repo, "a").tolist() == [0, 0, 5, 6]
    middle = list(repo.ancestry(branch="main"))[1]
    assert read(repo, "a", snapshot_id=middle.id).tolist() == [0, 0, 3, 4]
    assert_whole(repo)


def test_others_that_refer_to_the_same_bytes_are_told(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    session = repo.writable_session("main")
    options = {"shape": (8,), "chunks": (2,), "dtype": "<i8", "compressors": None}
    zarr.create_array(session.store, name="copy", **options)  # type: ignore[arg-type]
    state = session.state
    state.set_table(state.array("/copy"), state.table(state.array("/group/secret")))
    session.commit("a copy by reference")
    told = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert told.still_referenced == ("/copy",)
    assert read(repo, "copy").tolist() == [SECRET] * 8
    assert_whole(repo)


# --- plans of single objects ---


LINE, OTHER = NodeId(b"line...."), NodeId(b"other...")


def keep(storage: Storage, *arrays: tuple[NodeId, NativeRef]) -> str:
    """Write a manifest with one reference of each array."""
    tables = {one: ChunkTable.from_refs(1, [((0,), ref)]) for one, ref in arrays}
    name = ManifestId.random()
    storage.put(manifest_key(name), encode_manifest(name, tables, spec=2))
    return manifest_key(name)


def planned(storage: Storage, *refs: NativeRef, tainted: Iterable[str] = ()) -> Erasure:
    """What becomes of the objects that some references name."""
    found = PurgeMatches(PurgeTarget("/line", nodes=frozenset({LINE})), {})
    table = ChunkTable.from_refs(1, [((place,), ref) for place, ref in enumerate(refs)])
    found.ranges.add(native_ranges(table))
    return plan_erasure(storage, found, tainted)


def pack(storage: Storage, data: bytes) -> ChunkId:
    name = ChunkId.random()
    storage.put(chunk_key(name), data)
    return name


def test_an_object_that_nothing_else_is_in_is_deleted(storage: MemoryStorage) -> None:
    name = pack(storage, b"secret")
    key = keep(storage, (LINE, NativeRef(name, 0, 6)))
    plan = planned(storage, NativeRef(name, 0, 6), tainted=[key])
    assert [bytes(row) for row in plan.deleted] == [name]
    assert (plan.overwritten, plan.bytes_erased, plan.shared) == ({}, 6, ())
    assert leftovers(storage, plan) == (1, [f"{chunk_key(name)} still exists"])
    erase(storage, plan)
    assert storage.head(chunk_key(name)) is None
    assert leftovers(storage, plan) == (1, [])


def test_what_no_reference_needs_in_an_object_becomes_zeros(storage: MemoryStorage) -> None:
    name = pack(storage, b"openSECRETopen.lost")
    keep(storage, (OTHER, NativeRef(name, 0, 4)))
    keep(storage, (OTHER, NativeRef(name, 10, 4)))
    plan = planned(storage, NativeRef(name, 4, 6))
    assert (len(plan.deleted), plan.bytes_erased) == (0, 6)
    assert leftovers(storage, plan)[1] == [
        f"{chunk_key(name)} still holds bytes that nothing refers to"
    ]
    erase(storage, plan)
    assert storage.get(chunk_key(name)) == b"open" + bytes(6) + b"open" + bytes(5)
    assert leftovers(storage, plan) == (1, [])


def test_bytes_that_others_refer_to_stay_and_are_not_counted(storage: MemoryStorage) -> None:
    name = pack(storage, b"secret")
    keep(storage, (OTHER, NativeRef(name, 0, 6)))
    plan = planned(storage, NativeRef(name, 0, 6), NativeRef(name, 2, 2))
    assert plan.shared == (OTHER,)
    assert plan.bytes_erased == 2  # that range is gone, though its bytes are in the other
    erase(storage, plan)
    assert storage.get(chunk_key(name)) == b"secret"


def test_what_was_put_aside_of_the_same_objects_goes_too(storage: MemoryStorage) -> None:
    gone, part, other = (pack(storage, b"secret") for _ in range(3))
    for name in (gone, part, other):
        storage.put(f"trash/some/{chunk_key(name)}", b"secret")
    keep(storage, (OTHER, NativeRef(part, 0, 3)))
    plan = planned(storage, NativeRef(gone, 0, 6), NativeRef(part, 3, 3))
    erase(storage, plan)
    assert keys(storage, "trash/") == {f"trash/some/{chunk_key(other)}"}


def test_bytes_that_another_erasure_takes_meanwhile_do_not_come_back() -> None:
    inner = MemoryStorage()
    name = pack(inner, b"aaabbbccc")
    for start in (0, 6):
        keep(inner, (OTHER, NativeRef(name, start, 3)))
    plan = planned(inner, NativeRef(name, 3, 3))
    others = Moment("put_if", "chunks/", lambda: inner.put(chunk_key(name), b"aaabbb\0\0\0"))
    meddled = InterruptedStorage(inner, [others])
    erase(meddled, plan)
    assert meddled.is_over
    assert inner.get(chunk_key(name)) == b"aaa" + bytes(6)


def test_objects_that_are_gone_already_are_no_trouble(storage: MemoryStorage) -> None:
    gone, part = ChunkId.random(), ChunkId.random()
    keep(storage, (OTHER, NativeRef(part, 0, 3)))
    plan = planned(storage, NativeRef(gone, 0, 6), NativeRef(part, 3, 3))
    erase(storage, plan)
    assert leftovers(storage, plan) == (2, [])


def test_objects_that_no_manifest_names_are_counted(storage: MemoryStorage) -> None:
    assert unnamed_objects(storage) == 0
    named = pack(storage, b"named")
    keep(storage, (LINE, NativeRef(named, 0, 5)))
    pack(storage, b"of a session that never committed")
    storage.put("chunks/notes.txt", b"hello")
    assert unnamed_objects(storage) == 1


@pytest.mark.parametrize("name", ["a" * 20, "Ä" * 20, "readme-of-chunks.txt"])
def test_foreign_names_as_long_as_an_id_are_no_chunk_objects(
    storage: MemoryStorage, name: str
) -> None:
    storage.put(f"chunks/{name}", b"hello")
    assert unnamed_objects(storage) == 0
