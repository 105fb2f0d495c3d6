"""The test suite of storages.

A backend inherits `StorageContract` and supplies a fixture `storage`: an empty place that
belongs to the one test.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.storage.assets import CHUNK
from frazil.storage.base import Attributes, Fetched, LostRace, Storage, Unchanged, Version, Written

RACERS = 6
TEN = b"0123456789"
ODD_KEYS = (
    "refs/branch.with space/ref.json",
    "refs/branch.a:b!c/ref.json",
    "refs/branch.h%23x/ref.json",
    "refs/branch.100%25/ref.json",
    "refs/branch.uni-%C3%A9/ref.json",
    "refs/tag.v1.0/ref.json.deleted",
    "overwritten/repo.30708912906961.WJ77VRCPQWPN8SEYA1HG",
    "a/b/c/d/e/f/g",
    "...",
    ".hidden",
    "-",
    "x" * 200,
)


def present_version(storage: Storage, key: str) -> Version:
    """The present version of an object that exists."""
    found = storage.fetch(key)
    assert isinstance(found, Fetched)
    return found.version


def keys_of(storage: Storage, prefix: str = "") -> list[str]:
    """The keys of a listing, in the order given."""
    return [item.key for item in storage.list(prefix)]


def race(work: Callable[[int], object], racers: int = RACERS) -> list[object]:
    """Let threads start at the same moment; return what each got."""
    gate = threading.Barrier(racers)

    def run(number: int) -> object:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(racers) as threads:
        return list(threads.map(run, range(racers)))


def one_winner(storage: Storage, key: str, expected: Version | None) -> bytes:
    """Let threads write what only one of them may; return the bytes of the winner."""
    offers = [uuid4().bytes for _ in range(RACERS)]
    answers = race(lambda number: storage.put_if(key, offers[number], expected))
    (winner,) = [n for n, answer in enumerate(answers) if isinstance(answer, Written)]
    return offers[winner]


class ReadingContract:
    """Objects come back as they were written."""

    @pytest.mark.parametrize("attributes", [Attributes(), CHUNK], ids=["metadata", "chunk"])
    def test_bytes_come_back(self, storage: Storage, attributes: Attributes) -> None:
        storage.put("chunks/A", TEN, attributes)
        assert storage.get("chunks/A") == TEN

    @pytest.mark.parametrize("attributes", [Attributes(), CHUNK], ids=["metadata", "chunk"])
    def test_put_overwrites_a_longer_object(self, storage: Storage, attributes: Attributes) -> None:
        storage.put("k", TEN, attributes)
        storage.put("k", b"new", attributes)
        assert storage.get("k") == b"new"

    def test_every_kind_of_buffer_is_accepted(self, storage: Storage) -> None:
        wide = memoryview(bytes(range(16))).cast("I")
        storage.put("array", bytearray(TEN))
        storage.put("view", memoryview(TEN)[2:5])
        storage.put("wide", wide, CHUNK)
        assert storage.get_many([("array", None, None), ("view", None, None)]) == [TEN, b"234"]
        assert storage.get("wide") == bytes(range(16))

    def test_later_changes_of_a_buffer_do_not_reach_the_object(self, storage: Storage) -> None:
        buffer = bytearray(TEN)
        storage.put("k", buffer)
        buffer[:] = b"x" * 10
        assert storage.get("k") == TEN

    def test_absent_is_an_answer(self, storage: Storage) -> None:
        assert storage.get("snapshots/none") is None
        assert storage.get("snapshots/none", 2, 4) is None
        assert storage.fetch("snapshots/none") is None
        assert storage.fetch("snapshots/none", Version("1")) is None
        assert storage.head("snapshots/none") is None
        assert keys_of(storage, "snapshots/") == []
        assert storage.is_empty()

    def test_a_prefix_is_not_an_object(self, storage: Storage) -> None:
        storage.put("a/b", TEN)
        assert storage.get("a") is None
        assert storage.fetch("a") is None
        assert storage.head("a") is None

    def test_empty_objects_exist(self, storage: Storage) -> None:
        storage.put("refs/tag.t/ref.json.deleted", b"")
        assert storage.get("refs/tag.t/ref.json.deleted") == b""
        assert keys_of(storage) == ["refs/tag.t/ref.json.deleted"]

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (0, 10, TEN),
            (2, 5, b"234"),
            (3, None, b"3456789"),
            (None, 4, b"0123"),
            (9, 10, b"9"),
            (8, 99, b"89"),
            (-3, None, b"789"),
            (-99, None, TEN),
        ],
    )
    def test_ranges(
        self, storage: Storage, start: int | None, end: int | None, expected: bytes
    ) -> None:
        storage.put("k", TEN)
        assert storage.get("k", start, end) == expected

    def test_a_range_beyond_the_end_is_an_error(self, storage: Storage) -> None:
        storage.put("k", TEN)
        with pytest.raises(StorageError):
            storage.get("k", 11, 12)

    def test_many_ranges_come_in_order(self, storage: Storage) -> None:
        storage.put("a", TEN)
        storage.put("b", b"b" * 10)
        ranges = [("b", 0, 2), ("none", None, None), ("a", 4, 6), ("a", -1, None), ("b", None, 1)]
        assert storage.get_many(ranges) == [b"bb", None, b"45", b"9", b"b"]
        assert storage.get_many([]) == []

    def test_memory_is_filled_from_many_objects(self, storage: Storage) -> None:
        storage.put("chunks/" + "A" * 20, TEN)
        storage.put("chunks/other", b"abcdef")
        memory = bytearray(12)
        view = memoryview(memory)
        pieces = [
            ("chunks/" + "A" * 20, 2, view[4:6]),
            ("chunks/" + "A" * 20, 4, view[0:4]),
            ("chunks/" + "A" * 20, 9, view[6:7]),
            ("chunks/other", 0, view[7:12]),
        ]
        storage.read_into(pieces)
        assert memory == b"4567239abcde"
        storage.read_into([])

    @pytest.mark.parametrize("name", ["A" * 20, "other"])
    def test_memory_is_not_filled_from_what_is_not_there(self, storage: Storage, name: str) -> None:
        view = memoryview(bytearray(12))
        with pytest.raises(StorageError, match=f"missing.*chunks/{name}"):
            storage.read_into([(f"chunks/{name}", 0, view[:3])])
        storage.put(f"chunks/{name}", TEN)
        with pytest.raises(StorageError, match=f"chunks/{name}") as caught:
            storage.read_into([(f"chunks/{name}", 0, view[:5]), (f"chunks/{name}", 5, view[5:])])
        assert caught.value.kind == ErrorKind.INVALID_OBJECT_SIZE

    def test_many_objects_at_once(self, storage: Storage) -> None:
        items = [(f"chunks/{number:03}", str(number).encode()) for number in range(100)]
        storage.put_many(iter(items), CHUNK)
        found = storage.get_many([(key, None, None) for key, _ in items])
        assert found == [data for _, data in items]
        storage.make_durable([key for key, _ in items])
        assert len(keys_of(storage, "chunks/")) == 100

    def test_parts_become_one_object(self, storage: Storage) -> None:
        parts = [bytes([number % 251]) * (number % 5) for number in range(3000)]
        views = [memoryview(part) if number % 2 else part for number, part in enumerate(parts)]
        storage.put_parts("chunks/unnamed", views, CHUNK)
        storage.put_parts("named", [b"ab", b"", bytearray(b"c")])
        storage.put_parts("named", [b"de"])
        assert storage.get("chunks/unnamed") == b"".join(parts)
        assert storage.get("named") == b"de"

    def test_large_objects(self, storage: Storage) -> None:
        large = bytes(range(256)) * (20 * 4096) + b"end"
        storage.put("chunks/large", large, CHUNK)
        assert storage.get("chunks/large") == large
        assert storage.get("chunks/large", -3) == b"end"
        assert storage.get_many([("chunks/large", 256, 260)] * 3) == [b"\0\1\2\3"] * 3
        head = storage.head("chunks/large")
        assert head is not None
        assert head.size_bytes == len(large)

    def test_head_and_listing_tell_size_and_time(self, storage: Storage) -> None:
        storage.put("a/k", TEN)
        head = storage.head("a/k")
        assert head is not None
        (listed,) = storage.list("a/")
        assert (head.key, head.size_bytes) == (listed.key, listed.size_bytes) == ("a/k", 10)
        # HTTP headers tell whole seconds, listings more.
        assert abs(listed.created_at - head.created_at) < timedelta(seconds=1)
        assert abs(head.created_at - datetime.now(UTC)) < timedelta(minutes=5)

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_odd_keys(self, storage: Storage, key: str) -> None:
        storage.put(key, TEN)
        assert storage.get(key) == TEN
        assert keys_of(storage) == [key]
        assert isinstance(storage.put_if(key, b"x", present_version(storage, key)), Written)
        storage.delete_many([key])
        assert keys_of(storage) == []

    @pytest.mark.parametrize(
        "key", ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", "a\0b"]
    )
    def test_keys_that_could_name_something_else_are_refused(
        self, storage: Storage, key: str
    ) -> None:
        with pytest.raises(InvalidInputError):
            storage.get(key)
        with pytest.raises(InvalidInputError):
            storage.put(key, b"x")


class VersionContract:
    """Conditional writes take effect exactly when the object is as expected."""

    def test_fetch_gives_bytes_and_version(self, storage: Storage) -> None:
        storage.put("repo", TEN)
        found = storage.fetch("repo")
        assert isinstance(found, Fetched)
        assert found.data == TEN
        assert storage.fetch("repo", found.version) == Unchanged()

    def test_fetch_sees_each_change(self, storage: Storage) -> None:
        storage.put("repo", b"00")
        known = present_version(storage, "repo")
        for number in range(20):
            data = f"{number + 1:02}".encode()
            assert isinstance(storage.put_if("repo", data, known), Written)
            found = storage.fetch("repo", known)
            assert isinstance(found, Fetched)
            assert found.data == data
            known = found.version

    def test_first_creator_wins(self, storage: Storage) -> None:
        assert isinstance(storage.put_if("refs/x", b"first", None), Written)
        assert storage.put_if("refs/x", b"second", None) == LostRace("refs/x")
        assert storage.get("refs/x") == b"first"

    def test_the_version_of_a_write_is_that_of_the_object(self, storage: Storage) -> None:
        created = storage.put_if("repo", b"one", None)
        assert isinstance(created, Written)
        assert storage.fetch("repo", created.version) == Unchanged()
        replaced = storage.put_if("repo", b"two", created.version)
        assert isinstance(replaced, Written)
        assert storage.fetch("repo", replaced.version) == Unchanged()
        assert isinstance(storage.put_if("repo", b"three", replaced.version), Written)

    def test_an_old_version_loses(self, storage: Storage) -> None:
        storage.put("repo", b"one")
        old = present_version(storage, "repo")
        assert isinstance(storage.put_if("repo", b"two", old), Written)
        assert storage.put_if("repo", b"three", old) == LostRace("repo")
        assert storage.get("repo") == b"two"

    def test_a_plain_put_invalidates_versions(self, storage: Storage) -> None:
        storage.put("repo", b"one")
        old = present_version(storage, "repo")
        storage.put("repo", b"two")
        assert storage.put_if("repo", b"three", old) == LostRace("repo")
        assert storage.get("repo") == b"two"

    def test_what_was_deleted_cannot_be_replaced_but_created(self, storage: Storage) -> None:
        storage.put("repo", b"one")
        old = present_version(storage, "repo")
        storage.delete_many(["repo"])
        assert storage.put_if("repo", b"two", old) == LostRace("repo")
        assert storage.get("repo") is None
        assert isinstance(storage.put_if("repo", b"two", None), Written)

    def test_versions_of_one_object_do_not_fit_another(self, storage: Storage) -> None:
        storage.put("a", b"in a")
        storage.put("b", b"in b")
        assert storage.put_if("b", b"new", present_version(storage, "a")) == LostRace("b")
        assert storage.get("b") == b"in b"

    def test_copy_of_the_expected_version(self, storage: Storage) -> None:
        storage.put("repo", TEN)
        version = present_version(storage, "repo")
        assert isinstance(storage.copy_if("repo", "overwritten/repo.1", version), Written)
        assert storage.get("overwritten/repo.1") == TEN
        assert storage.get("repo") == TEN
        assert isinstance(storage.put_if("repo", b"new", version), Written)
        assert storage.get("overwritten/repo.1") == TEN
        newer = present_version(storage, "repo")
        assert isinstance(storage.copy_if("repo", "overwritten/repo.1", newer), Written)
        assert storage.get("overwritten/repo.1") == b"new"

    def test_no_copy_of_another_version(self, storage: Storage) -> None:
        storage.put("repo", b"one")
        old = present_version(storage, "repo")
        storage.put("repo", b"two")
        assert isinstance(storage.copy_if("repo", "copy", old), LostRace)
        assert storage.get("copy") is None
        storage.delete_many(["repo"])
        assert isinstance(storage.copy_if("repo", "copy", old), LostRace)

    @pytest.mark.parametrize("may_link", [True, False])
    def test_a_duplicate_is_an_object_of_its_own(self, storage: Storage, may_link: bool) -> None:
        storage.put("c/old name", TEN)
        storage.put("chunks/new", b"something else")
        for _ in range(2):
            storage.duplicate("c/old name", "chunks/new", may_link=may_link)
            assert storage.get("chunks/new") == TEN
        storage.make_durable(["chunks/new"])
        storage.put("c/old name", b"replaced")
        assert storage.get("chunks/new") == TEN
        storage.delete_many(["c/old name"])
        assert storage.get("chunks/new") == TEN
        with pytest.raises(StorageError):
            storage.duplicate("c/old name", "chunks/other", may_link=may_link)
        assert storage.get("chunks/other") is None

    def test_one_of_many_creators_wins(self, storage: Storage) -> None:
        for turn in range(5):
            winner = one_winner(storage, f"refs/{turn}", None)
            assert storage.get(f"refs/{turn}") == winner

    def test_one_of_many_replacers_wins(self, storage: Storage) -> None:
        storage.put("repo", b"start")
        for _ in range(5):
            winner = one_winner(storage, "repo", present_version(storage, "repo"))
            assert storage.get("repo") == winner

    def test_counting_in_threads_loses_nothing(self, storage: Storage) -> None:
        storage.put("counter", b"0")

        def count(_: int) -> int:
            done = 0
            while done < 10:
                found = storage.fetch("counter")
                assert isinstance(found, Fetched)
                new = str(int(found.data) + 1).encode()
                done += isinstance(storage.put_if("counter", new, found.version), Written)
            return done

        race(count)
        assert storage.get("counter") == str(RACERS * 10).encode()


class ListingContract:
    """Listings are sorted and complete; deletions are exact."""

    def test_listing_is_sorted_by_key(self, storage: Storage) -> None:
        keys = ["a/1", "a-b", "a.b", "ab", "a/0/z", "a/00", "B", "a0", "z/y/x", "a/1x"]
        for key in keys:
            storage.put(key, b"x")
        assert keys_of(storage) == sorted(keys)

    def test_prefix_ends_at_a_slash(self, storage: Storage) -> None:
        for key in ("chunks/A", "chunks/sub/B", "chunks-old/C", "chunksD", "x/chunks/E"):
            storage.put(key, b"x")
        assert keys_of(storage, "chunks/") == ["chunks/A", "chunks/sub/B"]
        assert keys_of(storage, "chunks/sub/") == ["chunks/sub/B"]
        assert keys_of(storage, "chunks/A/") == []
        assert keys_of(storage, "none/at/all/") == []

    def test_parts_of_a_listing_make_it_whole(self, storage: Storage) -> None:
        names = ["0", "0Z", "8", "8000", "G", "GG", "Z", "ZZ"]
        for name in names:
            storage.put(f"chunks/{name}", b"x")
        storage.put("chunksG", b"x")
        # No name comes right before one that begins with a zero: it would begin with a slash.
        bounds = ["", "0", "00", "0Z", "8", "80", "G", "~"]
        parts = [
            [item.key for item in storage.list_between("chunks/", first, last)]
            for first, last in itertools.pairwise(bounds)
        ]
        assert [len(part) for part in parts] == [0, 1, 0, 1, 1, 1, 4]
        assert sorted(key for part in parts for key in part) == [f"chunks/{n}" for n in names]

    def test_listing_while_deleting(self, storage: Storage) -> None:
        for number in range(20):
            storage.put(f"chunks/{number:02}", b"x")
        for item in storage.list("chunks/"):
            storage.delete_many([item.key])
        assert storage.is_empty()

    def test_deleting_tells_how_many(self, storage: Storage) -> None:
        storage.put("a", TEN)
        storage.put("b/c", TEN)
        storage.put("d", TEN)
        deleted = storage.delete_many(["a", "b/c", "missing", "no/such/folder"])
        assert (deleted.keys, deleted.failed) == (4, ())
        assert keys_of(storage) == ["d"]
        assert storage.delete_many([]).keys == 0

    def test_deleting_many(self, storage: Storage) -> None:
        keys = [f"chunks/{number:04}" for number in range(300)]
        storage.put_many([(key, b"x") for key in keys], CHUNK)
        assert storage.delete_many(keys[:-1]).keys == 299
        assert keys_of(storage) == keys[-1:]

    def test_not_empty_with_one_object(self, storage: Storage) -> None:
        storage.put("deep/down/below", b"")
        assert not storage.is_empty()


class PlaceContract:
    """A storage knows what it is."""

    def test_settings_do_not_change_the_place(self, storage: Storage) -> None:
        other = storage.with_settings(storage.default_settings())
        storage.put("k", TEN)
        assert other.get("k") == TEN
        assert other.url == storage.url

    def test_it_says_where_it_is(self, storage: Storage) -> None:
        assert "://" in storage.url
        assert storage.can_write


class StorageContract(ReadingContract, VersionContract, ListingContract, PlaceContract):
    """Every backend inherits these tests; a subclass supplies the `storage` fixture."""
