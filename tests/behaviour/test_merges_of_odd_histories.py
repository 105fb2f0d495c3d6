"""Merging where ids or histories cross: arrays made anew, branches merged into each other."""

from __future__ import annotations

import pytest

from frazil.errors import MergeConflictError
from frazil.merging.records import ConflictKind, MergeConflict, MergeStatus
from tests.support.branches import Branches, started
from tests.support.nodes import array_document, group_document


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(request: pytest.FixtureRequest) -> Branches:
    """Main and dev, both with a group, two arrays and two chunks."""
    return started(Branches(request.param))


def merge(repo: Branches, source: str = "dev", into: str = "main") -> None:
    assert repo.repository.versions.merge(source, into).status != MergeStatus.CONFLICTS


def conflicts(repo: Branches, source: str = "dev", into: str = "main") -> list[MergeConflict]:
    with pytest.raises(MergeConflictError) as caught:
        repo.repository.versions.merge(source, into)
    return [each for each in caught.value.report.conflicts if isinstance(each, MergeConflict)]


def id_of(repo: Branches, branch: str, path: str = "/a") -> str:
    return str(repo.repository.readonly_session(branch).get_node_id(path))


class TestMadeAnew:
    """Arrays that were deleted and made again at the same place, under other ids."""

    @staticmethod
    def renew(repo: Branches, branch: str, chunk: bytes, length: int = 6) -> None:
        repo.commit(branch, {"a/zarr.json": None}, "delete")
        edits = {"a/zarr.json": array_document(length), "a/c/2": chunk}
        repo.commit(branch, {**edits}, "make it again")

    def test_theirs_replaces_ours_that_nobody_touched(self, repo: Branches) -> None:
        self.renew(repo, "dev", b"new")
        repo.commit("main", {"g/zarr.json": group_document(here=1)})
        merge(repo)
        assert repo.chunks("main", "a") == {"2": b"new"}
        assert id_of(repo, "main") == id_of(repo, "dev")
        assert repo.document("main", "g")["attributes"] == {"here": 1}

    def test_ours_stays_where_they_touched_nothing(self, repo: Branches) -> None:
        self.renew(repo, "main", b"new")
        repo.commit("dev", {"g/zarr.json": group_document(there=1)})
        wanted = id_of(repo, "main")
        merge(repo)
        assert repo.chunks("main", "a") == {"2": b"new"}
        assert id_of(repo, "main") == wanted
        assert repo.document("main", "g")["attributes"] == {"there": 1}

    def test_chunks_they_wrote_into_the_old_one_are_in_ours(self, repo: Branches) -> None:
        self.renew(repo, "main", b"new")
        repo.commit("dev", {"a/c/4": b"there"})
        merge(repo)
        assert repo.chunks("main", "a") == {"2": b"new", "4": b"there"}

    def test_or_in_theirs(self, repo: Branches) -> None:
        self.renew(repo, "dev", b"new")
        repo.commit("main", {"a/c/4": b"here"})
        merge(repo)
        assert repo.chunks("main", "a") == {"2": b"new", "4": b"here"}

    def test_a_chunk_that_both_have_is_a_conflict(self, repo: Branches) -> None:
        self.renew(repo, "dev", b"new")
        repo.commit("main", {"a/c/2": b"here"})
        (found,) = conflicts(repo)
        assert (found.kind, found.path, found.chunks) == (ConflictKind.CHUNKS, "/a", ((2,),))

    def test_made_anew_on_both_sides(self, repo: Branches) -> None:
        self.renew(repo, "main", b"ours")
        self.renew(repo, "dev", b"theirs")
        (found,) = conflicts(repo)
        assert (found.kind, found.path) == (ConflictKind.CHUNKS, "/a")
        assert repo.chunks("main", "a") == {"2": b"ours"}

    def test_with_another_rank(self, repo: Branches) -> None:
        repo.commit("dev", {"a/zarr.json": None})
        repo.commit("dev", {"a/zarr.json": array_document(2, 2), "a/c/1/1": b"flat"})
        repo.commit("main", {"g/zarr.json": group_document(here=1)})
        merge(repo)
        assert repo.chunks("main", "a") == {"1/1": b"flat"}

    def test_made_anew_on_both_sides_with_other_ranks_one_is_taken_whole(
        self, repo: Branches
    ) -> None:
        self.renew(repo, "main", b"ours")
        repo.commit("dev", {"a/zarr.json": None})
        repo.commit("dev", {"a/zarr.json": array_document(2, 2), "a/c/1/1": b"flat"})
        repo.repository.versions.merge("dev", "main", policy="theirs")
        assert repo.document("main", "a") == repo.document("dev", "a")
        assert repo.chunks("main", "a") == {"1/1": b"flat"}
        assert id_of(repo, "main") == id_of(repo, "dev")


