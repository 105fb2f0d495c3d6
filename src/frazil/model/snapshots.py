"""The snapshots of a repository as columns, with an entry made only when it is asked for.

A history has thousands of snapshots and each commit adds one, so everything that touches all
of them works on whole columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from frazil.arrays import StructRows
from frazil.errors import ErrorKind, FormatError, InvalidInputError, SnapshotNotFoundError
from frazil.ids import SnapshotId, crockford_many
from frazil.model.oplog import BLOB_END, TEXT_END, WrittenRows, append_frames, with_row
from frazil.model.plain import EPOCH, MAX_MICROS, Metadata, Micros, ValueCodec

ROW: Final = np.dtype(
    [
        ("id", "S12"),
        ("parent", "<i4"),
        ("flushed_at", "<u8"),
        ("message_at", "<i8"),
        ("message_size", "<i8"),
        ("item_at", "<i8"),
        ("item_count", "<i8"),
        ("pruned_at", "<i8"),
        ("pruned_count", "<i8"),
    ]
)
ITEM: Final = np.dtype(
    [("name_at", "<i8"), ("name_size", "<i8"), ("value_at", "<i8"), ("value_size", "<i8")]
)
NO_PARENT: Final = -1
MAX_PAGE: Final = 1024
"""The largest number of commits of a page of history; the first pages are smaller."""


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """What history needs to know of a snapshot without opening its file."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: Micros
    message: str
    metadata: Metadata
    pruned_ancestor_tx_logs: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotColumns:
    """`rows` ascend by id; they point into `items`, into `pruned`, and with those into `arena`."""

    rows: StructRows
    items: StructRows
    pruned: tuple[SnapshotId, ...]
    arena: bytes


class HistoryPage:
    """Consecutive commits, newest first; they are decoded together, when one of them is used."""

    def __init__(self, table: SnapshotTable, rows: Sequence[int]) -> None:
        self._table = table
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def entries(self) -> list[SnapshotEntry]:
        """What history knows of each."""
        cells = self._table.columns.rows[self._rows].tolist()
        return list(map(self._table.entry_of, self._rows, cells))

    @cached_property
    def names(self) -> list[str]:
        """The text of each id and, at the end, that of the last one's parent or nothing."""
        raw = self._table.columns.rows["id"][self._rows]
        names = crockford_many(raw.view(np.uint8).reshape(len(raw), SnapshotId.width))
        parent = self._table.parent_at(self._rows[-1])
        return [*names, "" if parent is None else str(parent)]

    @property
    def is_read(self) -> bool:
        """Whether the page was decoded."""
        return "shown" in self.__dict__

    @cached_property
    def shown(self) -> list[tuple[str, str | None, datetime, str, Metadata]]:
        """Id, parent, time, message and metadata of each, as users see them."""
        names, rows = self.names, self._table.columns.rows[self._rows]
        ages = rows["flushed_at"].astype("<m8[us]").tolist()
        return list(
            zip(
                names[:-1],
                [*names[1:-1], names[-1] or None],
                map(EPOCH.__add__, ages),
                self._table.messages(rows),
                self._table.metadata_of(rows),
                strict=True,
            )
        )


