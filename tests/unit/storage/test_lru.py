"""The cache of decoded files."""

from __future__ import annotations

import threading

from frazil.storage.lru import Lru
from tests.support.forking import Forked


def test_the_least_recently_used_goes_first() -> None:
    cache: Lru[str, bytes] = Lru(100, len)
    for name in "abcd":
        cache.put(name, bytes(25))
    assert cache.get("a") is not None
    cache.put("e", bytes(30))
    assert [name for name in "abcde" if cache.get(name) is not None] == ["a", "d", "e"]


def test_a_replaced_value_gives_its_room_back() -> None:
    cache: Lru[str, bytes] = Lru(100, len)
    for size in (60, 10, 90):
        cache.put("a", bytes(size))
    cache.put("b", bytes(10))
    assert cache.get("a") == bytes(90)
    assert cache.get("b") == bytes(10)


def test_what_is_larger_than_the_cache_is_not_kept() -> None:
    cache: Lru[str, bytes] = Lru(100, len)
    cache.put("a", b"x")
    cache.put("b", bytes(101))
    assert cache.get("a") == b"x"
    assert cache.get("b") is None


def test_a_child_of_a_busy_process_is_not_locked_out() -> None:
    is_held, has_forked = threading.Event(), threading.Event()

    def weight(value: bytes) -> int:
        if threading.current_thread() is holder and value == b"old":
            is_held.set()  # what is replaced is weighed under the lock
            has_forked.wait(10)
        return 1

    def use() -> None:
        cache.put("new", b"x")
        assert cache.get("new") == b"x"

    cache: Lru[str, bytes] = Lru(10, weight)
    holder = threading.Thread(target=lambda: cache.put("key", b"young"))
    cache.put("key", b"old")
    holder.start()
    assert is_held.wait(10)
    child = Forked(use)
    has_forked.set()
    holder.join()
    assert child.wait() == 0
