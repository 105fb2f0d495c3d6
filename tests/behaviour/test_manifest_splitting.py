"""Manifests of large arrays: cut by themselves, rewritten one at a time, never too large."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

from frazil.formats import manifest
from frazil.formats.refs import may_fit
from frazil.model import splitting
from frazil.model.chunks import ChunkTable
from frazil.model.config import RepositoryConfig
from frazil.model.manifest_config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ManifestSplitValues,
)
from frazil.model.nodes import Extents
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction import draft
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, group_document, write_keys


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at a hundredth of its size and less."""
    monkeypatch.setattr(splitting, "SPLIT_ABOVE", 1000)
    monkeypatch.setattr(splitting, "UNITE_BELOW", 250)
    monkeypatch.setattr(splitting, "REFS_PER_MANIFEST", 128)
    monkeypatch.setattr(manifest, "PATCHED_FROM", 20)


TELLING = ["3e-27" if spec == "g3" else spec for spec in ALL]
"""Of G3 a dialect that tells which manifest has a chunk."""


@pytest.fixture(params=TELLING, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


def table(*grid: int, first: int = 0) -> ChunkTable:
    """A virtual reference for each chunk; the offset tells which."""
    coords = np.indices(grid).reshape(len(grid), -1).T.astype(np.uint32)
    coords[:, 0] += first
    number = np.zeros(len(coords), np.int32)
    offset = np.ravel_multi_index(tuple(coords.T), (1_000_000, *grid[1:]))
    return ChunkTable.virtual(coords, number, ["s3://bucket/file.nc"], offset, 4)


def fill(session: Session, *grid: int, path: str = "a", first: int = 0) -> None:
    """Make or grow an array and refer to all its chunks from a row on."""
    shape = (first + grid[0], *grid[1:])
    write_keys(session, {f"{path}/zarr.json": array_document(*shape, chunks=(1,) * len(grid))})
    session.state.set_table(session.state.array(f"/{path}"), table(*grid, first=first))


def made(repository: Repository, *grid: int) -> Repository:
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    fill(session, *grid)
    session.commit("made")
    return repository


def boxes(repository: Repository, path: str = "/a") -> dict[bytes, Extents]:
    """Manifests of an array, with what they cover."""
    state = repository.readonly_session("main").state
    return {ref.id: ref.extents for ref in state.array(path).manifests}


def offsets(repository: Repository, path: str = "/a") -> list[int]:
    state = repository.readonly_session("main").state
    found: list[int] = state.table(state.array(path)).offset.tolist()
    return found


def set_one(repository: Repository, key: str, offset: int) -> None:
    session = repository.writable_session("main")
    session.store.set_virtual_ref(
        key, "s3://bucket/other.nc", offset=offset, length=9, validate_container=False
    )
    session.commit("one chunk")


def test_an_array_of_moderate_size_has_one_manifest(repository: Repository) -> None:
    made(repository, 100, 10)
    assert list(boxes(repository).values()) == [((0, 100), (0, 10))]


def test_a_large_array_has_slabs(repository: Repository) -> None:
    made(repository, 300, 10)
    expected = [((at, min(at + 8, 300)), (0, 10)) for at in range(0, 300, 8)]
    assert sorted(boxes(repository).values()) == expected
    assert offsets(repository) == list(range(3000))


@pytest.mark.parametrize("key", ["a/c/100/3", "a/c/299/9"])
def test_a_small_commit_rewrites_one_slab(repository: Repository, key: str) -> None:
    before = boxes(made(repository, 300, 10))
    set_one(repository, key, 5_000_000)
    after = boxes(repository)
    assert len(before.keys() & after.keys()) == len(after) - 1
    assert sorted(before.values()) == sorted(after.values())
    assert sum(offset == 5_000_000 for offset in offsets(repository)) == 1


def test_growth_leaves_old_slabs_alone(repository: Repository) -> None:
    before = boxes(made(repository, 304, 10))
    session = repository.writable_session("main")
    fill(session, 96, 10, first=304)
    session.commit("grown")
    after = boxes(repository)
    assert before.items() <= after.items()
    assert len(after) == 50
    assert offsets(repository) == list(range(4000))


def test_an_array_that_becomes_large_is_cut(repository: Repository) -> None:
    made(repository, 100, 10)
    session = repository.writable_session("main")
    fill(session, 100, 10, first=100)
    session.commit("grown")
    assert len(boxes(repository)) == 25
    assert offsets(repository) == list(range(2000))


def explicit(size: int) -> RepositoryConfig:
    sizes: ManifestSplitValues = {ManifestSplitDimCondition.Axis(0): size}
    splitting_ = ManifestSplittingConfig.from_dict({ManifestSplitCondition.AnyArray(): sizes})
    return RepositoryConfig(manifest=ManifestConfig(splitting=splitting_))


def test_what_the_configuration_says_counts() -> None:
    coarse = made(Repository.create(MemoryStorage(), config=explicit(100)), 300, 10)
    assert sorted(rows for rows, _ in boxes(coarse).values()) == [(0, 100), (100, 200), (200, 300)]
    whole = made(Repository.create(MemoryStorage(), config=explicit(2**32 - 1)), 300, 10)
    assert len(boxes(whole)) == 1
    unsplit = RepositoryConfig(manifest=ManifestConfig(splitting=ManifestSplittingConfig()))
    assert len(boxes(made(Repository.create(MemoryStorage(), config=unsplit), 300, 10))) == 1


def test_a_chunk_far_out_in_a_huge_array_needs_no_memory_for_the_cells_before_it() -> None:
    repository = Repository.create(MemoryStorage(), config=explicit(1))
    session = repository.writable_session("main")
    far = 2**27
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(far)})
    write_keys(session, {f"a/c/{far - 1}": b"far"})
    tracemalloc.start()
    session.commit("far out")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50_000_000
    assert list(boxes(repository).values()) == [((far - 1, far),)]


