"""Wrong clocks are refused and stop nobody else; who loses races waits, longer and longer."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.commit.base import stand_back
from frazil.errors import ErrorKind, FormatError
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.support.actions import base_of, edited


@contextmanager
def clock_ahead(seconds: float) -> Iterator[None]:
    """Let the clock of this machine, not that of the store, be ahead."""
    true = time.time_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: true() + int(seconds * 1e9))
        yield


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "memory":
        return MemoryStorage()
    return LocalStorage(tmp_path / "repository", durability="none")


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_tag_by_a_wrong_clock_is_refused_and_stops_nobody(storage: Storage, seconds: int) -> None:
    repository = base_of(storage, 2)
    tip = repository.lookup_branch("main")
    with clock_ahead(seconds), pytest.raises(FormatError) as caught:
        repository.create_tag("release", tip)
    assert caught.value.kind == ErrorKind.SNAPSHOT_TIMESTAMP
    others = Repository.open(storage)
    assert others.list_tags() == set()
    edited(others).commit("third")
    others.create_tag("release", tip)


@pytest.mark.parametrize("seconds", [3600, -3600])
@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_by_a_wrong_clock_is_refused(storage: Storage, spec: int, seconds: int) -> None:
    repository = base_of(storage, spec)
    tip = repository.lookup_branch("main")
    with clock_ahead(seconds), pytest.raises(FormatError) as caught:
        edited(repository).commit("at another time")
    assert caught.value.kind == ErrorKind.SNAPSHOT_TIMESTAMP
    others = Repository.open(storage)
    assert others.lookup_branch("main") == tip
    edited(others).commit("now")


@pytest.mark.parametrize("spec", [1, 2])
def test_nobody_waits_for_a_clock_that_is_a_little_ahead(storage: Storage, spec: int) -> None:
    repository = base_of(storage, spec)
    with clock_ahead(540):
        edited(repository).commit("from the future")
        repository.create_tag("release", repository.lookup_branch("main"))
    others = Repository.open(storage)
    edited(others).commit("now")
    others.create_branch("new", others.lookup_branch("main"))
    # Whoever waited for that clock would not have come here before the time of a test is over.
    newest, before, *_ = others.ancestry(branch="main")
    assert [newest.message, before.message] == ["now", "from the future"]
    assert newest.written_at > before.written_at > datetime.now(UTC) + timedelta(seconds=400)


def test_the_clock_of_a_store_is_asked_without_leaving_a_trace(storage: Storage) -> None:
    base_of(storage, 2)
    before = [item.key for item in storage.list("")]
    assert abs(storage.clock() - datetime.now(UTC)) < timedelta(seconds=5)
    assert [item.key for item in storage.list("")] == before


def test_waits_grow_with_the_losses_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    for lost in range(1, 9):
        stand_back(lost, 0.1)
    # Whoever lost once tries again at once: most races are between two.
    assert slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 1.6, 1.6, 1.6])