class TestCrissCross:
    """Branches that were merged into each other: there are two bases, neither of them older."""

    @staticmethod
    def crossed(repo: Branches, ours: bytes = b"m", theirs: bytes = b"d", place: int = 3) -> None:
        """Each branch has merged the other's first change, and both have gone on."""
        repo.commit("main", {"a/c/2": ours}, "on main")
        repo.commit("dev", {f"a/c/{place}": theirs}, "on dev")
        repo.branch("main-then", "main")
        repo.branch("dev-then", "dev")
        merge(repo, "dev-then", "main")
        merge(repo, "main-then", "dev")

    def test_what_both_have_merged_is_no_change(self, repo: Branches) -> None:
        self.crossed(repo)
        repo.commit("main", {"a/c/4": b"later here"})
        repo.commit("dev", {"a/c/5": b"later there"})
        merge(repo)
        assert repo.chunks("main", "a") == {
            "0": b"a0",
            "1": b"a1",
            "2": b"m",
            "3": b"d",
            "4": b"later here",
            "5": b"later there",
        }

    def test_a_later_change_of_one_side_wins_over_both_bases(self, repo: Branches) -> None:
        self.crossed(repo)
        repo.commit("dev", {"a/c/2": b"newer", "a/c/3": None})
        repo.commit("main", {"g/b/c/1/1": b"x"})
        merge(repo)
        found = repo.chunks("main", "a")
        assert found == {"0": b"a0", "1": b"a1", "2": b"newer"}

    def test_two_later_changes_of_one_chunk_are_a_conflict(self, repo: Branches) -> None:
        self.crossed(repo)
        repo.commit("main", {"a/c/2": b"here"})
        repo.commit("dev", {"a/c/2": b"there"})
        (found,) = conflicts(repo)
        assert (found.kind, found.chunks) == (ConflictKind.CHUNKS, ((2,),))

    def test_what_was_decided_differently_is_a_conflict(self, repo: Branches) -> None:
        """Both wrote one chunk, and each side kept its own: nobody knows which is right."""
        repo.commit("main", {"a/c/2": b"m"}, "on main")
        repo.commit("dev", {"a/c/2": b"d"}, "on dev")
        repo.branch("main-then", "main")
        repo.branch("dev-then", "dev")
        repo.repository.versions.merge("dev-then", "main", policy="ours")
        repo.repository.versions.merge("main-then", "dev", policy="ours")
        (found,) = conflicts(repo)
        assert (found.kind, found.path, found.chunks) == (ConflictKind.CHUNKS, "/a", ((2,),))
        assert repo.chunks("main", "a")["2"] == b"m"

    @staticmethod
    def disagreed(repo: Branches, on_main: str) -> None:
        """One side has deleted what the other changed; dev keeps it, and main does as told."""
        repo.commit("main", {"a/zarr.json": None}, "on main")
        repo.commit("dev", {"a/c/2": b"d"}, "on dev")
        repo.branch("main-then", "main")
        repo.branch("dev-then", "dev")
        repo.repository.versions.merge("dev-then", "main", policy=on_main)
        repo.repository.versions.merge("main-then", "dev", policy="ours")

    def test_what_one_side_kept_and_the_other_deleted_is_a_conflict(self, repo: Branches) -> None:
        self.disagreed(repo, "ours")
        (found,) = conflicts(repo)
        assert (found.kind, found.path, found.theirs) == (ConflictKind.DELETED, "/a", "changed")

    def test_what_both_kept_in_the_end_is_none(self, repo: Branches) -> None:
        self.disagreed(repo, "theirs")
        repo.commit("dev", {"a/c/3": b"later there"})
        repo.commit("main", {"a/c/4": b"later here"})
        merge(repo)
        assert repo.chunks("main", "a") == {
            "0": b"a0",
            "1": b"a1",
            "2": b"d",
            "3": b"later there",
            "4": b"later here",
        }

    def test_attributes_and_shapes_too(self, repo: Branches) -> None:
        grown = array_document(8, attributes={"units": "K", "old": 1})
        repo.commit("main", {"a/zarr.json": grown, "a/c/7": b"7"}, "on main")
        repo.commit("dev", {"zarr.json": group_document(title="new", old=1)}, "on dev")
        repo.branch("main-then", "main")
        repo.branch("dev-then", "dev")
        merge(repo, "dev-then", "main")
        merge(repo, "main-then", "dev")
        repo.commit("dev", {"a/c/6": b"6"})
        repo.commit("main", {"g/zarr.json": group_document(here=1)})
        merge(repo)
        assert repo.document("main", "a")["shape"] == [8]
        assert repo.document("main", "")["attributes"] == {"title": "new", "old": 1}
        assert {k: v for k, v in repo.chunks("main", "a").items() if k > "1"} == {
            "6": b"6",
            "7": b"7",
        }

    def test_two_names_for_a_title_on_the_way(self, repo: Branches) -> None:
        """The bases clash on an attribute; whoever changes it later is not taken for both."""
        repo.commit("main", {"zarr.json": group_document(title="m", old=1)}, "on main")
        repo.commit("dev", {"zarr.json": group_document(title="d", old=1)}, "on dev")
        repo.branch("main-then", "main")
        repo.branch("dev-then", "dev")
        repo.repository.versions.merge("dev-then", "main", policy="ours")
        repo.repository.versions.merge("main-then", "dev", policy="ours")
        (found,) = conflicts(repo)
        assert (found.kind, found.ours, found.theirs) == (ConflictKind.ATTRIBUTE, "m", "d")

    def test_what_one_side_took_away_later_stays_away(self, repo: Branches) -> None:
        """The bases agree on it, so that its absence is a change and not a mere lack."""
        self.crossed(repo)
        repo.commit(
            "dev",
            {
                "zarr.json": group_document(title="t"),
                "a/zarr.json": array_document(4, attributes={"units": "K"}),
            },
        )
        repo.commit("main", {"g/b/c/1/1": b"x"})
        merge(repo)
        assert repo.document("main", "")["attributes"] == {"title": "t"}
        assert repo.document("main", "a")["attributes"] == {"units": "K"}
        assert repo.document("main", "a")["shape"] == [4]
        assert repo.chunks("main", "a") == {"0": b"a0", "1": b"a1", "2": b"m", "3": b"d"}

    def test_a_node_that_one_side_deletes_later_goes(self, repo: Branches) -> None:
        self.crossed(repo)
        repo.commit("dev", {"g/b/zarr.json": None, "a/zarr.json": None})
        repo.commit("main", {"zarr.json": group_document(title="later", old=1)})
        merge(repo)
        assert repo.nodes("main") == {"g"}
        assert repo.document("main", "")["attributes"]["title"] == "later"


class TestSecrets:
    def test_conflicts_do_not_show_credentials_of_locations(self, repo: Branches) -> None:
        """Reports go to logs and screens."""
        for branch in ("main", "dev"):
            session = repo.repository.writable_session(branch)
            session.store.set_virtual_ref(
                "a/c/0",
                f"https://user:swordfish@host/{branch}.nc",
                offset=4,
                length=8,
                validate_container=False,
            )
            session.commit(f"by reference on {branch}")
        (found,) = conflicts(repo)
        assert found.ours == ["virtual https://****@host/main.nc 4+8"]
        assert found.theirs == ["virtual https://****@host/dev.nc 4+8"]
        assert "swordfish" not in repr(found)
