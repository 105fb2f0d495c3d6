"""Cherry-pick and revert."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import ErrorKind, FrazilError, MergeConflictError
from frazil.merging.records import MergeStatus
from frazil.model.lineage import CHERRY_PICKED_FROM, REVERTS
from tests.support.ages import AT_ONCE
from tests.support.branches import Branches
from tests.support.nodes import array_document, group_document

LATER = timedelta(days=1)


class TestCherryPick:
    def test_takes_one_commit_and_no_other(self, repo: Branches) -> None:
        repo.commit("dev", {"a/c/2": b"2"}, "not wanted")
        wanted = repo.commit("dev", {"a/c/3": b"3"}, "wanted")
        repo.commit("dev", {"a/c/4": b"4"}, "not wanted either")
        report = repo.repository.versions.cherry_pick(wanted, "main")
        assert report.changes.chunks == {"/a": 1}
        assert repo.chunks("main", "a") == {"0": b"a0", "1": b"a1", "3": b"3"}
        newest = next(iter(repo.repository.ancestry(branch="main")))
        assert (newest.message, newest.metadata[CHERRY_PICKED_FROM]) == ("wanted", wanted)

    def test_again_does_nothing(self, repo: Branches) -> None:
        wanted = repo.commit("dev", {"a/c/3": b"3"})
        tip = repo.repository.versions.cherry_pick(wanted, "main").snapshot_id
        again = repo.repository.versions.cherry_pick(wanted, "main")
        assert (again.status, repo.tip("main")) == (MergeStatus.UP_TO_DATE, tip)

    def test_and_a_merge_later_finds_it_there(self, repo: Branches) -> None:
        wanted = repo.commit("dev", {"n/zarr.json": array_document(3), "n/c/0": b"n"})
        repo.repository.versions.cherry_pick(wanted, "main")
        repo.commit("dev", {"n/c/1": b"n1"})
        repo.repository.versions.merge("dev", "main")
        assert repo.chunks("main", "n") == {"0": b"n", "1": b"n1"}

    def test_conflicts_are_told(self, repo: Branches) -> None:
        wanted = repo.commit("dev", {"a/c/0": b"y"})
        before = repo.commit("main", {"a/c/0": b"x"})
        with pytest.raises(MergeConflictError) as caught:
            repo.repository.versions.cherry_pick(wanted, "main")
        assert caught.value.report.operation == "cherry-pick"
        assert repo.tip("main") == before
        repo.repository.versions.cherry_pick(
            wanted, "main", policy="theirs", metadata={"by": "hand"}
        )
        assert repo.chunks("main", "a")["0"] == b"y"

    def test_the_first_snapshot_has_nothing_to_pick(self, repo: Branches) -> None:
        *_, first = repo.repository.ancestry(branch="main")
        with pytest.raises(FrazilError, match="first snapshot"):
            repo.repository.versions.cherry_pick(first.id, "main")

    def test_of_a_commit_whose_parent_has_gone(self, repo: Branches) -> None:
        repo.commit("dev", {"a/c/2": b"2"})
        wanted = repo.commit("dev", {"a/c/3": b"3"})
        repo.commit("main", {"a/c/5": b"5"})
        repo.repository.expire_snapshots(datetime.now(UTC) + LATER)
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        before = repo.tip("main")
        for work in (repo.repository.versions.cherry_pick, repo.repository.versions.revert):
            with pytest.raises(FrazilError) as caught:
                work(wanted, "main")
            assert caught.value.kind == ErrorKind.MERGE_BASE_EXPIRED
        assert repo.tip("main") == before


class TestRevert:
    def test_takes_a_commit_back_and_keeps_later_ones(self, repo: Branches) -> None:
        wrong = repo.commit("main", {"a/c/0": b"wrong", "a/c/1": None, "a/c/3": b"3"}, "oops")
        repo.commit("main", {"a/c/4": b"4"})
        repo.repository.versions.revert(wrong, "main")
        assert repo.chunks("main", "a") == {"0": b"a0", "1": b"a1", "4": b"4"}
        newest = next(iter(repo.repository.ancestry(branch="main")))
        assert (newest.message, newest.metadata[REVERTS]) == ('revert "oops"', wrong)

    def test_brings_deleted_nodes_back(self, repo: Branches) -> None:
        before = repo.keys("main")
        ids = [repo.repository.readonly_session("main").get_node_id("/g/b")]
        wrong = repo.commit("main", {"g/zarr.json": None})
        repo.repository.versions.revert(wrong, "main")
        assert repo.keys("main") == before
        assert [repo.repository.readonly_session("main").get_node_id("/g/b")] == ids

    def test_of_a_revert_brings_the_change_again(self, repo: Branches) -> None:
        wrong = repo.commit("main", {"a/c/0": b"x", "zarr.json": group_document(other=1)})
        after = repo.keys("main")
        undone = repo.repository.versions.revert(wrong, "main").snapshot_id
        assert undone is not None
        repo.repository.versions.revert(undone, "main")
        assert repo.keys("main") == after

    def test_of_a_merge(self, repo: Branches) -> None:
        repo.commit("main", {"a/c/0": b"x"})
        before = repo.keys("main")
        repo.commit("dev", {"a/c/2": b"y", "n/zarr.json": array_document(1)})
        made = repo.repository.versions.merge("dev", "main").snapshot_id
        assert made is not None
        repo.repository.versions.revert(made, "main")
        assert repo.keys("main") == before

    def test_of_what_was_changed_since_is_a_conflict(self, repo: Branches) -> None:
        wrong = repo.commit("main", {"a/c/0": b"x"})
        tip = repo.commit("main", {"a/c/0": b"y"})
        with pytest.raises(MergeConflictError):
            repo.repository.versions.revert(wrong, "main")
        assert repo.tip("main") == tip

    def test_of_a_move(self, v2_repo: Branches) -> None:
        before = v2_repo.keys("main")
        wrong = v2_repo.move("main", "/g", "/h")
        v2_repo.repository.versions.revert(wrong, "main")
        assert v2_repo.keys("main") == before

    def test_of_the_first_commit_leaves_nothing(self, repo: Branches) -> None:
        repo.repository.versions.revert("main", "main")
        assert repo.keys("main") == {}
