"""Deletes many objects: in batches, with growing concurrency, and none that is too young.

What an open session has written is garbage until it is committed, and looks like any other
garbage. Only its age tells them apart, so one minimum age holds for every way to delete, by the
clock of the store.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

from frazil.commit.base import MINIMUM_AGE
from frazil.errors import ErrorKind, InvalidInputError, SessionStateError, StorageError
from frazil.maintenance.listing import Objects
from frazil.model.history import to_micros
from frazil.storage.base import Listed, Storage
from frazil.storage.pool import fan_out

BATCH: Final = 1000
"""Keys of one request, the most that S3 takes."""
MAX_MESSAGES: Final = 10
"""Errors of one collection that are reported in full."""
OnDeleted: TypeAlias = Callable[[list[str]], None]
"""Is given the keys of what was deleted."""


@dataclass(frozen=True, slots=True)
class DeleteLimits:
    """Limits on concurrency and failures."""

    max_concurrent_deletes: int = 10
    max_consecutive_delete_failures: int = 50
    """failed batches in a row after which it is pointless to go on"""
    first_pause_s: float = 1.0
    longest_pause_s: float = 120.0


@dataclass(slots=True)
class DeleteReport:
    """What became of the objects of one phase."""

    objects: int = 0
    bytes: int = 0
    failed: int = 0
    throttled: int = 0
    errors: list[str] = field(default_factory=list)
    """different messages, the first few"""
    left: set[str] = field(default_factory=set)
    """keys of objects that could not be deleted"""

    def add(self, other: DeleteReport) -> None:
        """Count what became of more objects."""
        self.objects += other.objects
        self.bytes += other.bytes
        self.failed += other.failed
        self.throttled += other.throttled
        self.left |= other.left
        for message in other.errors:
            self.record_error(message)

    def record_error(self, message: str) -> None:
        """Keep a message if it is new and there are not many."""
        if len(self.errors) < MAX_MESSAGES and message not in self.errors:
            self.errors.append(message)


def delete_objects(storage: Storage, garbage: Objects, limits: DeleteLimits) -> DeleteReport:
    """Delete objects; what cannot be deleted is counted and left to the next collection.

    It begins with one request at a time and doubles. When the store asks to slow down, the
    batches are tried again after a pause, half as many at once.

    Raises:
        StorageError: too many batches in a row have failed.
    """
    report = DeleteReport()
    waiting = deque(garbage.batches(BATCH))
    at_once, pause, failures, slow = 1, 0.0, 0, ""
    while waiting:
        time.sleep(pause)
        wave = [waiting.popleft() for _ in range(min(at_once, len(waiting)))]
        throttled: list[Objects] = []
        for batch, done in zip(wave, fan_out(partial(_delete_batch, storage), wave), strict=True):
            message = done.errors[-1] if done.errors else ""
            if done.throttled:
                throttled.append(batch)
                slow = message
                continue
            failures = failures + 1 if done.failed else 0
            report.add(done)
            _check(failures, limits, garbage.prefix, message)
        if not throttled:
            at_once, pause = min(2 * at_once, max(1, limits.max_concurrent_deletes)), 0.0
            continue
        report.throttled += len(throttled)
        waiting.extendleft(reversed(throttled))
        if pause >= limits.longest_pause_s:
            failures += 1
            _check(failures, limits, garbage.prefix, slow)
        at_once = max(1, at_once // 2)
        pause = min(limits.longest_pause_s, max(2 * pause, limits.first_pause_s))
    return report


def delete_keys(storage: Storage, keys: Sequence[str]) -> None:
    """Delete objects, all of them or with an error."""
    for at in range(0, len(keys), BATCH):
        failed = storage.delete_many(keys[at : at + BATCH]).failed
        if failed:
            detail = f"{len(failed)} objects would not go: {failed[0][1]}"
            raise StorageError(detail, key=failed[0][0])


def _delete_batch(storage: Storage, batch: Objects) -> DeleteReport:
    keys = batch.keys()
    try:
        failed = dict(storage.delete_many(keys).failed)
    except StorageError as error:
        is_throttled = error.kind == ErrorKind.THROTTLED
        return DeleteReport(0, 0, len(keys), int(is_throttled), [str(error)], set(keys))
    gone = [size for key, size in zip(keys, batch.sizes.tolist(), strict=True) if key not in failed]
    errors = [f"{message}" for message in [*failed.values()][:1]]
    return DeleteReport(len(gone), sum(gone), len(failed), errors=errors, left=set(failed))


def _check(failures: int, limits: DeleteLimits, prefix: str, message: str) -> None:
    if failures and failures >= limits.max_consecutive_delete_failures:
        raise StorageError(
            f"too many deletes in a row have failed: {message}",
            kind=ErrorKind.GC_DELETES_FAILING,
            prefix=prefix,
            failures=failures,
        )


def deletable_before(
    place: Storage, unsafe_minimum_age: timedelta | None, *, dry_run: bool = False
) -> datetime | None:
    """The time before which an object must have been written; None: whatever the caller says.

    A dry run, which writes nothing, goes by the clock of this machine.
    """
    if unsafe_minimum_age is not None and unsafe_minimum_age < timedelta(0):
        raise InvalidInputError("a minimum age cannot be negative", kind=ErrorKind.INVALID_OPTION)
    least = MINIMUM_AGE if unsafe_minimum_age is None else unsafe_minimum_age
    if not least:
        return None
    by_machine = dry_run or not place.can_write
    return (datetime.now(UTC) if by_machine else place.clock().astimezone(UTC)) - least


def safe_cutoff(
    place: Storage,
    older_than: datetime,
    unsafe_minimum_age: timedelta | None,
    *,
    dry_run: bool = False,
) -> datetime:
    """A caller's time, or the latest one that is safe if the caller's is later.

    Raises:
        InvalidInputError: the time has no zone, or the age is negative.
    """
    to_micros(older_than)  # refuses a time without zone even if nothing is there
    limit = deletable_before(place, unsafe_minimum_age, dry_run=dry_run)
    return older_than if limit is None else min(older_than, limit)


def require_old(items: list[Listed], limit: datetime | None, action: str) -> None:
    """Refuse to delete a set of files, which go together or not at all, if one is too young."""
    young = [item for item in items if limit is not None and item.created_at >= limit]
    if young:
        newest = max(young, key=lambda item: item.created_at)
        raise SessionStateError(
            f"cannot {action}: {len(young)} of its files are younger than files must be that are "
            "deleted; try again later, or lower unsafe_minimum_age if no other process uses the "
            "repository",
            kind=ErrorKind.NOT_ALLOWED,
            key=newest.key,
            written=newest.created_at.isoformat(),
        )
