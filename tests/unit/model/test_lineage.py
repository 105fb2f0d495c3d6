"""What commits say of their origin, and what is read of it whoever wrote it."""

from __future__ import annotations

import pytest

from frazil.ids import SnapshotId
from frazil.model import lineage
from frazil.model.lineage import (
    MERGE_PARENTS,
    MERGED_COMMITS,
    REWRITTEN_FROM,
    SQUASHED,
    merge_metadata,
    merged_commits,
    other_parents,
    squash_metadata,
)

A, B, C, D = (SnapshotId(bytes([number]) * 12) for number in range(4))


def test_a_merge_names_the_other_parent_and_what_came_with_it() -> None:
    said = merge_metadata(A, B, [B, C])
    assert other_parents(said) == (B,)
    assert merged_commits(said) == (B, C)


def test_a_squash_names_the_newest_and_all_that_those_had_merged() -> None:
    said = squash_metadata([A, B], [C], [C, D, A])
    assert other_parents(said) == (A, C)
    assert merged_commits(said) == (A, B, C, D)
    assert said[SQUASHED]["commits"] == 2


def test_no_more_are_named_than_metadata_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "NAMED_COMMITS", 2)
    assert merged_commits(merge_metadata(A, B, [B, C, D])) == (B, C)
    assert merged_commits(squash_metadata([A], [], [B, C])) == (A, B)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {MERGE_PARENTS: None, MERGED_COMMITS: 3, SQUASHED: "x"},
        {MERGE_PARENTS: [str(A), "not an id", 7], SQUASHED: {"merged": {"a": 1}}},
        {MERGE_PARENTS: [str(A)], REWRITTEN_FROM: ["x"]},
    ],
)
def test_what_others_wrote_there_is_passed_over(said: dict[str, object]) -> None:
    assert other_parents(said) == merged_commits(said) == ()


def test_each_is_told_once() -> None:
    assert other_parents({MERGE_PARENTS: [str(A), str(B)], REWRITTEN_FROM: str(B)}) == (B,)