class SnapshotTable(Mapping[SnapshotId, SnapshotEntry]):
    """All snapshots by id; editing methods return a new table."""

    def __init__(
        self,
        columns: SnapshotColumns,
        codec: ValueCodec,
        *,
        key: str = "repo",
        written: WrittenRows | None = None,
    ) -> None:
        self.columns = columns
        self.codec = codec
        self.written: Final = written
        """the encoded rows of the last file, which speed up encoding the next one"""
        self._key = key

    def keeping(self, written: WrittenRows) -> Self:
        """The same table with the encoded rows of a file."""
        return self._like(self.columns, written)

    @classmethod
    def of(cls, entries: Iterable[SnapshotEntry], codec: ValueCodec) -> Self:
        """Make a table from entries in any order.

        Raises:
            SnapshotNotFoundError: a parent is not among them.
            FormatError: an id occurs twice.
        """
        nothing = SnapshotColumns(np.zeros(0, ROW), np.zeros(0, ITEM), (), b"")
        return cls(nothing, codec).with_entries(entries)

    # --- reading ---

    def __len__(self) -> int:
        return len(self.columns.rows)

    def __iter__(self) -> Iterator[SnapshotId]:
        return iter(self.ids)

    @cached_property
    def ids(self) -> list[SnapshotId]:
        """All ids, ascending."""
        raw = self._raw_ids
        return [SnapshotId(raw[at : at + 12]) for at in range(0, len(raw), 12)]

    def __contains__(self, snapshot_id: object) -> bool:
        return isinstance(snapshot_id, bytes) and self._find(snapshot_id) is not None

    def __getitem__(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        row = self.row(snapshot_id)
        return self.entry_of(row, self.columns.rows[row].item())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} snapshots)"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.columns, self.codec)

    def row(self, snapshot_id: SnapshotId) -> int:
        """Where a snapshot stands in the order of ids."""
        found = self._find(snapshot_id)
        if found is None:
            raise SnapshotNotFoundError("no such snapshot", snapshot=SnapshotId(snapshot_id))
        return found

    def id_at(self, row: int) -> SnapshotId:
        """The id of the snapshot in this row."""
        return SnapshotId(self._raw_ids[12 * row : 12 * row + 12])

    def parent_of(self, snapshot_id: SnapshotId) -> SnapshotId | None:
        """The parent of a snapshot, or None for a root."""
        return self.parent_at(self.row(snapshot_id))

    def flushed_at(self, snapshot_id: SnapshotId) -> Micros:
        """When a snapshot was written."""
        return int(self.columns.rows["flushed_at"][self.row(snapshot_id)])

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotId]:
        """Ids from this snapshot back to its root, itself included.

        Raises:
            SnapshotNotFoundError: there is no such snapshot.
            FormatError: the parent links run in a circle.
        """
        return (self.id_at(row) for row in self._lineage(self.row(snapshot_id)))

    def history(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        """Entries from this snapshot back to its root, itself included."""
        return (entry for page in self.pages(snapshot_id) for entry in page.entries)

    def pages(self, snapshot_id: SnapshotId) -> Iterator[HistoryPage]:
        """The same in growing pages, since many readers want only the first few."""
        return self._history_pages(self.row(snapshot_id))

    def entries(self) -> Iterator[SnapshotEntry]:
        """All entries, ascending by id; quicker than `values`."""
        return (entry for page in self._pages(iter(range(len(self)))) for entry in page.entries)

    # --- editing ---

    def with_entry(self, entry: SnapshotEntry) -> Self:
        """The table with one more snapshot."""
        return self.with_entries((entry,))

    def with_entries(self, entries: Iterable[SnapshotEntry]) -> Self:
        """The table with more snapshots, which may be parents of each other.

        Raises:
            SnapshotNotFoundError: a parent is neither known nor among them.
            FormatError: an id is known already or occurs twice.
        """
        added = sorted(entries, key=lambda entry: bytes(entry.id))
        count = len(self)
        numbers = {bytes(entry.id): count + n for n, entry in enumerate(added)}
        if len(numbers) < len(added) or any(entry.id in self for entry in added):
            raise FormatError(
                "a snapshot with this id exists already",
                kind=ErrorKind.DUPLICATE_SNAPSHOT_ID,
                key=self._key,
                snapshots=" ".join(str(entry.id) for entry in added),
            )
        parents = [self._number_of(entry.parent_id, numbers) for entry in added]
        columns = self._packed(added, parents)
        if len(added) == 1 and parents[0] < count:
            return self._with_row(columns, self._place(added[0].id))
        rows = np.concatenate([self.columns.rows, columns.rows])
        return self._like(_reordered(columns, rows, np.argsort(rows["id"], kind="stable")))

    def without(self, gone: npt.NDArray[np.bool_]) -> Self:
        """The table without the rows of a mask; what remains must not need them as parents."""
        keep = ~gone
        parents = self.columns.rows["parent"][keep]
        orphans = parents[(parents != NO_PARENT) & ~keep[parents]]
        if len(orphans):
            raise SnapshotNotFoundError(
                "a snapshot that stays needs this one as its parent",
                snapshot=self.id_at(int(orphans[0])),
            )
        columns = self.columns
        return self._like(_reordered(columns, columns.rows, np.flatnonzero(keep)))

    def reparent(
        self, links: Mapping[SnapshotId, tuple[SnapshotId | None, Sequence[SnapshotId]]]
    ) -> Self:
        """Give snapshots a new parent and a new list of pruned ancestors, oldest first."""
        rows = self.columns.rows.copy()
        pruned = list(self.columns.pruned)
        for snapshot_id, (parent, ancestors) in links.items():
            row = self.row(snapshot_id)
            rows["parent"][row] = self._number_of(parent, {})
            rows["pruned_at"][row] = len(pruned)
            rows["pruned_count"][row] = len(ancestors)
            pruned.extend(ancestors)
        columns = self.columns
        return self._like(SnapshotColumns(rows, columns.items, tuple(pruned), columns.arena))

    def with_metadata(self, changed: Mapping[SnapshotId, Metadata]) -> Self:
        """The table with other metadata of some snapshots."""
        places = [(self.row(one), replace(self[one], metadata=m)) for one, m in changed.items()]
        if not places:
            return self
        parents = [self._parents[row] for row, _ in places]
        columns = self._packed([entry for _, entry in places], parents)
        rows = self.columns.rows.copy()
        rows[[row for row, _ in places]] = columns.rows
        return self._like(SnapshotColumns(rows, columns.items, columns.pruned, columns.arena))

    # --- inside ---

    @cached_property
    def _raw_ids(self) -> bytes:
        return self.columns.rows["id"].tobytes()

    @cached_property
    def _parents(self) -> list[int]:
        parents: list[int] = self.columns.rows["parent"].tolist()
        return parents

    @cached_property
    def _items(self) -> list[tuple[int, int, int, int]]:
        items: list[tuple[int, int, int, int]] = self.columns.items.tolist()
        return items

    def _like(self, columns: SnapshotColumns, written: WrittenRows | None = None) -> Self:
        return type(self)(columns, self.codec, key=self._key, written=written)

    def _with_row(self, columns: SnapshotColumns, place: int) -> Self:
        """The table with the only row of new columns put into its place."""
        rows = with_row(self.columns.rows, place, columns.rows[0])
        parents = rows["parent"]
        parents += parents >= place
        written = None if self.written is None else self.written.with_row(place)
        grown = SnapshotColumns(rows, columns.items, columns.pruned, columns.arena)
        return self._like(grown, written)

    def _place(self, snapshot_id: bytes) -> int:
        """The first row whose id is not smaller."""
        raw = self._raw_ids
        # Quicker than numpy, which would copy the whole column first.
        return bisect_left(
            range(len(self)), snapshot_id, key=lambda row: raw[12 * row : 12 * row + 12]
        )

    def _find(self, snapshot_id: bytes) -> int | None:
        if len(snapshot_id) != SnapshotId.width:
            return None
        row = self._place(snapshot_id)
        return row if self._raw_ids[12 * row : 12 * row + 12] == snapshot_id else None

    def parent_at(self, row: int) -> SnapshotId | None:
        """The parent of the snapshot in this row, or None for a root."""
        parent = self._parents[row]
        return None if parent == NO_PARENT else self.id_at(parent)

    def _number_of(self, parent: SnapshotId | None, fresh: Mapping[bytes, int]) -> int:
        if parent is None:
            return NO_PARENT
        return fresh[parent] if parent in fresh else self.row(parent)

    def _lineage(self, row: int) -> Iterator[int]:
        parents = self._parents
        for _ in range(len(parents)):
            yield row
            row = parents[row]
            if row == NO_PARENT:
                return
        raise self._circle()

    def _history_pages(self, row: int) -> Iterator[HistoryPage]:
        """`_lineage` in pages; the loop is written out, since a generator takes twice as long."""
        parents, size = self._parents, 1
        left = len(parents)
        while row != NO_PARENT:
            page: list[int] = []
            for _ in range(min(size, left)):
                page.append(row)
                row = parents[row]
                if row == NO_PARENT:
                    break
            if not page:
                raise self._circle()
            left -= len(page)
            yield HistoryPage(self, page)
            size = min(4 * size, MAX_PAGE)

    def _circle(self) -> FormatError:
        return FormatError("damaged file: the history runs in a circle", key=self._key)

    def _pages(self, rows: Iterator[int]) -> Iterator[HistoryPage]:
        size = 1
        while page := list(islice(rows, size)):
            yield HistoryPage(self, page)
            size = min(4 * size, MAX_PAGE)

    def entry_of(self, row: int, cells: tuple[Any, ...]) -> SnapshotEntry:
        """The entry in a row whose cells are known."""
        _, parent, flushed_at, at, size, item_at, items, pruned_at, pruned = cells
        columns = self.columns
        try:
            return SnapshotEntry(
                self.id_at(row),
                None if parent == NO_PARENT else self.id_at(parent),
                flushed_at,
                columns.arena[at : at + size].decode(),
                self._metadata(item_at, items) if items else {},
                columns.pruned[pruned_at : pruned_at + pruned] if pruned else (),
            )
        except UnicodeDecodeError as error:
            raise FormatError("damaged file: text is not UTF-8", key=self._key) from error

    def messages(self, rows: StructRows) -> list[str]:
        """The messages of some rows."""
        arena = self.columns.arena
        starts = rows["message_at"]
        spans = zip(starts.tolist(), (starts + rows["message_size"]).tolist(), strict=True)
        try:
            return [arena[start:end].decode() for start, end in spans]
        except UnicodeDecodeError as error:
            raise FormatError("damaged file: text is not UTF-8", key=self._key) from error

    def metadata_of(self, rows: StructRows) -> list[Metadata]:
        """The metadata of some rows."""
        spans = zip(rows["item_at"].tolist(), rows["item_count"].tolist(), strict=True)
        try:
            return [self._metadata(first, count) if count else {} for first, count in spans]
        except UnicodeDecodeError as error:
            raise FormatError("damaged file: text is not UTF-8", key=self._key) from error

    def last_before(self, snapshot_id: SnapshotId, limit: Micros) -> SnapshotId | None:
        """The newest of a snapshot and its ancestors that was not written after a time."""
        times = self.columns.rows["flushed_at"].tolist()
        for row in self._lineage(self.row(snapshot_id)):
            if times[row] <= limit:
                return self.id_at(row)
        return None

    def _metadata(self, first: int, count: int) -> Metadata:
        arena, unpack = self.columns.arena, self.codec.unpack
        return {
            arena[name : name + name_size].decode(): unpack(arena[value : value + value_size])
            for name, name_size, value, value_size in self._items[first : first + count]
        }

    def _packed(self, added: Sequence[SnapshotEntry], parents: Sequence[int]) -> SnapshotColumns:
        """Rows for new entries, with the items and texts of the present ones and their own."""
        old = self.columns
        cells: list[tuple[bytes, int]] = []
        for entry in added:
            if not 0 <= entry.flushed_at <= MAX_MICROS:
                raise InvalidInputError("impossible time", kind=ErrorKind.BAD_METADATA)
            cells.append((entry.message.encode(), TEXT_END))
            for name, value in sorted(entry.metadata.items(), key=lambda item: item[0].encode()):
                cells.append((name.encode(), TEXT_END))
                cells.append((self.codec.pack(value), BLOB_END))
        arena, starts = append_frames(old.arena, cells)
        spans = iter(zip(starts, (len(cell) for cell, _ in cells), strict=True))
        rows: list[tuple[object, ...]] = []
        items: list[tuple[int, ...]] = []
        pruned = list(old.pruned)
        for entry, parent in zip(added, parents, strict=True):
            logs = entry.pruned_ancestor_tx_logs
            place = (len(old.items) + len(items), len(entry.metadata), len(pruned), len(logs))
            rows.append((bytes(entry.id), parent, entry.flushed_at, *next(spans), *place))
            items.extend((*next(spans), *next(spans)) for _ in entry.metadata)
            pruned.extend(logs)
        return SnapshotColumns(
            np.array(rows, ROW),
            np.concatenate([old.items, np.array(items, ITEM)]) if items else old.items,
            tuple(pruned),
            arena,
        )


def _reordered(
    columns: SnapshotColumns, rows: StructRows, order: npt.NDArray[np.intp]
) -> SnapshotColumns:
    """The rows picked by `order`, with parent links that follow them."""
    # One more place, so that "no parent" (-1) maps to itself.
    moved = np.full(len(rows) + 1, NO_PARENT, np.int32)
    moved[order] = np.arange(len(order), dtype=np.int32)
    rows = rows[order]
    rows["parent"] = moved[rows["parent"]]
    return SnapshotColumns(rows, columns.items, columns.pruned, columns.arena)
