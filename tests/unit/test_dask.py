"""dask arrays: every block lands once, under every scheduler, or nothing does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

from frazil.dask import computing_meta, session_merge_reduction, store_dask
from frazil.repository import Repository
from frazil.session import ForkSession, Session
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage

SHAPE = (30, 20)
VALUES = np.arange(600.0).reshape(SHAPE)


def lazy(values: Any, chunks: Any = "auto") -> Any:  # noqa: ANN401  (a dask array)
    return da.from_array(values, chunks=chunks)  # type: ignore[no-untyped-call]


def new_session(storage: Any = None) -> Session:  # noqa: ANN401  (any storage)
    repository = Repository.create(storage or MemoryStorage())
    session = repository.writable_session("main")
    group = zarr.group(session.store)
    group.create_array("a", shape=SHAPE, chunks=(10, 5), dtype="f8", fill_value=np.nan)
    group.create_array("b", shape=(30,), chunks=(4,), shards=(8,), dtype="i4")
    return session


def target(fork: ForkSession, name: str = "a") -> Any:  # noqa: ANN401  (a zarr.Array)
    return zarr.open_array(fork.store, path=name, mode="r+")


def read(session: Session, name: str = "a") -> Any:  # noqa: ANN401
    array: Any = zarr.open_array(session.store, path=name, mode="r")
    return array[...]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("split_every", [None, 2, 100])
def test_blocks_land_in_the_session(scheduler: str, split_every: int | None) -> None:
    session = new_session()
    fork = session.fork()
    merged = store_dask(
        sources=[lazy(VALUES, chunks=(10, 10)), da.arange(30, chunks=16)],
        targets=[target(fork), target(fork, "b")],
        split_every=split_every,
        scheduler=scheduler,
    )
    assert merged is fork
    session.merge(merged)
    session.commit("written by dask")
    np.testing.assert_array_equal(read(session), VALUES)
    np.testing.assert_array_equal(read(session, "b"), np.arange(30))


@pytest.mark.slow
def test_processes_write_too(tmp_path: Path) -> None:
    session = new_session(LocalStorage(tmp_path))
    merged = store_dask(
        sources=[lazy(VALUES, chunks=(10, 10))],
        targets=[target(session.fork())],
        scheduler="processes",
        num_workers=2,
    )
    session.merge(merged)
    session.commit("written by processes")
    np.testing.assert_array_equal(read(session), VALUES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_writes_the_same_data_again(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    session = new_session(LocalStorage(tmp_path))
    source = lazy(VALUES, chunks=(10, 10))
    with distributed.Client(n_workers=1, threads_per_worker=2, dashboard_address=None):
        for name in ("first", "second"):  # equal tasks must not be remembered
            array = zarr.create_array(
                session.store, name=name, shape=SHAPE, chunks=(10, 5), dtype="f8"
            )
            session.merge(
                store_dask(sources=[source], targets=[target(session.fork(), array.path)])
            )
    session.commit("written by a cluster")
    np.testing.assert_array_equal(read(session, "first"), VALUES)
    np.testing.assert_array_equal(read(session, "second"), VALUES)


@pytest.mark.parametrize("chunks", [(7, 3), (1, 20), (30, 1), (13, 13), ((1, 28, 1), (6, 14))])
def test_blocks_that_meet_inside_a_chunk_do_not_lose_values(chunks: Any) -> None:  # noqa: ANN401
    session = new_session()
    fork = session.fork()
    source = lazy(VALUES, chunks=chunks)
    sources = [source, da.arange(30, chunks=3)]
    store_dask(sources=sources, targets=[target(fork), target(fork, "b")], scheduler="threads")
    np.testing.assert_array_equal(read(fork), VALUES)
    np.testing.assert_array_equal(read(fork, "b"), np.arange(30))


def test_regions_that_share_a_chunk_do_not_lose_values() -> None:
    fork = new_session().fork()
    halves = [(slice(0, 15),), (slice(15, 30), slice(None))]
    store_dask(
        sources=[lazy(VALUES[:15], chunks=4), lazy(VALUES[15:], chunks=4)],
        targets=[target(fork), target(fork)],
        regions=halves,
        scheduler="threads",
    )
    np.testing.assert_array_equal(read(fork), VALUES)


def test_a_region_may_skip_rows_and_fix_a_column() -> None:
    fork = new_session().fork()
    regions = [(slice(1, None, 2), slice(5, 15))]
    source = lazy(VALUES[1::2, 5:15], chunks=4)
    store_dask(sources=[source], targets=[target(fork)], regions=regions)
    column = lazy(VALUES[:, 0], chunks=7)
    store_dask(sources=[column], targets=[target(fork)], regions=(slice(None), 0))
    expected = np.full(SHAPE, np.nan)
    expected[1::2, 5:15] = VALUES[1::2, 5:15]
    expected[:, 0] = VALUES[:, 0]
    np.testing.assert_array_equal(read(fork), expected)


def test_earlier_changes_of_the_fork_stay() -> None:
    session = new_session()
    fork = session.fork()
    target(fork)[:] = 1
    source = lazy(np.full((10, 20), 2.0), chunks=5)
    merged = store_dask(sources=[source], targets=[target(fork)], regions=[(slice(10, 20),)])
    session.merge(merged)
    assert read(session)[:, 0].tolist() == [1.0] * 10 + [2.0] * 10 + [1.0] * 10


def test_arrays_without_dimensions_or_without_cells() -> None:
    session = new_session()
    zarr.create_array(session.store, name="scalar", shape=(), dtype="i4")
    zarr.create_array(session.store, name="empty", shape=(0,), chunks=(1,), dtype="i4")
    fork = session.fork()
    store_dask(
        sources=[lazy(np.array(7, "i4")), da.zeros(0, chunks=1, dtype="i4")],
        targets=[target(fork, "scalar"), target(fork, "empty")],
    )
    assert read(fork, "scalar") == 7
    assert read(fork, "empty").shape == (0,)


def failing(block: Any, block_id: Any = None) -> Any:  # noqa: ANN401
    if block_id == (2, 1):
        raise RuntimeError("the last block fails")
    return block


def test_a_failed_task_leaves_no_trace() -> None:
    session = new_session()
    fork = session.fork()
    source = lazy(VALUES, chunks=(10, 10)).map_blocks(failing, dtype="f8")
    with pytest.raises(RuntimeError, match="the last block fails"):
        store_dask(sources=[source], targets=[target(fork)], scheduler="sync")
    assert not fork.has_uncommitted_changes
    assert np.isnan(read(session)).all()


def test_targets_must_be_in_a_fork() -> None:
    session = new_session()
    array = zarr.open_array(session.store, path="a", mode="r+")
    with pytest.raises(TypeError, match=r"Session\.fork\(\)"):
        store_dask(sources=[lazy(VALUES)], targets=[array])
    assert np.isnan(read(session)).all()


def test_wrong_arguments_are_refused_before_anything_is_written() -> None:
    fork = new_session().fork()
    source = lazy(VALUES)
    with pytest.raises(TypeError, match="Expected a dask array"):
        store_dask(sources=[VALUES], targets=[target(fork)])
    with pytest.raises(ValueError, match="2 sources, 1 targets"):
        store_dask(sources=[source, source], targets=[target(fork)])
    with pytest.raises(ValueError, match="does not fit"):
        store_dask(sources=[source], targets=[target(fork)], regions=[(slice(0, 10),)])
    with pytest.raises(TypeError, match="'return_stored'"):
        store_dask(sources=[source], targets=[target(fork)], return_stored=True)
    assert not fork.has_uncommitted_changes


def test_stored_arrays_of_dask_itself_can_be_merged() -> None:
    session = new_session()
    fork = session.fork()
    stored = da.store(
        lazy(VALUES, chunks=(10, 10)),
        target(fork),
        lock=False,
        compute=False,
        return_stored=True,
        load_stored=False,
    )
    session.merge(session_merge_reduction(stored, split_every=2, scheduler="threads"))
    np.testing.assert_array_equal(read(session), VALUES)
    with pytest.raises(TypeError, match="Expected a dask array"):
        session_merge_reduction(VALUES, split_every=None)


def test_the_type_of_a_result_is_told_without_running() -> None:
    asked = computing_meta(lambda **_: pytest.fail("ran"))
    assert asked(computing_meta=True).dtype == object
    assert computing_meta(lambda value: value + 1)(1) == 2


def test_dask_is_not_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, frazil, frazil.repository, frazil.distributed;"
        "print(sorted({'dask', 'xarray', 'pandas'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"
