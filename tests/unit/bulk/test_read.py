"""Reading regions: every kind of reference and storage, few requests, bounded memory, damage."""
# Values, codecs and selections are of all kinds here:
# ruff: noqa: ANN401

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.codecs

from frazil.bulk.grid import layout_of
from frazil.bulk.read import read_chunks, read_region, read_regions
from frazil.errors import (
    ErrorKind,
    FormatError,
    InvalidInputError,
    NodeNotFoundError,
    SelectionError,
    StorageError,
)
from frazil.ids import ChunkId
from frazil.model.chunks import NativeRef
from frazil.model.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    VirtualChunkContainer,
)
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.arrays import numbers, session_with
from tests.support.rectilinear import RECTILINEAR
from tests.unit.bulk.samples import filled

SHAPE, CHUNKS = (23, 17), (5, 4)


def written(values: Any, **options: Any) -> zarr.Array[Any]:
    """An array of zarr's with these values, in small chunks."""
    return filled(values, **({"chunks": CHUNKS} | options))


VALUES = numbers(SHAPE) + 1000


class TestValues:
    @pytest.mark.parametrize("limit", [0, 512])
    def test_whole_arrays(self, storage: Storage, limit: int) -> None:
        zipped = written(VALUES, compressors=zarr.codecs.ZstdCodec())
        session = session_with(written(VALUES), zipped, storage=storage, inline_limit=limit)
        for path in ("a0", "/a1"):
            np.testing.assert_array_equal(read_region(session, path), VALUES)
            np.testing.assert_array_equal(read_region(session.store, path), VALUES)
        session.commit("x")
        for path in ("a0", "/a1"):
            np.testing.assert_array_equal(read_region(session, path), VALUES)

    def test_many_arrays_at_once(self, storage: Storage) -> None:
        session = session_with(written(VALUES), written(VALUES * 2), storage=storage)
        found = read_regions(session, {"a1": (slice(2, 9), 3), "a0": ...})
        assert list(found) == ["a1", "a0"]
        np.testing.assert_array_equal(found["a1"], 2 * VALUES[2:9, 3])
        np.testing.assert_array_equal(found["a0"], VALUES)

    def test_into_memory_of_the_caller(self) -> None:
        session = session_with(written(VALUES))
        out = np.zeros((30, 20), "f8")
        found = read_region(session, "a0", (slice(0, 20), slice(0, 16)), out=out[5:25, 2:18])
        assert found.base is out
        np.testing.assert_array_equal(out[5:25, 2:18], VALUES[:20, :16])
        assert out.sum() == VALUES[:20, :16].sum()
        with pytest.raises(InvalidInputError, match="shape"):
            read_region(session, "a0", out=np.zeros((2, 2), "i4"))

    def test_points_into_memory_that_is_not_contiguous(self) -> None:
        session = session_with(written(VALUES))
        out = np.zeros((4, 6), "i4")
        rows, columns = np.arange(8).reshape(4, 2), np.arange(8).reshape(4, 2)
        read_region(session, "a0", (rows, columns), out=out[:, 1:5:2])
        np.testing.assert_array_equal(out[:, 1:5:2], VALUES[rows, columns])

    def test_fields_of_records(self) -> None:
        records = numbers((7,), np.dtype([("x", "i4"), ("y", "f8"), ("z", "u1")]))
        session = session_with(written(records, chunks=(3,)))
        np.testing.assert_array_equal(read_region(session, "a0", "y"), records["y"])
        np.testing.assert_array_equal(
            read_region(session, "a0", (slice(2, 5), "x")), records["x"][2:5]
        )
        pair = read_region(session, "a0", (["z", "x"], slice(1, None, 2)))
        assert pair.dtype.names == ("z", "x")
        np.testing.assert_array_equal(pair["x"], records["x"][1::2])
        with pytest.raises(SelectionError, match="none"):
            read_region(session, "a0", "none")

    def test_what_is_not_there(self) -> None:
        session = session_with(written(VALUES))
        with pytest.raises(NodeNotFoundError):
            read_region(session, "none")
        KeySpace(session.state).set("zarr.json", b'{"zarr_format":3,"node_type":"group"}')
        with pytest.raises(InvalidInputError, match="group"):
            read_region(session, "/")

    @pytest.mark.parametrize(
        "selection",
        [
            *(23, -24, (0, 17), (0, 0, 0), (..., ...), slice(None, None, -1), "x", 1.5, None),
            *(np.array([[1]]), np.array([1.5]), np.array([23]), np.zeros(5, bool)),
            (slice(None), np.array([17])),
            (np.array([1, 2]), np.array([1, 2, 3])),
        ],
    )
    def test_selections_that_make_no_sense(self, selection: Any) -> None:
        session = session_with(written(VALUES))
        with pytest.raises(IndexError) as caught:
            read_region(session, "a0", selection)
        assert isinstance(caught.value, SelectionError)

    def test_codecs_that_only_zarr_knows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("frazil.bulk.compiling.byte_codec", lambda *_: None)
        session = session_with(written(VALUES + 1, compressors=zarr.codecs.GzipCodec(level=2)))
        assert session.array("a0").chunks == CHUNKS
        np.testing.assert_array_equal(read_region(session, "a0", 4), VALUES[4] + 1)
        out = np.zeros(SHAPE, "i8")
        assert read_region(session, "a0", out=out) is out
        np.testing.assert_array_equal(out, VALUES + 1)
        np.testing.assert_array_equal(
            session.array("a0").oindex[[3, 1], [2]], VALUES[[3, 1], 2:3] + 1
        )


