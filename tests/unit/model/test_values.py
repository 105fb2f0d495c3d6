"""The records users get back, and the drawing of the history."""

from __future__ import annotations

import copy
import gc
import pickle
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.repo_info import snapshot_table
from frazil.ids import ManifestId, SnapshotId
from frazil.model import history
from frazil.model.graph import AncestryGraph
from frazil.model.history import RepoAvailability, UpdateType, to_micros
from frazil.model.outward import (
    inner_status,
    manifest_file_info,
    repo_status,
    snapshot_info,
    snapshot_infos,
    update_of,
)
from frazil.model.values import (
    BasicConflictSolver,
    ChunkStorageStats,
    Conflict,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    Diff,
    GCSummary,
    ManifestFileInfo,
    RepoStatus,
    SessionMode,
    SnapshotInfo,
    SpecVersion,
    Update,
    VersionSelection,
)

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
ONE, TWO = SnapshotId(b"1" * 12), SnapshotId(b"2" * 12)


def test_a_snapshot_entry_becomes_text_and_times() -> None:
    entry = history.SnapshotEntry(TWO, ONE, to_micros(NOON), "say", {"a": 1})
    info = snapshot_info(entry)
    assert info == SnapshotInfo(str(TWO), str(ONE), NOON, "say", {"a": 1})
    assert repr(info).startswith(f"<frazil.SnapshotInfo>\nid: {TWO}\n")
    assert "message: say\n" in repr(info)
    assert pickle.loads(pickle.dumps(info)) == info
    first = snapshot_info(history.SnapshotEntry(ONE, None, 0, "", {}))
    assert first.parent_id is None


def test_commits_of_a_history_are_read_when_they_are_looked_at() -> None:
    ids = [SnapshotId(bytes([n, 0]) * 6) for n in range(100)]
    parents = [None, *ids[:-1]]
    entries = [
        history.SnapshotEntry(one, parent, n, f"commit {n}", {"n": n})
        for n, (one, parent) in enumerate(zip(ids, parents, strict=True))
    ]
    table = snapshot_table(entries)
    expected = [snapshot_info(entry) for entry in reversed(entries)]
    assert list(snapshot_infos(table.pages(ids[-1]))) == expected
    for untouched, known in zip(snapshot_infos(table.pages(ids[-1])), expected, strict=True):
        assert pickle.loads(pickle.dumps(untouched)) == known
    first = next(snapshot_infos(table.pages(ids[1])))
    assert not hasattr(first, "no_such_field")
    assert repr(first) == repr(expected[-2])
    assert copy.copy(next(snapshot_infos(table.pages(ids[0])))) == expected[-1]


