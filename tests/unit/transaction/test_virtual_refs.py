"""Virtual references as columns: boxes of chunks that are set, and all references read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from frazil.errors import ErrorKind, InvalidInputError, ReadOnlyError
from frazil.model.chunks import ChunkType, VirtualRef
from frazil.model.config import RepositoryConfig, VirtualChunkContainer
from frazil.repository import Repository
from frazil.storage.constructors import s3_store
from frazil.storage.memory import MemoryStorage
from frazil.transaction.virtual_refs import chunk_batches, set_virtual_columns
from frazil.transaction.working import WorkingState
from tests.support.nodes import array_document, write_keys

PREFIX = "s3://bucket/"


@pytest.fixture
def state() -> WorkingState:
    """An array of 4 x 3 chunks and a scalar; chunks of more than four bytes are objects."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=4)
    config.set_virtual_chunk_container(VirtualChunkContainer(PREFIX, s3_store(), "archive"))
    session = Repository.create(MemoryStorage(), config).writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(4, 3), "s/zarr.json": array_document()})
    return session.state


def put(
    state: WorkingState,
    box: tuple[int, ...],
    locations: list[str],
    *,
    path: str = "/a",
    offsets: list[int] | None = None,
    lengths: list[int] | None = None,
    **more: Any,  # noqa: ANN401 - arguments of several types
) -> list[tuple[int, ...]] | None:
    """Set a box of chunks of ten bytes each."""
    count = len(locations)
    given: dict[str, Any] = {"validate": True, "first": None, "checksum": None, **more}
    return set_virtual_columns(
        state,
        path,
        box,
        locations,
        np.array(offsets or range(0, 10 * count, 10), np.uint64),
        np.array(lengths or [10] * count, np.uint64),
        **given,
    )


def refs(state: WorkingState, path: str = "/a") -> dict[tuple[int, ...], object]:
    node = state.array(path)
    table = state.table(node)
    return {tuple(row): table.ref(n) for n, row in enumerate(table.coords.tolist())}


def test_a_box_is_filled_in_c_order(state: WorkingState) -> None:
    files = [f"{PREFIX}{n}" for n in range(4)]
    assert put(state, (2, 2), files, first=(1, 1)) is None
    assert refs(state) == {
        (1, 1): VirtualRef(f"{PREFIX}0", 0, 10),
        (1, 2): VirtualRef(f"{PREFIX}1", 10, 10),
        (2, 1): VirtualRef(f"{PREFIX}2", 20, 10),
        (2, 2): VirtualRef(f"{PREFIX}3", 30, 10),
    }


def test_an_empty_text_leaves_a_chunk_alone(state: WorkingState) -> None:
    put(state, (1, 2), [f"{PREFIX}old", f"{PREFIX}old"])
    put(state, (1, 3), ["", f"{PREFIX}new", ""], lengths=[0, 10, 0])
    found = refs(state)
    assert found[0, 0] == VirtualRef(f"{PREFIX}old", 0, 10)
    assert found[0, 1] == VirtualRef(f"{PREFIX}new", 10, 10)
    assert len(found) == 2


def test_locations_that_no_container_covers_are_told_and_left_out(state: WorkingState) -> None:
    mixed = [f"{PREFIX}a", "s3://other/b", f"{PREFIX}c"]
    assert put(state, (1, 3), mixed) == [(0, 1)]
    assert set(refs(state)) == {(0, 0), (0, 2)}
    assert put(state, (1, 3), mixed, validate=False) is None
    assert refs(state)[0, 1] == VirtualRef("s3://other/b", 10, 10)


@pytest.mark.parametrize(
    ("checksum", "stored"),
    [("etag", "etag"), (datetime(2024, 5, 1, tzinfo=UTC), 1_714_521_600), (None, None)],
)
def test_one_checksum_holds_for_all(
    state: WorkingState, checksum: str | datetime | None, stored: str | int | None
) -> None:
    put(state, (1, 2), [f"{PREFIX}a", f"{PREFIX}b"], checksum=checksum)
    assert {ref.checksum for ref in refs(state).values() if isinstance(ref, VirtualRef)} == {stored}


