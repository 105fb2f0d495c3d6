"""Histories of merges: fast-forward, repeated and crossing merges, expiry, bad input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    MergeConflictError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.ids import SnapshotId
from frazil.merging.records import MergeStatus
from frazil.model import lineage
from frazil.model.lineage import MERGE_PARENTS, other_parents
from frazil.repository import Repository
from tests.support.ages import AT_ONCE
from tests.support.branches import Branches
from tests.support.nodes import array_document

LATER = timedelta(days=1)


def info(repo: Branches, branch: str) -> Any:  # noqa: ANN401
    """The newest snapshot of a branch."""
    return next(iter(repo.repository.ancestry(branch=branch)))


class TestFastForward:
    def test_a_branch_that_lags_behind_is_moved(self, repo: Branches) -> None:
        tip = repo.commit("dev", {"a/c/0": b"x"})
        report = repo.repository.versions.merge("dev", "main")
        assert report.status == MergeStatus.FAST_FORWARD
        assert report.snapshot_id == repo.tip("main") == tip
        assert report.changed

    def test_or_gets_a_commit_if_that_is_wanted(self, repo: Branches) -> None:
        before = repo.tip("main")
        tip = repo.commit("dev", {"a/c/0": b"x"})
        report = repo.repository.versions.merge("dev", "main", ff=False, message="joined")
        assert report.status == MergeStatus.COMMITTED
        newest = info(repo, "main")
        assert (newest.message, newest.parent_id) == ("joined", before)
        assert newest.metadata[MERGE_PARENTS] == [before, tip]
        assert repo.keys("main") == repo.keys("dev")

    def test_only_refuses_a_merge_commit(self, repo: Branches) -> None:
        repo.commit("dev", {"a/c/0": b"x"})
        before = repo.commit("main", {"a/c/1": b"y"})
        with pytest.raises(ConflictError) as caught:
            repo.repository.versions.merge("dev", "main", ff="only")
        assert caught.value.kind == ErrorKind.NOT_FAST_FORWARD
        assert repo.tip("main") == before

    def test_by_itself(self, repo: Branches) -> None:
        tip = repo.commit("dev", {"a/c/0": b"x"})
        assert not repo.repository.versions.fast_forward("main", "dev", dry_run=True).changed
        assert repo.tip("main") != tip
        assert repo.repository.versions.fast_forward("main", "dev").changed
        assert repo.tip("main") == tip
        again = repo.repository.versions.fast_forward("main", "dev")
        assert (again.status, again.changed) == (MergeStatus.UP_TO_DATE, False)
        repo.commit("main", {"a/c/0": b"y"})
        repo.commit("dev", {"a/c/1": b"y"})
        with pytest.raises(ConflictError, match="commits of its own"):
            repo.repository.versions.fast_forward("main", "dev")

    def test_no_commit_of_the_branch_is_left_out_of_its_history(self, repo: Branches) -> None:
        on_main = repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        repo.repository.versions.merge("main", "dev")
        report = repo.repository.versions.merge("dev", "main")
        assert report.status == MergeStatus.COMMITTED
        assert on_main in [each.id for each in repo.repository.ancestry(branch="main")]
        assert repo.keys("main") == repo.keys("dev")


class TestRepeated:
    def test_merging_again_does_nothing(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        tip = repo.repository.versions.merge("dev", "main").snapshot_id
        again = repo.repository.versions.merge("dev", "main")
        assert (again.status, again.snapshot_id, repo.tip("main")) == (
            MergeStatus.UP_TO_DATE,
            tip,
            tip,
        )

    def test_only_what_is_new_is_merged(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        repo.repository.versions.merge("dev", "main")
        repo.commit("main", {"a/c/1": b"changed on main since"})
        repo.commit("dev", {"a/c/2": b"z"})
        report = repo.repository.versions.merge("dev", "main")
        assert report.changes.chunks == {"/a": 1}
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"changed on main since", "2": b"z"}

    def test_what_was_merged_and_deleted_does_not_come_back(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"n/zarr.json": array_document(2), "n/c/0": b"n"})
        repo.repository.versions.merge("dev", "main")
        repo.commit("main", {"n/zarr.json": None})
        repo.commit("dev", {"a/c/3": b"3"})
        repo.repository.versions.merge("dev", "main")
        assert "n" not in repo.nodes("main")

    def test_and_what_is_deleted_after_a_merge_is_deleted(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"n/zarr.json": array_document(2), "n/c/0": b"n"})
        repo.repository.versions.merge("dev", "main")
        repo.commit("dev", {"n/zarr.json": None})
        repo.repository.versions.merge("dev", "main")
        assert "n" not in repo.nodes("main")

    def test_a_policy_of_ours_is_remembered(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/0": b"y"})
        report = repo.repository.versions.merge("dev", "main", policy="ours")
        assert (report.status, report.changes.is_empty) == (MergeStatus.COMMITTED, True)
        repo.commit("dev", {"a/c/1": b"z"})
        repo.repository.versions.merge("dev", "main")
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"z"}


class TestCrossing:
    def crossed(self, repo: Branches, ours: str = "fail", theirs: str = "fail") -> None:
        """Merge each branch, as it was, into the other."""
        main, dev = repo.tip("main"), repo.tip("dev")
        repo.repository.versions.merge(dev, "main", policy=ours, ff=False)
        repo.repository.versions.merge(main, "dev", policy=theirs, ff=False)

    def test_two_bases_are_merged_into_one(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"m"})
        repo.commit("dev", {"a/c/1": b"d"})
        self.crossed(repo)
        repo.commit("main", {"a/c/0": b"m2"})
        repo.commit("dev", {"a/c/1": b"d2"})
        report = repo.repository.versions.merge("dev", "main")
        assert len(report.bases) == 2
        assert repo.chunks("main", "a") == {"0": b"m2", "1": b"d2"}

    def test_a_clash_of_the_bases_is_decided_again(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"m"})
        repo.commit("dev", {"a/c/0": b"d"})
        self.crossed(repo, ours="ours", theirs="ours")
        with pytest.raises(MergeConflictError):
            repo.repository.versions.merge("dev", "main")

    def test_unless_both_decided_alike(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"m"})
        repo.commit("dev", {"a/c/0": b"d"})
        self.crossed(repo, ours="ours", theirs="theirs")
        repo.commit("dev", {"a/c/3": b"3"})
        repo.repository.versions.merge("dev", "main")
        assert repo.chunks("main", "a") == {"0": b"m", "1": b"a1", "3": b"3"}

    def test_crossing_again_and_again(self, repo: Branches) -> None:
        for turn in range(4):
            repo.commit("main", {"a/c/0": b"m%d" % turn})
            repo.commit("dev", {"a/c/1": b"d%d" % turn})
            self.crossed(repo)
        repo.repository.versions.merge("dev", "main")
        repo.repository.versions.merge("main", "dev")
        assert repo.chunks("main", "a") == {"0": b"m3", "1": b"d3"}
        assert repo.keys("main") == repo.keys("dev")

    def test_three_branches(self, repo: Branches) -> None:
        repo.branch("third")
        for number, branch in enumerate(("main", "dev", "third")):
            repo.commit(branch, {f"a/c/{number}": branch.encode()})
        tips = {branch: repo.tip(branch) for branch in ("main", "dev", "third")}
        for branch in tips:
            for other, tip in tips.items():
                if other != branch:
                    repo.repository.versions.merge(tip, branch, ff=False)
        repo.commit("dev", {"a/c/5": b"5"})
        report = repo.repository.versions.merge("dev", "main")
        assert len(report.bases) > 1
        assert repo.chunks("main", "a") == {"0": b"main", "1": b"dev", "2": b"third", "5": b"5"}


class TestDryRun:
    def test_changes_nothing_and_tells_all(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/0": b"y", "a/c/2": b"2"})
        keys = {each.key for each in repo.storage.list("")}
        report = repo.repository.versions.merge("dev", "main", dry_run=True)
        assert report.status == MergeStatus.CONFLICTS
        (row,) = report.rows()
        assert (row["kind"], row["path"], row["chunks"]) == ("chunks", "/a", [[0]])
        planned = repo.repository.versions.merge("dev", "main", dry_run=True, policy="theirs")
        assert (planned.snapshot_id, planned.changes.chunks) == (None, {"/a": 2})
        assert {each.key for each in repo.storage.list("")} == keys

    def test_of_a_fast_forward(self, repo: Branches) -> None:
        before = repo.tip("main")
        repo.commit("dev", {"a/c/0": b"y"})
        report = repo.repository.versions.merge("dev", "main", dry_run=True)
        assert (report.status, report.changed, repo.tip("main")) == (
            MergeStatus.FAST_FORWARD,
            False,
            before,
        )


class TestMetadata:
    def test_is_kept_beside_the_parents(self, repo: Branches) -> None:
        main = repo.commit("main", {"a/c/0": b"x"})
        dev = repo.commit("dev", {"a/c/1": b"y"})
        repo.repository.versions.merge("dev", "main", metadata={"why": "joined", MERGE_PARENTS: 7})
        newest = info(repo, "main")
        assert (newest.metadata["why"], newest.metadata[MERGE_PARENTS]) == ("joined", [main, dev])
        assert newest.message == "merge dev into main"
        assert other_parents(newest.metadata) == (SnapshotId.parse(dev),)

    def test_of_others_is_not_believed_blindly(self) -> None:
        wrongs: list[Any] = [None, 7, ["x"], ["x", 7], ["x", "not an id"], {}]
        for wrong in wrongs:
            assert other_parents({MERGE_PARENTS: wrong}) == ()

    def test_log_tells_what_the_merge_changed(self, repo: Branches) -> None:
        main = repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y", "g/zarr.json": None})
        made = repo.repository.versions.merge("dev", "main").snapshot_id
        diff = repo.repository.diff(from_snapshot_id=main, to_snapshot_id=made)
        assert diff.updated_chunks == {"/a": [[1]]}
        assert (diff.deleted_groups, diff.deleted_arrays) == ({"/g"}, {"/g/b"})
        assert not diff.new_arrays


class TestExpired:
    def expire(self, repo: Branches, *, collect: bool) -> None:
        repo.repository.expire_snapshots(datetime.now(UTC) + LATER)
        if collect:
            repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)

    def test_merge_is_refused_when_nobody_can_tell_who_changed_what(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("main", {"a/c/2": b"x"})
        repo.commit("dev", {"a/c/1": None})
        repo.commit("dev", {"a/c/3": b"y"})
        before = repo.keys("main")
        self.expire(repo, collect=True)
        with pytest.raises(SessionStateError) as caught:
            repo.repository.versions.merge("dev", "main")
        assert caught.value.kind == ErrorKind.MERGE_BASE_EXPIRED
        assert repo.keys("main") == before

    def test_or_done_with_the_base_that_is_named(self, repo: Branches) -> None:
        start = repo.tip("main")
        repo.repository.create_tag("start", start)
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("main", {"a/c/2": b"x"})
        repo.commit("dev", {"a/c/1": None})
        repo.commit("dev", {"a/c/3": b"y"})
        self.expire(repo, collect=True)
        repo.repository.versions.merge("dev", "main", base="start")
        assert repo.chunks("main", "a") == {"0": b"x", "2": b"x", "3": b"y"}

    def test_what_expired_and_is_still_there_is_compared_with(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("main", {"a/c/2": b"x"})
        repo.commit("dev", {"a/c/1": None})
        repo.commit("dev", {"a/c/3": b"y"})
        self.expire(repo, collect=False)
        repo.repository.versions.merge("dev", "main")
        assert repo.chunks("main", "a") == {"0": b"x", "2": b"x", "3": b"y"}

    def test_branches_that_were_merged_and_deleted_are_in_nobodys_way(self, repo: Branches) -> None:
        repo.branch("other")
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        repo.repository.versions.merge("dev", "main")
        repo.repository.delete_branch("dev")
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        repo.commit("other", {"a/c/2": b"z"})
        repo.repository.versions.merge("other", "main")
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"y", "2": b"z"}
        repo.repository.versions.merge("main", "other")
        assert repo.keys("other") == repo.keys("main")

    def test_a_base_that_only_a_deleted_branch_had(self, repo: Branches) -> None:
        """Both merged a branch that is gone: which of them changed its work since is unknown."""
        repo.branch("feature")
        repo.commit("feature", {"n/zarr.json": array_document(1)})
        repo.commit("main", {"a/c/0": b"x"})
        repo.commit("dev", {"a/c/1": b"y"})
        for branch in ("main", "dev"):
            repo.repository.versions.merge("feature", branch)
        repo.commit("dev", {"n/zarr.json": None})
        repo.repository.delete_branch("feature")
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        with pytest.raises(SessionStateError) as caught:
            repo.repository.versions.merge("dev", "main")
        assert caught.value.kind == ErrorKind.MERGE_BASE_EXPIRED

    @pytest.mark.parametrize("squashed", [False, True])
    @pytest.mark.parametrize("commits", [1, 5])
    def test_a_base_among_many_that_were_merged_or_squashed_and_collected(
        self, repo: Branches, monkeypatch: pytest.MonkeyPatch, commits: int, squashed: bool
    ) -> None:
        """What was deleted since does not come back, whether or not the base is named."""
        monkeypatch.setattr(lineage, "NAMED_COMMITS", 4)
        repo.commit("main", {"g/b/c/1/1": b"x"})
        start, line = repo.tip("main"), "main" if squashed else "dev"
        repo.commit(line, {"n/zarr.json": array_document(2), "n/c/0": b"n0"})
        repo.branch("other", line)
        for number in range(commits):
            repo.commit(line, {"a/c/2": b"%d" % number})
        repo.commit("other", {"a/c/3": b"y"})
        if squashed:
            repo.repository.versions.squash("main", start)
        else:
            repo.repository.versions.merge("dev", "main")
        repo.commit("main", {"n/zarr.json": None})
        repo.repository.delete_branch("dev")
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        before = repo.keys("main")
        if commits == 1:
            repo.repository.versions.merge("other", "main")
            assert repo.keys("main") == before | {"a/c/3": b"y"}
            return
        with pytest.raises(SessionStateError) as caught:
            repo.repository.versions.merge("other", "main")
        assert caught.value.kind == ErrorKind.MERGE_BASE_EXPIRED
        assert repo.keys("main") == before

    def test_squashed_merges_still_name_what_they_brought(self, repo: Branches) -> None:
        start = repo.tip("main")
        repo.commit("dev", {"n/zarr.json": array_document(2)})
        repo.branch("other", "dev")
        repo.commit("dev", {"a/c/2": b"d"})
        repo.commit("other", {"a/c/3": b"y"})
        repo.commit("main", {"a/c/0": b"x"})
        repo.repository.versions.merge("dev", "main")
        repo.commit("main", {"n/zarr.json": None})
        repo.repository.versions.squash("main", start)
        repo.repository.delete_branch("dev")
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        repo.repository.versions.merge("other", "main")
        assert "n" not in repo.nodes("main")
        assert repo.chunks("main", "a")["3"] == b"y"


class TestBadInput:
    def test_unknown_names(self, repo: Branches) -> None:
        with pytest.raises(RefNotFoundError):
            repo.repository.versions.merge("nope", "main")
        with pytest.raises(RefNotFoundError):
            repo.repository.versions.merge("dev", "nope")
        with pytest.raises(SnapshotNotFoundError):
            repo.repository.versions.merge("0" * 20, "main")

    def test_a_deleted_branch(self, repo: Branches) -> None:
        repo.repository.delete_branch("dev")
        with pytest.raises(RefNotFoundError):
            repo.repository.versions.merge("main", "dev")

    def test_wrong_options(self, repo: Branches) -> None:
        with pytest.raises(InvalidInputError, match="ff must be"):
            repo.repository.versions.merge("dev", "main", ff="yes")  # type: ignore[arg-type]


async def test_there_are_async_twins(repo: Branches) -> None:
    tip = repo.commit("dev", {"a/c/1": b"y"})
    report = await repo.repository.versions.merge_async("dev", "main")
    assert report.snapshot_id == tip


def test_opened_anew_history_is_the_same(repo: Branches) -> None:
    repo.commit("main", {"a/c/0": b"x"})
    repo.commit("dev", {"a/c/1": b"y"})
    repo.repository.versions.merge("dev", "main")
    opened = Repository.open(repo.storage)
    assert opened.versions.merge("dev", "main").status == MergeStatus.UP_TO_DATE