class TestReferences:
    def test_changes_lie_over_what_was_committed(self, storage: Storage) -> None:
        session = session_with(written(VALUES), storage=storage, inline_limit=64)
        session.commit("base")
        repo = Repository.open(storage)
        session = repo.writable_session("main")
        keys = KeySpace(session.state)
        expected = VALUES.copy()
        keys.set("a0/c/1/2", np.full(CHUNKS, 5, "i4").tobytes())
        expected[5:10, 8:12] = 5
        keys.set("a0/c/0/0", np.full(CHUNKS, 6, "i4").tobytes())
        expected[:5, :4] = 6
        keys.delete("a0/c/2/1")
        expected[10:15, 4:8] = 0
        np.testing.assert_array_equal(read_region(session, "a0"), expected)
        session.commit("next")
        np.testing.assert_array_equal(read_region(session, "a0"), expected)

    def test_native_inline_and_virtual_chunks_side_by_side(self, tmp_path: Path) -> None:
        prefix = f"{tmp_path.as_uri()}/"
        store = ObjectStoreConfig.LocalFileSystem(str(tmp_path))
        settings = RepositoryConfig(inline_chunk_threshold_bytes=0)
        settings.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
        access = {prefix: LocalFileSystemAccess}
        repo = Repository.create(
            MemoryStorage(), config=settings, authorize_virtual_chunk_access=access
        )
        session = repo.writable_session("main")
        array = zarr.create_array(
            session.store, name="a", shape=(40,), chunks=(4,), dtype="i4", compressors=None
        )
        values = np.arange(40, dtype="i4")
        array[:12] = values[:12]
        (tmp_path / "f").write_bytes(b"head" + values.tobytes())
        for chunk in (4, 5, 8):
            session.store.set_virtual_ref(
                f"a/c/{chunk}", f"{prefix}f", offset=4 + chunk * 16, length=16
            )
        session.state.inline_limit = 64
        array[12:16] = values[12:16]
        expected = np.where(np.isin(np.arange(40) // 4, [0, 1, 2, 3, 4, 5, 8]), values, 0)
        np.testing.assert_array_equal(read_region(session, "a"), expected)
        session.commit("x")
        np.testing.assert_array_equal(read_region(session, "a", slice(3, 39, 3)), expected[3:39:3])
        closed = Repository.open(session.state.context.storage).readonly_session("main")
        with pytest.raises(InvalidInputError, match="authorize"):
            read_region(closed, "a")
        np.testing.assert_array_equal(read_region(closed, "a", slice(0, 15)), expected[:15])

    def test_only_manifests_of_the_region_are_loaded(self) -> None:
        split = ManifestSplittingConfig.from_dict(
            {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 1}}
        )
        config = RepositoryConfig(
            inline_chunk_threshold_bytes=0, manifest=ManifestConfig(splitting=split)
        )
        storage = FaultyStorage(MemoryStorage())
        session = Repository.create(storage, config=config).writable_session("main")
        zarr.create_array(session.store, name="a", data=VALUES, chunks=CHUNKS)
        session.commit("x")
        fresh = Repository.open(storage).readonly_session("main")
        fresh.array("a")
        storage.forget_calls()
        np.testing.assert_array_equal(
            read_region(fresh, "a", (slice(6, 9), slice(0, 8))), VALUES[6:9, :8]
        )
        assert len([key for _, key in storage.calls if key.startswith("manifests/")]) == 2
        assert len([key for _, key in storage.calls if key.startswith("chunks/")]) == 2

    def test_rectilinear_grids(self) -> None:
        session = Repository.create(MemoryStorage()).writable_session("main")
        keys = KeySpace(session.state)
        keys.set("a/zarr.json", RECTILINEAR)
        values = numbers((15, 12), "i4")
        starts, sizes = (0, 3, 6, 7), (3, 3, 1, 8)
        for row, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            for column in range(3):
                part = values[start : start + size, 4 * column : 4 * column + 4]
                keys.set(f"a/c/{row}/{column}", part.tobytes())
        array = session.array("a")
        assert array.chunks == ((3, 3, 1, 5), (4, 4, 2))
        for selection in (..., (slice(2, 11, 2), 3), (slice(6, 7), slice(1, 9)), (11, 9)):
            np.testing.assert_array_equal(array[selection], values[:12, :10][selection])
        np.testing.assert_array_equal(
            array.oindex[[11, 0, 6], [9, 1]], values[np.ix_([11, 0, 6], [9, 1])]
        )
        np.testing.assert_array_equal(array.blocks[3, 1:], values[7:12, 4:10])


class TestRequests:
    def test_whole_shards_from_afar_are_one_request_each(self) -> None:
        values = numbers((64, 48), "i8")
        storage = FaultyStorage(LatencyStorage(MemoryStorage()))
        session = session_with(written(values, chunks=(8, 8), shards=(32, 32)), storage=storage)
        storage.forget_calls()
        np.testing.assert_array_equal(read_region(session, "a0"), values)
        assert len(storage.calls) == 4

    def test_neighbours_in_one_object_are_one_request(self) -> None:
        storage = FaultyStorage(MemoryStorage())
        session = session_with(written(np.zeros((8, 4), "i4"), chunks=(1, 4)), storage=storage)
        values = numbers((8, 4), "i4")
        packed = ChunkId(bytes(range(12)))
        storage.inner.put(f"chunks/{packed}", b"head" + values.tobytes())
        node = session.state.array("/a0")
        for row in range(8):
            session.state.set_chunk(node, (row, 0), NativeRef(packed, 4 + 16 * row, 16))
        storage.forget_calls()
        np.testing.assert_array_equal(read_region(session, "a0"), values)
        assert len(storage.calls) == 1

    def test_progress_is_told(self, storage: Storage) -> None:
        session = session_with(written(VALUES), storage=storage, inline_limit=0)
        seen: list[Progress] = []
        read_region(session, "a0", max_in_flight=100, progress=seen.append)
        assert seen[-1] == Progress("/a0", 25, 25, 25, 25 * 80)
        assert [now.done for now in seen] == sorted(now.done for now in seen)

    def test_memory_in_flight_is_bounded(self) -> None:
        values = np.zeros((64, 1 << 14), "u1")
        storage = _Busy(LatencyStorage(MemoryStorage()))
        array = written(values, chunks=(1, 1 << 14), fill_value=1)
        session = session_with(array, storage=storage, inline_limit=0)
        storage.most = 0
        read_region(session, "a0", max_in_flight=1 << 17)
        assert 0 < storage.most <= 1 << 16  # the other half is for what they decode to
        storage.most = 0
        read_region(session, "a0", max_in_flight=1)
        assert storage.most == 1 << 14


class _Busy(FaultyStorage):
    """Tells how many bytes were asked for at a time."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.now = self.most = 0
        self.guard = threading.Lock()

    def read_into(self, pieces: Any) -> None:
        size = sum(len(view) for _, _, view in pieces)
        with self.guard:
            self.now += size
            self.most = max(self.most, self.now)
        super().read_into(pieces)
        with self.guard:
            self.now -= size


class TestDamage:
    def test_a_missing_object_is_named(self, storage: Storage) -> None:
        session = session_with(written(VALUES), storage=storage, inline_limit=0)
        (key, *_) = [item.key for item in storage.list("chunks/")]
        storage.delete_many([key])
        with pytest.raises(StorageError, match=key) as caught:
            read_region(session, "a0")
        assert caught.value.kind == ErrorKind.OBJECT_NOT_FOUND

    def test_a_short_object_is_named(self, storage: Storage) -> None:
        session = session_with(written(VALUES), storage=storage, inline_limit=0)
        key = [item.key for item in storage.list("chunks/")][-1]
        storage.put(key, b"short")
        with pytest.raises(StorageError, match=key):
            read_region(session, "a0", (slice(1, None), slice(1, None)))
        with pytest.raises(StorageError, match=key):
            read_region(session, "a0")

    @pytest.mark.parametrize("selection", [..., (slice(11, 14), 9)])
    @pytest.mark.parametrize(
        "options",
        [{}, {"compressors": zarr.codecs.ZstdCodec()}, {"compressors": zarr.codecs.BloscCodec()}],
    )
    def test_a_damaged_chunk_is_named(self, options: dict[str, Any], selection: Any) -> None:
        session = session_with(written(VALUES, **options))
        KeySpace(session.state).set("a0/c/2/2", b"garbage")
        with pytest.raises(FormatError) as caught:
            read_region(session, "a0", selection)
        assert (caught.value.facts["array"], caught.value.facts["chunk"]) == ("/a0", (2, 2))

    def test_an_impossible_length_is_refused_before_anything_is_allocated(self) -> None:
        packed = written(VALUES, compressors=zarr.codecs.ZstdCodec())
        for array in (written(VALUES), packed, written(VALUES, chunks=(5, 4), shards=(10, 8))):
            session = session_with(array)
            node = session.state.array("/a0")
            ref = NativeRef(ChunkId(bytes(12)), 0, 1 << 60)
            session.state.set_chunk(node, (1, 1), ref)
            with pytest.raises(FormatError):
                read_region(session, "a0")


class TestChunks:
    def test_selections_made_by_others(self) -> None:
        session = session_with(written(VALUES))
        node = session.state.array("/a0")
        KeySpace(session.state).delete("a0/c/0/1")
        chain = _chain(session)
        coords = np.array([[0, 0], [0, 1], [4, 4]])
        out = np.zeros((5, 10), "i4")
        exists = read_chunks(
            session.state,
            node,
            chain,
            coords,
            CHUNKS,
            [(slice(0, 5), slice(0, 4)), (slice(0, 5), slice(0, 4)), (slice(0, 3), slice(0, 1))],
            [(slice(0, 5), slice(0, 4)), (slice(0, 5), slice(4, 8)), (slice(0, 3), slice(8, 9))],
            out,
            is_whole=[True, True, True],
        )
        assert exists.tolist() == [True, False, True]
        np.testing.assert_array_equal(out[:, :4], VALUES[:5, :4])
        assert not out[:, 4:8].any()
        np.testing.assert_array_equal(out[:3, 8], VALUES[20:, 16])

    def test_parts_of_shards_and_axes_that_drop(self) -> None:
        session = session_with(written(VALUES, chunks=(5, 4), shards=(10, 8)))
        node = session.state.array("/a0")
        coords = np.array([[0, 0], [1, 1], [9, 9]])[:2]
        out = np.zeros((2, 8), "i4")
        exists = read_chunks(
            session.state,
            node,
            _chain(session),
            coords,
            (10, 8),
            [(3, slice(0, 8)), (np.array([[4]]), np.array([[0, 2, 1]]))],
            [(0, slice(0, 8)), (slice(1, 2), slice(2, 5))],
            out,
        )
        assert exists.all()
        np.testing.assert_array_equal(out[0], VALUES[3, :8])
        np.testing.assert_array_equal(out[1, 2:5], VALUES[14, [8, 10, 9]])


def _chain(session: Session) -> Any:
    layout = layout_of(session.state.array("/a0").user_data)
    assert layout is not None
    return layout.chain
