"""The two long lists of the repo object, as columns: snapshots and updates.

Text is copied from the file it was read from. Rows that the last file held go into the next one as
the bytes they were, so that adding one costs little more than a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64
from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.columns import Spans, TableColumns, spread, table_columns
from frazil.flatbuf.growth import has_room
from frazil.flatbuf.reader import Buffer, Table
from frazil.flatbuf.tuning import FEW_FRESH, FREE_GROWTH, UPDATE_STRIDE
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats.metadata import ITEM as METADATA_ITEM
from frazil.formats.metadata import read_time
from frazil.ids import SnapshotId
from frazil.model import oplog, snapshots
from frazil.model.oplog import (
    ABSENT,
    BLOB_END,
    NOWHERE,
    SHAPES,
    TEXT_END,
    Line,
    UpdateColumns,
    UpdateLog,
    WrittenRows,
)
from frazil.model.plain import MAX_MICROS
from frazil.model.snapshots import NO_PARENT, SnapshotColumns, SnapshotTable
from frazil.model.updates import RepoAvailability, StoredStatus

SMALLEST_SNAPSHOT: Final = 28
"""Bytes of a snapshot with an id, a message and its place in the vector."""
SMALLEST_UPDATE: Final = 16
"""Bytes of a line of the operations log: four of its place, its vtable, its kind and a time."""


# --- reading ---


def read_snapshots(root: Table, slot: int) -> SnapshotColumns:
    """Read the snapshots of the repo object."""
    buffer = root.buffer
    tables = table_columns(root, slot, "snapshots", smallest=SMALLEST_SNAPSHOT)
    rows = np.zeros(len(tables), snapshots.ROW)
    ids = rows["id"] = tables.ids(0, 12, "id")
    rows["parent"] = tables.numbers(1, "<i4")
    rows["flushed_at"] = _times(buffer, tables.longs(2))
    rows["message_at"], rows["message_size"] = tables.texts(3, "message")
    if (ids[1:] <= ids[:-1]).any():
        raise buffer.fail("snapshots are not in order of their ids")
    if ((rows["parent"] < NO_PARENT) | (rows["parent"] >= len(rows))).any():
        raise buffer.fail("a snapshot has an impossible parent")
    metadata, counts = tables.children(4)
    rows["item_at"], rows["item_count"] = np.cumsum(counts) - counts, counts
    items = np.zeros(len(metadata), snapshots.ITEM)
    items["name_at"], items["name_size"] = metadata.texts(0, "name")
    items["value_at"], items["value_size"] = metadata.vectors(1, 1, "value")
    logs = tables.vectors(5, 12)
    rows["pruned_at"], rows["pruned_count"] = np.cumsum(logs.counts) - logs.counts, logs.counts
    # Snapshots that were cut out may be listed by all that followed them.
    at = spread(logs, 12)
    known = {raw: SnapshotId(raw) for raw in {bytes(buffer.data[n : n + 12]) for n in at.tolist()}}
    pruned = tuple(known[bytes(buffer.data[n : n + 12])] for n in at.tolist())
    return SnapshotColumns(rows, items, pruned, bytes(buffer.data))


def _times(buffer: Buffer, times: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    if (times > MAX_MICROS).any():
        raise buffer.fail("impossible time")
    return times


def read_status(table: Table) -> StoredStatus:
    """Read availability; what is neither online nor read-only counts as online."""
    is_read_only = table.byte(0) == RepoAvailability.read_only
    availability = RepoAvailability.read_only if is_read_only else RepoAvailability.online
    return StoredStatus(availability, read_time(table, 1), table.text(2))


def read_updates(root: Table, slot: int) -> UpdateColumns:
    """Read the operations log of the repo object."""
    buffer = root.buffer
    tables = table_columns(root, slot, "latest_updates", smallest=SMALLEST_UPDATE)
    rows = np.zeros(len(tables), oplog.ROW)
    rows["tag"] = tables.numbers(0, "u1")
    rows["updated_at"] = _times(buffer, tables.longs(2))
    backups = tables.texts(3)
    rows["backup_at"], rows["backup_size"] = backups
    rows["backup_at"][backups.starts == 0] = ABSENT
    rows["text_at"] = rows["status"] = ABSENT
    targets = tables.targets(1, "update_type")
    statuses: list[StoredStatus] = []
    for tag in np.unique(rows["tag"]).tolist():
        if tag not in SHAPES:
            continue
        here = np.flatnonzero(rows["tag"] == tag)
        details = TableColumns(buffer, targets[here])
        for place, (column, form) in enumerate(SHAPES[tag].cells):
            if form == "status":
                with buffer.once():
                    places = targets[here].tolist()
                    found = [read_status(_status_table(buffer, at)) for at in places]
                rows[column][here] = np.arange(len(statuses), len(statuses) + len(found))
                statuses += found
            elif form == "text":
                rows["text_at"][here], rows["text_size"][here] = details.texts(place, "name")
            elif form == "id":
                rows[column][here] = details.ids(place, 12, "snapshot id")
            else:
                rows[column][here] = details.numbers(place, form)
    return UpdateColumns(rows, tuple(statuses), bytes(buffer.data))


def _status_table(buffer: Buffer, at: int) -> Table:
    found = Table(buffer, at).table(0)
    if found is None:
        raise buffer.fail("missing required field status")
    return found


# --- writing ---

ENTRY: Final = TableLayout("id12", "i32!", "u64", OFFSET, OFFSET, OFFSET)
PARENT_AT: Final = ENTRY.plan((True,) * 6).places[1]
"""Where the parent is in an entry, whatever other fields there are."""
UPDATE: Final = TableLayout("u8", OFFSET, "u64", OFFSET)
STATUS: Final = TableLayout("u8", "u64", OFFSET)
_FORMS: Final = {"text": OFFSET, "status": OFFSET, "id": "id12", "u1": "u8", "<u2": "u16"}
KINDS: Final = {
    tag: TableLayout(*(_FORMS[form] for _, form in shape.cells)) for tag, shape in SHAPES.items()
}


def write_snapshots(table: SnapshotTable) -> WrittenRows:
    """Write the snapshots; those that the last file held as they are there."""
    columns = table.columns
    written = _kept(table.written) or _snapshot_block(columns)
    return _grown(written, written.missing, partial(_write_snapshot, columns))


def put_snapshots(writer: FlatWriter, written: WrittenRows, parents: npt.NDArray[np.int32]) -> int:
    """Put written snapshots into a file.

    Rows move when others come between them, so parents are written anew each time.
    """
    data = np.frombuffer(bytearray(written.data), np.uint8)
    data.view("<i4")[written.places + PARENT_AT >> 2] = parents
    return writer.blocks(written.places, data.data)


def write_updates(log: UpdateLog) -> tuple[WrittenRows, WrittenRows]:
    """Write the operations log: what the next file can take over, and that with the newest line.

    The newest line is kept apart, because it will change once more.

    Raises:
        FormatError: it has lines of a kind that only a newer library knows.
    """
    columns = log.columns
    written = _kept(log.written)
    if written is None:
        _refuse_unknown(columns.rows["tag"])
        written = _update_block(columns)
    missing = written.missing
    _refuse_unknown(columns.rows["tag"][missing])
    write = partial(_write_update, columns)
    older = _grown(written, missing[1:], write)
    return older, _grown(older, missing[:1], write)


def _kept(written: WrittenRows | None) -> WrittenRows | None:
    """What was written, if it is worth keeping."""
    if written is None or len(written.missing) > FEW_FRESH:
        return None
    size = len(written.data)
    is_worth_it = size - written.full <= FREE_GROWTH or has_room(size, written.full)
    return written if is_worth_it else None


def _grown(
    written: WrittenRows, rows: npt.NDArray[np.intp], write: Callable[[FlatWriter, int], int]
) -> WrittenRows:
    """Add rows one by one; `write` puts one into a writer."""
    if not len(rows):
        return written
    writer = FlatWriter()
    away = {row: write(writer, row) for row in rows.tolist()}
    data, places = written.data + writer.part(), written.places.copy()
    for row, distance in away.items():
        places[row] = len(data) - distance
    return WrittenRows(data, places, written.full)


def _taken(rows: npt.NDArray[np.void], which: npt.NDArray[np.intp]) -> npt.NDArray[np.void]:
    """Some of the rows; numpy moves opaque items five times as fast as records with fields."""
    return rows.view(f"V{rows.itemsize}")[which].view(rows.dtype)


def _block(writer: FlatWriter, count: int, rows: npt.NDArray[np.intp], away: I64) -> WrittenRows:
    """What a writer holds of `count` rows: some of them, so far from its end."""
    data = writer.part()
    places = np.full(count, NOWHERE, np.int64)
    places[rows] = len(data) - away
    return WrittenRows(data, places, len(data))


def _write_snapshot(columns: SnapshotColumns, writer: FlatWriter, row: int) -> int:
    cells = columns.rows[row].item()
    raw_id, parent, flushed_at, at, size, item_at, items, pruned_at, pruned = cells
    arena = columns.arena
    metadata = [
        writer.table(
            METADATA_ITEM,
            writer.raw_text(arena[name_at : name_at + name_size]),
            writer.blob(arena[value_at : value_at + value_size]),
        )
        for name_at, name_size, value_at, value_size in columns.items[
            item_at : item_at + items
        ].tolist()
    ]
    logs = b"".join(columns.pruned[pruned_at : pruned_at + pruned])
    return writer.table(
        ENTRY,
        raw_id.ljust(SnapshotId.width, b"\0"),
        parent.to_bytes(4, "little", signed=True),
        flushed_at,
        writer.raw_text(arena[at : at + size]),
        writer.offsets(metadata),
        writer.structs(logs, pruned, 1) if pruned else None,
    )


def _snapshot_block(columns: SnapshotColumns) -> WrittenRows:
    """All snapshots but the few whose ancestors were cut out."""
    plain = np.flatnonzero(columns.rows["pruned_count"] == 0)
    rows, arena, writer = _taken(columns.rows, plain), columns.arena, FlatWriter()
    items = _taken(columns.items, spread(Spans(rows["item_at"], rows["item_count"]), 1))
    names = writer.frames(arena, items["name_at"], items["name_size"], TEXT_END)
    values = writer.frames(arena, items["value_at"], items["value_size"], BLOB_END)
    tables = writer.tables(METADATA_ITEM, len(items), names, values)
    metadata = writer.vectors(rows["item_count"], tables)
    messages = writer.frames(arena, rows["message_at"], rows["message_size"], TEXT_END)
    inline = (rows["id"], rows["parent"], rows["flushed_at"])
    away = writer.tables(ENTRY, len(rows), *inline, messages, metadata, None)
    return _block(writer, len(columns.rows), plain, away)


def _refuse_unknown(tags: npt.NDArray[np.uint8]) -> None:
    unknown = set(tags.tolist()) - SHAPES.keys()
    if unknown:
        raise FormatError(
            "a newer library changed this repository; this one can read but not change it",
            kind=ErrorKind.SERIALIZATION,
            update_tags=sorted(unknown),
        )


def _write_update(columns: UpdateColumns, writer: FlatWriter, row: int) -> int:
    line, arena = Line._make(columns.rows[row].item()), columns.arena
    cells: list[int | bytes] = []
    for column, form in SHAPES[line.tag].cells:
        if form == "text":
            cells.append(writer.raw_text(arena[line.text_at : line.text_at + line.text_size]))
        elif form == "status":
            cells.append(write_status(writer, columns.statuses[line.status]))
        elif form == "id":
            cells.append(getattr(line, column).ljust(SnapshotId.width, b"\0"))
        else:
            cells.append(getattr(line, column))
    kind = writer.table(KINDS[line.tag], *cells)
    backup = None
    if line.backup_at != ABSENT:
        backup = writer.raw_text(arena[line.backup_at : line.backup_at + line.backup_size])
    return writer.table(UPDATE, line.tag, kind, line.updated_at, backup)


def _update_block(columns: UpdateColumns) -> WrittenRows:
    """All lines but the newest and other odd ones: without a backup, or with a status."""
    is_plain = (columns.rows["backup_at"] != ABSENT) & (columns.rows["status"] == ABSENT)
    is_plain[:1] = False
    plain = np.flatnonzero(is_plain)
    rows, arena, writer = _taken(columns.rows, plain), columns.arena, FlatWriter()
    kinds = np.zeros(len(rows), np.int64)
    for tag in np.unique(rows["tag"]).tolist():
        here = np.flatnonzero(rows["tag"] == tag)
        some = _taken(rows, here)
        cells = [
            writer.frames(arena, some["text_at"], some["text_size"], TEXT_END)
            if form == "text"
            else some[column].astype("S12" if form == "id" else form)
            for column, form in SHAPES[tag].cells
        ]
        kinds[here] = writer.tables(KINDS[tag], len(here), *cells, stride=UPDATE_STRIDE)
    backups = writer.frames(arena, rows["backup_at"], rows["backup_size"], TEXT_END)
    away = writer.tables(UPDATE, len(rows), rows["tag"], kinds, rows["updated_at"], backups)
    return _block(writer, len(columns.rows), plain, away)


def write_status(writer: FlatWriter, status: StoredStatus) -> int:
    """Write availability."""
    reason = None if status.reason is None else writer.text(status.reason)
    return writer.table(STATUS, status.availability, status.set_at, reason)
