"""An operations log that is made from the history of refs."""

from __future__ import annotations

from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.reconstructed_log import RefLineages, synthetic_log
from frazil.model.history import SnapshotEntry, UpdateType


def test_times_of_made_up_updates_ascend_strictly() -> None:
    root = SnapshotEntry(INITIAL_SNAPSHOT_ID, None, 5_000, "", {})
    tip = SnapshotEntry(SnapshotId(bytes(12)), root.id, 6_000, "", {})
    past = RefLineages(
        main=[tip, root],
        branches={"b": [root]},
        tags={"t": root.id, "u": root.id},
        deleted_tags={"d": SnapshotId(b"unknown12345")},
        times={root.id: 5_000, tip.id: 6_000},
    )
    log = synthetic_log(past)
    assert [entry.updated_at for entry in log] == [5_000, 6_000, 6_001, 6_002, 6_003, 6_004, 7_000]
    assert log[0].kind == UpdateType.RepoInitialized()
    assert log[1].kind == UpdateType.NewCommit("main", tip.id)
    assert log[-1].kind == UpdateType.TagDeleted("d", SnapshotId(b"unknown12345"))
