"""When a file that is made of the bytes of another is written in full."""

from __future__ import annotations

import pytest

from frazil.flatbuf.growth import full_size, mark_of, may_grow


def test_a_file_without_a_mark_was_written_in_full() -> None:
    assert full_size(bytes(100)) == 100
    assert full_size(b"short") == 5
    assert may_grow(bytes(100))


def test_the_mark_is_handed_on_from_file_to_file() -> None:
    first = bytes(1000)
    second = first + b"changed!" + mark_of(first)
    third = second + b"changed!" + mark_of(second)
    assert full_size(second) == full_size(third) == 1000
    assert full_size(memoryview(third)) == 1000


@pytest.mark.parametrize(("size", "is_allowed"), [(109, True), (125, True), (126, False)])
def test_a_file_may_grow_by_an_eighth(size: int, is_allowed: bool) -> None:
    first = bytes(1000)
    mark = mark_of(first)
    grown = first + bytes(size - len(mark)) + mark
    assert len(grown) == 1000 + size
    assert may_grow(grown) is is_allowed
