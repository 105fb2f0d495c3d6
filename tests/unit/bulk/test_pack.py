"""What packing does with encoded chunks, and what it leaves behind when storing fails."""

from __future__ import annotations

import asyncio

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

from frazil import config
from frazil.bulk import write_region
from frazil.bulk.pack import Packing, chosen_packing, write_encoded
from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.config import RepositoryConfig
from frazil.model.nodes import ArrayNode
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Bytes, Storage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble

GRID = (50, 60)
SMALL = Packing(max_object=10_000, max_chunk=3_000)


def begin(storage: Storage) -> tuple[Session, ArrayNode]:
    """A session with an array of bytes in chunks of any size."""
    settings = RepositoryConfig(inline_chunk_threshold_bytes=100)
    session = Repository.create(storage, config=settings).writable_session("main")
    zarr.create_array(session.store, name="a", shape=GRID, chunks=(1, 1), dtype="u1")
    return session, session.state.array("/a")


def chunks_of(sizes: list[int]) -> list[Bytes]:
    """Chunks that can be told from each other."""
    rng = np.random.default_rng(5)
    return [rng.bytes(size) for size in sizes]


def coords_of(count: int) -> npt.NDArray[np.uint32]:
    """The first chunks of the grid, in order."""
    return np.stack(np.unravel_index(np.arange(count), GRID), axis=1).astype(np.uint32)


def read_all(session: Session, table: ChunkTable) -> list[bytes]:
    """The bytes that references point to."""
    return [session.state.context.read_chunk(ref) for _, ref in table.refs()]


def stored(session: Session) -> list[bytes]:
    """The bytes of all chunks of the array."""
    return read_all(session, session.state.table(session.state.array("/a")))


def objects(storage: Storage) -> dict[str, int]:
    """Names and sizes of chunk objects."""
    return {item.key: item.size_bytes for item in storage.list("chunks/")}


class TestPacking:
    def test_small_chunks_share_objects_and_read_back(self, storage: Storage) -> None:
        session, node = begin(storage)
        data = chunks_of([2_000] * 40)
        table = write_encoded(session.state, node, coords_of(40), data, packing=SMALL)
        assert read_all(session, table) == data
        assert sorted(objects(storage).values()) == [10_000] * 8

    def test_each_kind_of_size_has_its_place(self, storage: Storage) -> None:
        session, node = begin(storage)
        data = chunks_of([100, 101, 2_999, 3_000, 20_000, 7])
        table = write_encoded(session.state, node, coords_of(6), data, packing=SMALL)
        assert read_all(session, table) == data
        inline, native = ChunkType.inline, ChunkType.native
        assert table.kind.tolist() == [inline, native, native, native, native, inline]
        assert sorted(objects(storage).values()) == [3_000, 3_100, 20_000]

    def test_without_packing_every_chunk_has_an_object(self, storage: Storage) -> None:
        session, node = begin(storage)
        data = chunks_of([500] * 300)
        table = write_encoded(session.state, node, coords_of(300), data, packing=False)
        assert read_all(session, table) == data
        assert len(objects(storage)) == 300
        assert not table.offset.any()

    def test_more_pieces_than_one_system_call_takes(self, storage: Storage) -> None:
        session, node = begin(storage)
        data = [memoryview(chunk) for chunk in chunks_of([101] * 2_500)]
        table = write_encoded(session.state, node, coords_of(2_500), data)
        assert read_all(session, table) == data
        assert len(objects(storage)) == 1

    def test_order_does_not_matter(self, storage: Storage) -> None:
        session, node = begin(storage)
        data = chunks_of([150] * 30)
        order = np.random.default_rng(1).permutation(30)
        shuffled = [data[number] for number in order]
        table = write_encoded(session.state, node, coords_of(30)[order], shuffled)
        assert read_all(session, table) == data

    def test_memory_may_be_reused_afterwards(self, storage: Storage) -> None:
        session, node = begin(storage)
        memory = bytearray(b"x" * 4_000)
        views = [memoryview(memory)[at : at + 1_000] for at in range(0, 4_000, 1_000)]
        table = write_encoded(session.state, node, coords_of(4), views)
        memory[:] = bytes(4_000)
        assert read_all(session, table) == [b"x" * 1_000] * 4

    def test_nothing_to_store_is_fine(self, storage: Storage) -> None:
        session, node = begin(storage)
        assert len(write_encoded(session.state, node, coords_of(0), [])) == 0
        assert objects(storage) == {}


class TestSessions:
    def test_the_change_set_waits_for_the_table(self, storage: Storage) -> None:
        session, node = begin(storage)
        session.commit("array")
        session = Repository.open(storage).writable_session("main")
        table = write_encoded(session.state, node, coords_of(2), [b"ab" * 100, b"c" * 300])
        assert not session.has_uncommitted_changes
        session.state.set_table(node, table)
        session.commit("packed")
        again = Repository.open(storage).readonly_session("main")
        assert stored(again) == [b"ab" * 100, b"c" * 300]

    def test_forks_bring_packs_home(self, storage: Storage) -> None:
        session, node = begin(storage)
        forks = [session.fork() for _ in range(3)]
        for number, fork in enumerate(forks):
            rows = coords_of(30)[number * 10 : number * 10 + 10]
            table = write_encoded(fork.state, node, rows, chunks_of([200] * 10))
            fork.state.set_table(fork.state.array("/a"), table)
        session.merge(*forks)
        session.commit("merged")
        assert stored(session) == chunks_of([200] * 10) * 3
        assert len(objects(storage)) == 3


