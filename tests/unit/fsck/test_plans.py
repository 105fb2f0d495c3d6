"""Plans of repairs: printed, saved, read again and compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.errors import FormatError
from frazil.formats.generation import V2
from frazil.fsck.plans import Action, RepairPlan, RepairState, RepairStep
from frazil.ids import SnapshotId
from frazil.model.history import SnapshotEntry
from frazil.storage.assets import snapshot_key
from tests.unit.fsck.repairs import v2
from tests.unit.fsck.samples import Sick, files_of

STEP = RepairStep(Action.RESET_BRANCH, "main", "from B back to A", {"to": "A"})
PLAN = RepairPlan((STEP, replace(STEP, target="dev")), ("the commit B is lost",))


def test_a_plan_is_read_as_it_was_saved(tmp_path: Path) -> None:
    PLAN.save(tmp_path / "plan.json")
    assert RepairPlan.load(tmp_path / "plan.json") == PLAN
    RepairPlan().save(str(tmp_path / "nothing.json"))
    assert RepairPlan.load(str(tmp_path / "nothing.json")).is_empty


def test_a_plan_that_is_read_has_not_been_applied(tmp_path: Path) -> None:
    replace(PLAN, applied=True, snapshots=("C",)).save(tmp_path / "plan.json")
    read = RepairPlan.load(tmp_path / "plan.json")
    assert (read.applied, read.snapshots) == (False, ())
    assert read.is_same(PLAN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({**PLAN.as_dict(), "format": "frazil-repair-9"}),
        json.dumps({**PLAN.as_dict(), "steps": [{**STEP.as_dict(), "action": "guess"}]}),
        json.dumps({**PLAN.as_dict(), "steps": [{"action": "reset-branch"}]}),
    ],
)
def test_anything_else_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(FormatError, match=r"some\.json is no repair plan"):
        RepairPlan.load(tmp_path / "some.json")


def test_plans_that_do_the_same_are_the_same_whatever_they_say_of_losses() -> None:
    assert PLAN.is_same(replace(PLAN, losses=()))
    assert not PLAN.is_same(RepairPlan(PLAN.steps[::-1]))
    assert not PLAN.is_same(RepairPlan((replace(STEP, facts={"to": "B"}), PLAN.steps[1])))
    assert not PLAN.is_same(RepairPlan())


def test_a_plan_is_printed_step_by_step() -> None:
    assert str(PLAN).splitlines() == [
        "1. reset-branch main: from B back to A",
        "2. reset-branch dev: from B back to A",
        "lost: the commit B is lost",
    ]
    assert str(RepairPlan()) == "nothing to repair"
    assert "\x1b" not in str(replace(STEP, target="\x1b[2J"))


def state(sick: Sick, parents: dict[SnapshotId, SnapshotId | None]) -> RepairState:
    entries = {one: SnapshotEntry(one, parent, 1, "", {}) for one, parent in parents.items()}
    return RepairState(files_of(sick.storage, sick.spec), V2, {}, {}, entries)


def test_ancestry_ends_where_it_is_not_known_and_in_a_circle(sick: Sick) -> None:
    a, b, c = (SnapshotId.random() for _ in range(3))
    assert [*state(sick, {c: b, b: a}).ancestry(c)] == [c, b, a]
    assert [*state(sick, {c: b, b: a, a: c}).ancestry(b)] == [b, a, c]
    assert [*state(sick, {a: None}).ancestry(a)] == [a]


@v2
def test_only_a_snapshot_of_its_name_is_there(sick: Sick) -> None:
    other = SnapshotId.random()
    sick.storage.put(snapshot_key(other), sick.get(snapshot_key(sick.tip)))
    now = state(sick, {})
    found = now.snapshot(sick.tip)
    assert found is not None
    assert found.message == "last"
    assert now.snapshot(other) is None
    assert now.snapshot(SnapshotId.random()) is None
