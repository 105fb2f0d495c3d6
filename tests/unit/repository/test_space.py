"""`repo.space`: what its verbs report is what they do, and nothing is done in a dry run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, InvalidInputError, NodeNotFoundError
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.model.config import ManifestConfig, RepositoryConfig
from frazil.model.manifest_config import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.repository import Repository
from frazil.repository.reports import ExpiryReport
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.runners import Elsewhere

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)


def later() -> datetime:
    """A time after everything."""
    return datetime.now(UTC) + timedelta(hours=1)


def commits(spec: Spec = 2, count: int = 4) -> Repository:
    """A repository whose commits overwrite one chunk each."""
    storage = MemoryStorage()
    Repository.create(storage, spec_version=spec)
    repository = Repository.open(storage, CONFIG)
    for number in range(count):
        session = repository.writable_session("main")
        write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
        write_keys(session, {"a/c/0": b"%d" % number})
        session.commit(str(number))
    return repository


def messages(repository: Repository, branch: str = "main") -> list[str]:
    again = Repository.open(repository.storage)
    return [info.message for info in again.ancestry(branch=branch)]


def keys(repository: Repository) -> set[str]:
    return {item.key for item in repository.storage.list("")}


# --- expiry ---


@pytest.mark.parametrize("spec", [1, 2, "g1"])
@pytest.mark.parametrize("keep", [1, 2, 4, 5, 6, 1000])
def test_the_last_snapshots_stay_also_where_there_are_fewer(spec: Spec, keep: int) -> None:
    repository = commits(spec)
    repository.space.expire(later(), retain_last=keep)
    assert messages(repository)[: min(keep, 4)] == ["3", "2", "1", "0"][:keep]
    assert ("Repository initialized" in messages(repository)) == (spec != "g1" or keep > 4)


@pytest.mark.parametrize("spec", [1, 2])
def test_a_short_branch_keeps_all_its_snapshots_and_one_at_the_root_none(spec: Spec) -> None:
    repository = commits(spec)
    repository.create_branch("root", [*repository.ancestry(branch="main")][-1].id)
    report = repository.space.expire(later(), retain_last=2)
    assert len(report.snapshots) == 2
    assert messages(repository) == ["3", "2", "Repository initialized"]
    repository = commits(spec)
    repository.create_branch("short", [*repository.ancestry(branch="main")][-2].id)
    assert not repository.space.expire(later(), retain_last=2).snapshots
    assert messages(repository, "short") == ["0", "Repository initialized"]


def test_an_expiry_that_keeps_nothing_is_refused() -> None:
    repository = commits()
    with pytest.raises(InvalidInputError, match="at least 1") as caught:
        repository.space.expire(later(), retain_last=0)
    assert caught.value.kind is ErrorKind.INVALID_OPTION
    assert len(messages(repository)) == 5


@pytest.mark.parametrize("spec", [1, 2])
def test_a_dry_run_tells_what_then_goes_with_its_files(spec: Spec) -> None:
    repository = commits(spec)
    before = keys(repository)
    newest = next(repository.ancestry(branch="main")).written_at

    def expire(*, dry_run: bool) -> ExpiryReport:
        return repository.space.expire(
            newest, delete_files=True, unsafe_minimum_age=AT_ONCE, dry_run=dry_run
        )

    planned = expire(dry_run=True)
    assert keys(repository) == before
    done = expire(dry_run=False)
    assert planned.snapshots == done.snapshots
    assert len(done.snapshots) == 3
    assert planned.files == done.files
    assert done.files.chunks_deleted == 3
    assert len([key for key in keys(repository) if key.startswith("chunks/")]) == 1


# --- garbage ---


@pytest.mark.parametrize("spec", [1, 2])
def test_a_collection_names_the_files_that_are_gone(spec: Spec, tmp_path: Path) -> None:
    repository = commits(spec)
    repository.space.expire(later())
    before = keys(repository)
    plan = tmp_path / "plan.json"
    told = repository.space.collect_garbage(
        later(), dry_run=True, save_plan=str(plan), unsafe_minimum_age=AT_ONCE
    )
    assert keys(repository) == before
    done = repository.space.collect_garbage(
        later(), plan=GarbagePlan.load(plan), unsafe_minimum_age=AT_ONCE
    )
    assert done.how == "full"
    assert set(told.files) == set(done.files)
    url = repository.storage.url.rstrip("/")
    assert {file.removeprefix(f"{url}/") for file in done.files} == before - keys(repository)
    assert done.summary.chunks_deleted == 3


def test_young_files_stay_unless_the_caller_says_otherwise() -> None:
    repository = commits()
    repository.space.expire(later())
    assert not repository.space.collect_garbage(later()).files
    assert not repository.space.plan_garbage(later()).summary.chunks_deleted
    assert repository.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE).summary.chunks_deleted


def test_what_is_put_aside_is_listed_and_comes_back() -> None:
    repository = commits()
    repository.space.expire(later())
    done = repository.space.collect_garbage(later(), quarantine=True, unsafe_minimum_age=AT_ONCE)
    [batch] = repository.space.list_trash()
    assert batch.name == done.trash
    repository.space.restore_trash(batch.name)
    assert not repository.space.list_trash()
    assert len([key for key in keys(repository) if key.startswith("chunks/")]) == 4


# --- writing anew ---


def test_small_chunks_are_packed_in_one_commit_and_a_second_finds_nothing() -> None:
    repository = commits()
    session = repository.writable_session("main")
    write_keys(session, {"a/c/1": b"second"})
    session.commit("two chunks")
    before = contents(repository.readonly_session("main"))
    planned = repository.space.compact(dry_run=True)
    assert (planned.chunks, planned.snapshot_id) == (2, None)
    done = repository.space.compact(message="packed", metadata={"by": "me"})
    assert messages(repository)[0] == "packed"
    assert done.snapshot_id == repository.lookup_branch("main")
    assert repository.lookup_snapshot(done.snapshot_id).metadata["by"] == "me"
    assert contents(repository.readonly_session("main")) == before
    assert repository.space.compact().snapshot_id is None
    with pytest.raises(NodeNotFoundError, match="none"):
        repository.space.compact(path="/none")


def test_a_commit_tells_who_packed_the_chunks() -> None:
    repository = commits()
    session = repository.writable_session("main")
    write_keys(session, {"a/c/1": b"second"})
    session.commit("two chunks")
    done = repository.space.compact(runner=Elsewhere(knows_sizes=False))
    assert done.snapshot_id is not None
    facts = repository.lookup_snapshot(done.snapshot_id).metadata
    assert facts["where"] == "elsewhere"
    assert facts["rewritten-chunks"] == done.chunks == 2


def test_manifests_are_split_by_the_present_settings() -> None:
    repository = commits()
    session = repository.writable_session("main")
    write_keys(session, {"a/c/1": b"second"})
    session.commit("two chunks")
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 1}}
    )
    split = RepositoryConfig(manifest=ManifestConfig(splitting=splitting))
    again = Repository.open(repository.storage, split)
    planned = again.space.rewrite_manifests(dry_run=True)
    assert (planned.snapshot_id, len(planned.before)) == (None, 1)
    done = again.space.rewrite_manifests(message="split")
    assert (done.removed, done.added) == (1, 2)
    assert done.previous_snapshot_id == planned.previous_snapshot_id
    assert done.snapshot_id == again.lookup_branch("main")


# --- erasure ---


def test_an_erasure_needs_its_path_twice() -> None:
    repository = commits()
    with pytest.raises(InvalidInputError, match="confirm"):
        repository.space.purge("/a", confirm="/b", unsafe_minimum_age=AT_ONCE)
    assert "a/zarr.json" in contents(repository.readonly_session("main"))
    assert repository.space.purge("/a", confirm="/a", unsafe_minimum_age=AT_ONCE).is_proved
    again = Repository.open(repository.storage)
    assert "a/zarr.json" not in contents(again.readonly_session("main"))
