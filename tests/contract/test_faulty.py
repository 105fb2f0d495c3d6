"""The faulty storage of the tests keeps the contract until its plan says otherwise."""

from __future__ import annotations

import pytest

from frazil.errors import StorageError
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.testing.storage import StorageContract


class TestFaultyStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return FaultyStorage(MemoryStorage(), [Fault(Trouble.DELAY, call=3)])


def test_a_planned_failure_leaves_no_trace() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault(Trouble.FAIL, "put", call=2)])
    storage.put("a", b"1")
    with pytest.raises(StorageError, match="planned failure"):
        storage.put("b", b"2")
    storage.put("c", b"3")
    assert [item.key for item in storage.inner.list()] == ["a", "c"]


def test_a_lost_reply_comes_after_the_write() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault(Trouble.LOSE_REPLY, "put_if")])
    with pytest.raises(StorageError, match="loss of the reply"):
        storage.put_if("a", b"1", None)
    assert storage.inner.get("a") == b"1"


def test_calls_of_all_operations_count_together() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault(Trouble.FAIL, call=2, times=2)])
    storage.put("a", b"1")
    for _ in range(2):
        with pytest.raises(StorageError):
            storage.get("a")
    assert storage.get("a") == b"1"
    assert [operation for operation, _ in storage.calls] == ["put", "get", "get", "get"]
