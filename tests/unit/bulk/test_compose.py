"""Chunks made of a value that is written: what they keep, and which of them are stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from frazil.arrays import Array
from frazil.bulk.compose import Composer, WriteTarget
from frazil.bulk.grid import array_layout
from frazil.bulk.pack import Encoded, Packing, Scattered
from frazil.bulk.plan import ListPlan, box_plan
from frazil.bulk.read import read_region
from frazil.bulk.write import write_region
from frazil.errors import ErrorKind, FormatError
from frazil.model.chunks import ChunkTable
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Bytes, Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.watching import Watch
from tests.unit.bulk.written import CHUNKS, SHAPE, begin, chunk_count, some


def test_parts_of_chunks_keep_the_rest(storage: Storage) -> None:
    session = begin(storage)
    expected = some()
    write_region(session, "a", ..., expected)
    session.commit("written")
    session = Repository.open(storage).writable_session("main")
    for selection in (np.s_[3:19, 2:9], np.s_[::3, 5], np.s_[4], np.s_[-1, ::2]):
        values = -some(expected[selection].shape)
        write_region(session, "a", selection, values)
        expected[selection] = values
        assert (read_region(session, "a") == expected).all()


@pytest.mark.parametrize("packing", [False, Packing(max_chunk=2 << 20)])
def test_large_chunks_out_of_a_wide_array(storage: Storage, packing: Packing | bool) -> None:
    shape = (100, 3, 2000)
    session = begin(storage, shape=shape, chunks=(50, 2, 1000), compressors=None)
    values = some(shape)
    write_region(session, "a", ..., values, packing=packing)
    write_region(session, "a", np.s_[50:, :2, 1000:], -values[50:, :2, 1000:], packing=packing)
    values[50:, :2, 1000:] *= -1
    write_region(session, "a", np.s_[:50, :, :1000], values[:50, :, 1000:], packing=packing)
    values[:50, :, :1000] = values[:50, :, 1000:]
    session.commit("written")
    assert (read_region(session, "a") == values).all()


def test_a_damaged_chunk_that_is_written_in_part_is_named() -> None:
    storage = MemoryStorage()
    session = begin(storage, compressors=ZstdCodec())
    write_region(session, "a", ..., some(), packing=False)
    for item in list(storage.list("chunks/")):
        storage.put(item.key, b"x" * item.size_bytes)
    with pytest.raises(FormatError) as caught:
        write_region(session, "a", np.s_[7, 9], 1)
    assert caught.value.facts["array"] == "/a"
    assert caught.value.facts["chunk"] == (1, 2)
    write_region(session, "a", np.s_[5:10, 8:12], 1)  # the whole chunk needs no old one
    assert (read_region(session, "a", np.s_[5:10, 8:12]) == 1).all()


def test_a_reference_that_claims_too_much_is_refused() -> None:
    storage = MemoryStorage()
    session = begin(storage, compressors=None)
    write_region(session, "a", np.s_[:5, :4], 1, packing=False)
    node = session.state.array("/a")
    table = session.state.table(node)
    huge = type(table).native(table.coords, table.chunk_id, 0, 1 << 50)
    session.state.set_table(node, huge)
    with pytest.raises(FormatError) as caught:
        write_region(session, "a", np.s_[0, 0], 1)
    assert caught.value.kind == ErrorKind.INVALID_OBJECT_SIZE


class TestEmptyChunks:
    def test_they_are_not_stored_and_old_ones_go(self, storage: Storage) -> None:
        session = begin(storage)
        write_region(session, "a", ..., some())
        assert chunk_count(session) == 25
        write_region(session, "a", np.s_[:10], 0)
        assert chunk_count(session) == 15
        write_region(session, "a", np.s_[12, 0], 0)
        assert chunk_count(session) == 15
        session.commit("written")
        assert (read_region(session, "a", np.s_[:10]) == 0).all()

    def test_they_are_stored_on_request(self) -> None:
        session = begin(MemoryStorage())
        write_region(session, "a", np.s_[:5], 0, write_empty_chunks=True)
        assert chunk_count(session) == 5
        with zarr.config.set({"array.write_empty_chunks": True}):
            write_region(session, "a", np.s_[5:10], 0)
        assert chunk_count(session) == 10

    def test_any_nan_is_like_a_nan_that_fills(self) -> None:
        session = begin(MemoryStorage(), fill_value=np.nan)
        with np.errstate(invalid="ignore"):
            other = -np.float64("nan") * np.ones(SHAPE)
        write_region(session, "a", ..., other)
        assert chunk_count(session) == 0

    def test_zeros_of_either_sign_differ(self) -> None:
        session = begin(MemoryStorage())
        write_region(session, "a", ..., np.full(SHAPE, -0.0))
        assert chunk_count(session) == 25
        assert np.signbit(read_region(session, "a")).all()


def composed(
    session: Session,
    selection: object,  # or a plan
    value: object,
    *,
    keeps_empty: bool = False,
    watch: Watch | None = None,
) -> list[Encoded]:
    """The chunks of a write of one value or array, before they are stored."""
    node = session.state.array("/a")
    layout = array_layout(node)
    assert layout is not None
    plan = selection if isinstance(selection, ListPlan) else box_plan(layout.grid, selection)
    coords = plan.coords(range(plan.count)).astype(np.uint32)
    target = WriteTarget(session.state, node, layout.chain, keeps_empty)
    composer = Composer(target, plan, coords, np.asarray(value), watch)
    return composer.encoded(range(plan.count))


def test_chunks_come_in_order_though_some_are_covered_in_part() -> None:
    session = begin(MemoryStorage(), compressors=None)
    values = some((12, 10))
    found = composed(session, np.s_[3:15, 2:12], values)
    assert [row for row, _ in found] == [*range(9)]
    expected = np.zeros((15, 12))
    expected[3:15, 2:12] = values
    for row, data in found:
        assert isinstance(data, memoryview)
        top, left = 5 * (row // 3), 4 * (row % 3)
        assert data == expected[top : top + 5, left : left + 4].tobytes()


def test_rows_of_large_plain_chunks_are_not_copied() -> None:
    session = begin(
        MemoryStorage(), shape=(128, 2048), chunks=(64, 1024), dtype="f8", compressors=None
    )
    values = some((128, 2048))
    found = composed(session, ..., values)
    assert [row for row, _ in found] == [0, 1, 2, 3]
    for row, data in found:
        assert isinstance(data, Scattered)
        assert len(data) == 64 * 1024 * 8
        assert len(data.parts) == 64
        assert all(np.shares_memory(np.frombuffer(part, "u1"), values) for part in data.parts)
        top, left = 64 * (row // 2), 1024 * (row % 2)
        part = values[top : top + 64, left : left + 1024]
        assert b"".join(data.parts) == part.tobytes()


def test_values_of_another_type_are_converted_and_not_scattered() -> None:
    session = begin(
        MemoryStorage(), shape=(128, 2048), chunks=(64, 1024), dtype="f8", compressors=None
    )
    values = some((128, 2048)).astype("f4")
    first = composed(session, ..., values)[0][1]
    assert not isinstance(first, Scattered)
    assert bytes(first) == values[:64, :1024].astype("f8").tobytes()


@pytest.mark.parametrize("dtype", ["f8", "M8[s]"])
@pytest.mark.parametrize("keeps_empty", [False, True])
def test_only_chunks_of_nothing_but_the_fill_value_are_left_out(
    dtype: str, keeps_empty: bool
) -> None:
    """A chunk that only begins with the fill value is stored."""
    fill = np.array(0, dtype)[()]
    session = begin(MemoryStorage(), shape=(8,), chunks=(2,), dtype=dtype, fill_value=fill)
    values = np.array([0, 0, 0, 1, 1, 0, 0, 0], dtype)
    rows = [row for row, _ in composed(session, ..., values, keeps_empty=keeps_empty)]
    assert rows == ([0, 1, 2, 3] if keeps_empty else [1, 2])


def test_an_axis_that_the_value_lacks_is_put_back() -> None:
    session = begin(MemoryStorage(), compressors=None)
    coords, inside = np.array([[1, 1]]), np.ix_([2], [3, 0])
    plan = ListPlan(coords, CHUNKS, [inside], [np.s_[1:3]], [False], drop_axes=(0,))
    ((row, data),) = composed(session, plan, np.array([7.0, 8.0, 9.0]))
    chunk = np.frombuffer(data, "f8").reshape(CHUNKS)  # type: ignore[arg-type]
    assert row == 0
    assert chunk[2].tolist() == [9, 0, 0, 8]
    assert chunk.sum() == 17


class Seen:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.chunks: dict[int, tuple[list[float], bytes]] = {}

    def see(self, row: int, chunk: Array, data: Sequence[Bytes]) -> None:
        self.chunks[row] = chunk.ravel().tolist(), b"".join(data)

    def stored(self, table: ChunkTable) -> None:
        raise AssertionError("nothing was stored")


def test_a_watch_sees_each_stored_chunk_with_its_bytes() -> None:
    session = begin(MemoryStorage(), shape=(8,), chunks=(2,), compressors=ZstdCodec())
    seen = Seen()
    found = composed(session, np.s_[1:7], [0.0, 0.0, 0.0, 4.0, 5.0, 6.0], watch=seen)
    assert {row: chunk for row, (chunk, _) in seen.chunks.items()} == {2: [4, 5], 3: [6, 0]}
    assert {row: data for row, (_, data) in seen.chunks.items()} == {
        row: bytes(data)  # type: ignore[arg-type]  # none is scattered
        for row, data in found
    }
