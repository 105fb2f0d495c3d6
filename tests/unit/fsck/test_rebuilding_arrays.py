"""Arrays whose manifests or chunks are lost get back what history holds."""

from __future__ import annotations

from frazil.fsck import Code, fsck, repair
from frazil.fsck.plans import Action
from frazil.ids import SnapshotId
from frazil.model.chunks import NativeRef
from frazil.storage.assets import chunk_key, log_key
from tests.unit.fsck.defects import (
    chunk_of,
    manifest_recorded_too_short,
    manifest_that_covers_too_little,
)
from tests.unit.fsck.repairs import actions, mended, native, state_of
from tests.unit.fsck.samples import CHUNK, Sick


def test_references_to_lost_chunks_are_dropped(sick: Sick) -> None:
    before = state_of(sick.storage)["contents"]["main"]  # type: ignore[index]
    sick.delete(chunk_of(sick, 1))
    plan = mended(sick)
    assert actions(plan) == [Action.REWRITE_ARRAYS] * len(plan.steps)
    assert len(plan.snapshots) == len(plan.steps)
    repaired = sick.repository.readonly_session(snapshot_id=plan.snapshots[-1])
    assert repaired.store._keys.get("a/c/1") is None
    del before["a/c/1"]
    now = {key: repaired.store._keys.get(key) for key in before}
    assert now == before
    assert sick.snapshot(SnapshotId.parse(plan.snapshots[-1])).metadata["frazil_repair"]


def test_lost_chunks_may_be_those_of_an_older_snapshot(sick: Sick) -> None:
    sick.delete(chunk_of(sick, 1))
    plan = mended(sick, missing_chunks="older")
    (step,) = [step for step in plan.steps if step.target == "main"]
    (array,) = step.facts["arrays"]
    assert (array["path"], array["replaced_chunks"], array["dropped_chunks"]) == ("/a", 1, 0)
    now = native(sick.repository, "main")
    assert now["a/c/1"] == CHUNK


def test_a_lost_manifest_is_rebuilt_from_history(sick: Sick) -> None:
    before = native(sick.repository, "main")
    refs = sick.node("/a").manifests
    last = max(refs, key=lambda ref: ref.extents)
    sick.delete(f"manifests/{last.id}")
    assert Code.MANIFEST_MISSING in fsck(sick.storage).codes()
    plan = repair(sick.storage, apply=True)
    (array,) = plan.steps[0].facts["arrays"]
    assert (array["rebuilt_manifests"], array["lost_chunks"]) == (1, 1)
    assert array["chunks"] == [[5]]
    del before["a/c/5"]
    assert native(sick.repository, "main") == before
    assert fsck(sick.storage, ancestors=False).is_clean
    mended(sick)


def test_a_manifest_without_logs_is_lost_and_said_to_be(sick: Sick) -> None:
    before = native(sick.repository, "main")
    refs = sick.node("/a").manifests
    last = max(refs, key=lambda ref: ref.extents)
    sick.storage.put(f"manifests/{last.id}", b"garbage")
    sick.storage.put(log_key(sick.tip), b"garbage")
    plan = repair(sick.storage, apply=True)
    assert any("the logs since are lost" in loss for loss in plan.losses)
    for index in range(4, 8):
        del before[f"a/c/{index}"]
    assert native(sick.repository, "main") == before


def test_a_rebuilt_manifest_has_no_references_to_lost_chunks(sick: Sick) -> None:
    last = max(sick.node("/a").manifests, key=lambda ref: ref.extents)
    table = sick.repository.readonly_session("main").state.table(sick.node("/a"))
    lost = table.ref(table.find((7,)))
    assert isinstance(lost, NativeRef)
    sick.delete(chunk_key(lost.chunk_id))
    sick.delete(f"manifests/{last.id}")
    plan = mended(sick)
    (array,) = next(step for step in plan.steps if step.target == "main").facts["arrays"]
    assert (array["lost_chunks"], array["dropped_chunks"]) == (1, 1)
    assert array["chunks"] == [[5], [7]]


def test_what_is_wrongly_recorded_is_corrected(sick: Sick) -> None:
    before = native(sick.repository, "main")
    manifest_that_covers_too_little(sick)
    assert sick.repository.readonly_session("main").store._keys.get("a/c/3") is None
    manifest_recorded_too_short(sick)
    mended(sick)
    now = native(sick.repository, "main")
    del now["b/c/0" if sick.spec == 1 else "g/b/c/0"]
    assert now.items() <= before.items()
    assert "a/c/3" in now
