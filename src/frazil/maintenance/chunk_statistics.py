"""Statistics that go with what they describe: with collected chunks, and with erased ones."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from frazil.bulk.fetch import INLINE, NATIVE, VIRTUAL
from frazil.maintenance.id_sets import ID_WIDTH, RowSet
from frazil.maintenance.listing import ID_NAME, parse_names
from frazil.statistics.files import DroppedRows, drop_rows, list_files, loaded
from frazil.statistics.records import Flags, Rows
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Storage
from frazil.transaction.context import Context


def forget_collected(context: Context, gone: RowSet | None, before: datetime) -> DroppedRows:
    """Drop statistics of chunk objects that are gone, from files written before a time.

    `gone` are those objects. None means all that a listing of chunk objects does not show: the
    writer of a file of statistics had read the chunks, so objects that are not listed are gone.
    """
    if not any(item.created_at < before for item in list_files(context.place)):
        return DroppedRows()
    there = _listed_chunks(context.storage) if gone is None else None

    def keep(rows: Rows) -> Flags:
        owners = np.ascontiguousarray(rows["owner"][:, :ID_WIDTH])
        stays: Flags = rows["kind"] != NATIVE
        if there is not None:
            return stays | there.contains(owners)
        assert gone is not None
        return stays | ~gone.contains(owners)

    return drop_rows(context.place, keep, before)


def forget_erased(context: Context, ranges: RowSet, *, sources: bool) -> DroppedRows:
    """Drop statistics of everything in chunk objects of which some bytes were erased.

    They tell values. Which bytes in manifests and in the files of others they are about only a
    digest says: all of the former go and, with `sources`, all of the latter. They can be made anew.
    """
    objects = _objects(ranges)

    def keep(rows: Rows) -> Flags:
        return ~_tells(rows, objects, sources=sources)

    return drop_rows(context.place, keep)


def _tells(rows: Rows, objects: RowSet, *, sources: bool) -> Flags:
    owners, kind = np.ascontiguousarray(rows["owner"][:, :ID_WIDTH]), rows["kind"]
    found: Flags = (kind == NATIVE) & objects.contains(owners)
    found |= (kind == INLINE) | ((kind == VIRTUAL) & sources)
    return found


def left_to_tell(context: Context, ranges: RowSet) -> list[str]:
    """Keys of files that still have statistics of erased bytes."""
    objects = _objects(ranges)
    found = loaded(context.place, list_files(context.place))
    return [item.key for item, rows in found if _tells(rows, objects, sources=False).any()]


def _objects(ranges: RowSet) -> RowSet:
    found = RowSet()
    found.add(np.ascontiguousarray(ranges.rows()[:, :ID_WIDTH]))
    return found


def _listed_chunks(storage: Storage) -> RowSet:
    start, found = len(CHUNKS), RowSet()
    names: list[str] = []
    for item in storage.list(CHUNKS):
        name = item.key[start:]
        if ID_NAME.fullmatch(name):
            names.append(name)
        if len(names) >= 1 << 16:
            found.add(parse_names(names))
            names.clear()
    if names:
        found.add(parse_names(names))
    return found
