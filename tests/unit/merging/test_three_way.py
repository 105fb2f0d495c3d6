"""Merging branches: what each side changed comes together, and what clashes is told."""

from __future__ import annotations

import json

import pytest

from frazil.errors import MergeConflictError
from frazil.merging.records import ConflictKind, MergeConflict, MergeReport, MergeStatus
from tests.support.branches import Branches, Edits
from tests.support.nodes import array_document, group_document


def merged(repo: Branches, ours: Edits, theirs: Edits, **options: object) -> MergeReport:
    """Commit on both branches and merge dev into main."""
    repo.commit("main", ours, "on main")
    repo.commit("dev", theirs, "on dev")
    return repo.repository.versions.merge("dev", "main", **options)  # type: ignore[arg-type]


def conflict(repo: Branches, ours: Edits, theirs: Edits) -> MergeConflict:
    """The only conflict of two commits; the merge must not have changed anything."""
    repo.commit("main", ours, "on main")
    repo.commit("dev", theirs, "on dev")
    before, tip = repo.keys("main"), repo.tip("main")
    with pytest.raises(MergeConflictError) as caught:
        repo.repository.versions.merge("dev", "main")
    assert repo.tip("main") == tip
    assert repo.keys("main") == before
    report = caught.value.report
    assert report.status == MergeStatus.CONFLICTS
    (found,) = report.conflicts
    assert isinstance(found, MergeConflict)
    return found


class TestChunks:
    def test_changes_of_both_sides_come_together(self, repo: Branches) -> None:
        report = merged(repo, {"a/c/0": b"x"}, {"a/c/1": b"y", "a/c/5": b"z"})
        assert report.status == MergeStatus.COMMITTED
        assert report.changes.chunks == {"/a": 2}
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"y", "5": b"z"}
        assert repo.chunks("dev", "a") == {"0": b"a0", "1": b"y", "5": b"z"}

    def test_no_chunk_bytes_are_copied(self, repo: Branches) -> None:
        merged(repo, {"a/c/0": b"x"}, {"a/c/1": b"y"})
        objects = [each.key for each in repo.storage.list("chunks/")]
        assert len(objects) == 5

    def test_deleted_chunks_stay_deleted(self, repo: Branches) -> None:
        merged(repo, {"a/c/5": b"x"}, {"a/c/0": None})
        assert repo.chunks("main", "a") == {"1": b"a1", "5": b"x"}

    def test_one_chunk_written_twice_is_a_conflict(self, repo: Branches) -> None:
        found = conflict(repo, {"a/c/0": b"x", "a/c/3": b"s"}, {"a/c/0": b"y", "a/c/4": b"t"})
        assert (found.kind, found.path) == (ConflictKind.CHUNKS, "/a")
        assert (found.chunk_count, found.chunks) == (1, ((0,),))
        assert "native" in str(found.ours)

    def test_deleted_here_and_written_there_is_a_conflict(self, repo: Branches) -> None:
        found = conflict(repo, {"a/c/0": None}, {"a/c/0": b"y"})
        assert (found.kind, found.ours) == (ConflictKind.CHUNKS, [None])

    def test_equal_inline_bytes_are_no_conflict(self, spec: int) -> None:
        repo = Branches(spec, inline=512)
        repo.commit("main", {"a/zarr.json": array_document(4), "a/c/0": b"0"})
        repo.branch("dev")
        report = merged(repo, {"a/c/0": b"same"}, {"a/c/0": b"same", "a/c/1": b"1"})
        assert report.changes.chunks == {"/a": 1}
        assert repo.chunks("main", "a") == {"0": b"same", "1": b"1"}

    def test_many_conflicts_are_counted_and_some_shown(self, repo: Branches) -> None:
        document = array_document(100)
        repo.commit("main", {"m/zarr.json": document})
        repo.repository.versions.merge("main", "dev")
        ours = {f"m/c/{n}": b"x" for n in range(100)}
        theirs = {f"m/c/{n}": b"y" for n in range(100)}
        found = conflict(repo, ours, theirs)  # type: ignore[arg-type]
        assert (found.chunk_count, len(found.chunks)) == (100, 16)

    def test_manifests_written_anew_hide_nothing(self, repo: Branches) -> None:
        repo.repository.rewrite_manifests("rewrite", branch="main")
        merged(repo, {"a/c/0": b"x"}, {"a/c/1": b"y"})
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"y"}


