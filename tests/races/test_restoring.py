"""Garbage put aside or back while somebody erases what is in it: erased bytes stay away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from frazil import (
    ConflictError,
    FrazilError,
    GarbagePlan,
    NodeNotFoundError,
    Repository,
    RepositoryConfig,
    Storage,
)
from frazil.maintenance import at_work as notes
from frazil.maintenance.at_work import AT_WORK, TrashWork, at_work
from frazil.storage.base import Deleted
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.races.test_deleting import copy_of
from tests.races.worlds import cells, garbage_before, world
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment, SteppingStorage

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)
SECRET = b"secret!!"


def prepared(spec: int, *, trash: bool = True) -> MemoryStorage:
    """A repository with garbage, in the trash or not, that is to be erased."""
    storage = MemoryStorage()
    repo = Repository.create(storage, CONFIG, spec_version=spec)
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(8)})
    write_keys(session, {"a/c/0": SECRET})
    repo.create_branch("dev", session.commit("begun"))
    session = repo.writable_session("dev")
    write_keys(session, {"a/c/0": SECRET + b"again"})
    session.commit("dev")
    repo.delete_branch("dev")
    if trash:
        put_aside(storage)
        assert repo.space.list_trash()
    return storage


def put_aside(storage: Storage) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    Repository.open(storage).space.collect_garbage(
        later, quarantine=True, unsafe_minimum_age=AT_ONCE
    )


def restore(storage: Storage) -> None:
    Repository.open(storage).space.restore_trash()


def purge(storage: Storage) -> None:
    Repository.open(storage).space.purge("/a", confirm="/a", unsafe_minimum_age=AT_ONCE)


def secrets_in(storage: Storage) -> list[str]:
    """Keys of objects with the bytes."""
    return [item.key for item in storage.list("") if SECRET in (storage.get(item.key) or b"")]


@pytest.mark.parametrize(
    ("slow", "other"),
    [(restore, purge), (purge, restore), (put_aside, purge), (purge, put_aside)],
)
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_what_was_erased_is_not_moved_to_the_trash_or_back(
    stride: int, spec: int, slow: Callable[[Storage], None], other: Callable[[Storage], None]
) -> None:
    template = prepared(spec, trash=restore in (slow, other))
    outcomes = set()
    for call in count(1, stride):
        place = copy_of(template)
        done: set[str] = set()

        def act(how: Callable[[Storage], None], at: Storage, done: set[str] = done) -> None:
            with suppress(FrazilError):
                how(at)
                done.add(how.__name__)

        storage = InterruptedStorage(place)
        storage.before(call, lambda act=act, place=place: act(other, place))  # type: ignore[misc]
        act(slow, storage)
        if not storage.is_over:
            break
        outcomes.add(frozenset(done))
        assert "purge" not in done or not secrets_in(place), call
        assert not [*place.list(AT_WORK)]
        act(purge, place)
        assert not secrets_in(place), call
    assert call > 10
    # Both when one comes before or after the other, and one of them in between.
    assert {slow.__name__, other.__name__} in outcomes
    assert any(len(done) == 1 for done in outcomes)


class KilledError(BaseException):
    """The process ends."""


def collect(storage: Storage) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    Repository.open(storage).space.collect_garbage(later, unsafe_minimum_age=AT_ONCE)


@pytest.mark.parametrize("spec", [1, 2])
def test_what_was_erased_is_in_no_copy_that_a_killed_collection_left(spec: int) -> None:
    """In version 1 snapshots are copied before they are deleted, to come back if refs need them."""
    template = prepared(spec, trash=False)
    outcomes = set()
    for call in count(1):
        place, calls, is_erased = copy_of(template), 0, False

        def step(_operation: str, _key: str, call: int = call, place: Storage = place) -> None:
            nonlocal calls, is_erased
            calls += 1
            if calls == call:
                with suppress(FrazilError):
                    purge(place)
                    is_erased = True
            elif calls > call:
                raise KilledError

        with suppress(KilledError, FrazilError):
            collect(SteppingStorage(place, step))
        if calls < call:
            break
        outcomes.add(is_erased)
        if is_erased:
            with pytest.raises(NodeNotFoundError):
                Repository.open(place).space.purge("/a", dry_run=True)
    assert call > 10
    assert outcomes == ({True, False} if spec == 1 else {True})


@pytest.mark.parametrize("remove", [collect, put_aside])
def test_a_branch_at_what_came_back_from_the_trash_is_not_collected(
    remove: Callable[[Storage], None],
) -> None:
    """Who collects has looked at the refs before the branch was there."""
    template = prepared(1, trash=False)
    files = [item.key.removeprefix("snapshots/") for item in template.list("snapshots/")]
    repo = Repository.open(template)
    [gone] = {*files} - {each.id for each in repo.ancestry(branch="main")}
    outcomes = set()
    for call in count(1):
        place = copy_of(template)
        made: list[bool] = []

        def come(place: Storage = place, made: list[bool] = made) -> None:
            with suppress(FrazilError):
                other = Repository.open(place)
                other.space.restore_trash()
                other.create_branch("back", gone)
                made.append(True)

        storage = InterruptedStorage(place)
        storage.before(call, come)
        with suppress(FrazilError):
            remove(storage)
        if not storage.is_over:
            break
        outcomes.add(bool(made))
        if made:
            session = Repository.open(place).readonly_session("back")
            assert contents(session)["a/c/0"] == SECRET + b"again", call
    assert outcomes == {True, False}


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("kind", ["v1", "g2", "g3"])
def test_what_came_back_is_young_again_whatever_an_older_plan_says(
    kind: str, tmp_path: Path, *, is_saved: bool
) -> None:
    place = world(kind).copy()
    space = Repository.open(place.storage()).space
    plan = space.plan_garbage(garbage_before())
    if is_saved:
        plan.save(tmp_path / "plan")
        plan = GarbagePlan.load(tmp_path / "plan")
    other = Repository.open(place.storage()).space
    other.collect_planned(other.plan_garbage(garbage_before()), quarantine=True)
    other.restore_trash()
    space.collect_planned(plan)
    for name in ("gone", "trashed"):
        repo = Repository.open(place.storage())
        repo.create_branch(name, place.facts.ids[name])
        assert contents(repo.readonly_session(name))["a/c/1"] == cells(60, 60)


class SlowDeletion(SteppingStorage):
    """The first deletion of snapshots gets no answer; it arrives when all is over."""

    late: Sequence[str] = ()
    meanwhile: Callable[[], object] | None = None

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        if self.late or not keys or not keys[0].startswith("snapshots/"):
            return super().delete_many(keys)
        self.late = keys
        if self.meanwhile is not None:
            self.meanwhile()
        return Deleted(0, failed=tuple((key, "no answer") for key in keys), in_doubt=True)


@pytest.mark.parametrize("has_ref", [False, True])
def test_a_deletion_that_arrives_late_can_be_undone(*, has_ref: bool) -> None:
    """What it deletes may have got a branch since the collection looked."""
    place = prepared(1, trash=False)
    files = [item.key.removeprefix("snapshots/") for item in place.list("snapshots/")]
    repo = Repository.open(place)
    [gone] = {*files} - {each.id for each in repo.ancestry(branch="main")}
    line = SlowDeletion(place)
    if has_ref:
        line.meanwhile = lambda: repo.create_branch("back", gone)
    with suppress(FrazilError):
        collect(line)
    if not has_ref:
        repo.create_branch("back", gone)
    place.delete_many(line.late)
    restore(place)
    assert contents(Repository.open(place).readonly_session("back"))["a/c/0"] == SECRET + b"again"


def test_who_was_killed_keeps_others_away_for_a_day() -> None:
    place = prepared(2)
    place.put(f"{AT_WORK}moving/killed", b"")
    with pytest.raises(ConflictError, match="moving/killed"):
        purge(place)
    place.delete_many([f"{AT_WORK}moving/killed"])
    place.put(f"{AT_WORK}erasing/killed", b"")
    assert {batch.name for batch in Repository.open(place).space.list_trash()} == {
        item.key.split("/")[1] for item in place.list("trash/") if AT_WORK not in item.key
    }
    with pytest.raises(ConflictError, match="erasing/killed"):
        restore(place)
    restore(Older(place))
    assert not [item for item in place.list("trash/") if AT_WORK not in item.key]


class Older(InterruptedStorage):
    """A storage at which it is two days later."""

    def clock(self) -> datetime:
        return super().clock() + timedelta(days=2)


def test_who_empties_the_trash_does_not_let_others_in() -> None:
    """Not even who thinks that nothing is too young to go."""
    place = prepared(2)
    space = Repository.open(place).space
    with at_work(place, TrashWork.ERASING):
        later = datetime.now(UTC) + timedelta(hours=1)
        emptied = space.empty_trash(later, unsafe_minimum_age=AT_ONCE)
        assert emptied.objects
        with pytest.raises(ConflictError, match="erasing data"):
            restore(place)
    assert not [*place.list("trash/")]


HOUR = 3600


def aged(place: LocalStorage, hours: int) -> None:
    """Let the note of who is at work look older."""
    for item in place.list(AT_WORK):
        path = Path(place.path, item.key)
        with suppress(FileNotFoundError):
            now = path.stat().st_mtime
            os.utime(path, (now - hours * HOUR,) * 2)


def on_disk(template: Storage, path: Path) -> LocalStorage:
    """A copy whose files can be made to look older."""
    place = LocalStorage(path, durability="none")
    for item in template.list(""):
        place.put(item.key, template.get(item.key) or b"")
    return place


@pytest.mark.parametrize("work", [each for each in TrashWork if each is not TrashWork.RESTORING])
def test_who_works_for_more_than_a_day_keeps_others_away_all_the_time(
    work: TrashWork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "RENEWED_AFTER_S", 0.01)
    place = LocalStorage(tmp_path / "repository")
    Repository.create(place)
    with at_work(place, work):
        for _ in range(3):  # 20 hours each
            aged(place, 20)
            until = time.monotonic() + 30
            while any(datetime.now(UTC) - item.created_at > timedelta(hours=1)
                      for item in place.list(AT_WORK)):  # fmt: skip
                assert time.monotonic() < until, "nobody has renewed the note"
                time.sleep(0.01)
        aged(place, 20)
        with pytest.raises(ConflictError, match=str(work)):
            restore(place)
    assert not [*place.list(AT_WORK)]


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("other", [restore, put_aside])
def test_an_erasure_that_stood_still_for_a_day_does_not_say_that_all_is_gone(
    spec: int, other: Callable[[Storage], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others took it for dead, and have put back, or aside, what it was erasing."""
    monkeypatch.setattr(notes, "RENEWED_AFTER_S", 0.0)
    monkeypatch.setattr(notes.WorkNote, "keep", lambda *_: None)  # its threads stand still too
    template = prepared(spec, trash=other is restore)
    outcomes = set()
    for call in count(1, 3):
        place = on_disk(template, tmp_path / str(call))
        done: set[str] = set()

        def come(place: LocalStorage = place, done: set[str] = done) -> None:
            aged(place, 48)
            with suppress(FrazilError):
                other(place)
                done.add("other")

        storage = InterruptedStorage(place)
        storage.before(call, come)
        with suppress(FrazilError):
            purge(storage)
            done.add("purge")
        if not storage.is_over:
            break
        outcomes.add(frozenset(done))
        assert "purge" not in done or not secrets_in(place), call
        with suppress(NodeNotFoundError):  # what came back may have been without it
            purge(place)
        assert not secrets_in(place), call
    assert call > 10
    assert {"other"} in outcomes


