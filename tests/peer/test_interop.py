"""Repositories go back and forth between Frazil and the official packages unnoticed.

Most tests run in both directions and compare what the two parties say about one repository;
the rest have both do the same to two copies and compare the outcomes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.peer.conftest import Case, PartyOf
from tests.support.peer import PeerError, assert_same, official, without_ids

pytestmark = pytest.mark.peer

SAMPLES = ("groups", "dtypes", "empty", "chunks", "split")


def tip(description: dict[str, Any], branch: str = "main") -> dict[str, Any]:
    """What a description says about the newest snapshot of a branch."""
    return dict(description["snapshots"][description["branches"][branch]])


def test_peers_are_the_releases_we_mean(party_of: PartyOf) -> None:
    versions = [party_of(official(number)).call("hello")["version"] for number in (1, 2)]
    assert versions == ["1.1.21", "2.3.0"]


class TestContents:
    @pytest.mark.parametrize("sample", SAMPLES)
    def test_sample_is_seen_alike_and_made_alike(self, case: Case, sample: str) -> None:
        case.create(split=sample == "split")
        case.writer.call("write", case.repo, case.data, sample=sample)
        seen = case.seen_alike()
        mirror = case.folder / "mirror"
        split = sample == "split"
        case.reader.call("create", mirror, case.data, spec=case.spec, split=split)
        case.reader.call("write", mirror, case.data, sample=sample)
        made = case.reader.call("describe", mirror, case.data)
        assert_same(without_ids(seen), without_ids(made))
        assert tip(seen)["message"] == sample

    def test_chunks_of_every_kind_are_told_apart(self, case: Case) -> None:
        case.create()
        case.writer.call("write", case.repo, case.data, sample="chunks")
        nodes = tip(case.seen_alike())["nodes"]
        assert set(nodes["/mixed"]["chunks"].values()) == {"native", "virtual"}
        assert set(nodes["/some"]["chunks"].values()) == {"native", "inline"}
        assert set(nodes["/virtual"]["chunks"].values()) == {"virtual"}
        assert len(nodes["/virtual"]["chunks"]) == 9
        assert set(nodes["/bytes_512"]["chunks"].values()) == {"inline"}
        assert set(nodes["/bytes_513"]["chunks"].values()) == {"native"}

    @pytest.mark.slow
    def test_location_dictionary_is_read_by_the_other(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        case.writer.call("write", case.repo, case.data, sample="many_virtual")
        seen = tip(case.seen_alike())
        assert len(seen["nodes"]["/many"]["chunks"]) == 1500
        assert len(seen["virtual_locations"]) == 1500

    def test_uneven_chunks_are_read_by_the_other(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        case.writer.call("write", case.repo, case.data, sample="rectilinear")
        chunks = tip(case.seen_alike())["nodes"]["/uneven"]["chunks"]
        assert sorted(chunks) == ["0,0", "1,0", "2,0", "3,0"]

    def test_only_the_touched_manifest_is_rewritten(self, case: Case) -> None:
        case.create(split=True)
        case.writer.call("write", case.repo, case.data, sample="split")
        before = tip(case.seen_alike())
        case.reader.call("put", case.repo, array="line", index=8, value=7, message="one chunk")
        after = tip(case.seen_alike())
        kept = before["manifests"].keys() & after["manifests"].keys()
        assert len(after["nodes"]["/line"]["manifests"]) > 1
        assert len(kept) == len(after["manifests"]) - 1

    def test_resize_and_delete_in_turn(self, case: Case) -> None:
        case.create()
        case.writer.call("write", case.repo, case.data, sample="groups")
        case.reader.call("new_array", case.repo, array="line", length=12)
        for index in (0, 3, 4, 5, 8, 11):
            case.writer.call(
                "put", case.repo, array="line", index=index, value=index + 1, message=f"{index}"
            )
        case.reader.call("resize", case.repo, array="line", length=5)
        case.writer.call("resize", case.repo, array="line", length=9)
        case.reader.call("delete_node", case.repo, node="model/surface")
        case.seen_alike()
        values = case.writer.call("values", case.repo, array="line")
        assert values == [1, 0, 0, 4, 5, 0, 0, 0, 0]


class TestSettings:
    def test_stored_settings_are_read_by_the_other(self, case: Case) -> None:
        case.create()
        for party in (case.writer, case.reader):
            party.call("configure", case.repo)
            for witness in (case.writer, case.reader):
                found = witness.call("configured", case.repo)
                containers = found.pop("containers")
                assert containers == [
                    "file:///data/",
                    "gcs://bucket/",
                    "http://example.org/data/",
                    "s3://bucket/prefix/",
                ]
                assert all(found.values()), found
        case.reader.call("new_array", case.repo, array="line", length=2)
        case.seen_alike()


class TestHistory:
    def test_both_commit_in_turn(self, case: Case) -> None:
        case.create()
        case.writer.call("new_array", case.repo, array="line", length=8)
        for turn in range(8):
            party = (case.reader, case.writer)[turn % 2]
            party.call(
                "put", case.repo, array="line", index=turn, value=turn + 10, message=f"turn {turn}"
            )
        history = case.seen_alike()["history"]["branch main"]
        expected = [f"turn {turn}" for turn in reversed(range(8))]
        assert [info["message"] for info in history[:8]] == expected
        assert case.reader.call("values", case.repo, array="line") == list(range(10, 18))

    def test_branches_and_tags(self, case: Case) -> None:
        case.create()
        first = case.writer.call("new_array", case.repo, array="line", length=2)
        case.writer.call("branch", case.repo, name="dev", snapshot=first)
        case.writer.call("tag", case.repo, name="v1", snapshot=first)
        case.reader.call("branch", case.repo, name="other", snapshot=first)
        case.reader.call("tag", case.repo, name="v2", snapshot=first)
        case.reader.call(
            "put", case.repo, array="line", index=0, value=5, message="on dev", branch="dev"
        )
        case.writer.call(
            "reset",
            case.repo,
            name="other",
            snapshot=case.reader.call("history", case.repo, branch="dev")[0][0],
        )
        case.reader.call("branch", case.repo, name="gone", snapshot=first)
        case.writer.call("delete_branch", case.repo, name="gone")
        seen = case.seen_alike()
        assert set(seen["branches"]) == {"main", "dev", "other"}
        assert seen["tags"] == {"v1": first, "v2": first}
        assert seen["branches"]["other"] == seen["branches"]["dev"] != first

    def test_deleted_tag_is_gone_for_both_and_never_reused(self, case: Case) -> None:
        case.create()
        first = case.writer.call("new_array", case.repo, array="line", length=2)
        for name in ("keep", "drop"):
            case.writer.call("tag", case.repo, name=name, snapshot=first)
        case.writer.call("delete_tag", case.repo, name="drop")
        assert set(case.seen_alike()["tags"]) == {"keep"}
        for party in (case.reader, case.writer):
            with pytest.raises(PeerError):
                party.call("tag", case.repo, name="drop", snapshot=first)
        assert set(case.seen_alike()["tags"]) == {"keep"}

    def test_time_travel_finds_the_same_snapshot(self, case: Case) -> None:
        case.create()
        case.writer.call("new_array", case.repo, array="line", length=2)
        for value in (1, 2, 3):
            case.writer.call("put", case.repo, array="line", index=0, value=value, message="next")
        moments = [entry[2] for entry in case.reader.call("history", case.repo)][:4]
        for party in (case.writer, case.reader):
            found = [
                party.call("value_as_of", case.repo, array="line", when=moment)[0]
                for moment in moments
            ]
            assert found == [3, 2, 1, 0]


class TestConflicts:
    def start(self, case: Case) -> None:
        """Open one session each on the same snapshot; the writer's commit comes first."""
        case.create()
        case.writer.call("new_array", case.repo, array="line", length=4)
        for number, party in enumerate((case.writer, case.reader)):
            party.call("begin", case.repo, number=number)

    def test_second_writer_is_told(self, case: Case) -> None:
        self.start(case)
        case.writer.call("change", number=0, array="line", index=0, value=1)
        case.reader.call("change", number=1, array="line", index=1, value=2)
        case.writer.call("finish", number=0, message="first")
        with pytest.raises(PeerError) as caught:
            case.reader.call("finish", number=1, message="second")
        assert caught.value.name == "ConflictError"
        assert len(case.seen_alike()["history"]["branch main"]) == 3

    @pytest.mark.parametrize("solver", ["detect", "ours", "theirs"])
    def test_other_chunks_go_together(self, case: Case, solver: str) -> None:
        self.start(case)
        case.writer.call("change", number=0, array="line", index=0, value=1)
        case.reader.call("change", number=1, array="line", index=1, value=2)
        case.writer.call("finish", number=0, message="first")
        case.reader.call("finish", number=1, message="second", solver=solver)
        case.seen_alike()
        assert case.writer.call("values", case.repo, array="line") == [1, 2, 0, 0]

    @pytest.mark.parametrize(("solver", "winner"), [("ours", 2), ("theirs", 1)])
    def test_same_chunk_goes_to_the_side_chosen(self, case: Case, solver: str, winner: int) -> None:
        self.start(case)
        case.writer.call("change", number=0, array="line", index=0, value=1)
        case.reader.call("change", number=1, array="line", index=0, value=2)
        case.reader.call("change", number=1, array="line", index=3, value=9)
        case.writer.call("finish", number=0, message="first")
        case.reader.call("finish", number=1, message="second", solver=solver)
        case.seen_alike()
        assert case.writer.call("values", case.repo, array="line") == [winner, 0, 0, 9]

    @pytest.mark.parametrize("solver", ["detect", "fail"])
    def test_same_chunk_is_refused_when_nobody_may_win(self, case: Case, solver: str) -> None:
        self.start(case)
        case.writer.call("change", number=0, array="line", index=0, value=1)
        case.reader.call("change", number=1, array="line", index=0, value=2)
        case.writer.call("finish", number=0, message="first")
        with pytest.raises(PeerError) as caught:
            case.reader.call("finish", number=1, message="second", solver=solver)
        assert caught.value.name == "RebaseFailedError"
        assert case.writer.call("values", case.repo, array="line") == [1, 0, 0, 0]