def test_commits_that_nobody_keeps_are_few_at_a_time() -> None:
    ids = [SnapshotId(n.to_bytes(12, "big")) for n in range(3000)]
    entries = [
        history.SnapshotEntry(one, parent, n, f"commit {n}", {})
        for n, (one, parent) in enumerate(zip(ids, [None, *ids[:-1]], strict=True))
    ]
    table, most = snapshot_table(entries), 0
    for number, _ in enumerate(snapshot_infos(table.pages(ids[-1]))):
        if number % 100 == 0:
            alive = sum(type(each) is SnapshotInfo for each in gc.get_objects())
            most = max(most, alive)
    assert 0 < most < 800
    # Each knows which one it is, whichever is looked at first.
    kept = list(snapshot_infos(table.pages(ids[-1])))
    assert [info.message for info in kept[::-7]] == [e.message for e in entries[::7]]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (UpdateType.RepoInitialized(), UpdateType.RepoInitialized()),
        (
            UpdateType.RepoMigrated(1, 2),
            UpdateType.RepoMigrated(SpecVersion.v1, SpecVersion.v2),
        ),
        (UpdateType.ConfigChanged(), UpdateType.ConfigChanged()),
        (UpdateType.MetadataChanged(), UpdateType.MetadataChanged()),
        (UpdateType.TagCreated("t"), UpdateType.TagCreated("t")),
        (UpdateType.TagDeleted("t", ONE), UpdateType.TagDeleted("t", str(ONE))),
        (UpdateType.BranchCreated("b"), UpdateType.BranchCreated("b")),
        (UpdateType.BranchDeleted("b", ONE), UpdateType.BranchDeleted("b", str(ONE))),
        (UpdateType.BranchReset("b", ONE), UpdateType.BranchReset("b", str(ONE))),
        (UpdateType.NewCommit("b", TWO), UpdateType.NewCommit("b", str(TWO))),
        (
            UpdateType.CommitAmended("b", ONE, TWO),
            UpdateType.CommitAmended("b", str(ONE), str(TWO)),
        ),
        (UpdateType.NewDetachedSnapshot(TWO), UpdateType.NewDetachedSnapshot(str(TWO))),
        (UpdateType.GCRan(), UpdateType.GCRan()),
        (UpdateType.ExpirationRan(), UpdateType.ExpirationRan()),
        (UpdateType.FeatureFlagChanged(3, None), UpdateType.FeatureFlagChanged(3, None)),
        (
            UpdateType.RepoStatusChanged(
                history.StoredStatus(RepoAvailability.read_only, to_micros(NOON), "audit")
            ),
            UpdateType.RepoStatusChanged(RepoStatus(RepoAvailability.read_only, NOON, "audit")),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_update_is_shown(kind: history.UpdateKind, shown: object) -> None:
    line = update_of(history.UpdateEntry(kind, to_micros(NOON), "backup"))
    assert line == Update(shown, NOON, "backup")  # type: ignore[arg-type]
    assert isinstance(line.kind, UpdateType)
    assert type(line.kind).__name__ in repr(line)
    assert pickle.loads(pickle.dumps(line)) == line


def test_updates_show_their_facts() -> None:
    kind = UpdateType.NewCommit(branch="main", new_snap_id="X")
    assert repr(kind) == 'frazil.UpdateType.NewCommit(branch="main", new_snap_id="X")'
    with pytest.raises(TypeError):
        UpdateType()


def test_a_status_goes_out_and_in() -> None:
    status = history.StoredStatus(RepoAvailability.read_only, to_micros(NOON), "audit")
    assert inner_status(repo_status(status)) == status
    assert "availability: ReadOnly" in repr(repo_status(status))
    offline = history.StoredStatus(RepoAvailability.offline, 0)
    assert repo_status(offline).availability is RepoAvailability.online


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


def test_a_manifest_entry_becomes_text() -> None:
    entry = history.ManifestFile(ManifestId(b"m" * 12), 100, 3)
    assert manifest_file_info(entry) == ManifestFileInfo(str(entry.id), 100, 3)


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


# --- the drawing ---


def commit(name: str, parent: str | None, day: int, message: str = "") -> SnapshotInfo:
    return SnapshotInfo(
        name * 8, parent and parent * 8, NOON + timedelta(days=day), message or f"commit {name}"
    )


def test_a_tree_is_drawn_with_main_on_the_left() -> None:
    graph = AncestryGraph(
        [
            commit("A", None, 0),
            commit("B", "A", 1),
            commit("C", "B", 2),
            commit("D", "B", 3),
        ],
        {"dev": "D" * 8, "main": "C" * 8},
        {"v1": "B" * 8},
        plain=True,
    )
    assert str(graph) == "\n".join(
        [
            "  ● DDDDDDDD (dev) commit D",
            "  │",
            "● │ CCCCCCCC (main) commit C",
            "│ │",
            "●─╯ BBBBBBBB (v1) commit B",
            "│",
            "●   AAAAAAAA commit A",
        ]
    )


def test_colours_can_be_left_out() -> None:
    commits = [commit("A", None, 0)]
    assert "\x1b[" in str(AncestryGraph(commits, {"main": "A" * 8}))
    assert "\x1b[" not in str(AncestryGraph(commits, {"main": "A" * 8}, plain=True))


def test_messages_cannot_break_out_of_the_drawing() -> None:
    nasty = commit("A", None, 0, "<script>\x1b[31m\nsecond line")
    graph = AncestryGraph([nasty], {"<i>": "A" * 8}, plain=True)
    assert "\x1b" not in str(graph)
    assert "second line" not in str(graph)
    assert "<script>" not in graph._repr_svg_()
    assert "<i>" not in graph._repr_svg_()


@given(st.lists(st.integers(0, 30), max_size=25), st.booleans())
def test_every_commit_is_drawn_once_below_its_children(parents: list[int], plain: bool) -> None:
    commits = [
        SnapshotInfo(f"S{i:07}", f"S{p % i:07}" if i else None, NOON + timedelta(days=p), f"m{i}.")
        for i, p in enumerate(parents)
    ]
    tips = {f"b{info.id}": info.id for info in commits[::3]}
    graph = AncestryGraph(commits, tips, plain=plain)
    order = re.findall(r"S\d{7} ?", re.sub(r"\x1b\[[\d;]*m", "", str(graph)).replace("bS", "b_"))
    place = {name.strip(): i for i, name in enumerate(order)}
    assert len(order) == len(place) == len(commits)
    assert all(place[c.id] < place[c.parent_id] for c in commits if c.parent_id)
    svg = graph._repr_svg_()
    assert svg.count("<circle") == len(commits)
    assert svg.count("<path") == max(len(commits) - 1, 0)
