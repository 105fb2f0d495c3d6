"""Errors of commit protocols name what moved, exists or is missing, and keep that when sent."""

from __future__ import annotations

import pickle

import pytest

from frazil.commit.refusals import (
    branch_exists,
    elsewhere,
    gone,
    moved,
    no_ref,
    no_snapshot,
    tag_exists,
)
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FrazilError,
    NotFoundError,
    RefNotFoundError,
    SnapshotNotFoundError,
)
from frazil.ids import SnapshotId

ONE, OTHER = SnapshotId(bytes(12)), SnapshotId(bytes([255] * 12))

CASES: list[tuple[FrazilError, type[FrazilError], ErrorKind, list[str]]] = [
    (
        moved(ONE, OTHER, "dev"),
        ConflictError,
        ErrorKind.COMMIT_CONFLICT,
        ["'dev'", str(ONE), str(OTHER), "rebase"],
    ),
    (
        branch_exists("dev", ONE),
        ConflictError,
        ErrorKind.BRANCH_UPDATE_CONFLICT,
        ["'dev'", "already exists"],
    ),
    (
        elsewhere("dev", ONE, OTHER),
        ConflictError,
        ErrorKind.BRANCH_UPDATE_CONFLICT,
        ["'dev'", str(ONE), str(OTHER)],
    ),
    (
        tag_exists("v1"),
        AlreadyExistsError,
        ErrorKind.TAG_ALREADY_EXISTS,
        ["'v1'", "cannot be used again"],
    ),
    (no_ref("tag", "v1"), RefNotFoundError, ErrorKind.REF_NOT_FOUND, ["tag 'v1'"]),
    (no_snapshot(ONE), SnapshotNotFoundError, ErrorKind.SNAPSHOT_NOT_FOUND, [str(ONE)]),
    (
        gone(ONE),
        SnapshotNotFoundError,
        ErrorKind.SNAPSHOT_NOT_FOUND,
        [str(ONE), "nothing was published"],
    ),
]


@pytest.mark.parametrize(("error", "family", "kind", "texts"), CASES)
def test_an_error_names_its_things_also_in_another_process(
    error: FrazilError, family: type[FrazilError], kind: ErrorKind, texts: list[str]
) -> None:
    for told in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(told, family)
        assert told.kind is kind
        for text in texts:
            assert text in str(told)


def test_a_branch_that_moved_tells_both_parents_as_data() -> None:
    told = pickle.loads(pickle.dumps(moved(ONE, OTHER, "dev")))
    assert (told.expected_parent, told.actual_parent) == (str(ONE), str(OTHER))
    assert moved(ONE, None, "dev").actual_parent is None  # the branch was deleted
    reset = elsewhere("dev", ONE, OTHER)
    assert (reset.expected_parent, reset.actual_parent) == (str(ONE), str(OTHER))
    assert branch_exists("dev", ONE).actual_parent == str(ONE)


def test_what_is_missing_can_be_caught_as_one_family() -> None:
    for error in (no_ref("branch", "dev"), no_snapshot("text of a user"), gone(ONE)):
        assert isinstance(error, NotFoundError)
    assert "text of a user" in str(no_snapshot("text of a user"))
