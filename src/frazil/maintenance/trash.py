"""Garbage that is put aside before it is deleted: below `trash/`, by collection.

Objects are copied first and deleted then, so that a crash leaves them in both places; the next
collection goes on from there. To bring them back, those that others refer to come first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import numpy as np

from frazil.commit.base import create_object
from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, NotFoundError, StorageError
from frazil.maintenance.at_work import AT_WORK, TrashWork, WorkNote, at_work
from frazil.maintenance.candidates import PHASES
from frazil.maintenance.deleting import (
    BATCH,
    DeleteLimits,
    DeleteReport,
    delete_keys,
    delete_objects,
    safe_cutoff,
)
from frazil.maintenance.listing import Objects, is_older
from frazil.maintenance.tuning import MOVED_BYTES
from frazil.run import by_size
from frazil.storage.assets import ATTRIBUTES, CHUNK, CHUNKS
from frazil.storage.base import PLAIN, Attributes, Listed, Storage
from frazil.storage.pool import fan_out
from frazil.tip import require_writable
from frazil.transaction.context import Context

TRASH: Final = "trash/"
RESTORED_FIRST: Final = (ATTRIBUTES, *reversed(PHASES))


@dataclass(frozen=True, slots=True, repr=False)
class TrashBatch(ReportView):
    """What one collection put aside."""

    name: str
    moved_at: datetime
    """the store's time of the last object"""
    objects: int
    size_bytes: int


def batch_name() -> str:
    """A name for what is put aside now; names sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def put_aside(
    context: Context, garbage: Objects, batch: str, limits: DeleteLimits, note: WorkNote
) -> DeleteReport:
    """Make objects disappear so that they can come back; what cannot go is counted.

    Raises:
        StorageError: too many deletes in a row have failed.
        ConflictError: others may have taken this process for dead, by its note.
    """
    report = DeleteReport()
    for part in by_size(garbage.sizes.tolist(), MOVED_BYTES, BATCH):
        note.hold()
        group = garbage.part(part.start, part.stop)
        keys = context.assets.where_all(group.keys())
        troubles = copy_aside(context.place, keys, batch, _attributes(garbage.prefix))
        stays = np.array([bool(why) for why in troubles], np.bool_)
        report.add(delete_objects(context.storage, group.where(~stays), limits))
        report.add(_failed(group.where(stays), [why for why in troubles if why]))
    return report


def _failed(objects: Objects, reasons: Sequence[str]) -> DeleteReport:
    report = DeleteReport(failed=len(objects), left=set(objects.keys()))
    for reason in reasons:
        report.record_error(reason)
    return report


def copy_aside(
    place: Storage, keys: Sequence[str], batch: str, attributes: Attributes = PLAIN
) -> Sequence[str]:
    """Copy objects, by the keys they have where they are; tell for each why it must stay, or ''."""

    def copy(key: str) -> str | None:
        return _copy(place, key, f"{TRASH}{batch}/{key}", attributes)

    troubles = fan_out(copy, keys)
    done = (key for key, why in zip(keys, troubles, strict=True) if why == "")
    place.make_durable([f"{TRASH}{batch}/{key}" for key in done])
    return [why or "" for why in troubles]


def _copy(place: Storage, key: str, target: str, attributes: Attributes) -> str | None:
    """Copy an object; return the error, or None when there is nothing to copy."""
    try:
        data = place.get(key)
        if data is None:
            return None
        place.put(target, data, attributes)
    except StorageError as error:
        return str(error)
    return ""


def _attributes(prefix: str) -> Attributes:
    return CHUNK if prefix == CHUNKS else PLAIN


# --- what is there ---


def list_trash(storage: Storage) -> list[TrashBatch]:
    """What collections put aside, oldest first."""
    found: dict[str, list[Listed]] = {}
    for item in storage.list(TRASH):
        if not item.key.startswith(AT_WORK):
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
        ConflictError: another process erases data, or moves garbage to the trash, at that time.
    """
    require_writable(context, "restore garbage")
    if dry_run:
        return _restore_batches(context, batch, None)
    with at_work(context.place, TrashWork.RESTORING) as note:
        return _restore_batches(context, batch, note)


