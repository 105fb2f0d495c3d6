"""What merges tell: conflicts in one line and as plain data, and how much a commit changes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from frazil.ids import NodeId, SnapshotId
from frazil.merging.records import (
    SHOWN_CHUNKS,
    ChangeCounts,
    ConflictKind,
    MergeConflict,
    MergeReport,
    MergeStatus,
    chunk_sample,
    conflicts_summary,
)
from frazil.model.history import Move, TransactionLog

TITLE = MergeConflict(ConflictKind.ATTRIBUTE, "/a", 1, 2, name="title")
CHUNKS = MergeConflict(
    ConflictKind.CHUNKS, "/a", "x", "y", chunk_count=5, chunks=((0, 1), (2, 3), (4, 5), (6, 7))
)


def test_a_conflict_is_one_line() -> None:
    assert str(TITLE) == "attribute /a 'title'"
    assert str(TITLE.resolved("theirs")) == "attribute /a 'title' (taken: theirs)"
    assert str(CHUNKS) == "chunks /a 5 chunks: [0, 1], [2, 3], [4, 5] …"
    assert str(replace(CHUNKS, chunk_count=1, chunks=((0,),))) == "chunks /a 1 chunks: [0]"
    assert "\x1b" not in str(replace(TITLE, path="/\x1b[2J"))


def test_many_conflicts_are_still_one_line() -> None:
    assert conflicts_summary([TITLE] * 3).count("attribute") == 3
    assert conflicts_summary([TITLE] * 5).endswith("; and 2 more")
    assert conflicts_summary([]) == ""


def test_conflicts_are_plain_data_whatever_the_values_are() -> None:
    odd = replace(TITLE, ours=float("nan"), theirs={"a": [float("inf"), 1.5], "b": None})
    data = json.loads(json.dumps(odd.as_json(), allow_nan=False))
    assert (data["ours"], data["theirs"]) == ("NaN", {"a": ["Infinity", 1.5], "b": None})
    assert (data["kind"], data["name"], data["resolution"]) == ("attribute", "title", None)
    assert CHUNKS.as_json()["chunks"] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_some_of_many_chunks_are_listed() -> None:
    coords = np.arange(40, dtype=np.uint32).reshape(20, 2)
    sample = chunk_sample(coords)
    assert len(sample) == SHOWN_CHUNKS
    assert sample[:2] == ((0, 1), (2, 3))
    assert chunk_sample(coords[:0]) == ()


def test_changes_are_counted_by_kind_and_by_the_path_of_their_array() -> None:
    a, b = NodeId(b"a" * 8), NodeId(b"b" * 8)
    log = TransactionLog(
        SnapshotId.random(),
        new_groups=(a,),
        new_arrays=(b,),
        deleted_arrays=(a,),
        updated_groups=(a,),
        updated_chunks={a: np.zeros((3, 1), np.uint32), b: np.zeros((2, 1), np.uint32)},
        moved_nodes=(Move("/x", "/y", a, False),),
    )
    counts = ChangeCounts.of(log, {a: "/z", b: "/b"})
    assert (counts.new_nodes, counts.deleted_nodes, counts.updated_nodes) == (2, 1, 1)
    assert (counts.moved_nodes, counts.nodes, counts.chunk_count) == (1, 5, 5)
    assert [*counts.chunks.items()] == [("/b", 2), ("/z", 3)]
    assert not counts.is_empty
    assert not ChangeCounts(chunks={"/a": 1}).is_empty
    assert ChangeCounts().is_empty


REPORT = MergeReport("merge", MergeStatus.COMMITTED, "main", "S", "A", "B")


def test_a_report_tells_whether_the_branch_was_moved() -> None:
    assert REPORT.changed
    assert not replace(REPORT, dry_run=True).changed
    assert not replace(REPORT, snapshot_id="A").changed
    assert not replace(REPORT, snapshot_id=None).changed


def test_conflicts_that_a_policy_settled_are_told_and_not_left() -> None:
    report = replace(REPORT, conflicts=(TITLE, CHUNKS.resolved("ours")), bases=("X",))
    assert report.unresolved == (TITLE,)
    data = json.loads(json.dumps(report.as_json()))
    assert (data["status"], data["bases"]) == ("committed", ["X"])
    assert [each["resolution"] for each in data["conflicts"]] == [None, "ours"]
