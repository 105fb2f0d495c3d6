"""What every storage can do because of the contract, whatever its backend leaves out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.storage.base import (
    CLOCK,
    Deleted,
    Fetched,
    LostRace,
    Storage,
    Version,
    Written,
    all_deleted,
    require_deleted,
)
from frazil.storage.constructors import in_memory_storage, local_filesystem_storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import WrappedStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble


class Plain(WrappedStorage):
    """A backend that does no more than it must."""

    def _around(self, inner: Storage) -> Self:
        return type(self)(inner)


@pytest.fixture
def storage() -> Plain:
    made = Plain(MemoryStorage())
    made.put("a", b"0123456789")
    return made


def test_listing_a_folder(tmp_path: Path) -> None:
    for storage in (in_memory_storage(), local_filesystem_storage(str(tmp_path / "repo"))):
        for key in ("chunks/A", "chunks/B", "chunky", "repo"):
            storage.put(key, b"xx")
        for prefix in ("chunks", "chunks/", "/chunks"):
            assert storage.list_objects(prefix=prefix) == [("A", 2), ("B", 2)]
        assert storage.list_objects(prefix="chunk") == []
        assert len(storage.list_objects(storage.default_settings())) == 4
        (found,) = storage.list_objects_metadata(prefix="chunks")[:1]
        assert (found.key, found.size_bytes) == ("A", 2)
        assert found.created_at.tzinfo is not None


def test_many_objects_are_written_and_read_in_order(storage: Plain) -> None:
    storage.put_many([(f"k{number}", b"%d" % number) for number in range(50)])
    asked = [(f"k{number}", None, None) for number in range(49, -1, -1)]
    assert storage.get_many(asked) == [b"%d" % number for number in range(49, -1, -1)]
    assert storage.get_many([("a", 2, 4), ("none", 0, 1), ("a", -1, None)]) == [b"23", None, b"9"]


def test_memory_is_filled_or_the_object_that_is_missing_or_too_short_is_named(
    storage: Plain,
) -> None:
    memory = bytearray(6)
    view = memoryview(memory)
    storage.read_into([("a", 7, view[:3]), ("a", 0, view[3:])])
    assert memory == b"789012"
    for key, start, kind in (
        ("none", 0, ErrorKind.OBJECT_NOT_FOUND),
        ("a", 8, ErrorKind.INVALID_OBJECT_SIZE),
    ):
        with pytest.raises(StorageError, match=f"key={key}") as caught:
            storage.read_into([(key, start, view)])
        assert caught.value.kind is kind


def test_parts_become_one_object(storage: Plain) -> None:
    storage.put_parts("one", [b"only"])
    storage.put_parts("many", [b"ab", memoryview(b"cd"), bytearray(b""), b"e"])
    assert (storage.get("one"), storage.get("many")) == (b"only", b"abcde")


def test_a_duplicate_overwrites_and_needs_its_source(storage: Plain) -> None:
    storage.put("b", b"old")
    storage.duplicate("a", "b")
    assert storage.get("b") == b"0123456789"
    with pytest.raises(StorageError, match="key=none") as caught:
        storage.duplicate("none", "b")
    assert caught.value.kind is ErrorKind.OBJECT_NOT_FOUND
    assert storage.get("b") == b"0123456789"


def test_a_write_that_waits_takes_no_effect_before(storage: Plain) -> None:
    seen: list[bytes | None] = []
    assert isinstance(
        storage.put_when("new", b"x", None, lambda: seen.append(storage.get("new"))), Written
    )
    assert seen == [None]
    assert storage.put_when("new", b"y", Version("stale"), lambda: None) == LostRace("new")

    def fail() -> None:
        raise StorageError("not durable", key="chunks/a")

    found = storage.fetch("new")
    assert isinstance(found, Fetched)
    with pytest.raises(StorageError, match="not durable"):
        storage.put_when("new", b"z", found.version, fail)
    assert storage.get("new") == b"x"


def test_a_part_of_a_listing_has_its_first_name_and_not_its_last(storage: Plain) -> None:
    storage.put_many([(f"chunks/{name}", b"") for name in ("A", "B", "BA", "C")])

    def names(first: str, last: str) -> list[str]:
        return [item.key for item in storage.list_between("chunks/", first, last)]

    assert names("B", "C") == ["chunks/B", "chunks/BA"]
    assert names("", "B") == ["chunks/A"]
    assert names("C", "~") == ["chunks/C"]
    assert names("D", "~") == []


def test_the_clock_of_a_store_leaves_nothing_behind(storage: Plain) -> None:
    told = Storage.clock(storage)
    assert abs(told - datetime.now(UTC)) < timedelta(minutes=1)
    failing = FaultyStorage(storage, [Fault(Trouble.FAIL, "head")])
    with pytest.raises(StorageError):
        Storage.clock(failing)
    assert not [*storage.list(CLOCK)]


def test_a_place_is_empty_until_something_is_there(storage: Plain) -> None:
    assert not storage.is_empty()
    storage.delete_many(["a"])
    assert storage.is_empty()


def test_outcomes_of_deletions_are_added_up() -> None:
    parts = [
        Deleted(2),
        Deleted(1, failed=(("b", "denied"),)),
        Deleted(0, failed=(("c", "lost"),), in_doubt=True),
    ]
    done = all_deleted(iter(parts))
    assert done == Deleted(3, failed=(("b", "denied"), ("c", "lost")), in_doubt=True)
    assert all_deleted([]) == Deleted(0)


def test_a_deletion_that_left_something_names_the_first_of_it() -> None:
    require_deleted(Deleted(2))
    with pytest.raises(StorageError, match="2 objects could not be deleted: denied") as caught:
        require_deleted(Deleted(1, failed=(("b", "denied"), ("c", "lost"))))
    assert "key=b" in str(caught.value)
