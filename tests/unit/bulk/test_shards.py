"""Inner chunks of shards: found by the index of their shard, which is read once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr

from frazil.bulk.fetch import INLINE, MISSING, NATIVE
from frazil.bulk.grid import array_layout
from frazil.bulk.read import read_region
from frazil.bulk.shards import ShardFinder
from frazil.errors import FormatError
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.arrays import numbers, session_with
from tests.unit.bulk.samples import filled


def sharded(values: Any, **options: Any) -> zarr.Array[Any]:  # noqa: ANN401 - of all kinds
    """Shards of 4 times 6 with inner chunks of 2 times 3, without compression."""
    about = {"chunks": (2, 3), "shards": (4, 6), "fill_value": 0} | options
    return filled(values, **about)


def finder(session: Session) -> ShardFinder:
    node = session.state.array("/a0")
    layout = array_layout(node)
    assert layout is not None
    assert layout.chain.shards is not None
    return ShardFinder(session.state, node, layout.chain.shards, layout.grid)


def stored(storage: Storage, session: Session, coords: list[list[int]]) -> list[list[int] | None]:
    """The elements of inner chunks by their references; None for those that are missing."""
    refs = finder(session)(np.array(coords))
    found: list[list[int] | None] = []
    for row in range(len(refs)):
        if refs.kind[row] == MISSING:
            assert refs.length[row] == 0
            found.append(None)
            continue
        assert refs.kind[row] == NATIVE
        (key,) = (item.key for item in storage.list("chunks/"))
        start = int(refs.offset[row])
        raw = storage.get(key, start, start + int(refs.length[row]))
        found.append(np.frombuffer(raw or b"", "<i4").tolist())
    return found


def test_references_of_inner_chunks_are_ranges_of_their_shard() -> None:
    values = numbers((4, 6)) + 1000
    storage = MemoryStorage()
    session = session_with(sharded(values), storage=storage, inline_limit=0)
    assert stored(storage, session, [[1, 1], [0, 0], [1, 1]]) == [
        values[2:, 3:].ravel().tolist(),
        values[:2, :3].ravel().tolist(),
        values[2:, 3:].ravel().tolist(),
    ]


def test_inner_chunks_that_a_shard_lacks_are_missing() -> None:
    values = np.zeros((4, 6), "i4")
    values[2:, :3] = 7
    storage = MemoryStorage()
    session = session_with(sharded(values), storage=storage, inline_limit=0)
    assert stored(storage, session, [[0, 0], [0, 1], [1, 0], [1, 1]]) == [None, None, [7] * 6, None]


def test_without_a_shard_all_its_inner_chunks_are_missing() -> None:
    values = np.zeros((8, 6), "i4")
    values[4:] = 7
    session = session_with(sharded(values), inline_limit=0)
    find = finder(session)
    assert not find(np.array([[0, 0], [1, 1]])).kind.any()
    assert not find.has_any
    assert find(np.array([[1, 0], [2, 0], [3, 1]])).kind.tolist() == [MISSING, NATIVE, NATIVE]
    assert find.has_any


def test_small_shards_lie_in_the_manifest_and_are_found_there() -> None:
    session = session_with(sharded(np.ones((4, 6), "i4")), inline_limit=512)
    refs = finder(session)(np.array([[1, 0]]))
    assert refs.kind.tolist() == [INLINE]
    assert refs.length.tolist() == [24]


def test_the_index_of_a_shard_is_read_once() -> None:
    storage = FaultyStorage(MemoryStorage())
    session = session_with(sharded(np.ones((8, 6), "i4")), storage=storage, inline_limit=0)
    find = finder(session)
    storage.forget_calls()
    find(np.array([[0, 0]]))
    assert len(storage.calls) == 1
    find(np.array([[1, 1], [0, 1]]))
    assert len(storage.calls) == 1
    find(np.array([[0, 0], [2, 0]]))
    assert len(storage.calls) == 2


def test_a_finder_may_begin_at_another_shard() -> None:
    """As for a grid of some shards only, counted from the first of them."""
    values = np.zeros((8, 6), "i4")
    values[4:6, :3] = 7
    session = session_with(sharded(values), inline_limit=0)
    find = finder(session)
    find.origin = np.array([1, 0])
    assert find(np.array([[0, 0], [0, 1]])).kind.tolist() == [NATIVE, MISSING]


@pytest.mark.parametrize("size", [3, 67, 100_000])
def test_a_shard_of_an_impossible_length_is_named(size: int) -> None:
    session = session_with(sharded(np.ones((4, 6), "i4")))
    KeySpace(session.state).set("a0/c/0/0", bytes(size))
    with pytest.raises(FormatError) as caught:
        finder(session)(np.array([[1, 1]]))
    assert (caught.value.facts["array"], caught.value.facts["chunk"]) == ("/a0", (0, 0))


def test_a_part_of_a_shard_is_read_by_ranges() -> None:
    values = numbers((64, 64), "i8")
    storage = FaultyStorage(MemoryStorage())
    array = filled(values, chunks=(8, 8), shards=(32, 32))
    session = session_with(array, storage=storage)
    read: list[int] = []
    get = storage.inner.get

    def watched(key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        read.append((end or 0) - (start or 0))
        return get(key, start, end)

    storage.inner.get = watched  # type: ignore[method-assign]
    found = read_region(session, "a0", (slice(8, 24), slice(40, 48)))
    np.testing.assert_array_equal(found, values[8:24, 40:48])
    assert sorted(read) == [16 * 16 + 4, 512, 512]


def test_a_damaged_shard_is_named() -> None:
    values = numbers((23, 17)) + 1000
    session = session_with(filled(values, chunks=(5, 4), shards=(10, 8)))
    KeySpace(session.state).set("a0/c/1/1", bytes(400))
    for selection in (..., (12, 12)):
        with pytest.raises(FormatError) as caught:
            read_region(session, "a0", selection)
        assert (caught.value.facts["array"], caught.value.facts["chunk"]) == ("/a0", (1, 1))