class TestAttributes:
    def test_keys_are_merged_one_by_one(self, repo: Branches) -> None:
        merged(
            repo,
            {"zarr.json": group_document(title="new", old=1)},
            {"zarr.json": group_document(title="t", more=2)},
        )
        assert repo.document("main", "")["attributes"] == {"title": "new", "more": 2}

    def test_of_arrays_too_beside_their_chunks(self, repo: Branches) -> None:
        merged(
            repo,
            {"a/zarr.json": array_document(6, attributes={"units": "C", "old": 1})},
            {"a/zarr.json": array_document(6, attributes={"units": "K", "x": 1}), "a/c/0": b"y"},
        )
        assert repo.document("main", "a")["attributes"] == {"units": "C", "x": 1}
        assert repo.chunks("main", "a")["0"] == b"y"

    def test_two_values_are_a_conflict(self, repo: Branches) -> None:
        found = conflict(
            repo,
            {"zarr.json": group_document(title="x", old=1)},
            {"zarr.json": group_document(title="y", old=1)},
        )
        assert (found.kind, found.path, found.name) == (ConflictKind.ATTRIBUTE, "/", "title")
        assert (found.ours, found.theirs) == ("x", "y")

    def test_true_is_not_one(self, repo: Branches) -> None:
        found = conflict(
            repo,
            {"zarr.json": group_document(title="t", old=True)},
            {"zarr.json": group_document(title="t", old=1.0)},
        )
        assert found.name == "old"

    def test_not_a_number_is_text_in_the_report(self, repo: Branches) -> None:
        found = conflict(
            repo,
            {"zarr.json": group_document(title=[float("nan")], old=1)},
            {"zarr.json": group_document(title={"x": float("-inf")}, old=1)},
        )
        assert found.as_json()["ours"] == ["NaN"]
        assert found.as_json()["theirs"] == {"x": "-Infinity"}

    def test_removed_here_and_changed_there_is_a_conflict(self, repo: Branches) -> None:
        found = conflict(
            repo,
            {"zarr.json": group_document(title="t")},
            {"zarr.json": group_document(title="t", old=2)},
        )
        assert (found.name, found.ours, found.theirs) == ("old", None, 2)

    def test_other_fields_are_merged_too(self, repo: Branches) -> None:
        merged(
            repo,
            {"a/zarr.json": array_document(6, dimension_names=["x"], attributes={"old": 1})},
            {"a/c/3": b"3"},
        )
        assert repo.document("main", "a")["dimension_names"] == ["x"]


