"""Keys and values of a session, as a Zarr store has them, without Zarr."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from frazil.errors import (
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
    StorageError,
)
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import (
    ByteRange,
    ByteSelection,
    BytesFrom,
    KeySpace,
    LastBytes,
    PendingChunk,
    byte_offsets,
    is_equal,
)
from tests.support.nodes import array_document, group_document, write_keys

TEN = b"0123456789"
DOTS = {"name": "v2", "configuration": {"separator": "."}}


@pytest.fixture
def repository() -> Repository:
    """A group with a plane of two chunks, and an array whose chunks are called as in Zarr 2."""
    made = Repository.create(MemoryStorage())
    session = made.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "g/a/zarr.json": array_document(4, 4),
            "g/a/c/0/1": TEN,
            "g/a/c/3/1": b"x" * 600,
            "dots/zarr.json": array_document(4, 4, chunk_key_encoding=DOTS),
            "dots/2.1": b"dots",
            "scalar/zarr.json": array_document(),
            "scalar/c": b"one",
        },
    )
    session.commit("data")
    return made


@pytest.fixture
def keys(repository: Repository) -> KeySpace:
    return KeySpace(repository.readonly_session("main").state)


@pytest.fixture
def editing(repository: Repository) -> KeySpace:
    return KeySpace(repository.writable_session("main").state)


# --- byte ranges ---


@pytest.mark.parametrize(
    ("span", "wanted"),
    [
        (None, (0, 10)),
        (ByteRange(2, 5), (2, 5)),
        (ByteRange(10, 10), (10, 10)),
        (ByteRange(0, 10), (0, 10)),
        (BytesFrom(9), (9, 10)),
        (LastBytes(0), (10, 10)),
        (LastBytes(10), (0, 10)),
    ],
)
def test_a_range_inside_a_value_has_its_offsets(
    span: ByteSelection | None, wanted: tuple[int, int]
) -> None:
    assert byte_offsets(span, 10) == wanted


@pytest.mark.parametrize(
    "span",
    [
        ByteRange(0, 11),
        ByteRange(5, 4),
        ByteRange(-1, 4),
        BytesFrom(10),
        BytesFrom(-1),
        LastBytes(11),
        LastBytes(-1),
    ],
)
def test_a_range_outside_a_value_is_refused(span: ByteSelection, keys: KeySpace) -> None:
    with pytest.raises(InvalidInputError, match="outside a value of 10 bytes") as caught:
        keys.get("g/a/c/0/1", span)
    assert caught.value.kind is ErrorKind.INVALID_BYTE_RANGE
    assert byte_offsets(BytesFrom(0), 0) == (0, 0)


# --- single keys ---


def test_values_and_parts_of_them_are_read(keys: KeySpace) -> None:
    assert keys.get("g/a/c/0/1") == TEN
    assert keys.get("g/a/c/0/1", ByteRange(2, 5)) == b"234"
    assert keys.get("g/a/c/3/1", LastBytes(2)) == b"xx"
    assert keys.get("g/zarr.json") == group_document()
    assert keys.get("g/zarr.json", ByteRange(0, 1)) == b"{"
    assert keys.get("scalar/c") == b"one"
    assert keys.get("dots/2.1") == b"dots"


def test_what_is_not_there_is_none_and_what_cannot_be_is_refused(keys: KeySpace) -> None:
    for absent in ("g/a/c/0/0", "g/a/c/9/9", "none/zarr.json", "none/c/0", "g/a/.zarray"):
        assert keys.get(absent) is None
    for wrong in ("g/c/0", "g/a/x/0/1", "dots/2,1"):
        with pytest.raises(InvalidInputError):
            keys.get(wrong)


def test_a_chunk_is_found_before_its_bytes_are_read(repository: Repository, keys: KeySpace) -> None:
    found = keys.find("g/a/c/3/1", ByteRange(1, 3))
    assert isinstance(found, PendingChunk)
    assert (found.path, found.coords, found.start, found.end) == ("/g/a", (3, 1), 1, 3)
    storage = repository.storage
    storage.delete_many([item.key for item in storage.list("chunks/")])
    with pytest.raises(StorageError, match="/g/a") as caught:
        found.read(keys.state.context)
    assert "3, 1" in str(caught.value)


def test_existence_and_size_are_told_without_reading_chunks(keys: KeySpace) -> None:
    assert keys.exists("g/a/c/0/1")
    assert not keys.exists("g/a/c/0/0")
    assert keys.size("g/a/c/3/1") == 600
    assert keys.size("g/zarr.json") == len(group_document())
    assert keys.size("g/a/c/0/0") == 0  # it has the value of the fill
    for absent in ("none/zarr.json", "g/.zgroup"):
        with pytest.raises(NodeNotFoundError) as caught:
            keys.size(absent)
        assert caught.value.kind is ErrorKind.KEY_NOT_FOUND
    with pytest.raises(NodeNotFoundError):
        keys.size("none/c/0")


# --- editing ---


def test_a_read_only_session_takes_no_edit(keys: KeySpace) -> None:
    edits: list[Callable[[], None]] = [
        lambda: keys.set("g/a/c/0/0", b"x"),
        lambda: keys.set("h/zarr.json", group_document()),
        lambda: keys.set_if_absent("g/a/c/0/0", b"x"),
        lambda: keys.delete("g/a/c/0/1"),
        lambda: keys.delete("g/zarr.json"),
        lambda: keys.delete_dir("g"),
        lambda: keys.clear(),
    ]
    for edit in edits:
        with pytest.raises(ReadOnlyError):
            edit()


def test_keys_of_zarr_2_are_not_stored(editing: KeySpace) -> None:
    with pytest.raises(SessionStateError, match="Zarr v2"):
        editing.set("g/.zgroup", b"{}")
    editing.delete("g/.zgroup")
    assert editing.state.changes.is_empty


def test_a_value_that_is_there_stays_where_absent_ones_are_set(editing: KeySpace) -> None:
    for key in ("g/a/c/0/1", "g/a/c/0/0"):
        editing.set_if_absent(key, b"new")
    editing.set_if_absent("g/zarr.json", group_document(x=1))
    editing.set_if_absent("h/zarr.json", group_document(x=1))
    assert editing.get("g/a/c/0/1") == TEN
    assert editing.get("g/a/c/0/0") == b"new"
    assert editing.get("g/zarr.json") == group_document()
    assert editing.exists("h/zarr.json")


def test_missing_things_can_be_deleted(editing: KeySpace) -> None:
    for key in ("none/zarr.json", "none/c/0", "g/c/0/zarr.json"):
        editing.delete(key)
    editing.delete_dir("none")
    editing.delete_dir("g/a/c/7")
    assert editing.get("g/a/c/0/1") == TEN


def test_equal_bytes_are_no_change_if_the_session_says_so(editing: KeySpace) -> None:
    editing.state.skip_identical = True
    editing.set("g/a/c/0/1", bytearray(TEN))
    editing.delete("g/a/c/0/0")
    assert editing.state.changes.is_empty
    editing.set("g/a/c/0/1", TEN[::-1])
    assert editing.get("g/a/c/0/1") == TEN[::-1]


# --- folders ---


def test_what_is_below_a_prefix_is_listed(keys: KeySpace) -> None:
    assert sorted(keys.list_prefix("g")) == [
        "g/a/c/0/1",
        "g/a/c/3/1",
        "g/a/zarr.json",
        "g/zarr.json",
    ]
    assert set(keys.list_prefix("")) > set(keys.list_prefix("g"))
    assert [*keys.list_prefix("/g")] == []
    with pytest.raises(InvalidInputError) as caught:
        keys.list_prefix("none")
    assert caught.value.kind is ErrorKind.BAD_KEY_PREFIX


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("", ["dots", "g", "scalar", "zarr.json"]),
        ("g", ["a", "zarr.json"]),
        ("g/a", ["c", "zarr.json"]),
        ("g/a/c", ["0", "3"]),
        ("g/a/c/3", ["1"]),
        ("g/a/c/3/1", []),
        ("g/a/c/7", []),
        ("g/a/d", []),
        ("dots", ["2.1", "zarr.json"]),
        ("none", []),
    ],
)
def test_names_right_below_a_folder_are_listed(
    keys: KeySpace, prefix: str, names: list[str]
) -> None:
    assert sorted(keys.list_dir(prefix)) == names


def test_a_part_of_the_chunks_is_deleted_by_the_beginning_of_their_keys(editing: KeySpace) -> None:
    editing.delete_dir("g/a/c/0")
    assert [key for key in editing.list_prefix("g/a") if "/c/" in key] == ["g/a/c/3/1"]
    editing.delete_dir("g/a/c")
    assert editing.list_dir("g/a") == ["zarr.json"]
    editing.delete_dir("g")
    assert sorted(editing.list_dir("")) == ["dots", "scalar", "zarr.json"]
    editing.delete_dir("")
    assert [*editing.list_prefix("")] == []


def test_sizes_below_a_node_are_added_up(keys: KeySpace) -> None:
    documents = len(group_document()) + len(array_document(4, 4))
    assert keys.prefix_size("g") == documents + 610
    assert keys.prefix_size("scalar") == len(array_document()) + 3


def test_pieces_of_memory_are_compared_by_their_bytes() -> None:
    assert is_equal(b"abc", memoryview(b"abc"))
    assert not is_equal(b"abc", b"abd")
    assert not is_equal(b"abc", b"abcd")
    assert is_equal(b"", bytearray())
    assert is_equal(np.arange(3, dtype=np.uint8).data, b"\0\1\2")
