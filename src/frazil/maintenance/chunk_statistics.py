"""Deletes statistics of chunks that were garbage collected or erased."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

import numpy as np

from frazil.arrays import U8, Mask, StructRows
from frazil.bulk.fetch import INLINE, NATIVE, VIRTUAL, ChunkReferences
from frazil.errors import FormatError
from frazil.formats.manifest import decode_manifest
from frazil.maintenance.id_sets import ID_WIDTH, RowSet
from frazil.maintenance.listing import ID_NAME, parse_names
from frazil.statistics.files import DroppedRows, drop_rows, list_files, loaded
from frazil.statistics.records import RANGE_WIDTH, ROW, located
from frazil.storage.assets import CHUNKS, MANIFESTS
from frazil.storage.base import Storage
from frazil.transaction.context import Context


def forget_collected(context: Context, gone: RowSet | None, before: datetime) -> DroppedRows:
    """Drop statistics of chunk objects that are gone, from files written before a time.

    `gone` are those objects. None means all that a listing of chunk objects does not show: the
    writer of a file of statistics had read the chunks, so objects that are not listed are gone.
    Then rows of other chunks, virtual ones and those in manifests, go too if no manifest has them.
    Manifests are read after the rows: one that comes later loses statistics, never values.
    """
    if not any(item.created_at < before for item in list_files(context.place)):
        return DroppedRows()
    there = _listed_chunks(context.storage) if gone is None else None
    named = _Named(context) if gone is None else None

    def keep(rows: StructRows) -> Mask:
        owners = np.ascontiguousarray(rows["owner"][:, :ID_WIDTH])
        native = rows["kind"] == NATIVE
        stays: Mask = ~native
        if named is not None and stays.any():
            stays &= named.has(rows)
        if there is not None:
            stays |= native & there.contains(owners)
        else:
            assert gone is not None
            stays |= native & ~gone.contains(owners)
        return stays

    return drop_rows(context.place, keep, before)


class _Named:
    """The virtual chunks, and those in manifests, that manifests have; looked for when needed."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def _keys(self) -> RowSet | None:
        """The beginnings of their rows; None if they are not known."""
        context, found = self._context, RowSet(RANGE_WIDTH)
        if context.generation.is_legacy:
            return None
        for item in context.storage.list(MANIFESTS):
            blob = context.storage.get(item.key)
            if blob is None:
                continue  # it has just been collected
            try:
                tables = [table for _, table in decode_manifest(blob, key=item.key).tables()]
            except FormatError:
                return None
            for table in tables:
                if (table.kind != NATIVE).any():
                    found.add(
                        _beginnings(
                            located(ChunkReferences.of(table), context.containers.expand)[0]
                        )
                    )
        return found

    def has(self, rows: StructRows) -> Mask:
        """For each row of statistics, whether it belongs to one of these chunks, or may do so."""
        keys = self._keys
        return np.ones(len(rows), np.bool_) if keys is None else keys.contains(_beginnings(rows))


def _beginnings(rows: StructRows) -> U8:
    plain = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), ROW.itemsize)
    return np.ascontiguousarray(plain[:, :RANGE_WIDTH])


def forget_erased(context: Context, ranges: RowSet, *, sources: bool) -> DroppedRows:
    """Drop statistics of everything in chunk objects of which some bytes were erased.

    They tell values. Which bytes in manifests and in the files of others they are about only a
    digest says: all of the former go and, with `sources`, all of the latter. They can be made anew.
    """
    objects = _objects(ranges)

    def keep(rows: StructRows) -> Mask:
        return ~_tells(rows, objects, sources=sources)

    return drop_rows(context.place, keep)


def _tells(rows: StructRows, objects: RowSet, *, sources: bool) -> Mask:
    owners, kind = np.ascontiguousarray(rows["owner"][:, :ID_WIDTH]), rows["kind"]
    found: Mask = (kind == NATIVE) & objects.contains(owners)
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