class TestShapes:
    def test_an_array_grows_while_the_other_side_writes(self, repo: Branches) -> None:
        merged(repo, {"a/c/0": b"x"}, {"a/zarr.json": array_document(9), "a/c/8": b"8"})
        assert repo.document("main", "a")["shape"] == [9]
        assert repo.chunks("main", "a") == {"0": b"x", "1": b"a1", "8": b"8"}

    def test_axes_grow_on_both_sides(self, repo: Branches) -> None:
        merged(
            repo,
            {"g/b/zarr.json": array_document(8, 4), "g/b/c/7/0": b"70"},
            {"g/b/zarr.json": array_document(4, 6), "g/b/c/0/5": b"05"},
        )
        assert repo.document("main", "g/b")["shape"] == [8, 6]
        assert repo.chunks("main", "g/b") == {"0/0": b"b00", "0/5": b"05", "7/0": b"70"}

    def test_two_lengths_are_a_conflict(self, repo: Branches) -> None:
        found = conflict(repo, {"a/zarr.json": cut(8)}, {"a/zarr.json": cut(9)})
        assert (found.kind, found.ours, found.theirs) == (ConflictKind.SHAPE, [8], [9])

    def test_cutting_off_what_the_other_side_wrote_is_a_conflict(self, repo: Branches) -> None:
        found = conflict(repo, {"a/zarr.json": cut(2)}, {"a/c/4": b"4"})
        assert (found.kind, found.chunks) == (ConflictKind.SHAPE, ((4,),))

    def test_that_conflict_is_decided_by_the_shape_of_a_side(self, spec: int) -> None:
        for policy, length, chunks in (
            ("ours", 2, {"0": b"a0", "1": b"a1"}),
            ("theirs", 6, {"0": b"a0", "1": b"a1", "3": b"a3", "4": b"4"}),
        ):
            repo = Branches(spec)
            repo.commit(
                "main",
                {"a/zarr.json": cut(6), "a/c/0": b"a0", "a/c/1": b"a1", "a/c/3": b"a3"},
            )
            repo.branch("dev")
            merged(repo, {"a/zarr.json": cut(2)}, {"a/c/4": b"4"}, policy=policy)
            assert repo.document("main", "a")["shape"] == [length]
            assert repo.chunks("main", "a") == chunks

    def test_cutting_off_unchanged_chunks_is_none(self, repo: Branches) -> None:
        merged(repo, {"a/c/0": b"x"}, {"a/zarr.json": cut(1)})
        assert repo.chunks("main", "a") == {"0": b"x"}

    def test_shrunk_and_grown_again_means_deleted(self, repo: Branches) -> None:
        repo.commit("dev", {"a/zarr.json": cut(1)})
        merged(repo, {"a/c/0": b"x"}, {"a/zarr.json": cut(6)})
        assert repo.chunks("main", "a") == {"0": b"x"}


def cut(length: int) -> bytes:
    """The document of array `a` with another length."""
    return array_document(length, attributes={"units": "K", "old": 1})


class TestStructure:
    WIDER = array_document(6, data_type="uint16", attributes={"units": "K", "old": 1})

    def test_changed_on_one_side_alone_is_taken(self, repo: Branches) -> None:
        merged(repo, {"g/b/c/1/1": b"x"}, {"a/zarr.json": self.WIDER, "a/c/0": b"wide"})
        assert repo.document("main", "a")["data_type"] == "uint16"
        assert repo.chunks("main", "a")["0"] == b"wide"

    def test_with_attributes_of_the_other_side(self, repo: Branches) -> None:
        document = array_document(6, attributes={"units": "C", "old": 1})
        merged(repo, {"a/zarr.json": document}, {"a/zarr.json": self.WIDER, "a/c/0": b"wide"})
        found = repo.document("main", "a")
        assert (found["data_type"], found["attributes"]["units"]) == ("uint16", "C")

    @pytest.mark.parametrize(
        "changed",
        [
            {"data_type": "uint16"},
            {"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}]},
            {"fill_value": 1},
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}},
        ],
        ids=lambda each: next(iter(each)),
    )
    def test_while_the_other_side_wrote_chunks_is_a_conflict(
        self, repo: Branches, changed: dict[str, object]
    ) -> None:
        plain = json.loads(array_document(6, attributes={"units": "K", "old": 1}))
        document = json.dumps({**plain, **changed}).encode()
        found = conflict(repo, {"a/zarr.json": document}, {"a/c/0": b"y"})
        assert (found.kind, found.path) == (ConflictKind.STRUCTURE, "/a")

    def test_a_side_is_taken_whole(self, spec: int) -> None:
        for policy, chunks in (
            ("ours", {"0": b"x", "1": b"a1"}),
            ("theirs", {"0": b"wide"}),
        ):
            repo = Branches(spec)
            repo.commit("main", {"a/zarr.json": cut(6), "a/c/0": b"a0", "a/c/1": b"a1"})
            repo.branch("dev")
            theirs: Edits = {"a/zarr.json": self.WIDER, "a/c/0": b"wide", "a/c/1": None}
            merged(repo, {"a/c/0": b"x"}, theirs, policy=policy)
            assert repo.chunks("main", "a") == chunks

    def test_another_rank_is_taken_whole(self, spec: int) -> None:
        repo = Branches(spec)
        repo.commit("main", {"a/zarr.json": array_document(6), "a/c/0": b"a0"})
        repo.branch("dev")
        theirs: Edits = {"a/zarr.json": None}
        repo.commit("dev", theirs)
        merged(
            repo,
            {"a/c/0": b"x"},
            {"a/zarr.json": array_document(2, 2), "a/c/1/1": b"11"},
            policy="theirs",
        )
        assert repo.document("main", "a")["shape"] == [2, 2]
        assert repo.chunks("main", "a") == {"1/1": b"11"}


