"""Which ranges one request answers, and what is refused of an answer."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.storage.ranges import WantedRange, near_ranges
from frazil.storage.tuning import RANGE_BYTES, RANGE_GAP


def test_near_ranges_of_one_object_go_together() -> None:
    found = near_ranges([("a", 100, 200), ("a", 0, 50), ("b", 60, 70), ("a", 210, 220)])
    assert found == [[1, 0, 3], [2]]


@pytest.mark.parametrize(("gap", "groups"), [(RANGE_GAP, 1), (RANGE_GAP + 1, 2)])
def test_a_wide_gap_is_not_read(gap: int, groups: int) -> None:
    assert len(near_ranges([("a", 0, 10), ("a", 10 + gap, 20 + gap)])) == groups


@pytest.mark.parametrize(("size", "groups"), [(RANGE_BYTES, 1), (RANGE_BYTES + 1, 2)])
def test_requests_do_not_grow_without_end(size: int, groups: int) -> None:
    assert len(near_ranges([("a", 0, size - 5), ("a", size - 5, size)])) == groups


def test_a_range_inside_another_does_not_end_it() -> None:
    assert near_ranges(
        [("a", 0, RANGE_GAP * 3), ("a", 5, 9), ("a", RANGE_GAP * 3, RANGE_GAP * 4)]
    ) == [[0, 1, 2]]


def test_ranges_that_are_not_told_in_full_stand_alone() -> None:
    ranges = [("a", None, 5), ("a", -3, None), ("a", 0, 5), ("a", 5, None)]
    assert sorted(map(list, near_ranges(ranges))) == [[0], [1], [2], [3]]


def test_short_answers_and_short_objects_are_refused() -> None:
    wanted = WantedRange("s3://bucket/key?token=hunter2", "key", 10, 30)
    assert wanted.check_size(b"x" * 20) == b"x" * 20
    wanted.check_end(30)
    for refused, available in (
        (lambda: wanted.check_size(b"x" * 19), 19),
        (lambda: wanted.check_end(29), 19),
        (lambda: wanted.check_end(5), 0),
    ):
        with pytest.raises(StorageError, match="too short") as caught:
            refused()
        assert caught.value.kind is ErrorKind.INVALID_OBJECT_SIZE
        assert f"available: {available}" in str(caught.value).replace("=", ": ")
        assert "hunter2" not in str(caught.value)