def test_the_one_chunk_of_a_scalar_may_be_spelled_with_axes(state: WorkingState) -> None:
    for box in ((), (1,), (1, 1)):
        put(state, box, [f"{PREFIX}{len(box)}"], path="/s")
        assert refs(state, "/s") == {(): VirtualRef(f"{PREFIX}{len(box)}", 0, 10)}
    with pytest.raises(ValueError, match="0 dimensions, not 1"):
        put(state, (2,), [f"{PREFIX}a"] * 2, path="/s")


def test_columns_that_do_not_fit_are_refused(state: WorkingState) -> None:
    with pytest.raises(ValueError, match="has 4 chunks, but the columns have"):
        put(state, (2, 2), [f"{PREFIX}a"] * 3)
    with pytest.raises(ValueError, match="2 dimensions, not 1"):
        put(state, (2,), [f"{PREFIX}a"] * 2)
    with pytest.raises(InvalidInputError, match="outside the chunk grid"):
        put(state, (1, 2), [f"{PREFIX}a"] * 2, first=(0, 2))
    with pytest.raises(InvalidInputError) as caught:
        put(state, (1, 2), [f"{PREFIX}a"] * 2, lengths=[10, 0])
    assert caught.value.kind is ErrorKind.ZERO_LENGTH_CHUNK
    assert not refs(state)


def test_a_read_only_session_takes_none(state: WorkingState) -> None:
    state.editable = False
    with pytest.raises(ReadOnlyError):
        put(state, (1, 1), [f"{PREFIX}a"])


def test_the_caller_may_use_its_columns_again(state: WorkingState) -> None:
    offsets, lengths = np.array([5], np.uint64), np.array([7], np.uint64)
    set_virtual_columns(
        state,
        "/a",
        (1, 1),
        [f"{PREFIX}a"],
        offsets,
        lengths,
        validate=True,
        first=None,
        checksum=None,
    )
    offsets[:], lengths[:] = 99, 99
    assert refs(state) == {(0, 0): VirtualRef(f"{PREFIX}a", 5, 7)}


@pytest.mark.parametrize("size", [1, 2, 100])
def test_all_references_come_in_order_so_many_at_a_time(state: WorkingState, size: int) -> None:
    node = state.array("/a")
    native = state.payload(b"of its own")
    state.set_chunk(node, (1, 0), native)
    state.set_chunk(node, (0, 2), state.payload(b"in"))
    state.set_chunk(node, (0, 1), state.payload(b"too"))
    put(state, (1, 1), ["vcc://archive/f"], first=(3, 2), offsets=[40])
    found: list[tuple[object, ...]] = []
    inline: dict[int, bytes] = {}
    for coords, kinds, paths, offsets, lengths, data in chunk_batches(state, node, size):
        assert 1 <= len(coords) <= size
        inline |= {len(found) + row: each for row, each in data.items()}
        rows = zip(coords.tolist(), kinds.tolist(), paths, offsets, lengths, strict=True)
        found += [(tuple(at), kind, path, int(o), int(n)) for at, kind, path, o, n in rows]
    name = str(native.chunk_id)  # type: ignore[union-attr]
    assert found == [
        ((0, 1), ChunkType.inline, "", 0, 3),
        ((0, 2), ChunkType.inline, "", 0, 2),
        ((1, 0), ChunkType.native, name, 0, 10),
        ((3, 2), ChunkType.virtual, f"{PREFIX}f", 40, 10),
    ]
    assert inline == {0: b"too", 1: b"in"}


def test_batches_have_at_least_one_row(state: WorkingState) -> None:
    assert [*chunk_batches(state, state.array("/a"), 10)] == []
    with pytest.raises(ValueError, match="at least 1"):
        [*chunk_batches(state, state.array("/a"), 0)]
