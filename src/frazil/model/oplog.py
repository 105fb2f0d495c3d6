"""The operations log as columns, newest line first.

Each rewrite of the repo object adds one line to a log of up to a thousand, so the log keeps the
columns of the file it came from and makes a record only when it is asked for one
(format reference 3.6, `Update`, and 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import SnapshotId
from frazil.model import updates
from frazil.model.framed import TEXT_END, append_frames
from frazil.model.plain import MAX_MICROS
from frazil.model.updates import FeatureFlagChanged, Status, UnknownUpdate, UpdateEntry, UpdateKind

Rows: TypeAlias = npt.NDArray[np.void]

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
            UpdateShape(updates.RepoInitialized),
            UpdateShape(updates.RepoMigrated, (("number", "u1"), ("high", "u1"))),
            UpdateShape(updates.ConfigChanged),
            UpdateShape(updates.MetadataChanged),
            UpdateShape(updates.TagCreated, (_NAME,)),
            UpdateShape(updates.TagDeleted, (_NAME, _FIRST)),
            UpdateShape(updates.BranchCreated, (_NAME,)),
            UpdateShape(updates.BranchDeleted, (_NAME, _FIRST)),
            UpdateShape(updates.BranchReset, (_NAME, _FIRST)),
            UpdateShape(updates.NewCommit, (_NAME, _FIRST)),
            UpdateShape(updates.CommitAmended, (_NAME, _FIRST, _SECOND)),
            UpdateShape(updates.NewDetachedSnapshot, (_FIRST,)),
            UpdateShape(updates.GCRan),
            UpdateShape(updates.ExpirationRan),
            UpdateShape(FeatureFlagChanged, (("number", "<u2"), ("high", "u1"), ("low", "u1"))),
            UpdateShape(updates.RepoStatusChanged, (("status", "status"),)),
        ),
        start=1,
    )
)
_TAGS: Final = {shape.record: tag for tag, shape in SHAPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class UpdateColumns:
    """`rows` point into `arena` for text and into `statuses`."""

    rows: Rows
    statuses: tuple[Status, ...]
    arena: bytes


class UpdateLog(Sequence[UpdateEntry]):
    """Lines of the operations log, newest first; columns may be loaded on first use."""

    def __init__(
        self, columns: UpdateColumns | Callable[[], UpdateColumns], *, key: str = "repo"
    ) -> None:
        self._source = columns
        self._key = key

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

    def __len__(self) -> int:
        return len(self.columns.rows)

    @overload
    def __getitem__(self, index: int) -> UpdateEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[UpdateEntry]: ...
    def __getitem__(self, index: int | slice) -> UpdateEntry | Sequence[UpdateEntry]:
        if isinstance(index, slice):
            return tuple(self._entry(row) for row in range(*index.indices(len(self))))
        return self._entry(range(len(self))[index])

    def __iter__(self) -> Iterator[UpdateEntry]:
        return map(self._entry, range(len(self)))

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
        columns = self.columns
        if len(columns.rows):
            columns = _with_backup(columns, backup_path)
        columns = _prepended(columns, entry)
        rows = columns.rows
        cuts = np.flatnonzero(rows["backup_at"][max(limit, 1) :] != ABSENT)
        if not len(cuts):
            return type(self)(columns, key=self._key), None
        cut = max(limit, 1) + int(cuts[0])
        dropped = _text(columns, rows[cut], "backup", self._key)
        kept = UpdateColumns(rows[:cut], columns.statuses, columns.arena)
        return type(self)(kept, key=self._key), dropped

    def _entry(self, row: int) -> UpdateEntry:
        columns = self.columns
        line = columns.rows[row]
        return UpdateEntry(
            _kind(columns, line, self._key),
            int(line["updated_at"]),
            _text(columns, line, "backup", self._key),
        )


def _text(columns: UpdateColumns, line: np.void, name: str, key: str) -> str | None:
    at, size = int(line[f"{name}_at"]), int(line[f"{name}_size"])
    if at == ABSENT:
        return None
    try:
        return columns.arena[at : at + size].decode()
    except UnicodeDecodeError as error:
        raise FormatError("damaged file: text is not UTF-8", key=key) from error


def _kind(columns: UpdateColumns, line: np.void, key: str) -> UpdateKind:
    tag = int(line["tag"])
    shape = SHAPES.get(tag)
    if shape is None:
        return UnknownUpdate(tag)
    values: list[Any] = []
    for column, form in shape.cells:
        if form == "text":
            values.append(_text(columns, line, column, key))
        elif form == "id":
            # numpy takes zeros at the end of a text for padding.
            values.append(SnapshotId(bytes(line[column]).ljust(12, b"\0")))
        elif form == "status":
            values.append(columns.statuses[int(line[column])])
        else:
            values.append(int(line[column]))
    if shape.record is FeatureFlagChanged:
        flag, value, is_set = values
        return FeatureFlagChanged(flag, bool(value) if is_set else None)
    kind: UpdateKind = shape.record(*values)
    return kind


def _with_backup(columns: UpdateColumns, backup_path: str) -> UpdateColumns:
    """The columns with a backup path in the newest line."""
    raw = backup_path.encode()
    arena, (at,) = append_frames(columns.arena, [(raw, TEXT_END)])
    rows = columns.rows.copy()
    rows["backup_at"][0] = at
    rows["backup_size"][0] = len(raw)
    return UpdateColumns(rows, columns.statuses, arena)


def _prepended(columns: UpdateColumns, entry: UpdateEntry) -> UpdateColumns:
    """The columns with one more line before the others."""
    line = np.zeros(1, ROW)
    line["updated_at"] = _checked_time(entry)
    line["backup_at"] = line["text_at"] = line["status"] = ABSENT
    statuses, arena = columns.statuses, columns.arena
    if entry.backup_path is not None:
        arena = _put_text(line, "backup", entry.backup_path, arena)
    kind = entry.kind
    if isinstance(kind, UnknownUpdate):
        raise FormatError(
            "an update of an unknown kind cannot be written again",
            kind=ErrorKind.SERIALIZATION,
            tag=kind.tag,
        )
    line["tag"] = _TAGS[type(kind)]
    values = [getattr(kind, item.name) for item in fields(kind)]
    if isinstance(kind, FeatureFlagChanged):
        values = [kind.id, bool(kind.new_value), kind.new_value is not None]
    for (column, form), value in zip(SHAPES[_TAGS[type(kind)]].cells, values, strict=True):
        if form == "text":
            arena = _put_text(line, column, value, arena)
        elif form == "status":
            line[column] = len(statuses)
            statuses = (*statuses, value)
        else:
            line[column] = bytes(value) if form == "id" else value
    return UpdateColumns(np.concatenate([line, columns.rows]), statuses, arena)


def _checked_time(entry: UpdateEntry) -> int:
    if not 0 <= entry.updated_at <= MAX_MICROS:
        raise InvalidInputError("impossible time", kind=ErrorKind.BAD_METADATA)
    return entry.updated_at


def _put_text(line: Rows, name: str, text: str, arena: bytes) -> bytes:
    raw = text.encode()
    arena, (at,) = append_frames(arena, [(raw, TEXT_END)])
    line[f"{name}_at"] = at
    line[f"{name}_size"] = len(raw)
    return arena
