"""Branches, parents, configurations and logs come back as far as history tells them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from frazil.commit.base import OVERWRITTEN
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import FormatError
from frazil.formats.snapshot import encode_snapshot
from frazil.formats.txlog import encode_log
from frazil.fsck import Code, fsck, repair
from frazil.fsck.plans import Action
from frazil.fsck.rebuilding_history import (
    NO_CONFIG,
    TipChoice,
    choose_tip,
    difference_log,
    fix_config_file,
    rebuild_refs,
)
from frazil.fsck.repo_rules import RefFiles
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.file_history import FileHistory, KnownSnapshot
from frazil.model.history import SnapshotEntry
from frazil.repository import Repository
from frazil.storage.assets import log_key, snapshot_key
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import group_document
from tests.unit.fsck.defects import MAIN_FILE
from tests.unit.fsck.repairs import actions, kept_aside, mended, state_of, v1, v2
from tests.unit.fsck.samples import CHUNK, Sick, commit, files_of


@v1
@pytest.mark.parametrize("damage", [b"garbage", b"", None])
def test_a_damaged_branch_file_comes_back(sick: Sick, damage: bytes | None) -> None:
    before = state_of(sick.storage)
    if damage is None:
        sick.delete(MAIN_FILE)
    else:
        sick.storage.put(MAIN_FILE, damage)
    plan = repair(sick.storage, apply=True)
    assert actions(plan) == [Action.RESTORE_REF]
    assert plan.losses == ()
    assert state_of(sick.storage) == before
    assert fsck(sick.storage).is_clean
    assert len(kept_aside(sick.storage)) == (damage is not None)


@pytest.mark.parametrize("younger", [1, 2, 3])
def test_a_circle_of_parents_is_broken_where_a_parent_is_younger(younger: int) -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=1)
    ids = [commit(repository, "x", {"zarr.json": group_document(n=number)}) for number in range(4)]
    past = [entry.id for entry in repository.ancestry(branch="main")]
    key = snapshot_key(SnapshotId.parse(ids[1]))
    read = context_of(Repository.open(storage)).assets.snapshot(SnapshotId.parse(ids[1]))
    parent = SnapshotId.parse(ids[younger])
    storage.put(key, encode_snapshot(replace(read, parent_id=parent), spec=1))
    assert Code.HISTORY_CIRCLE in fsck(storage).codes()
    plan = repair(storage)
    assert actions(plan) == [Action.CHANGE_PARENT]
    assert plan.steps[0].target == key
    assert plan.losses == (f"the parent of {ids[1]} is assumed to be {ids[0]}",)
    assert repair(storage, apply=True, expected=plan).steps == plan.steps
    assert [entry.id for entry in Repository.open(storage).ancestry(branch="main")] == past
    assert fsck(storage).is_clean
    assert len(kept_aside(storage)) == 1


def test_a_first_snapshot_with_a_parent_is_the_first_again() -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=1)
    ids = [commit(repository, "x", {"zarr.json": group_document(n=number)}) for number in range(3)]
    past = [entry.id for entry in repository.ancestry(branch="main")]
    key = snapshot_key(INITIAL_SNAPSHOT_ID)
    read = context_of(Repository.open(storage)).assets.snapshot(INITIAL_SNAPSHOT_ID)
    late = replace(read, parent_id=SnapshotId.parse(ids[1]), flushed_at=read.flushed_at + 10**10)
    storage.put(key, encode_snapshot(late, spec=1))
    assert Code.HISTORY_CIRCLE in fsck(storage).codes()
    plan = repair(storage, apply=True)
    assert [(step.action, step.target) for step in plan.steps] == [(Action.CHANGE_PARENT, key)]
    assert plan.losses == ()
    assert [entry.id for entry in Repository.open(storage).ancestry(branch="main")] == past
    assert Code.HISTORY_CIRCLE not in fsck(storage).codes()


@pytest.mark.parametrize("has_backup", [False, True])
def test_a_damaged_configuration_gives_way_to_an_older_one_or_none(
    sick: Sick, has_backup: bool
) -> None:
    if has_backup:
        sick.repository.save_config()
    if sick.spec == 1:
        sick.storage.put("config.yaml", b"caching: [1, 2")
    else:
        sick.write_info(config={"caching": "much"})
        if not has_backup:
            for item in sick.storage.list(OVERWRITTEN):
                sick.storage.delete_many([item.key])
    assert Code.CONFIG_DAMAGED in fsck(sick.storage).codes()
    with pytest.raises(FormatError):
        Repository.open(sick.storage)
    plan = mended(sick)
    assert actions(plan) == [Action.RESTORE_CONFIG]
    assert "the configuration is lost" in plan.losses[0]
    found = sick.repository.config.inline_chunk_threshold_bytes
    assert found == (4 if has_backup else None)


def test_a_branch_whose_newest_snapshot_is_gone_goes_back_to_its_parent(sick: Sick) -> None:
    before, parent, tip = state_of(sick.storage), sick.history[1], sick.tip
    sick.delete(snapshot_key(tip))
    plan = repair(sick.storage, apply=True)
    assert actions(plan)[0] == Action.RESET_BRANCH
    after = state_of(sick.storage)
    assert after["branches"] == {**before["branches"], "main": str(parent)}  # type: ignore[dict-item]
    assert after["tags"] == before["tags"]
    assert after["history"]["main"] == before["history"]["main"][1:]  # type: ignore[index]
    assert after["history"]["dev"] == before["history"]["dev"]  # type: ignore[index]
    assert any(str(tip) in loss for loss in plan.losses)
    report = fsck(sick.storage)
    assert report.is_clean, "\n".join(map(str, report.findings))
    mended(sick)


def test_a_damaged_newest_snapshot_is_kept_aside(sick: Sick) -> None:
    sick.storage.put(snapshot_key(sick.tip), b"garbage")
    mended(sick)
    assert [name for name in kept_aside(sick.storage) if "snapshots" in name]


@v2
def test_a_snapshot_missing_in_between_is_cut_out(sick: Sick) -> None:
    before, gone = state_of(sick.storage), sick.find("third")
    sick.delete(snapshot_key(gone))
    plan = repair(sick.storage, apply=True)
    assert actions(plan) == [Action.CUT_SNAPSHOTS]
    after = state_of(sick.storage)
    assert after["contents"] == before["contents"]
    assert (str(gone), "third") not in after["history"]["main"]  # type: ignore[index]
    report = fsck(sick.storage)
    assert report.is_clean, "\n".join(map(str, report.findings))
    sick.repository.diff(from_snapshot_id=str(sick.find("second")), to_snapshot_id=str(sick.tip))


@v2
def test_a_tag_whose_snapshot_is_gone_is_told_and_left(sick: Sick) -> None:
    commit(sick.repository, "tagged", a__c__0=CHUNK[::-1])
    tip = sick.tip
    sick.repository.create_tag("sad", str(tip))
    sick.delete(snapshot_key(tip))
    plan = repair(sick.storage, apply=True)
    assert any("tag 'sad'" in loss for loss in plan.losses)
    assert sick.repository.lookup_tag("sad") == str(tip)
    assert sick.repository.lookup_branch("main") != str(tip)


def test_a_missing_log_is_made_of_the_difference(sick: Sick) -> None:
    third = sick.find("third")
    span = {"from_snapshot_id": str(sick.find("second")), "to_snapshot_id": str(third)}
    before = sick.repository.diff(**span)
    sick.delete(log_key(third))
    plan = mended(sick)
    assert actions(plan) == [Action.WRITE_LOG]
    assert sick.repository.diff(**span) == before


# --- single decisions ---


def entries(*rows: tuple[SnapshotId, SnapshotId | None, int]) -> dict[SnapshotId, SnapshotEntry]:
    """A history: snapshots, their parents and their times."""
    return {one: SnapshotEntry(one, parent, time, "", {}) for one, parent, time in rows}


A, B, C, D = (SnapshotId(bytes([number]) * 12) for number in range(1, 5))


def test_a_lost_branch_was_at_the_newest_end_that_no_other_ref_needs() -> None:
    known = entries((A, None, 1), (B, A, 2), (C, A, 3), (D, C, 4))
    assert choose_tip(known, []) == TipChoice(D, (B,))
    assert choose_tip(known, [D]) == TipChoice(B)
    assert choose_tip(known, [C]) == TipChoice(D, (B,))  # it goes on after C


def test_where_all_ends_are_needed_any_of_them_may_have_been_it() -> None:
    known = entries((A, None, 1), (B, A, 2), (C, A, 3))
    assert choose_tip(known, [B, C]) == TipChoice(C, (B,))
    assert choose_tip({}, [B]) is None


def test_refs_are_made_again_main_first_and_each_at_an_end_of_its_own() -> None:
    known = entries((A, None, 1), (B, A, 2), (C, A, 3))
    assets = files_of(MemoryStorage(), 1).assets
    read = {one: KnownSnapshot(entry, ()) for one, entry in known.items()}
    history = FileHistory(assets, read)
    refs = RefFiles(damaged={"dev": "refs/branch.dev/ref.json"})
    steps, losses = rebuild_refs(refs, history, {}, encoded=False)
    assert [(step.target, step.facts) for step in steps] == [
        (MAIN_FILE, {"branch": "main", "snapshot": str(C)}),
        ("refs/branch.dev/ref.json", {"branch": "dev", "snapshot": str(B)}),
    ]
    assert len(losses) == 1
    assert str(B) in losses[0]
    steps, losses = rebuild_refs(refs, history, {"main": B}, encoded=False)
    assert [step.facts["snapshot"] for step in steps] == [str(B), str(C)]
    assert losses == []
    assert rebuild_refs(refs, FileHistory(assets), {}, encoded=False)[0] == []


def test_a_configuration_is_taken_from_the_newest_backup_that_can_be_read() -> None:
    storage = MemoryStorage()
    assert fix_config_file(storage) is None
    storage.put(CONFIG_KEY, b"inline_chunk_threshold_bytes: 4\n")
    assert fix_config_file(storage) is None
    storage.put(CONFIG_KEY, b"caching: [1, 2")
    nothing = fix_config_file(storage)
    assert nothing is not None
    assert (nothing.blob, nothing.step.facts) == (NO_CONFIG, {"backup": None})
    for name, blob in (("3", b"{}"), ("2", b"inline_chunk_threshold_bytes: 5\n"), ("1", b"[1")):
        storage.put(f"{OVERWRITTEN}{CONFIG_KEY}.{name}", blob)
    older = fix_config_file(storage)
    assert older is not None
    assert older.blob == b"inline_chunk_threshold_bytes: 5\n"
    assert older.step.facts == {"backup": f"{OVERWRITTEN}{CONFIG_KEY}.2"}


def test_a_log_made_of_a_difference_is_the_one_that_was_written(sick: Sick) -> None:
    files = files_of(sick.storage, sick.spec)
    for one, parent in pairwise(sick.history):
        made = difference_log(sick.snapshot(parent), sick.snapshot(one), files)
        assert made is not None
        assert encode_log(made, spec=sick.spec) == encode_log(sick.log(one), spec=sick.spec)
    sick.delete(sick.manifest_key())
    files = files_of(sick.storage, sick.spec)
    third = sick.find("third")
    before = sick.history[sick.history.index(third) + 1]
    assert difference_log(sick.snapshot(before), sick.snapshot(third), files) is None
