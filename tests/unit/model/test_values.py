"""The records users get back."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from frazil.ids import SnapshotId
from frazil.model.history import RepoAvailability
from frazil.model.values import (
    BasicConflictSolver,
    ChunkStorageStats,
    Conflict,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    Diff,
    GCSummary,
    RepoStatus,
    SessionMode,
    SpecVersion,
    VersionSelection,
)

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
ONE, TWO = SnapshotId(b"1" * 12), SnapshotId(b"2" * 12)


def test_a_new_status_is_of_now() -> None:
    before = datetime.now(UTC)
    status = RepoStatus(RepoAvailability.online)
    assert status.set_at is not None
    assert before <= status.set_at <= datetime.now(UTC)
    with pytest.raises(ValueError, match="time zone"):
        RepoStatus(RepoAvailability.online, datetime(2025, 1, 1))


def test_a_diff_lists_what_changed() -> None:
    diff = Diff(
        new_arrays={"/b", "/a"},
        updated_chunks={"/c": [[0, i] for i in range(12)]},
        moved_nodes=[("/x", "/y")],
    )
    text = str(diff)
    assert "Arrays created:\n    /a\n    /b\n" in text
    assert "Chunks updated:\n    /c:\n        [0, 0]\n" in text
    assert "... 2 more" in text
    assert "/x -> /y" in text
    assert "Groups" not in text
    assert repr(diff) == text
    assert "frazil.Diff" in diff._repr_html_()
    assert not diff.is_empty()
    assert Diff().is_empty()


def test_storage_statistics_add_up() -> None:
    stats = ChunkStorageStats(1, 10, 100) + ChunkStorageStats(1, 1, 1)
    assert stats == ChunkStorageStats(2, 11, 101)
    assert stats.non_virtual_bytes() == 103
    assert stats.total_bytes() == 114
    assert "<frazil.ChunkStorageStats>\nnative_bytes: 2" in repr(stats)


def test_a_collection_that_did_nothing_says_so() -> None:
    summary = GCSummary()
    assert summary.bytes_deleted == 0
    assert summary.delete_errors == []
    assert "bytes_deleted: 0" in repr(summary)


def test_conflicts_show_what_clashed() -> None:
    conflict = Conflict(ConflictType(6), "/a", [(0, 1)])
    assert conflict.conflicted_chunks == [[0, 1]]
    assert "conflict_type: ChunkDoubleUpdate\npath: /a\nconflicted_chunks: [[0, 1]]" in repr(
        conflict
    )
    assert str(ConflictType.ChunkDoubleUpdate) == "Chunk double update"
    assert pickle.loads(pickle.dumps(conflict)) == conflict


def test_solvers_are_values() -> None:
    assert isinstance(ConflictDetector(), ConflictSolver)
    solver = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)
    assert solver.on_chunk_conflict is VersionSelection.UseTheirs
    assert not solver.fail_on_delete_of_updated_array
    assert BasicConflictSolver().on_chunk_conflict is VersionSelection.UseOurs
    assert pickle.loads(pickle.dumps(solver)) == solver


def test_spec_versions_compare_with_numbers() -> None:
    assert SpecVersion.current() == 2
    assert SpecVersion.v1 < 2
    assert repr(SpecVersion.v2) == "SpecVersion.v2 (current)"
    assert repr(SessionMode.writable) == "SessionMode.writable"
