"""Nothing young is deleted, by the clock of the store, through any door and whatever is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zarr

import frazil
import frazil.icechunk as icechunk
from frazil.cli.arguments import parse_unsafe_age
from frazil.commit.base import MINIMUM_AGE
from frazil.errors import InvalidInputError, SessionStateError
from frazil.maintenance.expire import expire_with_files
from frazil.repository import Repository
from frazil.storage.base import Listed, Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.unit.maintenance.samples import keys, later, make, put, values

Door = Callable[[Repository], object]
DOORS: dict[str, Door] = {
    "collect": lambda repo: repo.garbage_collect(later()),
    "plan": lambda repo: repo.space.collect_planned(repo.space.plan_garbage(later())),
    "incremental": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), incremental=True)
    ),
    "plan made with another age": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    ),
    "quarantine": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE), quarantine=True
    ),
    "expire with files": lambda repo: expire_with_files(context_of(repo), later()),
}


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty place."""
    return MemoryStorage()


def littered(storage: Storage, spec: int) -> Repository:
    """A repository with a deleted branch, and with what an open session has written."""
    repo = make(storage, spec)
    put(repo, 0, 1)
    repo.create_branch("dev", repo.lookup_branch("main"))
    put(repo, 1, 5, "dev")
    repo.delete_branch("dev")
    put(repo, 0, 2)
    put(repo, 0, 3)
    return repo


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("spec", [1, 2])
def test_an_open_session_keeps_what_it_has_written(
    storage: MemoryStorage, spec: int, door: Door
) -> None:
    repo = littered(storage, spec)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="line")[5] = 6
    before = keys(storage, "chunks/")
    door(repo)
    assert keys(storage, "chunks/") == before
    session.commit("what was open")
    assert values(Repository.open(storage))[5] == 6


@pytest.mark.parametrize("spec", [1, 2])
def test_what_is_old_goes_and_what_is_young_stays(tmp_path: Path, spec: int) -> None:
    repo = littered(LocalStorage(tmp_path), spec)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            age(path, MINIMUM_AGE + timedelta(minutes=1))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="line")[5] = 6
    assert repo.garbage_collect(later(), dry_run=True).chunks_deleted == 1
    assert repo.garbage_collect(later()).chunks_deleted == 1
    session.commit("what was open")
    assert values(repo)[:6] == [3, 0, 0, 0, 0, 6]
    assert not (tmp_path / "frazil").exists()


def age(path: Path, by: timedelta) -> None:
    """Make a file look older."""
    was = path.stat().st_mtime
    os.utime(path, (was - by.total_seconds(), was - by.total_seconds()))


class Behind(FaultyStorage):
    """A store whose clock is far behind that of this machine."""

    behind = timedelta(hours=30)

    def head(self, key: str) -> Listed | None:
        found = super().head(key)
        return None if found is None else self._shown(found)

    def clock(self) -> datetime:
        return super().clock() - self.behind

    def list(self, prefix: str = ""):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return map(self._shown, super().list(prefix))

    def _shown(self, item: Listed) -> Listed:
        return Listed(item.key, item.size_bytes, item.created_at - self.behind)


def test_the_clock_of_the_store_counts(storage: MemoryStorage) -> None:
    littered(storage, 1)
    collector = Repository.open(Behind(storage))
    now = datetime.now(UTC)
    # By the collector's own clock everything is thirty hours old.
    assert collector.garbage_collect(now - timedelta(hours=25)).chunks_deleted == 0
    plan = collector.space.plan_garbage(now - timedelta(hours=25))
    assert plan.summary.chunks_deleted > 0
    assert collector.space.collect_planned(plan).chunks_deleted == 0


@pytest.mark.parametrize("spec", [1, 2])
def test_a_purge_of_what_was_just_written_is_refused(storage: MemoryStorage, spec: int) -> None:
    repo = littered(storage, spec)
    before = dict.fromkeys(keys(storage, ""))
    with pytest.raises(SessionStateError, match="unsafe_minimum_age"):
        repo.space.purge("line", confirm="line")
    assert dict.fromkeys(keys(storage, "")) == before
    assert values(repo)[0] == 3
    assert repo.space.purge("line", confirm="line", unsafe_minimum_age=AT_ONCE).is_proved


def test_an_age_is_no_less_than_zero(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    with pytest.raises(InvalidInputError, match="negative"):
        repo.garbage_collect(later(), unsafe_minimum_age=timedelta(seconds=-1))
    assert parse_unsafe_age("12h") == timedelta(hours=12)
    with pytest.raises(InvalidInputError, match="must be an age"):
        parse_unsafe_age("yesterday")


def test_programs_for_the_official_package_collect_by_their_own_time(tmp_path: Path) -> None:
    littered(LocalStorage(tmp_path), 2)
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    assert repo.garbage_collect(datetime.now(UTC)).chunks_deleted == 1
    assert isinstance(repo, frazil.Repository)