@pytest.mark.parametrize("slow", [collect, put_aside])
def test_a_collection_that_stood_still_for_a_day_does_not_take_what_came_back(
    slow: Callable[[Storage], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others took it for dead, and have a branch at what it had put aside."""
    monkeypatch.setattr(notes, "RENEWED_AFTER_S", 0.0)
    monkeypatch.setattr(notes.WorkNote, "keep", lambda *_: None)
    template = prepared(1, trash=False)
    files = [item.key.removeprefix("snapshots/") for item in template.list("snapshots/")]
    [gone] = {*files} - {each.id for each in Repository.open(template).ancestry(branch="main")}
    outcomes = set()
    for look in count(1, 2):  # each time once before and once after it is renewed
        place = on_disk(template, tmp_path / str(look))
        made: list[bool] = []

        def come(place: LocalStorage = place, made: list[bool] = made) -> None:
            aged(place, 48)
            other = Repository.open(place)
            other.space.restore_trash()
            with suppress(FrazilError):  # it was gone for good
                other.create_branch("back", gone)
                made.append(True)

        storage = InterruptedStorage(place, [Moment("head", AT_WORK, come, look)])
        with suppress(ConflictError):
            slow(storage)
        if not storage.is_over:
            break
        outcomes.add(bool(made))
        if made:
            session = Repository.open(place).readonly_session("back")
            assert contents(session)["a/c/0"] == SECRET + b"again", look
    assert look > 5
    assert True in outcomes