class TestRefusals:
    def test_chunks_without_bytes(self, storage: Storage) -> None:
        session, node = begin(storage)
        with pytest.raises(InvalidInputError) as caught:
            write_encoded(session.state, node, coords_of(2), [b"x" * 200, b""])
        assert caught.value.kind == ErrorKind.ZERO_LENGTH_CHUNK

    def test_chunks_outside_the_grid(self, storage: Storage) -> None:
        session, node = begin(storage)
        with pytest.raises(InvalidInputError) as caught:
            write_encoded(session.state, node, np.array([[0, 60]], np.uint32), [b"x"])
        assert caught.value.kind == ErrorKind.INVALID_CHUNK_INDEX
        assert objects(storage) == {}

    def test_two_chunks_at_one_place(self, storage: Storage) -> None:
        session, node = begin(storage)
        with pytest.raises(InvalidInputError, match="same coordinates"):
            write_encoded(session.state, node, np.zeros((2, 2), np.uint32), [b"x", b"y"])

    @pytest.mark.parametrize("sizes", [(0, 10), (10, -1)])
    def test_sizes_that_make_no_sense(self, sizes: tuple[int, int]) -> None:
        with pytest.raises(InvalidInputError):
            Packing(*sizes)


class TestFailures:
    @pytest.mark.parametrize("trouble", [Trouble.FAIL, Trouble.LOSE_REPLY])
    @pytest.mark.parametrize("packing", [SMALL, False])
    @pytest.mark.parametrize("is_distant", [False, True])
    def test_a_failed_put_is_told_and_can_be_repeated(
        self, trouble: Trouble, packing: Packing | bool, is_distant: bool
    ) -> None:
        storage = FaultyStorage(MemoryStorage())
        storage.answers_inline = not is_distant
        session, node = begin(storage)
        storage.forget_calls()
        storage.plan = (Fault(trouble, "put", call=3),)
        data = chunks_of([2_000] * 40)
        with pytest.raises(StorageError, match="planned"):
            write_encoded(session.state, node, coords_of(40), data, packing=packing)
        table = write_encoded(session.state, node, coords_of(40), data, packing=packing)
        session.state.set_table(node, table)
        session.commit("second attempt")
        assert stored(session) == data


class TestChoice:
    def test_configuration_gives_the_sizes(self) -> None:
        with config.set(pack_object_bytes="1 MiB", pack_chunk_bytes=1000):
            assert chosen_packing(True, default=False) == Packing(1 << 20, 1000)
            assert chosen_packing(None, default=False) is None
            assert chosen_packing(None, default=True) == Packing(1 << 20, 1000)
            assert chosen_packing(False, default=True) is None

    def test_the_smallest_packs_there_can_be(self) -> None:
        assert Packing(max_object=1, max_chunk=0).limit == 0
        for sizes in ((0, 0), (-1, 1), (1, -1)):
            with pytest.raises(InvalidInputError, match="packs need a size above 0"):
                Packing(*sizes)

    def test_packs_fit_into_the_memory_that_is_allowed(self) -> None:
        wanted = Packing(max_object=1 << 30, max_chunk=1 << 20)
        assert chosen_packing(wanted, default=True, max_in_flight=4 << 20) == Packing(
            1 << 20, 1 << 20
        )


@pytest.mark.parametrize("key", ["x/c/2/0", "inline/c/2/0", "x/zarr.json"])
@pytest.mark.parametrize(
    "outside",
    [
        RangeByteRequest(-5, 3),
        RangeByteRequest(-5, -2),
        RangeByteRequest(3, -2),
        OffsetByteRequest(-5),
        SuffixByteRequest(-5),
    ],
)
def test_no_byte_request_reaches_into_the_neighbour_of_a_packed_chunk(
    storage: Storage, key: str, outside: ByteRequest
) -> None:
    session = Repository.create(storage).writable_session("main")
    rows = np.repeat(np.arange(4, dtype="u1")[:, None] + 1, 1000, axis=1)
    for name, columns in (("x", 1000), ("inline", 10)):
        zarr.create_array(
            session.store,
            name=name,
            shape=(4, columns),
            chunks=(1, columns),
            dtype="u1",
            compressors=None,
        )
        write_region(session, name, np.s_[:], rows[:, :columns])
    prototype = default_buffer_prototype()
    with pytest.raises(InvalidInputError) as caught:
        asyncio.run(session.store.get(key, prototype, outside))
    assert caught.value.kind is ErrorKind.INVALID_BYTE_RANGE
    with pytest.raises(InvalidInputError):
        asyncio.run(session.store.get_partial_values(prototype, [(key, outside)]))
