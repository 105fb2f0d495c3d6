"""The two long lists of the repo object, as columns: snapshots and updates.

Both are written as one piece of bytes whose tables have a fixed stride, one vtable for each
combination of fields, and all text behind them. Text is copied from the file it was read from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, FormatError
from frazil.formats.flat import U64, Buffer, Table
from frazil.formats.flat_columns import I64, Spans, TableColumns, spread, table_columns
from frazil.ids import SnapshotId
from frazil.model import oplog, snapshots
from frazil.model.framed import BLOB_END, NOWHERE, TEXT_END, Written, copy_frames, frame, with_row
from frazil.model.oplog import ABSENT, SHAPES, Line, UpdateColumns, UpdateLog
from frazil.model.plain import MAX_MICROS
from frazil.model.snapshots import NO_PARENT, SnapshotColumns, SnapshotTable
from frazil.model.updates import RepoAvailability, Status

HEAD: Final = 4
"""The vector begins here in a piece, so that the tables after it are aligned."""
SMALLEST_SNAPSHOT: Final = 28
"""Bytes of a snapshot with an id, a message and its place in the vector."""
SMALLEST_UPDATE: Final = 16
"""Bytes of a line of the operations log: four of its place, its vtable, its kind and a time."""


# --- reading ---


def read_snapshots(root: Table, slot: int) -> SnapshotColumns:
    """Read the snapshots of the repo object.

    Raises:
        FormatError: they are damaged, out of order, or have impossible parents or times.
    """
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


def read_status(table: Table) -> Status:
    """Read availability; what is neither online nor read-only counts as online."""
    set_at = table.number(1, U64)
    if set_at > MAX_MICROS:
        raise table.buffer.fail("impossible time")
    is_read_only = table.byte(0) == RepoAvailability.read_only
    availability = RepoAvailability.read_only if is_read_only else RepoAvailability.online
    return Status(availability, set_at, table.text(2))


def read_updates(root: Table, slot: int) -> UpdateColumns:
    """Read the operations log of the repo object."""
    buffer = root.buffer
    tables = table_columns(root, slot, "latest_updates", smallest=SMALLEST_UPDATE)
    rows = np.zeros(len(tables), oplog.ROW)
    rows["tag"] = tables.numbers(0, "u1")
    rows["updated_at"] = _times(buffer, tables.longs(2))
    backups = tables.texts(3)
    rows["backup_at"], rows["backup_size"] = _or_absent(backups), backups.counts
    rows["text_at"] = rows["status"] = ABSENT
    targets = tables.targets(1, "update_type")
    statuses: list[Status] = []
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


def _or_absent(spans: Spans) -> I64:
    return np.where(spans.starts == 0, ABSENT, spans.starts)


def _status_table(buffer: Buffer, at: int) -> Table:
    found = Table(buffer, at).table(0)
    if found is None:
        raise buffer.fail("missing required field status")
    return found


# --- writing ---

SNAPSHOT_RECORD: Final = np.dtype(
    [
        ("vtable", "<i4"),
        ("parent", "<i4"),
        ("flushed_at", "<u8"),
        ("id", "S12"),
        ("message", "<u4"),
        ("metadata", "<u4"),
        ("pruned", "<u4"),
    ]
)
ITEM_RECORD: Final = np.dtype([("vtable", "<i4"), ("name", "<u4"), ("value", "<u4")])
UPDATE_RECORD: Final = np.dtype(
    [
        ("vtable", "<i4"),
        ("kind", "<u4"),
        ("backup", "<u4"),
        ("tag", "u1"),
        ("gap", "V3"),
        ("updated_at", "<u8"),
        ("kind_vtable", "<i4"),
        ("first", "S12"),
        ("text", "<u4"),
        ("second", "S12"),
        ("number", "<u2"),
        ("high", "u1"),
        ("low", "u1"),
        ("end", "V4"),
    ]
)
"""An update and, from `kind_vtable` on, the table that tells its kind.