class TestNodes:
    def test_new_nodes_come_with_their_chunks_and_ids(self, repo: Branches) -> None:
        new: Edits = {"n/zarr.json": group_document(), "n/c/zarr.json": array_document(2)}
        merged(repo, {"a/c/0": b"x"}, {**new, "n/c/c/1": b"n1"})
        assert repo.chunks("main", "n/c") == {"1": b"n1"}
        ids = [
            repo.repository.readonly_session(each).get_node_id("/n/c") for each in ("main", "dev")
        ]
        assert ids[0] == ids[1]

    def test_manifests_of_new_arrays_are_shared(self, repo: Branches) -> None:
        merged(repo, {"a/c/0": b"x"}, {"n/zarr.json": array_document(2), "n/c/1": b"n1"})
        main, dev = (
            {each.id for each in repo.repository.list_manifest_files(repo.tip(branch))}
            for branch in ("main", "dev")
        )
        assert main & dev

    def test_deleted_nodes_go(self, repo: Branches) -> None:
        merged(repo, {"a/c/0": b"x"}, {"g/zarr.json": None})
        assert repo.nodes("main") == {"a"}

    def test_deleted_and_made_anew_is_a_change(self, repo: Branches) -> None:
        repo.commit("dev", {"a/zarr.json": None})
        merged(repo, {"g/b/c/1/1": b"x"}, {"a/zarr.json": array_document(3), "a/c/2": b"2"})
        assert repo.document("main", "a")["shape"] == [3]
        assert repo.chunks("main", "a") == {"2": b"2"}

    def test_deleted_here_and_written_there_is_a_conflict(self, repo: Branches) -> None:
        found = conflict(repo, {"a/zarr.json": None}, {"a/c/0": b"y"})
        assert (found.kind, found.path) == (ConflictKind.DELETED, "/a")
        assert (found.ours, found.theirs) == ("deleted", "changed")

    @pytest.mark.parametrize(
        "theirs",
        [
            {"a/zarr.json": array_document(6, attributes={"units": "C"})},
            {"g/zarr.json": group_document(title="new")},
        ],
    )
    def test_deleted_here_and_described_anew_there_is_a_conflict(
        self, repo: Branches, theirs: Edits
    ) -> None:
        found = conflict(repo, dict.fromkeys(theirs), theirs)
        assert (found.kind, found.theirs) == (ConflictKind.DELETED, "changed")

    def test_and_is_decided(self, spec: int) -> None:
        for policy, nodes in (("ours", set()), ("theirs", {"a"})):
            repo = Branches(spec)
            repo.commit("main", {"a/zarr.json": array_document(2), "a/c/0": b"a0"})
            repo.branch("dev")
            merged(repo, {"a/zarr.json": None}, {"a/c/1": b"y"}, policy=policy)
            assert repo.nodes("main") == nodes
        assert repo.chunks("main", "a") == {"0": b"a0", "1": b"y"}

    def test_a_group_deleted_while_the_other_side_fills_it(self, repo: Branches) -> None:
        new: Edits = {"g/new/zarr.json": array_document(2), "g/new/c/0": b"n"}
        found = conflict(repo, {"g/zarr.json": None}, new)
        assert (found.kind, found.path) == (ConflictKind.DELETED, "/g")
        repo.repository.versions.merge("dev", "main", policy="theirs")
        assert repo.nodes("main") == {"a", "g", "g/new"}

    def test_or_goes_with_what_was_put_into_it(self, repo: Branches) -> None:
        new: Edits = {
            "g/h/zarr.json": group_document(),
            "g/h/new/zarr.json": array_document(2),
        }
        merged(repo, {"g/zarr.json": None}, new, policy="ours")
        assert repo.nodes("main") == {"a"}

    def test_groups_made_on_both_sides_are_one(self, repo: Branches) -> None:
        merged(
            repo,
            {"n/zarr.json": group_document(x=1), "n/p/zarr.json": array_document(1)},
            {"n/zarr.json": group_document(y=2), "n/q/zarr.json": array_document(1)},
        )
        assert repo.nodes("main") >= {"n", "n/p", "n/q"}
        assert repo.document("main", "n")["attributes"] == {"x": 1, "y": 2}

    def test_arrays_made_alike_on_both_sides_are_one(self, repo: Branches) -> None:
        new = array_document(4)
        report = merged(
            repo,
            {"n/zarr.json": new, "n/c/0": b"0"},
            {"n/zarr.json": new, "n/c/1": b"1"},
        )
        assert report.changes.chunks == {"/n": 1}
        assert repo.chunks("main", "n") == {"0": b"0", "1": b"1"}
        repo.commit("dev", {"n/c/2": b"2"})
        repo.repository.versions.merge("dev", "main")
        assert repo.chunks("main", "n") == {"0": b"0", "1": b"1", "2": b"2"}

    def test_made_differently_they_are_a_conflict(self, repo: Branches) -> None:
        found = conflict(
            repo,
            {"n/zarr.json": array_document(4)},
            {"n/zarr.json": array_document(4, data_type="int8")},
        )
        assert (found.kind, found.path) == (ConflictKind.CREATED, "/n")

    def test_an_array_here_and_a_group_there(self, repo: Branches) -> None:
        found = conflict(
            repo,
            {"n/zarr.json": array_document(4)},
            {"n/zarr.json": group_document(), "n/x/zarr.json": array_document(1)},
        )
        assert (found.kind, found.ours, found.theirs) == (
            ConflictKind.CREATED,
            "new array",
            "new group",
        )
        repo.repository.versions.merge("dev", "main", policy="ours")
        assert repo.nodes("main") == {"a", "g", "g/b", "n"}

    def test_or_the_other_way_round(self, repo: Branches) -> None:
        merged(
            repo,
            {"n/zarr.json": array_document(4)},
            {"n/zarr.json": group_document(), "n/x/zarr.json": array_document(1)},
            policy="theirs",
        )
        assert repo.nodes("main") == {"a", "g", "g/b", "n", "n/x"}


