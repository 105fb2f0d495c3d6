"""Single requests to an object store: ranges, versions, and replies that break off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from frazil.errors import StorageError
from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage.base import Fetched, Version, Written
from frazil.storage.clients import Clients
from frazil.storage.object import ObjectStorage
from frazil.storage.places import HttpPlace
from frazil.storage.requests import (
    bare,
    exact,
    flat,
    get_span,
    is_same_state,
    range_option,
    run_all,
    whole,
)
from tests.support.servers import CuttingProxy
from tests.support.web import WebServer

ONCE = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))


class TestBrokenReply:
    """A reply that breaks off in the middle is asked for again."""

    READS: ClassVar[dict[str, Callable[[ObjectStorage], object]]] = {
        "get": lambda storage: storage.get("a/x"),
        "a range": lambda storage: storage.get("a/x", 100, 900),
        "fetch": lambda storage: storage.fetch("a/x"),
        "many": lambda storage: storage.get_many([("a/x", 0, 500), ("a/y", None, None)]),
        "list": lambda storage: [*storage.list("a/")],
        "list between": lambda storage: [*storage.list_between("a/", "x", "z")],
        "is empty": lambda storage: storage.is_empty(),
    }

    @pytest.fixture
    def storage(self, behind: ObjectStorage) -> ObjectStorage:
        behind.put_many([("a/x", b"x" * 1000), ("a/y", b"y" * 1000)])
        return behind

    @pytest.mark.parametrize("name", READS)
    def test_reads_are_whole(self, storage: ObjectStorage, proxy: CuttingProxy, name: str) -> None:
        wanted = self.READS[name](storage)
        proxy.lose_reply_to("GET", times=2, passed=0.5)
        assert self.READS[name](storage) == wanted
        assert proxy.cuts == 2

    def test_copies_are_whole(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        found = storage.fetch("a/x")
        assert isinstance(found, Fetched)
        proxy.lose_reply_to("GET", times=2, passed=0.5)
        assert isinstance(storage.copy_if("a/x", "b", found.version), Written)
        assert storage.get("b") == found.data

    def test_but_not_for_ever(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("GET", times=100, passed=0.5)
        with pytest.raises(StorageError):
            storage.get("a/x")
        assert proxy.cuts < 100


# --- ranges and versions ---


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (None, None, {}),
        (2, 5, {"range": (2, 5)}),
        (None, 5, {"range": (0, 5)}),
        (0, None, {"range": {"offset": 0}}),
        (7, None, {"range": {"offset": 7}}),
        (-3, None, {"range": {"suffix": 3}}),
    ],
)
def test_a_range_is_told_as_the_client_wants_it(
    start: int | None, end: int | None, wanted: dict[str, object]
) -> None:
    assert range_option(start, end) == wanted


def test_only_spans_with_both_ends_and_bytes_between_them_go_in_one_request() -> None:
    assert exact([(0, 2), (5, 9)]) == ([0, 5], [2, 9])
    assert exact([]) == ([], [])
    for odd in [(None, 2), (2, None), (-2, None), (3, 3), (4, 3)]:
        assert exact([(0, 2), odd]) is None


@pytest.mark.parametrize(("start", "end"), [(0, 4), (None, 3), (6, None), (-2, None), (8, 99)])
@pytest.mark.parametrize("has_ranges", [True, False])
def test_every_kind_of_range_is_read_whatever_the_server_can(
    web_server: WebServer, has_ranges: bool, start: int | None, end: int | None
) -> None:
    data = b"0123456789"
    web_server.files, web_server.has_ranges = {"/k": data}, has_ranges
    client = Clients(HttpPlace(web_server.url), ONCE).reader
    [found] = run_all(lambda key: get_span(client, key, start, end), ["k"], 1)
    assert found == data[start:end]


def test_of_an_empty_range_no_byte_is_asked_for(web_server: WebServer) -> None:
    web_server.files = {"/k": b"0123456789"}
    client = Clients(HttpPlace(web_server.url), ONCE).reader
    assert run_all(lambda key: get_span(client, key, 3, 3), ["k"], 1) == [b""]
    assert [method for method, _, _ in web_server.seen] == ["HEAD"]


def test_versions_of_one_state_may_be_quoted_or_not() -> None:
    assert is_same_state(Version('"abc"'), Version("abc"))
    assert not is_same_state(Version('"abc"'), Version("abd"))
    assert is_same_state(Version("a", "7"), Version("b", "7"))  # a generation counts more
    assert not is_same_state(Version("a", "7"), Version("a", "8"))
    assert is_same_state(Version("a", None), Version("a", "8"))
    assert [bare(text) for text in ('"x"', "x", '"', "", '"x')] == ["x", "x", '"', "", '"x']


def test_memory_is_handed_over_without_a_copy_if_it_is_plain_bytes() -> None:
    data = np.arange(6, dtype=np.uint8)
    plain = flat(data.data)
    assert isinstance(plain, memoryview)
    assert bytes(plain) == bytes(range(6))
    words = flat(np.array([1, 256], "<u2").data)
    assert words == b"\1\0\0\1"
    assert flat(data.reshape(2, 3).T[:, ::-1].data) == bytes([3, 0, 4, 1, 5, 2])


# --- many at once ---


def test_no_more_work_is_under_way_than_the_limit_says_and_answers_keep_their_order() -> None:
    busy, most = 0, 0

    async def work(number: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.001 * (5 - number))
        busy -= 1
        return number * number

    assert run_all(work, range(5), 2) == [0, 1, 4, 9, 16]
    assert most == 2
    assert run_all(work, [], 2) == []


def test_the_first_failure_is_raised_as_it_is_and_ends_the_rest() -> None:
    done = []

    async def work(number: int) -> None:
        if number == 1:
            raise StorageError("no more", key=f"k{number}")
        await asyncio.sleep(0.05)
        done.append(number)

    with pytest.raises(StorageError, match="no more"):
        run_all(work, range(4), 4)
    assert not done


def test_reads_are_made_again_only_after_a_reply_that_broke_off() -> None:
    settings = StorageSettings(retries=StorageRetriesSettings(3, 1, 1))
    made: list[str] = []

    def failing(cause: str) -> str:
        made.append(cause)
        if len(made) < 3:
            raise StorageError("cannot read", key="k", cause=cause)
        return "whole"

    assert whole(lambda: failing("error decoding response body"), settings) == "whole"
    assert len(made) == 3
    made.clear()
    with pytest.raises(StorageError):
        whole(lambda: failing("access denied"), settings)
    assert len(made) == 1
