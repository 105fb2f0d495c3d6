"""Deleting many objects from stores that do not always want to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.ids import ChunkId
from frazil.maintenance import deleting
from frazil.maintenance.deleting import DeleteLimits, delete_objects
from frazil.maintenance.listing import Objects, list_older
from frazil.storage.base import Deleted
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage

QUICK = DeleteLimits(4, 3, first_pause_s=0.001, longest_pause_s=0.002)


class Reluctant(FaultyStorage):
    """Answers deletes as told: with an error, or with keys that would not go."""

    def __init__(self, answers: Sequence[StorageError | int]) -> None:
        super().__init__(MemoryStorage())
        self.answers = list(answers)
        self.requests = 0

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        self.requests += 1
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, StorageError):
            raise answer
        done = self.inner.delete_many(keys[answer:])
        failed = tuple((key, "locked") for key in keys[:answer])
        return Deleted(done.keys, done.bytes, failed)


def broken() -> StorageError:
    return StorageError("disk on fire")


def throttled() -> StorageError:
    return StorageError("slow down", kind=ErrorKind.THROTTLED)


def filled(storage: Reluctant, count: int) -> Objects:
    """Put objects of four bytes there."""
    for _ in range(count):
        storage.put(f"chunks/{ChunkId.random()}", b"four")
    return list_older(storage, "chunks/", datetime.now(UTC) + timedelta(days=1))


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "BATCH", 2)


def test_everything_is_deleted_and_counted() -> None:
    storage = Reluctant([])
    report = delete_objects(storage, filled(storage, 25), QUICK)
    assert (report.objects, report.bytes, report.failed) == (25, 100, 0)
    assert storage.requests == 13
    assert storage.is_empty()


def test_a_failed_request_is_counted_and_the_rest_goes_on() -> None:
    storage = Reluctant([0, broken()])
    report = delete_objects(storage, filled(storage, 10), QUICK)
    assert (report.objects, report.bytes, report.failed) == (8, 32, 2)
    assert len(report.errors) == 1
    assert "disk on fire" in report.errors[0]


def test_single_keys_may_fail() -> None:
    storage = Reluctant([1, 2])
    report = delete_objects(storage, filled(storage, 10), QUICK)
    assert (report.objects, report.bytes, report.failed) == (7, 28, 3)
    assert report.errors == ["locked"]
    assert len(list(storage.list("chunks/"))) == 3


def test_too_many_failures_in_a_row_end_it() -> None:
    storage = Reluctant([broken() for _ in range(100)])
    with pytest.raises(StorageError, match="disk on fire") as raised:
        delete_objects(storage, filled(storage, 100), QUICK)
    assert raised.value.kind == ErrorKind.GC_DELETES_FAILING
    assert storage.requests < 10


def test_giving_up_at_the_first_failure_makes_one_request() -> None:
    storage = Reluctant([broken() for _ in range(100)])
    with pytest.raises(StorageError):
        delete_objects(storage, filled(storage, 100), DeleteLimits(10, 1))
    assert storage.requests == 1


def test_failures_that_do_not_follow_each_other_do_not_end_it() -> None:
    storage = Reluctant([broken(), 0, broken(), 0, broken(), 0, broken()])
    report = delete_objects(storage, filled(storage, 20), DeleteLimits(1, 2))
    assert (report.objects, report.failed) == (12, 8)


def test_a_store_that_asks_to_slow_down_is_asked_again() -> None:
    storage = Reluctant([0, throttled(), 0, throttled(), throttled()])
    report = delete_objects(storage, filled(storage, 10), QUICK)
    assert (report.objects, report.failed, report.throttled) == (10, 0, 3)
    assert not report.errors
    assert storage.is_empty()


def test_a_store_that_never_stops_asking_is_given_up() -> None:
    storage = Reluctant([throttled() for _ in range(1000)])
    with pytest.raises(StorageError, match="slow down") as raised:
        delete_objects(storage, filled(storage, 10), QUICK)
    assert raised.value.kind == ErrorKind.GC_DELETES_FAILING
