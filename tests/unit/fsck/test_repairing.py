"""Repair brings back what backups and history hold, and says what they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zarr

from frazil.errors import ConflictError, FormatError, InvalidInputError
from frazil.fsck import Code, RepairPlan, fsck, repair
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.repository import Repository
from frazil.storage.assets import snapshot_key
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import array_document, group_document
from tests.unit.fsck.defects import chunk_of
from tests.unit.fsck.repairs import objects
from tests.unit.fsck.samples import CHUNK, Sick, commit


def test_nothing_is_repaired_in_a_healthy_repository(sick: Sick) -> None:
    before = objects(sick.storage)
    assert repair(sick.storage, apply=True).is_empty
    assert objects(sick.storage) == before


def test_an_unknown_choice_is_refused(sick: Sick) -> None:
    with pytest.raises(InvalidInputError, match="missing_chunks"):
        repair(sick.storage, missing_chunks="guess")  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("place", [0, 1])
def test_a_snapshot_in_the_place_of_another_is_not_taken_for_it(spec: int, place: int) -> None:
    """Its manifests are not those of the other, which a collection must not miss."""
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    array = {"zarr.json": group_document(), "a/zarr.json": array_document(2000, chunks=(2000,))}
    pieces = [{**array, "a/c/0": bytes([n]) * 2000} for n in range(3)]
    made = [commit(repository, "x", piece) for piece in pieces]
    there = [INITIAL_SNAPSHOT_ID, SnapshotId.parse(made[0])][place]
    storage.put(snapshot_key(there), storage.get(snapshot_key(SnapshotId.parse(made[2]))) or b"")
    opened = Repository.open(storage)
    with pytest.raises(FormatError, match="not the one of its name"):
        zarr.open_group(opened.readonly_session(snapshot_id=str(there)).store, mode="r")
    with pytest.raises(FormatError, match="not the one of its name"):
        opened.garbage_collect(datetime.now(UTC), dry_run=True, unsafe_minimum_age=timedelta(0))
    assert Code.SNAPSHOT_ID in fsck(storage).codes()
    repair(storage)  # which ends


def test_a_plan_must_still_hold(sick: Sick, tmp_path: Path) -> None:
    sick.delete(chunk_of(sick, 1))
    plan = repair(sick.storage)
    plan.save(tmp_path / "plan.json")
    known = RepairPlan.load(tmp_path / "plan.json")
    assert known.is_same(plan)
    commit(sick.repository, "between", a__c__7=CHUNK[::-1])
    before = objects(sick.storage)
    with pytest.raises(ConflictError, match="plan again"):
        repair(sick.storage, apply=True, expected=known)
    assert objects(sick.storage) == before