class TestSpecTwo:
    def test_moved_nodes(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        case.writer.call("write", case.repo, case.data, sample="groups")
        before = tip(case.seen_alike())["nodes"]
        moves = [["/model/surface", "/Z/surface"], ["/c", "/a/c"], ["/a/c", "/a/d"]]
        case.writer.call("move", case.repo, moves=moves, message="there")
        there = case.seen_alike()
        assert tip(there)["nodes"]["/a/d"] == before["/c"]
        assert tip(there)["nodes"]["/Z/surface/t2m"] == before["/model/surface/t2m"]
        case.reader.call(
            "move", case.repo, moves=[["/Z/surface", "/model/surface"]], message="back"
        )
        case.writer.call("put", case.repo, array="a/d", index=0, value=8, message="edit")
        back = case.seen_alike()
        assert tip(back)["nodes"]["/model/surface/t2m"] == before["/model/surface/t2m"]

    def test_commit_cannot_be_rebased_over_a_move(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        case.writer.call("write", case.repo, case.data, sample="groups")
        case.reader.call("begin", case.repo, number=7)
        case.reader.call("change", number=7, array="c", index=0, value=9)
        case.writer.call("move", case.repo, moves=[["/c", "/d"]], message="moved")
        with pytest.raises(PeerError) as caught:
            case.reader.call("finish", number=7, message="late", solver="ours")
        assert caught.value.name == "RebaseFailedError"

    def test_amended_commits(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        case.writer.call("new_array", case.repo, array="line", length=4)
        case.writer.call("put", case.repo, array="line", index=0, value=1, message="draft")
        case.writer.call("amend", case.repo, array="line", index=1, value=2, message="better")
        case.reader.call("amend", case.repo, array="line", index=2, value=3, message="best")
        seen = case.seen_alike()
        messages = [info["message"] for info in seen["history"]["branch main"]]
        assert messages[:2] == ["best", "new line"]
        assert [op["kind"] for op in seen["repo"]["operations"][:2]] == ["CommitAmended"] * 2
        assert case.writer.call("values", case.repo, array="line") == [1, 2, 3, 0]

    def test_snapshots_without_a_branch(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        case.writer.call("new_array", case.repo, array="line", length=4)
        loose = case.writer.call(
            "flush", case.repo, array="line", index=0, value=1, message="loose"
        )
        case.reader.call("tag", case.repo, name="loose", snapshot=loose)
        case.reader.call("flush", case.repo, array="line", index=1, value=1, message="looser")
        seen = case.seen_alike()
        assert seen["tags"] == {"loose": loose}
        assert len(seen["repo"]["all_snapshots"]) == 4

    def test_log_of_operations_goes_on_in_backups(self, v2_case: Case) -> None:
        case = v2_case
        case.create(log_length=3)
        first = case.writer.call("new_array", case.repo, array="line", length=4)
        for number in range(8):
            party = (case.reader, case.writer)[number % 2]
            party.call("tag", case.repo, name=f"t{number}", snapshot=first)
        operations = case.seen_alike()["repo"]["operations"]
        assert [op["fields"].get("name") for op in operations[:8]] == [
            f"t{number}" for number in reversed(range(8))
        ]
        assert operations[-1]["kind"] == "RepoInitialized"

    def test_metadata_and_flags_of_the_repository(self, v2_case: Case) -> None:
        case = v2_case
        case.create()
        metadata = {"owner": "ice", "nested": {"list": [1, 2.5, None, True, "é"]}, "big": 2**60}
        case.writer.call("metadata", case.repo, metadata=metadata)
        case.reader.call("flag", case.repo, name="create_tag", value=False)
        case.writer.call("flag", case.repo, name="delete_tag", value=True)
        seen = case.seen_alike()
        assert seen["repo"]["metadata"] == metadata
        assert seen["repo"]["flags"]["create_tag"] == [False, False]
        with pytest.raises(PeerError):
            case.writer.call("tag", case.repo, name="t", snapshot=seen["branches"]["main"])

    @pytest.mark.parametrize(
        ("command", "arguments"),
        [
            ("branch", {"name": "dev", "snapshot": "1CECHNKREP0F1RSTCMT0"}),
            ("branch", {"name": "new", "snapshot": "00000000000000000000"}),
            ("branch", {"name": "new", "snapshot": "nonsense"}),
            ("tag", {"name": "taken", "snapshot": "1CECHNKREP0F1RSTCMT0"}),
            ("tag", {"name": "deleted", "snapshot": "1CECHNKREP0F1RSTCMT0"}),
            ("delete_tag", {"name": "absent"}),
            ("delete_branch", {"name": "main"}),
            ("delete_branch", {"name": "absent"}),
            ("put", {"array": "line", "index": 0, "value": 1, "message": "m", "branch": "absent"}),
            ("value_as_of", {"array": "line", "when": "1999-01-01T00:00:00+00:00"}),
            ("move", {"moves": [["/absent", "/x"]], "message": "m"}),
            ("move", {"moves": [["/line", "/line/x"]], "message": "m"}),
            ("move", {"moves": [["/line", "/no/x"]], "message": "m"}),
            ("flag", {"name": "absent", "value": True}),
            ("diff", {"start": "1CECHNKREP0F1RSTCMT0", "end": "1CECHNKREP0F1RSTCMT0"}),
        ],
    )
    def test_failures_have_the_same_class_and_kind(
        self, v2_case: Case, command: str, arguments: dict[str, object]
    ) -> None:
        case = v2_case
        case.create()
        first = case.writer.call("new_array", case.repo, array="line", length=2)
        case.writer.call("branch", case.repo, name="dev", snapshot=first)
        for name in ("taken", "deleted"):
            case.writer.call("tag", case.repo, name=name, snapshot=first)
        case.writer.call("delete_tag", case.repo, name="deleted")
        failures = []
        for party in (case.writer, case.reader):
            with pytest.raises(PeerError) as caught:
                party.call(command, case.repo, **arguments)
            failures.append((caught.value.name, caught.value.kind))
        assert failures[0] == failures[1]