What differs from line to line stands together, which makes the work of zstd shorter.
"""


def _place(record: np.dtype[np.void], name: str) -> int:
    assert record.fields is not None
    return int(record.fields[name][1])


PARENT_AT: Final = _place(SNAPSHOT_RECORD, "parent")
KIND_AT: Final = _place(UPDATE_RECORD, "kind_vtable")
FEW: Final = 16
"""Rows written one by one; from here on columns are quicker."""
DROPPED_SHARE: Final = 8
"""Lines are copied until one in so many of them is no longer wanted."""
_SNAPSHOT: Final = struct.Struct("<iiQ12sIII")
_UPDATE: Final = struct.Struct("<iIIB3xQi12sI12sHBB4x")
_ITEM: Final = struct.Struct("<iII")
_ITEM_VTABLE: Final = struct.pack("<4H", 8, 12, 4, 8)
_STATUS: Final = struct.Struct("<iB3xQI4x")
_STATUS_VTABLES: Final = tuple(struct.pack("<5H6x", 10, 24, 4, 8, at) for at in (0, 16))


def _snapshot_vtable(*, pruned: bool) -> bytes:
    names = ("id", "parent", "flushed_at", "message", "metadata", "pruned")
    at = {name: _place(SNAPSHOT_RECORD, name) for name in names}
    at["pruned"] *= pruned
    return struct.pack("<8H", 16, SNAPSHOT_RECORD.itemsize, *at.values())


# By has_pruned.
_SNAPSHOT_VTABLES: Final = b"".join(_snapshot_vtable(pruned=pruned) for pruned in (False, True))
# By has_backup, each padded to 16 bytes.
_UPDATE_VTABLES: Final = b"".join(
    struct.pack(
        "<6H4x",
        12,
        KIND_AT,
        *(_place(UPDATE_RECORD, name) for name in ("tag", "kind", "updated_at")),
        backup,
    )
    for backup in (0, _place(UPDATE_RECORD, "backup"))
)


def _kind_vtable(tag: int) -> bytes:
    """Where the fields of one kind of update are; a status is reached like a text."""
    cells = [
        _place(UPDATE_RECORD, "text" if column == "status" else column) - KIND_AT
        for column, _ in SHAPES[tag].cells
    ]
    size = UPDATE_RECORD.itemsize - KIND_AT
    return struct.pack(f"<{2 + len(cells)}H", 4 + 2 * len(cells), size, *cells).ljust(16, b"\0")


# By tag, each padded to 16 bytes.
_KIND_VTABLES: Final = bytes(16) + b"".join(_kind_vtable(tag) for tag in sorted(SHAPES))


class _Block:
    """Vtables, `count` tables of fixed size, and after them what they refer to."""

    def __init__(self, record: np.dtype[np.void], count: int, vtables: bytes) -> None:
        first = len(vtables)
        self.records = np.zeros(count, record)
        self.places: I64 = np.arange(first, first + record.itemsize * count, record.itemsize)
        self._vtables = vtables
        self._size = first + record.itemsize * count
        self._parts: list[bytes] = []

    def reserve(self, size: int) -> int:
        """Tell where the next part will begin."""
        at = self._size
        self._size += size
        return at

    def add(self, part: bytes) -> int:
        """Append a part and tell where it begins; all parts are multiples of four long."""
        self._parts.append(part)
        return self.reserve(len(part))

    def fill(self, part: bytes) -> None:
        """Append a part whose place was reserved before."""
        self._parts.append(part)

    def point(self, name: str, rows: Any, targets: I64) -> None:  # noqa: ANN401  # any index
        """Let an offset field of some rows point to something in this block."""
        at = self.places[rows] + _place(self.records.dtype, name)
        self.records[name][rows] = targets - at

    def join(self) -> Written:
        """The bytes, a multiple of eight, and where the tables are."""
        self.add(bytes(-self._size % 8))
        data = b"".join((self._vtables, self.records.tobytes(), *self._parts))
        return Written(data, self.places)


def with_vector(data: bytes, places: I64) -> tuple[npt.NDArray[np.uint8], int]:
    """A vector of tables at `HEAD` and then their bytes; tell also where those begin."""
    count = len(places)
    first = HEAD + 4 + 4 * count
    base = first + -first % 8
    piece = np.zeros(base + len(data), np.uint8)
    piece[base:] = np.frombuffer(data, np.uint8)
    words = piece[:first].view("<u4")
    words[1] = count
    words[2:] = places + np.arange(base - HEAD - 4, base - HEAD - 4 - 4 * count, -4)
    return piece, base


def write_snapshots(table: SnapshotTable) -> memoryview:
    """Write the snapshots as a vector at `HEAD` of a piece of bytes."""
    columns = table.columns
    written = table.written
    if written is None or len(fresh := np.flatnonzero(written.places < 0)) > FEW:
        written = _snapshot_block(columns, columns.rows)
    elif len(fresh):
        written = _grown(written, fresh, partial(_snapshot_piece, columns))
    table.written = written
    piece, base = with_vector(written.data, written.places)
    # Rows move when others come between them, so parents are written anew each time.
    piece[base:].view("<i4")[written.places + PARENT_AT >> 2] = columns.rows["parent"]
    return piece.data


def _grown(
    written: Written, fresh: npt.NDArray[np.intp], write: Callable[[int, int], bytes]
) -> Written:
    """Add rows one by one; `write` gets a row and its place and returns its bytes."""
    pieces, size, places = [written.data], len(written.data), written.places.copy()
    for row in fresh.tolist():
        piece = write(row, size)
        piece += bytes(-len(piece) % 8)
        places[row] = size
        pieces.append(piece)
        size += len(piece)
    return Written(b"".join(pieces), places, written.dropped)


def _snapshot_piece(columns: SnapshotColumns, row: int, at: int) -> bytes:
    """One snapshot that refers back to the vtables at the beginning of all."""
    cells = columns.rows[row].item()
    raw_id, parent, flushed_at, message, size, item_at, items, pruned_at, pruned = cells
    tail = frame(columns.arena[message : message + size], TEXT_END)
    metadata = _SNAPSHOT.size + len(tail)
    tail += _items_piece(columns, item_at, items, at + metadata)
    logs = _SNAPSHOT.size + len(tail)
    if pruned:
        tail += pruned.to_bytes(4, "little")
        tail += b"".join(columns.pruned[pruned_at : pruned_at + pruned])
    vtable = 16 * (pruned > 0)
    record = _SNAPSHOT.pack(
        at - vtable,
        parent,
        flushed_at,
        raw_id,
        _SNAPSHOT.size - _place(SNAPSHOT_RECORD, "message"),
        metadata - _place(SNAPSHOT_RECORD, "metadata"),
        logs - _place(SNAPSHOT_RECORD, "pruned") if pruned else 0,
    )
    return record + tail


def _items_piece(columns: SnapshotColumns, first: int, count: int, at: int) -> bytes:
    """The metadata of one snapshot: a vector, its tables, names and values."""
    vector, records, texts = count.to_bytes(4, "little"), b"", b""
    start = 4 + 4 * count
    end = start + _ITEM.size * count
    for place in range(start, end, _ITEM.size):
        item = columns.items[first + (place - start) // _ITEM.size].item()
        name_at, name_size, value_at, value_size = item
        name = end + len(texts)
        texts += frame(columns.arena[name_at : name_at + name_size], TEXT_END)
        value = end + len(texts)
        texts += frame(columns.arena[value_at : value_at + value_size], BLOB_END)
        vtable = at + place - len(_SNAPSHOT_VTABLES)
        records += _ITEM.pack(vtable, name - place - 4, value - place - 8)
        vector += (place - len(vector)).to_bytes(4, "little")
    return vector + records + texts


def _snapshot_block(columns: SnapshotColumns, rows: npt.NDArray[np.void]) -> Written:
    arena, counts = columns.arena, rows["item_count"]
    items = columns.items[spread(Spans(rows["item_at"], counts), 1)]
    piece = _Block(SNAPSHOT_RECORD, len(rows), _SNAPSHOT_VTABLES + _ITEM_VTABLE)
    records = piece.records
    has_pruned = rows["pruned_count"] > 0
    records["vtable"] = piece.places - 16 * has_pruned
    for name in ("id", "flushed_at", "parent"):
        records[name] = rows[name]
    vectors = _write_items(piece, items, counts, arena)
    piece.point("metadata", slice(None), vectors)
    text, places = copy_frames(arena, rows["message_at"], rows["message_size"], TEXT_END)
    piece.point("message", slice(None), piece.add(text) + places)
    for row in np.flatnonzero(has_pruned).tolist():
        first, count = int(rows["pruned_at"][row]), int(rows["pruned_count"][row])
        logs = b"".join(columns.pruned[first : first + count])
        target = piece.add(count.to_bytes(4, "little") + logs)
        piece.point("pruned", [row], np.array([target]))
    return piece.join()


def _write_items(piece: _Block, items: npt.NDArray[np.void], counts: I64, arena: bytes) -> I64:
    """Write metadata and tell where the vector of each row is; empty ones are all the same."""
    has_items = counts > 0
    lengths = np.where(has_items, 1 + counts, 0)
    heads: I64 = np.where(has_items, 1 + np.cumsum(lengths) - lengths, 0)
    words = np.zeros(1 + int(lengths.sum()), "<u4")
    first_word = piece.reserve(words.nbytes)
    records = np.zeros(len(items), ITEM_RECORD)
    first_item = piece.reserve(records.nbytes)
    numbers = spread(Spans(heads + 1, counts), 1)
    places = first_item + ITEM_RECORD.itemsize * np.arange(len(items), dtype=np.int64)
    words[heads] = counts
    words[numbers] = places - (first_word + 4 * numbers)
    names, name_at = copy_frames(arena, items["name_at"], items["name_size"], TEXT_END)
    values, value_at = copy_frames(arena, items["value_at"], items["value_size"], BLOB_END)
    records["vtable"] = places - len(_SNAPSHOT_VTABLES)
    records["name"] = piece.reserve(len(names)) + name_at - (places + 4)
    records["value"] = piece.reserve(len(values)) + value_at - (places + 8)
    for part in (words.tobytes(), records.tobytes(), names, values):
        piece.fill(part)
    return first_word + 4 * heads


def write_updates(log: UpdateLog) -> memoryview:
    """Write the operations log as a vector at `HEAD` of a piece of bytes.

    Raises:
        FormatError: it has lines of a kind that only a newer library knows.
    """
    columns = log.columns
    written = log.written
    if (
        written is None
        or written.dropped * DROPPED_SHARE > len(log)
        or len(fresh := np.flatnonzero(written.places < 0)) > FEW
    ):
        # The newest line is kept apart: it will change once more.
        block = _update_block(columns, columns.rows[1:])
        written = Written(block.data, with_row(block.places, 0, NOWHERE)[: len(log)])
        fresh = np.arange(len(log))[:1]
    _refuse_unknown(columns.rows["tag"][fresh])
    write = partial(_update_piece, columns)
    log.written = written = _grown(written, fresh[1:], write)
    complete = _grown(written, fresh[:1], write)
    return with_vector(complete.data, complete.places)[0].data


def _refuse_unknown(tags: npt.NDArray[np.uint8]) -> None:
    unknown = set(tags.tolist()) - SHAPES.keys()
    if unknown:
        raise FormatError(
            "a newer library changed this repository; this one can read but not change it",
            kind=ErrorKind.SERIALIZATION,
            update_tags=sorted(unknown),
        )


def _update_piece(columns: UpdateColumns, row: int, at: int) -> bytes:
    """One line that refers back to the vtables at the beginning of all."""
    line = Line._make(columns.rows[row].item())
    tail, text, backup = b"", 0, 0
    if line.text_at != ABSENT:
        text = _UPDATE.size
        tail = frame(columns.arena[line.text_at : line.text_at + line.text_size], TEXT_END)
    if line.backup_at != ABSENT:
        backup = _UPDATE.size + len(tail)
        end = line.backup_at + line.backup_size
        tail += frame(columns.arena[line.backup_at : end], TEXT_END)
    if line.status != ABSENT:
        tail += bytes(-len(tail) % 8)
        status, inside = _status(columns.statuses[line.status])
        text = _UPDATE.size + len(tail) + inside
        tail += status
    kind_vtable = len(_UPDATE_VTABLES) + 16 * line.tag
    record = _UPDATE.pack(
        at - 16 * (backup > 0),
        KIND_AT - _place(UPDATE_RECORD, "kind"),
        backup and backup - _place(UPDATE_RECORD, "backup"),
        line.tag,
        line.updated_at,
        at + KIND_AT - kind_vtable,
        line.first,
        text and text - _place(UPDATE_RECORD, "text"),
        line.second,
        line.number,
        line.high,
        line.low,
    )
    return record + tail


def _update_block(columns: UpdateColumns, rows: npt.NDArray[np.void]) -> Written:
    _refuse_unknown(np.unique(rows["tag"]))
    arena = columns.arena
    piece = _Block(UPDATE_RECORD, len(rows), _UPDATE_VTABLES + _KIND_VTABLES)
    records = piece.records
    has_backup = rows["backup_at"] != ABSENT
    kind_vtables = len(_UPDATE_VTABLES)
    records["vtable"] = piece.places - 16 * has_backup
    records["kind"] = KIND_AT - _place(UPDATE_RECORD, "kind")
    records["kind_vtable"] = piece.places + KIND_AT - (kind_vtables + 16 * rows["tag"].astype("i8"))
    for name in ("updated_at", "tag", "first", "second", "number", "high", "low"):
        records[name] = rows[name]
    for name, has_text in (("backup", has_backup), ("text", rows["text_at"] != ABSENT)):
        here = np.flatnonzero(has_text)
        starts, sizes = rows[f"{name}_at"][here], rows[f"{name}_size"][here]
        text, places = copy_frames(arena, starts, sizes, TEXT_END)
        piece.point(name, here, piece.add(text) + places)
    for row in np.flatnonzero(rows["status"] != ABSENT).tolist():
        status, inside = _status(columns.statuses[int(rows["status"][row])])
        piece.add(bytes(-piece.reserve(0) % 8))
        piece.point("text", [row], np.array([piece.add(status) + inside]))
    return piece.join()


def _status(status: Status) -> tuple[bytes, int]:
    """A status with its vtable, to be placed at a multiple of eight; tell where it begins."""
    vtable = _STATUS_VTABLES[status.reason is not None]
    reason = 0 if status.reason is None else _STATUS.size - 16
    data = vtable + _STATUS.pack(len(vtable), status.availability, status.set_at, reason)
    if status.reason is not None:
        data += frame(status.reason.encode(), TEXT_END)
    return data, len(vtable)
