"""The operations log as columns, newest line first.

Each rewrite of the repo object adds one line to a log of up to a thousand, so the log keeps the
columns of the file it came from and makes a record only when it is asked for one. Its byte strings
are framed: a four-byte length before, possibly a NUL after, and zeros up to a multiple of four.
Neighbours are copied into a new file in one piece, which makes rewriting a long history cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, StructRows
from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import SnapshotId, utf8
from frazil.model.plain import MAX_MICROS
from frazil.model.updates import StoredStatus, UnknownUpdate, UpdateEntry, UpdateKind, UpdateType

TEXT_END = 1
"""A text ends in a NUL; other bytes end in nothing."""
BLOB_END = 0
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class WrittenRows:
    """Rows as the last file held them, in bytes that refer only to each other.

    They go into the next file as they are, so that adding a row costs little more than a copy.
    """

    data: bytes
    places: I64
    """of each row in `data`, -1 for those that are not there"""
    full: int
    """bytes of `data` when all rows were last written"""

    @property
    def missing(self) -> npt.NDArray[np.intp]:
        """The rows that are not there."""
        return (self.places < 0).nonzero()[0]

    def with_row(self, place: int) -> WrittenRows:
        """The same with a row more, which is not there."""
        return WrittenRows(self.data, with_row(self.places, place, NOWHERE), self.full)


def with_row(rows: npt.NDArray[Any], place: int, row: object) -> npt.NDArray[Any]:
    """A column with one more row at a place; records are joined slowly by numpy itself."""
    made = np.empty(len(rows) + 1, rows.dtype)
    made[:place], made[place], made[place + 1 :] = rows[:place], row, rows[place:]
    return made


def framed_cell(cell: bytes, end: int) -> bytes:
    """Put a cell into its frame."""
    size = len(cell) + end
    return len(cell).to_bytes(4, "little") + cell + bytes(end + -size % 4)


def append_frames(arena: bytes, cells: Iterable[tuple[bytes, int]]) -> tuple[bytes, list[int]]:
    """Add cells, each with its kind of end, to an arena; tell where each one begins."""
    pieces = [arena, bytes(-len(arena) % 4)]
    size = len(arena) + len(pieces[1])
    starts = []
    for cell, end in cells:
        framed = framed_cell(cell, end)
        pieces.append(framed)
        starts.append(size + 4)
        size += len(framed)
    return b"".join(pieces), starts


def copy_frames(arena: bytes, starts: I64, sizes: I64, end: int) -> tuple[bytes, I64]:
    """Copy frames one after the other; tell where in the copy each frame begins."""
    if not len(starts):
        return b"", np.zeros(0, np.int64)
    spans = (sizes + (4 + end + 3)) & ~3
    first = starts - 4
    last = first + spans
    if int(last.max()) > len(arena):
        arena += bytes(4)  # the padding of a frame at the very end may be missing
    breaks = np.flatnonzero(first[1:] != last[:-1])
    heads = [int(first[0]), *first[breaks + 1].tolist()]
    tails = [*last[breaks].tolist(), int(last[-1])]
    copy = b"".join([arena[a:b] for a, b in zip(heads, tails, strict=True)])
    return copy, np.cumsum(spans) - spans


ROW: Final = np.dtype(
    [
        ("tag", "u1"),
        ("updated_at", "<u8"),
        ("backup_at", "<i8"),
        ("backup_size", "<i8"),
        ("text_at", "<i8"),
        ("text_size", "<i8"),
        ("first", "S12"),
        ("second", "S12"),
        ("number", "<u2"),
        ("high", "u1"),
        ("low", "u1"),
        ("status", "<i4"),
    ]
)
ABSENT: Final = -1


@dataclass(frozen=True, slots=True)
class UpdateShape:
    """A record and, in the order of its fields, the column and stored form of each."""

    record: type[Any]
    cells: tuple[tuple[str, str], ...] = ()


_NAME: Final = ("text", "text")
_FIRST: Final = ("first", "id")
_SECOND: Final = ("second", "id")

# The union tag of the file is the place in this list, counted from one. A flag is stored with
# a third number that tells whether it is set.
SHAPES: Final = dict(
    enumerate(
        (
            UpdateShape(UpdateType.RepoInitialized),
            UpdateShape(UpdateType.RepoMigrated, (("number", "u1"), ("high", "u1"))),
            UpdateShape(UpdateType.ConfigChanged),
            UpdateShape(UpdateType.MetadataChanged),
            UpdateShape(UpdateType.TagCreated, (_NAME,)),
            UpdateShape(UpdateType.TagDeleted, (_NAME, _FIRST)),
            UpdateShape(UpdateType.BranchCreated, (_NAME,)),
            UpdateShape(UpdateType.BranchDeleted, (_NAME, _FIRST)),
            UpdateShape(UpdateType.BranchReset, (_NAME, _FIRST)),
            UpdateShape(UpdateType.NewCommit, (_NAME, _FIRST)),
            UpdateShape(UpdateType.CommitAmended, (_NAME, _FIRST, _SECOND)),
            UpdateShape(UpdateType.NewDetachedSnapshot, (_FIRST,)),
            UpdateShape(UpdateType.GCRan),
            UpdateShape(UpdateType.ExpirationRan),
            UpdateShape(
                UpdateType.FeatureFlagChanged, (("number", "<u2"), ("high", "u1"), ("low", "u1"))
            ),
            UpdateShape(UpdateType.RepoStatusChanged, (("status", "status"),)),
        ),
        start=1,
    )
)
_TAGS: Final = {shape.record: tag for tag, shape in SHAPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class UpdateColumns:
    """`rows` point into `arena` for text and into `statuses`."""

    rows: StructRows
    statuses: tuple[StoredStatus, ...]
    arena: bytes


class UpdateLog(Sequence[UpdateEntry]):
    """Lines of the operations log, newest first; columns may be loaded on first use."""

    def __init__(
        self,
        columns: UpdateColumns | Callable[[], UpdateColumns],
        *,
        key: str = "repo",
        written: WrittenRows | None = None,
    ) -> None:
        self._source = columns
        self.written: Final = written
        """the encoded lines of the last file, which speed up encoding the next one"""
        self._key = key

    def keeping(self, written: WrittenRows) -> Self:
        """The same log with the encoded lines of a file."""
        return type(self)(self.columns, key=self._key, written=written)

    @classmethod
    def of(cls, entries: Iterable[UpdateEntry]) -> Self:
        """Make a log from entries, newest first."""
        if isinstance(entries, cls):
            return entries
        columns = UpdateColumns(np.zeros(0, ROW), (), b"")
        for entry in reversed(tuple(entries)):
            columns = _prepended(columns, entry)
        return cls(columns)

    @cached_property
    def columns(self) -> UpdateColumns:
        """The whole log."""
        return self._source() if callable(self._source) else self._source

    @property
    def newest_at(self) -> int:
        """The time of the newest line; 0 without one."""
        rows = self.columns.rows
        return int(rows["updated_at"][0]) if len(rows) else 0

    def __len__(self) -> int:
        return len(self.columns.rows)

    @overload
    def __getitem__(self, index: int) -> UpdateEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[UpdateEntry]: ...
    def __getitem__(self, index: int | slice) -> UpdateEntry | Sequence[UpdateEntry]:
        if isinstance(index, slice):
            return self._entries(index)
        row = range(len(self))[index]
        return self._entries(slice(row, row + 1))[0]

    def __iter__(self) -> Iterator[UpdateEntry]:
        return iter(self._entries(slice(None)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # a sequence that compares by content

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} updates)"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.columns,)

    def with_newest(
        self, entry: UpdateEntry, *, backup_path: str, limit: int
    ) -> tuple[Self, str | None]:
        """The log with one more line, and the backup that older lines must be looked up in.

        The line that was newest gets `backup_path`. Once `limit` lines are kept, the next one
        that has a backup is dropped together with all older ones.
        """
        first = max(limit, 1)
        columns = _prepended(self.columns, entry, backup_path)
        rows, cut, before = columns.rows, len(columns.rows), None
        if len(rows) > first:
            cuts = np.flatnonzero(rows["backup_at"][first:] != ABSENT)
            if len(cuts):
                cut = first + int(cuts[0])
                before = type(self)(columns, key=self._key)[cut].backup_path
        kept = UpdateColumns(rows[:cut], columns.statuses, columns.arena)
        return type(self)(kept, key=self._key, written=self._written_of(cut)), before

    def _written_of(self, count: int) -> WrittenRows | None:
        """The encoded lines that stay valid after a new line, which also changes the next one."""
        if self.written is None:
            return None
        places = with_row(self.written.places, 0, NOWHERE)[:count]
        places[:2] = NOWHERE
        return WrittenRows(self.written.data, places, self.written.full)

    def _entries(self, rows: slice) -> list[UpdateEntry]:
        return [self._entry(Line._make(cells)) for cells in self.columns.rows[rows].tolist()]

    def _entry(self, line: Line) -> UpdateEntry:
        columns = self.columns
        try:
            backup = None
            if line.backup_at != ABSENT:
                end = line.backup_at + line.backup_size
                backup = columns.arena[line.backup_at : end].decode()
            return UpdateEntry(_kind(columns, line), line.updated_at, backup)
        except UnicodeDecodeError as error:
            raise FormatError("damaged file: text is not UTF-8", key=self._key) from error


class Line(NamedTuple):
    """One row as Python values, in the order of `ROW`."""

    tag: int
    updated_at: int
    backup_at: int
    backup_size: int
    text_at: int
    text_size: int
    first: bytes
    second: bytes
    number: int
    high: int
    low: int
    status: int


_EMPTY: Final = Line(0, 0, ABSENT, 0, ABSENT, 0, b"", b"", 0, 0, 0, ABSENT)


def _kind(columns: UpdateColumns, line: Line) -> UpdateKind:
    shape = SHAPES.get(line.tag)
    if shape is None:
        return UnknownUpdate(line.tag)
    values: list[Any] = []
    for column, form in shape.cells:
        if form == "text":
            values.append(columns.arena[line.text_at : line.text_at + line.text_size].decode())
        elif form == "id":
            # numpy takes zeros at the end of a text for padding.
            values.append(SnapshotId(getattr(line, column).ljust(12, b"\0")))
        elif form == "status":
            values.append(columns.statuses[line.status])
        else:
            values.append(getattr(line, column))
    if shape.record is UpdateType.FeatureFlagChanged:
        flag, value, is_set = values
        return UpdateType.FeatureFlagChanged(flag, bool(value) if is_set else None)
    kind: UpdateKind = shape.record(*values)
    return kind


def _prepended(
    columns: UpdateColumns, entry: UpdateEntry, backup_path: str | None = None
) -> UpdateColumns:
    """The columns with one more line, and a backup path for the line that was newest."""
    if not 0 <= entry.updated_at <= MAX_MICROS:
        raise InvalidInputError("impossible time", kind=ErrorKind.BAD_METADATA)
    cells: dict[str, Any] = {"tag": _tag(entry.kind), "updated_at": entry.updated_at}
    statuses = columns.statuses
    texts = {"older": backup_path if len(columns.rows) else None, "backup": entry.backup_path}
    for (column, form), value in _cells(entry.kind):
        if form == "text":
            texts[column] = value
        elif form == "status":
            cells[column] = len(statuses)
            statuses = (*statuses, value)
        else:
            cells[column] = bytes(value) if form == "id" else value
    raw = {name: utf8(text) for name, text in texts.items() if text is not None}
    arena, starts = append_frames(columns.arena, [(text, TEXT_END) for text in raw.values()])
    spans = {name: (at, len(raw[name])) for name, at in zip(raw, starts, strict=True)}
    older = spans.pop("older", None)
    for name, (at, size) in spans.items():
        cells |= {f"{name}_at": at, f"{name}_size": size}
    rows = with_row(columns.rows, 0, _EMPTY._replace(**cells))
    if older is not None:
        rows["backup_at"][1], rows["backup_size"][1] = older
    return UpdateColumns(rows, statuses, arena)


def _tag(kind: UpdateKind) -> int:
    if isinstance(kind, UnknownUpdate):
        raise FormatError(
            "an update of an unknown kind cannot be written again",
            kind=ErrorKind.SERIALIZATION,
            tag=kind.tag,
        )
    return _TAGS[type(kind)]


def _cells(kind: UpdateKind) -> Iterator[tuple[tuple[str, str], Any]]:
    """Column and form of each field of a record, with its value."""
    shape = SHAPES[_tag(kind)]
    values = [getattr(kind, name) for name in shape.record.__match_args__]
    if isinstance(kind, UpdateType.FeatureFlagChanged):
        values = [kind.id, bool(kind.new_value), kind.new_value is not None]
    return zip(shape.cells, values, strict=True)
