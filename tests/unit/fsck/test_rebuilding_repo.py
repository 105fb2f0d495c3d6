"""A damaged repo object comes back from backups and snapshot files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.commit.base import OVERWRITTEN
from frazil.errors import FormatError, SnapshotNotFoundError
from frazil.formats.repo_info import REPO_KEY
from frazil.formats.snapshot import encode_snapshot
from frazil.formats.txlog import encode_log
from frazil.fsck import fsck, repair
from frazil.fsck.plans import Action
from frazil.fsck.rebuilding_repo import FORK
from frazil.ids import SnapshotId
from frazil.storage.assets import log_key, snapshot_key
from tests.unit.fsck import defects
from tests.unit.fsck.repairs import actions, kept_aside, mended, state_of, v2
from tests.unit.fsck.samples import CHUNK, Sick, commit


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
def test_a_snapshot_of_a_forked_session_is_not_where_a_branch_goes_on(sick: Sick) -> None:
    won = commit(sick.repository, "won", a__c__0=CHUNK)
    fork = SnapshotId.random()
    made = replace(sick.snapshot(), id=fork, message=FORK)
    sick.storage.put(snapshot_key(fork), encode_snapshot(made, spec=2))
    sick.storage.put(log_key(fork), encode_log(replace(sick.log(), id=fork), spec=2))
    sick.storage.put(REPO_KEY, b"garbage")
    repair(sick.storage, apply=True)
    assert sick.repository.lookup_branch("main") == won
    assert sick.repository.lookup_branch(f"recovered-{str(fork)[:8]}") == str(fork)


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
