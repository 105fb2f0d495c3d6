"""What a collection must leave alone, and what is left of one that is killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.repo_object import Edit
from frazil.errors import FormatError, FrazilError, ReadOnlyError
from frazil.model.config import RepositoryConfig
from frazil.model.history import RepoAvailability, UpdateType
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.assets import SNAPSHOTS
from frazil.storage.base import Deleted
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.runners import Elsewhere
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import overwritten

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)
DAY = timedelta(days=1)
COMMITS = 6


def written(repository: Repository, branch: str, place: int) -> Session:
    session = repository.writable_session(branch)
    write_keys(session, {"a/zarr.json": array_document(9), f"a/c/{place}": b"chunk %d" % place})
    return session


def age(folder: Path) -> None:
    """Let all files be five days old."""
    then = (datetime.now(UTC) - 5 * DAY).timestamp()
    for file in folder.rglob("*"):
        os.utime(file, (then, then))


@pytest.mark.parametrize("spec", [1, 2])
def test_chunks_of_an_open_session_stay_on_a_disk(tmp_path: Path, spec: int) -> None:
    """Their ages are looked at one by one there, after everything else is known."""
    storage = LocalStorage(tmp_path, durability="none")
    repository = Repository.create(storage, config=CONFIG, spec_version=spec)
    written(repository, "main", 0).commit("first")
    written(repository, "main", 1)  # given up long ago
    age(tmp_path)
    session = written(repository, "main", 2)
    summary = repository.garbage_collect(datetime.now(UTC) - 2 * DAY)
    assert summary.chunks_deleted == 1
    assert len([*storage.list("chunks/")]) == 2
    session.commit("second")
    assert contents(Repository.open(storage).readonly_session("main"))["a/c/2"] == b"chunk 2"
    check_repository(repository)


def test_what_is_built_upon_meanwhile_stays(tmp_path: Path) -> None:
    """A snapshot without branch is garbage until somebody writes one after it."""
    inner = LocalStorage(tmp_path, durability="none")
    repository = Repository.create(inner, config=CONFIG)
    first = written(repository, "main", 0).commit("first")
    repository.create_branch("dev", first)
    written(repository, "dev", 1).commit("lost")
    other = Repository.open(inner)
    late = other.writable_session("dev")
    repository.reset_branch("dev", first)
    age(tmp_path)
    made: list[str] = []

    def build_upon() -> None:
        write_keys(late, {"a/c/2": b"chunk 2"})
        made.append(late.flush("after the lost one"))

    storage = InterruptedStorage(inner, [Moment("put_if", "repo", build_upon)])
    collector = Repository.open(storage)
    collector.garbage_collect(datetime.now(UTC) - 2 * DAY)
    assert made
    again = Repository.open(inner)
    found = contents(again.readonly_session(snapshot_id=made[0]))
    assert (found["a/c/1"], found["a/c/2"]) == (b"chunk 1", b"chunk 2")
    history = [info.id for info in again.ancestry(snapshot_id=made[0])]
    assert history[0] == made[0]
    assert first in history
    check_repository(again)


@pytest.mark.parametrize("spec", [1, 2])
def test_what_gets_a_branch_meanwhile_stays(spec: int) -> None:
    inner = MemoryStorage()
    repository = Repository.create(inner, config=CONFIG, spec_version=spec)
    first = written(repository, "main", 0).commit("first")
    repository.create_branch("dev", first)
    lost = written(repository, "dev", 1).commit("lost")
    repository.delete_branch("dev")
    other = Repository.open(inner)
    moment = (
        Moment("put_if", "repo", lambda: other.create_branch("saved", lost))
        if spec == 2
        else Moment("list", "chunks/", lambda: other.create_branch("saved", lost))
    )
    collector = Repository.open(InterruptedStorage(inner, [moment]))
    collector.garbage_collect(datetime.now(UTC) + DAY, unsafe_minimum_age=AT_ONCE)
    again = Repository.open(inner)
    assert contents(again.readonly_session("saved"))["a/c/1"] == b"chunk 1"
    check_repository(again)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("is_young", [False, True])
def test_chunks_of_a_manifest_that_is_too_young_to_go_stay(
    tmp_path: Path, spec: int, is_young: bool
) -> None:
    """It may be that of an open session, which has taken over the chunks of older manifests."""
    repository = Repository.create(str(tmp_path), config=CONFIG, spec_version=spec)
    first = written(repository, "main", 0).commit("first")
    repository.create_branch("dev", first)
    manifests, chunks = tmp_path / "manifests", tmp_path / "chunks"
    kept = {file.name for file in chunks.iterdir()}
    written(repository, "dev", 1).commit("chunk 1")
    before = {file.name for file in manifests.iterdir()}
    written(repository, "dev", 2).commit("chunks 1 and 2")
    repository.delete_branch("dev")
    age(tmp_path)
    (newest,) = (file for file in manifests.iterdir() if file.name not in before)
    if is_young:
        os.utime(newest)
    every = {file.name for file in chunks.iterdir()}
    assert len(every) == len(kept) + 2
    Repository.open(str(tmp_path)).space.collect_garbage(datetime.now(UTC), incremental=True)
    assert {file.name for file in chunks.iterdir()} == (every if is_young else kept)
    assert newest.exists() == is_young


def test_a_repository_that_is_closed_meanwhile_loses_nothing_more() -> None:
    inner = MemoryStorage()
    repository = Repository.create(inner, config=CONFIG)
    first = written(repository, "main", 0).commit("first")
    repository.create_branch("dev", first)
    written(repository, "dev", 1).commit("lost")
    repository.delete_branch("dev")
    before = {item.key for item in inner.list("chunks/")}

    def close() -> None:
        Repository.open(inner).set_status(RepoStatus(RepoAvailability.read_only))

    slow = InterruptedStorage(inner, [Moment("delete_many", "snapshots/", close)])
    with pytest.raises(ReadOnlyError):
        Repository.open(slow).garbage_collect(datetime.now(UTC) + DAY, unsafe_minimum_age=AT_ONCE)
    assert slow.is_over
    assert {item.key for item in inner.list("chunks/")} == before


@pytest.mark.parametrize("spec", [1, 2])
def test_a_repository_that_has_lost_its_refs_is_not_deleted_as_garbage(spec: int) -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage, config=CONFIG, spec_version=spec)
    written(repository, "main", 0).commit("first")
    refs = context_of(repository).refs
    if isinstance(refs, RepoObjectRefs):
        refs.edit(lambda _: Edit(UpdateType.GCRan(), {"branches": {}}))
    else:
        storage.delete_many([item.key for item in storage.list("refs/")])
    before = [item.key for item in storage.list("")]
    with pytest.raises(FormatError, match="neither branches nor tags"):
        repository.garbage_collect(datetime.now(UTC) + DAY, unsafe_minimum_age=AT_ONCE)
    assert [item.key for item in storage.list("")] == before


class Killed(FaultyStorage):
    """Its process ends when some of the snapshots are deleted."""

    survivors = 0

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        if not keys or not keys[0].startswith(SNAPSHOTS):
            return super().delete_many(keys)
        super().delete_many(keys[: len(keys) - self.survivors])
        raise KeyboardInterrupt


@pytest.mark.parametrize("survivors", range(1, COMMITS))
def test_what_a_killed_collection_leaves_has_its_ancestors(survivors: int) -> None:
    place = MemoryStorage()
    repository = Repository.create(place, spec_version=1)
    repository.create_branch("b", repository.lookup_branch("main"))
    made = []
    for number in range(COMMITS):
        session = repository.writable_session("b")
        write_keys(session, {f"g{number}/zarr.json": group_document()})
        made.append(session.commit(str(number)))
    repository.delete_branch("b")
    storage = Killed(place)
    storage.survivors = survivors
    later = datetime.now(UTC) + DAY
    with pytest.raises(KeyboardInterrupt):
        Repository.open(storage).garbage_collect(later, unsafe_minimum_age=AT_ONCE)
    after = Repository.open(place)
    left = [id_ for id_ in made if place.head(f"{SNAPSHOTS}{id_}") is not None]
    assert len(left) == survivors
    for id_ in left:
        after.create_tag(f"t{id_}", id_)
        assert [info.id for info in after.ancestry(snapshot_id=id_)][-2] == made[0]
    after.garbage_collect(later, unsafe_minimum_age=AT_ONCE)
    assert len([*after.ancestry(tag=f"t{left[-1]}")]) == len(left) + 1


def plan_and_quarantine(repository: Repository, older_than: datetime) -> None:
    """The same in two steps."""
    plan = repository.space.plan_garbage(older_than, unsafe_minimum_age=AT_ONCE)
    repository.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)


def collect_at_once(repository: Repository, older_than: datetime) -> None:
    """All that nothing needs."""
    repository.garbage_collect(older_than, unsafe_minimum_age=AT_ONCE)


@pytest.mark.parametrize("collect", [collect_at_once, plan_and_quarantine])
@pytest.mark.parametrize("spec", [1, 2])
def test_a_new_snapshot_that_cannot_be_read_for_a_moment_keeps_what_it_needs(
    spec: int, collect: Callable[[Repository, datetime], None]
) -> None:
    """No branch leads to it yet, and its older chunks belong to a branch that is deleted."""
    failures = 0
    for call in count(1):
        storage = MemoryStorage()
        repository = Repository.create(storage, config=CONFIG, spec_version=spec)
        repository.create_branch("side", repository.lookup_branch("main"))
        written(repository, "side", 0).commit("old chunk")
        time.sleep(0.002)
        cutoff = datetime.now(UTC)
        young = written(repository, "side", 1).flush("to be checked, then published")
        repository.delete_branch("side")
        faulty = FaultyStorage(storage)
        again = Repository.open(faulty)
        faulty.forget_calls()
        faulty.plan = (Fault(Trouble.FAIL, call=call),)
        try:
            collect(again, cutoff)
        except FrazilError:
            failures += 1
        repository.create_branch("published", young)
        found = contents(Repository.open(storage).readonly_session("published"))
        assert [found.get(f"a/c/{n}") for n in range(2)] == [b"chunk 0", b"chunk 1"], call
        if call > len(faulty.calls):
            break
    assert failures > 5


def test_garbage_found_by_a_runner(tmp_path: Path) -> None:
    repository = overwritten(tmp_path / "repo")
    repository.expire_snapshots(datetime.now(UTC) + timedelta(hours=1))
    later, at_once = datetime.now(UTC) + timedelta(hours=1), timedelta(0)
    here = repository.space.collect_garbage(later, unsafe_minimum_age=at_once, dry_run=True)
    runner = Elsewhere()
    found = repository.space.collect_garbage(
        later, unsafe_minimum_age=at_once, dry_run=True, runner=runner
    )
    assert found.files == here.files
    assert found.summary == here.summary
    assert found.summary.chunks_deleted == 16
    assert runner.items > 0
    done = repository.space.collect_garbage(later, unsafe_minimum_age=at_once, runner=runner)
    assert done.files == here.files
    assert done.trash is None
    assert repository.audit.fsck(deep=True).is_clean
    again = repository.space.collect_garbage(later, unsafe_minimum_age=at_once, dry_run=True)
    assert again.files == ()