def test_rewriting_manifests_follows_the_rule() -> None:
    storage = MemoryStorage()
    made(Repository.create(storage), 300, 10)
    coarse = Repository.open(storage, config=explicit(100))
    coarse.rewrite_manifests("as told", branch="main")
    assert len(boxes(coarse)) == 3
    automatic = Repository.open(storage)
    automatic.rewrite_manifests("by size", branch="main")
    assert len(boxes(automatic)) == 38
    assert offsets(automatic) == list(range(3000))


def test_one_chunk_of_an_unsplit_array_is_exchanged_in_the_bytes() -> None:
    storage = MemoryStorage()
    config = explicit(2**32 - 1)
    made(Repository.create(storage, config=config), 300, 10)
    expected = list(range(3000))
    for number in range(5):
        repository = Repository.open(storage, config=config)
        set_one(repository, f"a/c/{number}/{number}", 5_000_000 + number)
        expected[11 * number] = 5_000_000 + number
        assert offsets(repository) == expected
    assert offsets(Repository.open(storage, config=config)) == expected
    assert list(boxes(repository).values()) == [((0, 300), (0, 10))]


def test_manifests_beyond_what_readers_take_are_cut_whatever_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft, "may_fit", partial(may_fit, limit=100_000))
    config = explicit(2**32 - 1)
    repository = made(Repository.create(MemoryStorage(), config=config), 300, 10)
    assert len(boxes(repository)) == 8
    assert offsets(repository) == list(range(3000))
    set_one(repository, "a/c/0/0", 7)
    assert offsets(repository) == [7, *range(1, 3000)]
    assert repository.readonly_session("main").store.session.chunk_type("/a", (299, 9)) == 2


def test_other_arrays_cost_nothing() -> None:
    inner = MemoryStorage()
    repository = Repository.create(inner)
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    fill(session, 300, 10, path="huge")
    fill(session, 5, path="tiny")
    session.commit("two arrays")
    huge = boxes(repository, "/huge")
    watched = FaultyStorage(inner)
    state = Repository.open(watched).readonly_session("main").state
    assert state.table(state.array("/tiny")).offset.tolist() == list(range(5))
    assert state.chunk_ref(state.array("/huge"), (150, 5)) is not None
    fetched = {key.rpartition("/")[2] for _, key in watched.calls if key.startswith("manifests/")}
    assert len(fetched) == 2
    assert len(fetched - {str(id_) for id_ in huge}) == 1
