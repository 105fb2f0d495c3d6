"""Tallies of parts add up, and a comparison tells what is equal."""

from __future__ import annotations

import pytest

from frazil.comparing.records import ArrayChange, ArrayDiff, FoundBy, Sample, Tally, ValueDiff

PART = Tally(
    10, 2, 2, -1.0, 3.0, 2.0, ((0, 2), (5, 6)), (Sample((0, 5), 1, 0), Sample((1, 5), 0, 3))
)


def test_two_tallies_add_up() -> None:
    other = Tally(5, 1, 1, 7.0, 7.0, 7.0, ((1, 4), (2, 3)), (Sample((1, 2), 0, 7),))
    for found in (PART.merged(other, 10), other.merged(PART, 10)):
        assert (found.compared, found.changed, found.differences) == (15, 3, 3)
        assert (found.least, found.most, found.mean) == (-1.0, 7.0, 3.0)
        assert found.box == ((0, 4), (2, 6))
        assert [each.coords for each in found.samples] == [(0, 5), (1, 2), (1, 5)]


def test_a_part_without_changes_adds_only_what_was_compared() -> None:
    nothing = Tally(compared=7)
    assert nothing.mean is None
    for found in (PART.merged(nothing, 10), nothing.merged(PART, 10)):
        assert found.compared == 17
        assert (found.least, found.most, found.box) == (PART.least, PART.most, PART.box)
        assert found.samples == PART.samples


@pytest.mark.parametrize(("most", "kept"), [(0, []), (1, [(0, 5)]), (5, [(0, 5), (1, 5)])])
def test_the_samples_with_the_smallest_coordinates_are_kept(
    most: int, kept: list[tuple[int, int]]
) -> None:
    assert [each.coords for each in Tally().merged(PART, most).samples] == kept


@pytest.mark.parametrize(
    ("changes", "is_equal"),
    [
        ({}, True),
        ({"cells_compared": 9, "chunks_read": 2}, True),
        ({"cells_changed": 1}, False),
        ({"cells_added": 1}, False),
        ({"cells_removed": 1}, False),
        ({"change": ArrayChange.ADDED}, False),
    ],
)
def test_an_array_is_equal_if_no_cell_changed_came_or_went(
    changes: dict[str, object], is_equal: bool
) -> None:
    given = {"path": "/t", "change": ArrayChange.CHANGED, "found_by": FoundBy.LOGS, **changes}
    assert ArrayDiff(**given).is_equal is is_equal  # type: ignore[arg-type]


def test_a_comparison_is_asked_for_arrays_by_any_spelling_of_their_path() -> None:
    inner = ArrayDiff("/g/t", ArrayChange.CHANGED, FoundBy.LOGS, cells_changed=3)
    added = ArrayDiff("/u", ArrayChange.ADDED, FoundBy.METADATA)
    diff = ValueDiff("A", "B", (inner, added))
    assert diff.array("g/t") is diff.array("/g/t/") is inner
    assert diff.array("t") is None
    assert (diff.is_empty, diff.cells_changed) == (False, 3)
    assert ValueDiff("A", "B", ()).is_empty
