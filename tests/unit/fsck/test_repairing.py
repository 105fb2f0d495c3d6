"""Repair brings back what backups and history hold, and says what they do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
import zarr

from frazil.commit.base import OVERWRITTEN
from frazil.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    SnapshotNotFoundError,
)
from frazil.formats.repo_info import REPO_KEY
from frazil.formats.snapshot import encode_snapshot
from frazil.formats.txlog import encode_log
from frazil.fsck import Code, RepairPlan, fsck, repair
from frazil.fsck.plans import Action
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.model.chunks import NativeRef
from frazil.repository import Repository
from frazil.storage.assets import chunk_key, log_key, snapshot_key
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, group_document
from tests.unit.fsck import defects
from tests.unit.fsck.defects import (
    MAIN_FILE,
    chunk_of,
    manifest_recorded_too_short,
    manifest_that_covers_too_little,
)
from tests.unit.fsck.samples import CHUNK, Sick, commit, copy, make


@cache
def healthy(spec: int) -> MemoryStorage:
    """The repository that all tests copy."""
    storage = MemoryStorage()
    make(storage, spec)
    return storage


@pytest.fixture
def sick(spec: int) -> Sick:
    """A repository to damage."""
    return Sick(copy(healthy(spec)), spec)


@pytest.fixture(params=[1, 2])
def spec(request: pytest.FixtureRequest) -> int:
    """Both versions."""
    return int(request.param)


v2 = pytest.mark.parametrize("spec", [2])
v1 = pytest.mark.parametrize("spec", [1])


def objects(storage: Storage) -> dict[str, bytes | None]:
    """All objects with their bytes."""
    return {item.key: storage.get(item.key) for item in storage.list("")}


def state_of(storage: Storage) -> dict[str, object]:
    """What users see: refs, histories and everything in every branch but virtual chunks."""
    repository = Repository.open(storage)
    branches = sorted(repository.list_branches())
    return {
        "branches": {name: repository.lookup_branch(name) for name in branches},
        "tags": {name: repository.lookup_tag(name) for name in sorted(repository.list_tags())},
        "history": {
            name: [(info.id, info.message) for info in repository.ancestry(branch=name)]
            for name in branches
        },
        "contents": {name: native(repository, name) for name in branches},
    }


def native(repository: Repository, branch: str) -> dict[str, bytes]:
    """Everything in a branch whose bytes are in the repository."""
    session = repository.readonly_session(branch)
    keys = [key for key in session.store._keys.list_prefix("") if not key.startswith("v/c/")]
    return {key: session.store._keys.get(key) or b"" for key in keys}


def mended(sick: Sick, **options: object) -> RepairPlan:
    """Repair after a dry run that has changed nothing; the result is sound at all tips."""
    before = objects(sick.storage)
    plan = repair(sick.storage, **options)  # type: ignore[arg-type]
    assert objects(sick.storage) == before
    done = repair(sick.storage, apply=True, expected=plan, **options)  # type: ignore[arg-type]
    assert done.is_same(plan)
    report = fsck(sick.storage, refs=sorted(sick.repository.list_branches()), ancestors=False)
    assert report.is_sound, "\n".join(map(str, report.findings))
    assert repair(sick.storage, **options).is_empty  # type: ignore[arg-type]
    place = "b/c/0" if sick.spec == 1 else "g/b/c/0"
    commit(sick.repository, "goes on", {place: b"go"})
    return done


def actions(plan: RepairPlan) -> list[Action]:
    """What a plan does."""
    return [step.action for step in plan.steps]


def kept_aside(storage: Storage) -> list[str]:
    """Damaged files that were kept."""
    names = [item.key.removeprefix(OVERWRITTEN) for item in storage.list(OVERWRITTEN)]
    return [name for name in names if name.startswith("damaged.")]


# --- nothing to do ---


def test_nothing_is_repaired_in_a_healthy_repository(sick: Sick) -> None:
    before = objects(sick.storage)
    assert repair(sick.storage, apply=True).is_empty
    assert objects(sick.storage) == before


def test_an_unknown_choice_is_refused(sick: Sick) -> None:
    with pytest.raises(InvalidInputError, match="missing_chunks"):
        repair(sick.storage, missing_chunks="guess")  # type: ignore[arg-type]


# --- the repo object ---


@v2
@pytest.mark.parametrize("damage", [b"garbage" * 50, b"", None])
def test_a_damaged_repo_object_comes_back_with_everything(sick: Sick, damage: bytes | None) -> None:
    before = state_of(sick.storage)
    if damage is None:
        sick.delete(REPO_KEY)
    else:
        sick.storage.put(REPO_KEY, damage)
    plan = repair(sick.storage, apply=True)
    assert actions(plan) == [Action.RESTORE_REPO]
    assert state_of(sick.storage) == before
    assert fsck(sick.storage).is_clean
    assert len(kept_aside(sick.storage)) == (damage is not None)
    ops = [type(update.kind).__name__ for update in sick.repository.ops_log()]
    assert ops[0] == "NewCommit"
    assert ops[-1] == "RepoInitialized"
    mended(sick)


@v2
def test_a_change_that_was_no_commit_is_lost_and_said_to_be(sick: Sick) -> None:
    before = state_of(sick.storage)
    sick.repository.create_tag("late", str(sick.tip))
    sick.storage.put(REPO_KEY, b"garbage")
    plan = mended(sick)
    assert "a tag" in plan.losses[0]
    sick.repository.reset_branch("main", before["branches"]["main"])  # type: ignore[index]
    assert state_of(sick.storage) == before


@v2
def test_a_repo_object_without_backups_is_made_of_snapshots(sick: Sick) -> None:
    before = state_of(sick.storage)
    sick.storage.delete_many([item.key for item in sick.storage.list(OVERWRITTEN)])
    sick.storage.put(REPO_KEY, b"garbage")
    plan = repair(sick.storage, apply=True)
    assert any("tags" in loss for loss in plan.losses)
    after = state_of(sick.storage)
    assert after["history"]["main"] == before["history"]["main"]  # type: ignore[index]
    assert after["contents"]["main"] == before["contents"]["main"]  # type: ignore[index]
    (other,) = sick.repository.list_branches() - {"main"}
    assert other.startswith("recovered-")
    assert after["history"][other] == before["history"]["dev"]  # type: ignore[index]
    report = fsck(sick.storage)
    assert report.is_sound, "\n".join(map(str, report.findings))


@v2
def test_a_damaged_backup_is_passed_over(sick: Sick) -> None:
    before = state_of(sick.storage)
    newest = min(item.key for item in sick.storage.list(OVERWRITTEN))
    sick.storage.put(newest, b"garbage")
    sick.storage.put(REPO_KEY, b"garbage")
    repair(sick.storage, apply=True)
    assert state_of(sick.storage) == before


@v2
def test_commits_that_may_have_lost_a_race_get_branches_of_their_own(sick: Sick) -> None:
    won = commit(sick.repository, "won", a__c__0=CHUNK)
    # Somebody wrote the same at the same time, and was too late.
    lost = SnapshotId.random()
    made = replace(sick.snapshot(), id=lost, message="lost")
    sick.storage.put(snapshot_key(lost), encode_snapshot(made, spec=2))
    sick.storage.put(log_key(lost), encode_log(replace(sick.log(), id=lost), spec=2))
    tip = sick.history[1]
    sick.storage.put(REPO_KEY, b"garbage")
    plan = repair(sick.storage, apply=True)
    branches = {
        name: sick.repository.lookup_branch(name) for name in sick.repository.list_branches()
    }
    assert branches["main"] == str(tip)
    recovered = {name: at for name, at in branches.items() if name.startswith("recovered-")}
    assert won in recovered.values()
    assert len(recovered) == 2
    assert sum("may never have been committed" in loss for loss in plan.losses) == 2
    messages = {next(sick.repository.ancestry(branch=name)).message for name in recovered}
    assert messages == {"won", "lost"}


@v2
def test_nothing_can_be_made_of_nothing(sick: Sick) -> None:
    for item in list(sick.storage.list("")):
        sick.storage.delete_many([item.key])
    sick.storage.put(REPO_KEY, b"garbage")
    with pytest.raises(FormatError, match="no snapshot is left"):
        repair(sick.storage)


UNTIDY = (
    defects.branches_out_of_order,
    defects.flag_on_and_off,
    defects.status_offline,
    defects.branch_main_gone,
    defects.operations_log_empty,
    defects.newest_line_with_backup,
)


@v2
@pytest.mark.parametrize("plant", UNTIDY, ids=[plant.__name__ for plant in UNTIDY])
def test_an_untidy_repo_object_is_written_in_order(sick: Sick, plant: defects.Plant) -> None:
    plant(sick)
    code = next(each.code for each in defects.DEFECTS if each.plant is plant)
    assert code in fsck(sick.storage).codes()
    plan = mended(sick)
    assert actions(plan)[0] == Action.REWRITE_REPO
    assert code not in fsck(sick.storage).codes()
    assert "main" in sick.repository.list_branches()


# --- branch files ---


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


# --- configuration ---


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


# --- history ---


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


# --- chunks and manifests ---


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


# --- logs ---


def test_a_missing_log_is_made_of_the_difference(sick: Sick) -> None:
    third = sick.find("third")
    span = {"from_snapshot_id": str(sick.find("second")), "to_snapshot_id": str(third)}
    before = sick.repository.diff(**span)
    sick.delete(log_key(third))
    plan = mended(sick)
    assert actions(plan) == [Action.WRITE_LOG]
    assert sick.repository.diff(**span) == before


# --- plans ---


def test_a_plan_can_be_saved_and_must_still_hold(sick: Sick, tmp_path: Path) -> None:
    sick.delete(chunk_of(sick, 1))
    plan = repair(sick.storage)
    plan.save(tmp_path / "plan.json")
    known = RepairPlan.load(tmp_path / "plan.json")
    assert known.is_same(plan)
    assert "rewrite-arrays main" in str(plan)
    commit(sick.repository, "between", a__c__7=CHUNK[::-1])
    before = objects(sick.storage)
    with pytest.raises(ConflictError, match="plan again"):
        repair(sick.storage, apply=True, expected=known)
    assert objects(sick.storage) == before
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(FormatError, match="no repair plan"):
        RepairPlan.load(tmp_path / "no.json")


@v2
def test_somebody_may_know_where_a_branch_was(sick: Sick) -> None:
    tip = commit(sick.repository, "mine", a__c__0=CHUNK)
    sick.repository.create_branch("twin", tip)
    late = commit(sick.repository, "late", a__c__0=CHUNK[::-1], branch="twin")
    sick.storage.put(REPO_KEY, b"garbage")
    assert "recovered-" in str(repair(sick.storage))
    plan = repair(sick.storage, apply=True, tips={"twin": late})
    assert sick.repository.lookup_branch("twin") == late
    assert sick.repository.lookup_branch("main") == tip
    assert plan.steps[0].facts["attached"] == {late: "twin"}
    assert fsck(sick.storage).is_clean
    sick.storage.put(REPO_KEY, b"garbage")
    with pytest.raises(SnapshotNotFoundError):
        repair(sick.storage, tips={"twin": str(SnapshotId.random())})
