"""What `write_region` puts into an array, and what a session is left with when it fails."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

from frazil import config
from frazil.bulk.pack import Packing
from frazil.bulk.read import read_region
from frazil.bulk.write import write_region
from frazil.errors import (
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SelectionError,
    StorageError,
)
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.unit.bulk.written import SHAPE, begin, chunk_count, objects, some


class TestValues:
    def test_a_whole_array_in_one_object(self, storage: Storage) -> None:
        session = begin(storage, compressors=None)
        values = some()
        write_region(session, "a", ..., values)
        assert objects(storage) == [25 * 20 * 8]
        session.commit("written")
        again = Repository.open(storage).readonly_session("main")
        found = np.asarray(zarr.open_array(again.store, path="a")[:])
        assert (found == values).all()

    @pytest.mark.parametrize(
        "options",
        [
            {"compressors": None},
            {"compressors": ZstdCodec(level=3)},
            {"compressors": BloscCodec()},
            {"shards": (10, 8)},
            {"shards": (10, 8), "compressors": None},
            {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
            {"dtype": ">i4"},
            {"dtype": "bool", "fill_value": True},
            {"dtype": "M8[s]", "fill_value": "NaT"},
            {"dtype": "U7", "fill_value": ""},
            {"dtype": str, "fill_value": "none"},
        ],
        ids=lambda options: "-".join(str(each)[:12] for pair in options.items() for each in pair),
    )
    def test_zarr_reads_what_was_written(self, options: dict[str, Any]) -> None:
        session = begin(MemoryStorage(), **options)
        array = zarr.open_array(session.store, path="a")
        values = (some() * 10).astype("i4").astype(array.dtype)
        write_region(session, "a", np.s_[2:21, 1:16], values[2:21, 1:16])
        with config.set(fast_zarr=False):
            found = zarr.open_array(session.store, path="a")[:]
        expected = np.full(SHAPE, array.fill_value, array.dtype)
        expected[2:21, 1:16] = values[2:21, 1:16]
        np.testing.assert_array_equal(found, expected)

    def test_values_are_broadcast_and_converted(self) -> None:
        session = begin(MemoryStorage())
        write_region(session, "a", np.s_[1:9], np.arange(17, dtype="i2"))
        write_region(session, "a", np.s_[10, :], 7)
        write_region(session, "a", np.s_[20:], [[True], [False], [True]])
        expected = np.zeros(SHAPE)
        expected[1:9] = np.arange(17)
        expected[10] = 7
        expected[20:] = [[1], [0], [1]]
        assert (read_region(session, "a") == expected).all()

    def test_other_kinds_of_selection(self) -> None:
        session = begin(MemoryStorage())
        expected = np.zeros(SHAPE)
        rows, columns = np.array([2, 20, 3]), np.array([16, 0])
        values = some((3, 2))
        write_region(session, "a", (rows, columns), values, by="oindex")
        expected[np.ix_(rows, columns)] = values
        write_region(session, "a", (rows, rows // 2), values[:, 0], by="vindex")
        expected[rows, rows // 2] = values[:, 0]
        write_region(session, "a", (1, slice(3, 5)), 5, by="blocks")
        expected[5:10, 12:17] = 5
        mask = expected > 9
        write_region(session, "a", mask, 1.5)
        expected[mask] = 1.5
        assert (read_region(session, "a") == expected).all()

    def test_fields_of_records(self) -> None:
        session = begin(
            MemoryStorage(), dtype=[("x", "f4"), ("n", "i8")], fill_value=(0, 0), compressors=None
        )
        write_region(session, "a", np.s_["n", 3:9], 4)
        write_region(session, "a", "x", 2)
        found = read_region(session, "a")
        assert (found["x"] == 2).all()
        assert (found["n"][3:9] == 4).all()
        assert found["n"].sum() == 4 * 6 * 17

    def test_arrays_without_axes_and_without_elements(self) -> None:
        session = begin(MemoryStorage(), shape=(), chunks=())
        write_region(session, "a", (), 3.5)
        assert read_region(session, "a") == 3.5
        session = begin(MemoryStorage(), shape=(0, 4))
        write_region(session, "a", ..., np.zeros((0, 4)))
        write_region(session, "a", np.s_[:, 2:2], 1)
        assert chunk_count(session) == 0

    def test_a_store_will_do_as_well(self) -> None:
        session = begin(MemoryStorage())
        write_region(session.store, "/a", np.s_[:2], 1)
        assert read_region(session, "a").sum() == 2 * 17


class TestStoring:
    def test_packing_by_choice_and_configuration(self) -> None:
        for packing, expected in ((None, 1), (False, 25), (Packing(800, 500), 5)):
            storage = MemoryStorage()
            write_region(begin(storage, compressors=None), "a", ..., some(), packing=packing)
            assert len(objects(storage)) == expected
        storage = MemoryStorage()
        with config.set(pack_bulk_writes=False):
            write_region(begin(storage), "a", ..., some())
        assert len(objects(storage)) == 25

    def test_zarr_packs_on_request(self) -> None:
        for packs, expected in ((False, 25), (True, 1)):
            storage = MemoryStorage()
            session = begin(storage)
            with config.set(pack_zarr_writes=packs):
                zarr.open_array(session.store, path="a")[:] = some()
            assert len(objects(storage)) == expected

    def test_sessions_and_their_forks_may_have_their_own_way(self) -> None:
        storage = MemoryStorage()
        session = begin(storage)
        session.pack_writes = True
        zarr.open_array(session.store, path="a")[:] = some()
        assert len(objects(storage)) == 1
        fork = pickle.loads(pickle.dumps(session.fork()))
        zarr.open_array(fork.store, path="a")[:] = -some()
        assert len(objects(storage)) == 2
        session.pack_writes = False
        write_region(session, "a", ..., 3)
        assert len(objects(storage)) == 27

    def test_large_chunks_have_objects_of_their_own(self, tmp_path: Path) -> None:
        storage = LocalStorage(tmp_path)
        session = begin(storage, shape=(4, 200_000), chunks=(1, 200_000), compressors=None)
        values = some((4, 200_000))
        write_region(session, "a", ..., values)
        session.commit("written")
        assert objects(storage) == [1_600_000] * 4
        assert (read_region(session, "a") == values).all()

    def test_progress_is_told_to_the_end(self, storage: Storage) -> None:
        told: list[Progress] = []
        session = begin(storage, compressors=None)
        write_region(
            session,
            "a",
            ...,
            some(),
            max_in_flight=1000,
            progress=told.append,
        )
        assert [now.done for now in told] == sorted(now.done for now in told)
        assert len(told) > 1
        assert told[-1] == Progress("/a", 25, 25, 25, 25 * 20 * 8)
        assert (read_region(session, "a") == some()).all()

    def test_many_small_writes_add_up(self) -> None:
        session = begin(MemoryStorage())
        expected = np.zeros(SHAPE)
        rng = np.random.default_rng(8)
        for step in range(60):
            low = int(rng.integers(0, 20))
            box = np.s_[low : low + 6, :: int(rng.integers(1, 4))]
            write_region(session, "a", box, step % 7)
            expected[box] = step % 7
        assert (read_region(session, "a") == expected).all()
        session.commit("written")
        assert (read_region(session, "a") == expected).all()

    def test_workers_write_regions_of_their_own(self, storage: Storage) -> None:
        session = begin(storage)
        session.commit("array")
        session = Repository.open(storage).writable_session("main")
        forks = [session.fork(), session.fork()]
        write_region(forks[0], "a", np.s_[:10], 1)
        write_region(forks[1], "a", np.s_[10:], 2)
        if not isinstance(storage, LatencyStorage):
            forks = pickle.loads(pickle.dumps(forks))
        session.merge(*forks)
        session.commit("merged")
        found = read_region(session, "a")
        assert (found[:10] == 1).all()
        assert (found[10:] == 2).all()


class TestRefusals:
    def test_what_does_not_fit(self) -> None:
        session = begin(MemoryStorage())
        with pytest.raises(InvalidInputError, match=r"\(3, 4\) do not fit a region of \(23, 17\)"):
            write_region(session, "a", ..., np.zeros((3, 4)))
        with pytest.raises(SelectionError):
            write_region(session, "a", np.s_[23], 1)
        with pytest.raises(SelectionError):
            write_region(session, "a", np.s_[::-1], 1)
        with pytest.raises(NodeNotFoundError):
            write_region(session, "b", ..., 1)
        assert chunk_count(session) == 0

    def test_sessions_that_only_read(self) -> None:
        storage = MemoryStorage()
        begin(storage).commit("array")
        session = Repository.open(storage).readonly_session("main")
        before = objects(storage)
        with pytest.raises(ReadOnlyError):
            write_region(session, "a", ..., 1)
        assert objects(storage) == before


class TestFailures:
    @pytest.mark.parametrize("trouble", [Trouble.FAIL, Trouble.LOSE_REPLY])
    @pytest.mark.parametrize("operation", ["put", "get"])
    @pytest.mark.parametrize("is_distant", [False, True])
    def test_the_session_is_as_it_was_and_goes_on(
        self, trouble: Trouble, operation: str, is_distant: bool
    ) -> None:
        storage = FaultyStorage(MemoryStorage())
        storage.answers_inline = not is_distant
        session = begin(storage)
        values = some()
        write_region(session, "a", ..., values)
        session.commit("first")
        session = Repository.open(storage).writable_session("main")
        write_region(session, "a", np.s_[:5], -values[:5])
        values[:5] *= -1
        before = session.status()
        storage.forget_calls()
        storage.plan = (Fault(trouble, operation, call=4),)
        with pytest.raises(StorageError, match="planned"):
            write_region(session, "a", np.s_[1:22, 1:16], 5, packing=False)
        storage.plan = ()
        assert session.status() == before
        assert (read_region(session, "a") == values).all()
        write_region(session, "a", np.s_[1:22, 1:16], 5)
        session.commit("second")
        values[1:22, 1:16] = 5
        assert (read_region(session, "a") == values).all()
