"""From a merged result to a commit: attempts, refusals, and what it refers to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    FrazilError,
    InvalidInputError,
    MergeConflictError,
    ReadOnlyError,
)
from frazil.merging import applying, three_way
from frazil.merging.applying import TRIES, require_ability, settled, until_still
from frazil.merging.records import ConflictKind, MergeConflict, MergeReport, MergeStatus
from frazil.model.history import RepoAvailability
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.branches import Branches, Edits
from tests.support.nodes import array_document, contents, group_document


class TestRaces:
    def test_a_branch_that_moves_meanwhile_is_merged_as_it_is_then(
        self, repo: Branches, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        plan = three_way.merge_states
        moves: Iterator[Edits] = iter([{"a/c/2": b"2"}, {"a/c/3": b"3"}])

        def slow(*arguments: Any) -> Any:  # noqa: ANN401
            found = plan(*arguments)
            edits = next(moves, None)
            if edits is not None:
                repo.commit("main", edits)
            return found

        monkeypatch.setattr(applying, "merge_states", slow)
        report = repo.repository.versions.merge("dev", "main")
        assert report.attempts == 3
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"y", "2": b"2", "3": b"3"}

    def test_one_that_keeps_moving_is_reported(
        self, repo: Branches, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        plan = three_way.merge_states

        def slow(*arguments: Any) -> Any:  # noqa: ANN401
            found = plan(*arguments)
            repo.commit("main", {"a/c/2": b"again"})
            return found

        monkeypatch.setattr(applying, "merge_states", slow)
        with pytest.raises(ConflictError) as caught:
            repo.repository.versions.merge("dev", "main")
        assert caught.value.kind == ErrorKind.COMMIT_CONFLICT
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"a1", "2": b"again"}


class TestRefusals:
    def test_a_tag_is_not_merged_into_but_from(self, repo: Branches) -> None:
        tip = repo.commit("dev", {"a/c/1": b"y"})
        repo.repository.create_tag("v1", tip)
        works: list[Callable[[], MergeReport]] = [
            lambda: repo.repository.versions.merge("dev", "v1"),
            lambda: repo.repository.versions.cherry_pick(tip, "v1"),
            lambda: repo.repository.versions.squash("v1", "main"),
            lambda: repo.repository.versions.fast_forward("v1", "dev"),
        ]
        for work in works:
            with pytest.raises(InvalidInputError, match="tags never move"):
                work()
        assert repo.repository.versions.merge("v1", "main").snapshot_id == tip

    def test_a_repository_that_takes_no_changes(self, v2_repo: Branches) -> None:
        repo = v2_repo
        tip = repo.commit("dev", {"a/c/1": b"y"})
        repo.repository.set_status(RepoStatus(RepoAvailability.read_only))
        works: list[Callable[[], MergeReport]] = [
            lambda: repo.repository.versions.merge("dev", "main"),
            lambda: repo.repository.versions.cherry_pick(tip, "main"),
            lambda: repo.repository.versions.revert(tip, "dev"),
            lambda: repo.repository.versions.squash("dev", "main"),
            lambda: repo.repository.versions.fast_forward("main", "dev"),
        ]
        for work in works:
            with pytest.raises(ReadOnlyError):
                work()
        assert repo.repository.versions.merge("dev", "main", dry_run=True).status == (
            MergeStatus.FAST_FORWARD
        )

    def test_errors_tell_what_it_was_about(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/0": b"y"})
        with pytest.raises(FrazilError, match=r"1 conflict \(chunks /a 1 chunks: \[0\]\)"):
            repo.repository.versions.merge("dev", "main")


CHUNKS = 40


def test_a_merge_of_old_chunks_asks_for_none_of_them(tmp_path: Path) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path, durability="none"))
    made = Branches(2, storage=storage)
    made.commit("main", {"zarr.json": group_document(), "a/zarr.json": array_document(CHUNKS)})
    made.branch("side")
    written: dict[str, bytes | None] = {f"a/c/{at}": b"native" * 200 for at in range(CHUNKS)}
    made.commit("side", written)
    made.commit("main", {"b/zarr.json": array_document(1)})
    last_week = (datetime.now(UTC) - timedelta(days=7)).timestamp()
    for file in (tmp_path / "chunks").iterdir():
        os.utime(file, (last_week, last_week))
    storage.calls.clear()
    made.repository.versions.merge("side")
    looks = [key for name, key in storage.calls if name == "head" and key.startswith("chunks/")]
    assert looks == []
    assert written.items() <= contents(made.repository.readonly_session("main")).items()


def test_an_array_that_only_they_have_comes_with_its_manifests(repo: Branches) -> None:
    repo.commit("dev", {"n/zarr.json": array_document(4), "n/c/0": b"x", "n/c/3": b"y"})
    repo.commit("main", {"a/c/0": b"x"})
    before = {item.key for item in repo.storage.list("manifests/")}
    report = repo.repository.versions.merge("dev", "main")
    assert report.changes.chunks == {"/n": 2}
    theirs, ours = (
        repo.repository.readonly_session(branch).state.array("/n") for branch in ("dev", "main")
    )
    assert ours.manifests == theirs.manifests
    assert {item.key for item in repo.storage.list("manifests/")} == before


# --- attempts and their end ---


REPORT = MergeReport("merge", MergeStatus.COMMITTED, "main", "S", "A", "B")
OPEN = replace(
    REPORT,
    status=MergeStatus.CONFLICTS,
    conflicts=(
        MergeConflict(ConflictKind.ATTRIBUTE, "/a", 1, 2, name="title"),
        MergeConflict(ConflictKind.ATTRIBUTE, "/b", 1, 2, name="title", resolution="ours"),
    ),
)


def attempts(*kinds: ErrorKind) -> tuple[Callable[[], MergeReport], list[ErrorKind]]:
    """Something that fails so often before it is done."""
    left = [*kinds]

    def attempt() -> MergeReport:
        if left:
            raise ConflictError(message="moved", kind=left.pop(0))
        return REPORT

    return attempt, left


def test_what_moved_is_tried_again_and_attempts_are_counted() -> None:
    assert until_still(attempts()[0]).attempts == 1
    moved = (ErrorKind.COMMIT_CONFLICT, ErrorKind.BRANCH_UPDATE_CONFLICT)
    assert until_still(attempts(*moved)[0]).attempts == 3
    assert until_still(attempts(*moved[:1] * (TRIES - 1))[0]).attempts == TRIES
    attempt, left = attempts(*moved[:1] * (TRIES + 5))
    with pytest.raises(ConflictError):
        until_still(attempt)
    assert len(left) == 5


def test_other_conflicts_are_not_tried_again() -> None:
    attempt, left = attempts(ErrorKind.NOT_FAST_FORWARD, ErrorKind.NOT_FAST_FORWARD)
    with pytest.raises(ConflictError):
        until_still(attempt)
    assert len(left) == 1


def test_conflicts_that_are_left_are_an_error_unless_it_was_a_dry_run() -> None:
    assert settled(REPORT) is REPORT
    dry = replace(OPEN, dry_run=True)
    assert settled(dry) is dry
    with pytest.raises(MergeConflictError, match=r"1 conflict \(attribute /a 'title'\)") as caught:
        settled(OPEN)
    assert caught.value.report is OPEN


@pytest.mark.parametrize("dry_run", [False, True])
def test_repositories_without_documents_must_be_upgraded(dry_run: bool) -> None:
    old = context_of(Repository.create(MemoryStorage(), spec_version="g1"))
    with pytest.raises(FormatError, match=r"cannot revert in .*; upgrade it first"):
        require_ability(old, "revert", dry_run=dry_run)
