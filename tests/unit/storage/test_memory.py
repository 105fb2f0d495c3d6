"""Memory storage: whose objects are whose."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest

from frazil.errors import StorageError
from frazil.storage.memory import MemoryStorage


def test_two_storages_share_nothing() -> None:
    first, second = MemoryStorage(), MemoryStorage()
    first.put("k", b"x")
    assert second.is_empty()


def test_a_name_is_one_place() -> None:
    MemoryStorage("test_a_name_is_one_place").put("k", b"x")
    again = MemoryStorage("test_a_name_is_one_place")
    assert again.get("k") == b"x"
    assert again.url == "memory://test_a_name_is_one_place"
    assert MemoryStorage("another").is_empty()


def test_a_pickled_handle_is_the_same_place_in_this_process() -> None:
    storage = MemoryStorage()
    copy: MemoryStorage = pickle.loads(pickle.dumps(storage))
    copy.put("k", b"x")
    assert storage.get("k") == b"x"


def _opens(pickled: bytes) -> str:
    try:
        pickle.loads(pickled)
    except StorageError as error:
        return str(error)
    return "opened"


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_handle_does_not_open_in_another_process(method: str) -> None:
    storage = MemoryStorage("mine")
    with multiprocessing.get_context(method).Pool(1) as workers:
        answer = workers.apply(_opens, (pickle.dumps(storage),))
    assert "another process" in answer


def test_a_forgotten_place_is_not_opened_empty() -> None:
    pickled = pickle.dumps(MemoryStorage())
    with pytest.raises(StorageError, match="another process"):
        pickle.loads(pickled)