class TestMoves:
    def test_a_moved_array_takes_chunks_along(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.move("dev", "/a", "/g/moved")
        repo.commit("main", {"a/c/0": b"x"})
        report = repo.repository.versions.merge("dev", "main")
        assert report.changes.moved_nodes == 1
        assert repo.nodes("main") == {"g", "g/b", "g/moved"}
        assert repo.chunks("main", "g/moved") == {"0": b"x", "1": b"a1"}
        log = repo.repository.inspect_transaction_log(repo.tip("main"))
        assert log["moved_nodes"]

    def test_who_moves_a_group_moves_what_others_put_into_it(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.move("main", "/g", "/h")
        repo.commit("dev", {"g/new/zarr.json": array_document(2), "g/new/c/0": b"n"})
        repo.repository.versions.merge("dev", "main")
        assert repo.nodes("main") == {"a", "h", "h/b", "h/new"}
        repo.repository.versions.merge("main", "dev")
        assert repo.keys("dev") == repo.keys("main")

    def test_moved_to_two_places_is_a_conflict(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.move("main", "/a", "/x")
        repo.move("dev", "/a", "/y")
        with pytest.raises(MergeConflictError) as caught:
            repo.repository.versions.merge("dev", "main")
        (found,) = caught.value.report.conflicts
        assert (found.kind, found.ours, found.theirs) == (ConflictKind.MOVED, "/x", "/y")
        repo.repository.versions.merge("dev", "main", policy="theirs")
        assert "y" in repo.nodes("main")

    def test_groups_moved_into_each_other(self, v2_repo: Branches) -> None:
        for policy, nodes in (("ours", {"p", "p/q"}), ("theirs", {"q", "q/p"})):
            repo = Branches(2)
            repo.commit(
                "main",
                {
                    "zarr.json": group_document(),
                    "p/zarr.json": group_document(),
                    "q/zarr.json": group_document(),
                },
            )
            repo.branch("dev")
            repo.move("main", "/q", "/p/q")
            repo.move("dev", "/p", "/q/p")
            with pytest.raises(MergeConflictError):
                repo.repository.versions.merge("dev", "main")
            repo.repository.versions.merge("dev", "main", policy=policy)
            assert repo.nodes("main") == nodes

    def test_moved_where_the_other_side_made_a_node(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.move("dev", "/a", "/n")
        repo.commit("main", {"n/zarr.json": group_document()})
        with pytest.raises(MergeConflictError):
            repo.repository.versions.merge("dev", "main")
        repo.repository.versions.merge("dev", "main", policy="ours")
        assert repo.nodes("main") == {"a", "g", "g/b", "n"}

    def test_moved_here_and_deleted_there(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.move("main", "/a", "/x")
        repo.commit("dev", {"a/zarr.json": None})
        with pytest.raises(MergeConflictError):
            repo.repository.versions.merge("dev", "main")
        repo.repository.versions.merge("dev", "main", policy="theirs")
        assert repo.nodes("main") == {"g", "g/b"}

    def test_a_feature_flag_forbids_them(self, v2_repo: Branches) -> None:
        repo = v2_repo
        repo.move("dev", "/a", "/x")
        repo.commit("main", {"g/b/c/1/1": b"x"})
        repo.repository.set_feature_flag("move_node", False)
        with pytest.raises(Exception, match="feature flag"):
            repo.repository.versions.merge("dev", "main")


class TestEdges:
    """Just inside and just outside of what both have."""

    def test_the_first_chunk_beyond_a_shortened_axis_is_a_conflict(self, repo: Branches) -> None:
        shorter = array_document(5, attributes={"units": "K", "old": 1})
        found = conflict(repo, {"a/zarr.json": shorter}, {"a/c/5": b"z"})
        assert (found.kind, found.chunk_count, found.chunks) == (ConflictKind.SHAPE, 1, ((5,),))

    def test_the_last_chunk_of_a_shortened_axis_is_none(self, repo: Branches) -> None:
        shorter = array_document(5, attributes={"units": "K", "old": 1})
        merged(repo, {"a/zarr.json": shorter}, {"a/c/4": b"z"})
        assert repo.chunks("main", "a") == {"0": b"a0", "1": b"a1", "4": b"z"}

    def test_two_new_arrays_of_different_lengths_are_a_conflict(self, repo: Branches) -> None:
        made = [{"n/zarr.json": array_document(length)} for length in (4, 5)]
        found = conflict(repo, made[0], made[1])  # type: ignore[arg-type]
        assert (found.kind, found.ours, found.theirs) == (ConflictKind.SHAPE, [4], [5])

    def test_each_side_is_told_what_it_has(self, repo: Branches) -> None:
        typed = [
            {
                "a/zarr.json": json.dumps(
                    json.loads(array_document(6)) | {"data_type": name}
                ).encode()
            }
            for name in ("int16", "int64")
        ]
        repo.commit("main", typed[0], "on main")  # type: ignore[arg-type]
        repo.commit("dev", typed[1], "on dev")  # type: ignore[arg-type]
        with pytest.raises(MergeConflictError) as caught:
            repo.repository.versions.merge("dev", "main")
        kinds = {each.kind: each for each in caught.value.report.conflicts}
        found = kinds[ConflictKind.STRUCTURE]
        assert isinstance(found.ours, dict)
        assert isinstance(found.theirs, dict)
        assert (found.ours["data_type"], found.theirs["data_type"]) == ("int16", "int64")
