"""Garbage that is put aside before it is deleted: below `trash/`, by collection.

Objects are copied first and deleted then, so that a crash leaves them in both places; whoever
collects again goes on. To bring them back, those that others refer to come first.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from frazil.errors import ErrorKind, NotFoundError, StorageError
from frazil.maintenance.access import require_writable
from frazil.maintenance.ages import safe_cutoff
from frazil.maintenance.deleting import DeleteLimits, DeleteReport
from frazil.maintenance.garbage import PHASES, Remove
from frazil.maintenance.listing import Objects, is_older
from frazil.session.context import Context
from frazil.storage.assets import CHUNK, CHUNKS
from frazil.storage.base import PLAIN, Attributes, Listed, Storage, fan_out

TRASH: Final = "trash/"
MOVED_AT_ONCE: Final = 256 << 20
"""Bytes of objects in memory while they are copied."""
DELETED_AT_ONCE: Final = 1000
RESTORED_FIRST: Final = tuple(reversed(PHASES))


@dataclass(frozen=True, slots=True)
class TrashBatch:
    """What one collection put aside."""

    name: str
    moved_at: datetime
    """the store's time of the last object"""
    objects: int
    size_bytes: int


def batch_name(now: datetime | None = None) -> str:
    """A name for what is put aside now; names sort by time."""
    return f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def moving_to(batch: str) -> Remove:
    """How to make objects disappear so that they can come back."""
    return partial(_put_aside, batch=batch)


def _put_aside(
    storage: Storage, garbage: Objects, limits: DeleteLimits, *, batch: str
) -> DeleteReport:
    report = DeleteReport()
    keys, sizes = garbage.keys(), garbage.sizes.tolist()
    for group in _within_memory(zip(keys, sizes, strict=True)):
        move = partial(_move, storage, above=f"{TRASH}{batch}/")
        for (key, size), trouble in zip(
            group, fan_out(move, [key for key, _ in group]), strict=True
        ):
            if trouble:
                report.failed += 1
                report.left.add(key)
                report.record_error(trouble)
            else:
                report.objects += 1
                report.bytes += size
    return report


def _within_memory(items: Iterable[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    group: list[tuple[str, int]] = []
    total = 0
    for key, size in items:
        if group and (total + size > MOVED_AT_ONCE or len(group) >= DELETED_AT_ONCE):
            yield group
            group, total = [], 0
        group.append((key, size))
        total += size
    if group:
        yield group


def _move(storage: Storage, key: str, *, above: str) -> str:
    """Copy an object and delete it; tell what went wrong, if anything did."""
    try:
        data = storage.get(key)
        if data is None:
            return ""
        target = above + key
        storage.put(target, data, _attributes(key))
        storage.make_durable([target])
        failed = storage.delete_many([key]).failed
    except StorageError as error:
        return str(error)
    return failed[0][1] if failed else ""


def _attributes(key: str) -> Attributes:
    return CHUNK if key.startswith(CHUNKS) else PLAIN


# --- what is there ---


def list_trash(storage: Storage) -> list[TrashBatch]:
    """What collections put aside, oldest first."""
    found: dict[str, list[Listed]] = {}
    for item in storage.list(TRASH):
        found.setdefault(item.key[len(TRASH) :].partition("/")[0], []).append(item)
    return [
        TrashBatch(
            name,
            max(item.created_at for item in items),
            len(items),
            sum(item.size_bytes for item in items),
        )
        for name, items in sorted(found.items())
    ]


def restore_trash(
    context: Context, batch: str | None = None, *, dry_run: bool = False
) -> TrashBatch:
    """Put back what was put aside, by one collection or by all; tell how much it was.

    Raises:
        NotFoundError: there is no such batch.
        StorageError: an object could not be put back; those before it were.
    """
    require_writable(context, "restore garbage")
    storage = context.storage
    wanted = [one for one in list_trash(storage) if batch in (None, one.name)]
    if batch is not None and not wanted:
        raise NotFoundError(f"there is nothing in the trash under {batch!r}",
                            kind=ErrorKind.KEY_NOT_FOUND)  # fmt: skip
    count = size = 0
    for one in wanted:
        above = f"{TRASH}{one.name}/"
        for prefix in RESTORED_FIRST:
            items = [(item.key, item.size_bytes) for item in storage.list(above + prefix)]
            for group in _within_memory(items):
                if not dry_run:
                    fan_out(partial(_put_back, storage, above), [key for key, _ in group])
                count += len(group)
                size += sum(each for _, each in group)
    context.assets.forget()
    return TrashBatch(batch or "all", datetime.now(UTC), count, size)


def _put_back(storage: Storage, above: str, key: str) -> None:
    data = storage.get(key)
    if data is None:
        return
    target = key[len(above) :]
    storage.put(target, data, _attributes(target))
    storage.make_durable([target])
    storage.delete_many([key])


def empty_trash(
    context: Context,
    older_than: datetime,
    batch: str | None = None,
    *,
    dry_run: bool = False,
    unsafe_minimum_age: timedelta | None = None,
) -> TrashBatch:
    """Delete for good what was put aside before a time; tell how much it was.

    What has been there for less than a day, or than `unsafe_minimum_age`, stays.
    """
    require_writable(context, "empty the trash")
    older_than = safe_cutoff(context.place, older_than, unsafe_minimum_age, dry_run=dry_run)
    above = f"{TRASH}{batch}/" if batch else TRASH
    old = [item for item in context.storage.list(above) if is_older(item.created_at, older_than)]
    if not dry_run:
        for at in range(0, len(old), DELETED_AT_ONCE):
            _delete(context.storage, [item.key for item in old[at : at + DELETED_AT_ONCE]])
    return TrashBatch(batch or "all", older_than, len(old), sum(item.size_bytes for item in old))


def _delete(storage: Storage, keys: Sequence[str]) -> None:
    failed = storage.delete_many(keys).failed
    if failed:
        raise StorageError(f"{len(failed)} objects would not go: {failed[0][1]}", key=failed[0][0])
