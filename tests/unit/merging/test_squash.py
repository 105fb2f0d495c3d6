"""Squash: many commits become one with the same contents."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from frazil.errors import ConflictError, ErrorKind, FrazilError
from frazil.merging import squash as squashing
from frazil.merging.records import MergeStatus
from frazil.model.lineage import SQUASHED
from tests.support.ages import AT_ONCE
from tests.support.branches import Branches
from tests.support.nodes import array_document, group_document
from tests.unit.merging.test_replay import LATER


class TestSquash:
    def test_makes_one_of_several(self, repo: Branches) -> None:
        start = repo.tip("main")
        for number in range(3):
            repo.commit("main", {f"a/c/{number}": b"%d" % number}, f"step {number}")
        before, old = repo.keys("main"), repo.tip("main")
        report = repo.repository.versions.squash("main", start)
        assert (report.previous_snapshot_id, report.snapshot_id) == (old, repo.tip("main"))
        assert repo.keys("main") == before
        history = list(repo.repository.ancestry(branch="main"))
        assert history[0].parent_id == start
        assert history[0].message == "step 0\nstep 1\nstep 2"
        assert history[0].metadata[SQUASHED]["commits"] == 3

    def test_its_log_is_the_whole_difference(self, v2_repo: Branches) -> None:
        repo = v2_repo
        start = repo.tip("main")
        repo.commit("main", {"n/zarr.json": array_document(2), "n/c/0": b"0"})
        repo.commit("main", {"n/zarr.json": None, "a/c/0": b"x", "a/c/3": b"3"})
        repo.commit("main", {"a/c/3": None, "zarr.json": group_document(z=1)})
        repo.move("main", "/g", "/h")
        repo.repository.versions.squash("main", start, message="all")
        diff = repo.repository.diff(from_snapshot_id=start, to_branch="main")
        assert diff.updated_chunks == {"/a": [[0]]}
        assert diff.updated_groups == {"/"}
        assert sorted(diff.moved_nodes) == [("/g", "/h"), ("/g/b", "/h/b")]
        assert diff.new_arrays == diff.deleted_arrays == diff.updated_arrays == set()

    def test_later_commits_are_repeated(self, repo: Branches) -> None:
        start = repo.tip("main")
        ids = [repo.commit("main", {f"a/c/{n}": b"%d" % n}, f"step {n}") for n in range(5)]
        before = repo.keys("main")
        repo.repository.versions.squash("main", start, ids[2], message="first three")
        assert repo.keys("main") == before
        messages = [each.message for each in repo.repository.ancestry(branch="main")]
        assert messages[:4] == ["step 4", "step 3", "first three", "start"]
        diff = repo.repository.diff(from_snapshot_id=start, to_branch="main")
        assert len(diff.updated_chunks["/a"]) == 5

    def test_merges_before_and_after_find_their_base(self, repo: Branches) -> None:
        start = repo.tip("main")
        repo.commit("dev", {"a/c/2": b"d1"})
        repo.commit("main", {"a/c/0": b"x"})
        repo.repository.versions.merge("dev", "main")
        repo.commit("main", {"a/c/2": b"changed on main since"})
        repo.commit("dev", {"a/c/3": b"d2"})
        repo.repository.versions.squash("dev", start)
        repo.commit("dev", {"a/c/4": b"d3"})
        repo.repository.versions.merge("dev", "main")
        assert repo.chunks("main", "a") == {
            "0": b"x",
            "1": b"a1",
            "2": b"changed on main since",
            "3": b"d2",
            "4": b"d3",
        }

    def test_of_merges_knows_what_was_merged(self, repo: Branches) -> None:
        start = repo.tip("main")
        repo.commit("dev", {"a/c/2": b"d1"})
        repo.commit("main", {"a/c/0": b"x"})
        repo.repository.versions.merge("dev", "main")
        repo.repository.versions.squash("main", start)
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        assert repo.repository.versions.merge("dev", "main").status == MergeStatus.UP_TO_DATE

    def test_of_one_commit_does_nothing(self, repo: Branches) -> None:
        start = repo.tip("main")
        tip = repo.commit("main", {"a/c/0": b"x"})
        assert repo.repository.versions.squash("main", start).status == MergeStatus.UP_TO_DATE
        assert repo.repository.versions.squash("main", tip).status == MergeStatus.UP_TO_DATE
        assert repo.tip("main") == tip

    def test_dry_run_changes_nothing(self, repo: Branches) -> None:
        start = repo.tip("main")
        for number in range(2):
            repo.commit("main", {f"a/c/{number}": b"x"})
        keys = {each.key for each in repo.storage.list("")}
        report = repo.repository.versions.squash("main", start, dry_run=True)
        assert (report.snapshot_id, report.changes.chunks) == (None, {"/a": 2})
        assert {each.key for each in repo.storage.list("")} == keys

    def test_snapshots_elsewhere_are_refused(self, repo: Branches) -> None:
        tip = repo.commit("dev", {"a/c/0": b"x"})
        start = repo.tip("main")
        newer = repo.commit("main", {"a/c/0": b"y"})
        for after, to in ((tip, None), (start, tip), (newer, start)):
            with pytest.raises(FrazilError) as caught:
                repo.repository.versions.squash("main", after, to)
            assert caught.value.kind == ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF

    def test_a_branch_that_moved_is_left_alone(
        self, repo: Branches, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = repo.tip("main")
        for number in range(2):
            repo.commit("main", {f"a/c/{number}": b"x"})
        write = squashing.difference

        def slow(*arguments: object) -> object:
            repo.commit("main", {"a/c/5": b"5"})
            return write(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(squashing, "difference", slow)
        with pytest.raises(ConflictError):
            repo.repository.versions.squash("main", start)
        assert repo.chunks("main", "a")["5"] == b"5"
        assert len(list(repo.repository.ancestry(branch="main"))) == 5

    def test_old_commits_go_with_garbage_collection(self, repo: Branches) -> None:
        start = repo.tip("main")
        old = [repo.commit("main", {f"a/c/{n}": b"%d" % n}) for n in range(3)]
        before = repo.keys("main")
        repo.repository.versions.squash("main", start)
        repo.repository.delete_branch("dev")
        repo.repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        assert repo.keys("main") == before
        for gone in old:
            with pytest.raises(FrazilError):
                repo.repository.readonly_session(snapshot_id=gone)
