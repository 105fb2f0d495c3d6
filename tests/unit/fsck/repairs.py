"""What repairs are asked for in tests, and ways to look at the result."""

from __future__ import annotations

import pytest

from frazil.commit.base import OVERWRITTEN
from frazil.fsck import RepairPlan, fsck, repair
from frazil.fsck.plans import Action
from frazil.repository import Repository
from frazil.storage.base import Storage
from tests.unit.fsck.samples import Sick, commit

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
