"""Collections as plans that are saved, checked and carried out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.ids import SnapshotId
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.generations import SAME_KEYS, Spec, spec_id
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import expired, later, make, put, values


@pytest.fixture(params=SAME_KEYS, ids=spec_id)
def spec(request: pytest.FixtureRequest) -> Spec:
    """Generations whose objects are looked at by key."""
    found: Spec = request.param
    return found


def test_a_plan_survives_a_file(storage: MemoryStorage, spec: Spec, tmp_path: Path) -> None:
    repo = expired(storage, spec)
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    plan.save(tmp_path / "plan.json")
    again = GarbagePlan.load(tmp_path / "plan.json")
    assert list(again.keys()) == list(plan.keys())
    assert again.summary == plan.summary
    assert (again.older_than, again.how, again.size_bytes) == (
        plan.older_than,
        "full",
        plan.size_bytes,
    )
    assert "chunks" in str(again)
    assert repo.space.collect_planned(again, unsafe_minimum_age=AT_ONCE).chunks_deleted == 2
    assert garbage_of(repo) == set()


@pytest.mark.parametrize("is_saved", [False, True])
def test_what_became_needed_since_is_spared(
    storage: MemoryStorage, spec: Spec, is_saved: bool
) -> None:
    repo = make(storage, spec)
    repo.create_branch("dev", repo.lookup_branch("main"))
    dev = put(repo, 0, 5, "dev")
    repo.delete_branch("dev")
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    assert plan.summary.chunks_deleted == 1
    if is_saved:
        plan = GarbagePlan.from_dict(plan.to_dict())
    repo.create_branch("saved", dev)
    done = repo.space.collect_planned(plan, unsafe_minimum_age=AT_ONCE)
    assert (done.snapshots_deleted, done.chunks_deleted, done.manifests_deleted) == (0, 0, 0)
    assert values(repo, "saved")[0] == 5
    check_repository(repo)


def test_plans_of_other_repositories_are_refused(storage: MemoryStorage, tmp_path: Path) -> None:
    plan = expired(storage, 2).space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    other = make(LocalStorage(tmp_path), 2)
    with pytest.raises(InvalidInputError, match="was made for"):
        other.space.collect_planned(plan, unsafe_minimum_age=AT_ONCE)


@pytest.mark.parametrize(
    "damage",
    [
        {"format": "other"},
        {"version": 9},
        {"how": "magic"},
        {"older_than": "2024-01-01"},
        {"older_than": 5},
        {"objects": {}},
        {"objects": {"chunks/": {"ids": ["../repo"], "sizes": [1]}}},
        {"objects": {"chunks/": {"ids": [str(SnapshotId.random())], "sizes": []}}},
        {"objects": {"chunks/": {"ids": [str(SnapshotId.random())], "sizes": [-1]}}},
    ],
)
def test_damaged_plans_are_refused(
    storage: MemoryStorage, tmp_path: Path, damage: dict[str, object]
) -> None:
    data = expired(storage, 2).space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE).to_dict()
    if isinstance(damage.get("objects"), dict) and damage["objects"]:
        damage = {"objects": {**data["objects"], **damage["objects"]}}  # type: ignore[dict-item]
    place = tmp_path / "plan.json"
    place.write_text(json.dumps({**data, **damage}))
    with pytest.raises(FormatError, match=r"plan\.json"):
        GarbagePlan.load(place)


def test_files_that_are_no_plans_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        GarbagePlan.load(tmp_path / "nothing")
    (tmp_path / "text").write_bytes(b"\xff{")
    with pytest.raises(FormatError):
        GarbagePlan.load(tmp_path / "text")


@pytest.mark.parametrize("incremental", [False, True])
def test_what_becomes_needed_meanwhile_is_spared(
    storage: MemoryStorage, spec: Spec, incremental: bool
) -> None:
    repo = make(storage, spec)
    repo.create_branch("dev", repo.lookup_branch("main"))
    dev = put(repo, 0, 5, "dev")
    repo.delete_branch("dev")

    def save() -> None:
        Repository.open(storage).create_branch("saved", dev)

    operation, prefix = ("copy_if", "repo") if spec == 2 else ("list", "refs/")
    watched = InterruptedStorage(storage)
    raced = Repository.open(watched)
    plan = raced.space.plan_garbage(later(), incremental=incremental, unsafe_minimum_age=AT_ONCE)
    watched.moments.append(Moment(operation, prefix, save))
    assert raced.space.collect_planned(plan, unsafe_minimum_age=AT_ONCE).chunks_deleted == 0
    assert values(repo, "saved")[0] == 5
    check_repository(repo)


def test_commits_made_meanwhile_keep_what_they_wrote(storage: MemoryStorage, spec: Spec) -> None:
    expired(storage, spec)

    def commit() -> None:
        put(Repository.open(storage), 2, 9)

    repo = Repository.open(
        InterruptedStorage(storage, [Moment("delete_many", "snapshots/", commit)])
    )
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    assert repo.space.collect_planned(plan, unsafe_minimum_age=AT_ONCE).chunks_deleted == 2
    assert values(Repository.open(storage))[:3] == [3, 7, 9]
    assert garbage_of(Repository.open(storage)) == set()