def _restore_batches(context: Context, batch: str | None, note: WorkNote | None) -> TrashBatch:
    """Put batches back; without a note, only tell what that would be."""
    wanted = [one for one in list_trash(context.place) if batch in (None, one.name)]
    if batch is not None and not wanted:
        raise NotFoundError(f"there is nothing in the trash under {batch!r}",
                            kind=ErrorKind.KEY_NOT_FOUND)  # fmt: skip
    count = size = 0
    for prefix in RESTORED_FIRST:  # of all batches: a snapshot may need chunks of another one
        for one in wanted:
            above = f"{TRASH}{one.name}/"
            items = [*context.place.list(above + context.key_in_place(prefix))]
            if note is not None:
                items = _restore(context.place, above, items, _attributes(prefix), note.hold)
            count += len(items)
            size += sum(item.size_bytes for item in items)
    context.assets.forget()
    return TrashBatch(batch or "all", datetime.now(UTC), count, size)


def put_back(context: Context, batch: str, prefix: str, *, keeps_copies: bool = False) -> None:
    """Put objects of a kind back that were put aside; copies may stay in the trash.

    No note is asked: refs need these objects.

    Raises:
        StorageError: one could not be put back.
    """
    above = f"{TRASH}{batch}/"
    items = [*context.place.list(above + context.key_in_place(prefix))]
    _restore(context.place, above, items, _attributes(prefix), keeps_copies=keeps_copies)


def _restore(
    place: Storage,
    above: str,
    items: Sequence[Listed],
    attributes: Attributes,
    hold: Callable[[], None] = lambda: None,
    *,
    keeps_copies: bool = False,
) -> list[Listed]:
    """Put objects back; tell which were still there."""
    found: list[Listed] = []
    for part in by_size([item.size_bytes for item in items], MOVED_BYTES, BATCH):
        hold()
        group = [items[number] for number in part]
        keys = [item.key for item in group]
        done = fan_out(partial(_put_one_back, place, above, attributes), keys)
        back = [item for item, is_back in zip(group, done, strict=True) if is_back]
        place.make_durable([item.key[len(above) :] for item in back])
        if not keeps_copies:
            delete_keys(place, keys)
        found += back
    return found


def _put_one_back(place: Storage, above: str, attributes: Attributes, key: str) -> bool:
    """Put an object back; False if another process has deleted or restored it meanwhile.

    An object that exists is not replaced: an expiry may have rewritten it since it was restored.
    """
    data = place.get(key)
    if data is not None:
        create_object(place, key[len(above) :], data, attributes)
    return data is not None


def discard(storage: Storage, batch: str) -> DeleteReport:
    """Delete for good what was put aside; report what could not be deleted."""
    report = DeleteReport()
    keys = [item.key for item in storage.list(f"{TRASH}{batch}/")]
    try:
        delete_keys(storage, keys)
    except StorageError as error:
        report.record_error(f"copies of snapshots are left below {TRASH}{batch}/: {error}")
    return report


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
    old = [item for item in context.place.list(above) if is_older(item.created_at, older_than)]
    if any(item.key.startswith(AT_WORK) for item in old):
        # Notes of running jobs are kept for a day, whatever age the caller thinks safe.
        day = safe_cutoff(context.place, older_than, None, dry_run=dry_run)
        old = [i for i in old if not i.key.startswith(AT_WORK) or is_older(i.created_at, day)]
    if not dry_run:
        for keys in _referring_first(context, old):
            delete_keys(context.place, keys)
    return TrashBatch(batch or "all", older_than, len(old), sum(item.size_bytes for item in old))


def _referring_first(context: Context, items: Sequence[Listed]) -> Iterator[list[str]]:
    """Keys in the trash, in groups that are deleted one after the other: snapshots first.

    A restore puts snapshots back last. So a restore at the same time, or after this was
    interrupted, never brings back a snapshot whose manifests or chunks are gone.
    """
    folders = [context.key_in_place(prefix) for prefix in reversed(RESTORED_FIRST)]
    groups: list[list[str]] = [[] for _ in (*folders, "others")]
    for item in items:
        inside = item.key[len(TRASH) :].partition("/")[2]
        found = (at for at, folder in enumerate(folders) if inside.startswith(folder))
        groups[next(found, -1)].append(item.key)
    yield from groups
