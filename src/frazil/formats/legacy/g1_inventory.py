"""Inventories of G1: chunk references of many arrays as the rows of a Parquet file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Shape
from frazil.errors import ErrorKind, FormatError
from frazil.formats.legacy.columns import INLINE, NATIVE, VIRTUAL, sorted_rows
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.g1_coords import ENCODINGS, OVI1, decode_as, encode_column
from frazil.formats.legacy.g1_schemas import (
    COORD_KEY,
    LIMITS,
    SEED,
    WIDE,
    WIDTHS,
    arrow,
    inventory_schema,
    parquet_errors,
    read_table,
    write_table,
)
from frazil.formats.legacy.g1_state import is_file_name
from frazil.formats.legacy.g1_structure import EXTENSION
from frazil.formats.legacy.manifest_writing import check_reference
from frazil.formats.legacy.names import WIDE as WIDE_ID
from frazil.formats.legacy.names import (
    base64_name,
    from_crockford,
    id_of_name,
    is_widened_id,
    narrow_id,
    node_number,
    numbered_node,
    remember,
    stored_names,
)
from frazil.formats.legacy.records import ManifestRecord
from frazil.ids import ChunkId, NodeId, crockford
from frazil.model.chunks import ABSENT, ChunkTable, StringPool, VirtualRef, constant
from frazil.model.strings import gather_runs

ArrowTable: TypeAlias = Any
"""An Arrow table."""

Grids: TypeAlias = Mapping[NodeId, Collection[Shape]]
"""The grids that the arrays of an inventory have, or had, in all snapshots that use it."""

EXTERNAL: Final = "://"
"""What a chunk file has in its name if it is outside the repository."""


# --- reading ---


def decode_inventory(blob: bytes, *, key: str, grids: Callable[[], Grids] = dict) -> ManifestRecord:
    """Read an inventory in any of its shapes.

    `grids` are asked for where the file does not say how coordinates are encoded: they tell
    which encoding makes sense. References of arrays that are not among them are left out then.

    Raises:
        FormatError: the file is damaged, or more than one encoding makes sense.
    """
    table = read_table(blob, key=key)
    with parquet_errors(key):
        return _Reader(table, key).record(grids)


class _Reader:
    """Turns the columns of an Arrow table into tables of references."""

    def __init__(self, table: ArrowTable, key: str) -> None:
        self._table = table
        self._key = key
        self._is_library = "coords" in table.column_names
        self._names: dict[ChunkId, str] = {}

    def fail(self, problem: str) -> FormatError:
        return FormatError(
            f"damaged file: {problem}", kind=ErrorKind.DESERIALIZATION, key=self._key
        )

    def record(self, grids: Callable[[], Grids]) -> ManifestRecord:
        """The references of all arrays."""
        arrays = self._numbers("array_id")
        encoding = self._encoding()
        if encoding is None and len(arrays):
            arrays, coords, rank = self._guessed(arrays, grids())
        else:
            coords, rank = self._coords(encoding or OVI1)
        whole = self._references(coords.astype(np.uint32))
        tables: dict[NodeId, ChunkTable] = {}
        strays: dict[NodeId, list[ChunkTable]] = {}
        order = np.lexsort((rank, arrays))
        edges = np.flatnonzero(np.diff(arrays[order]) | np.diff(rank[order])) + 1
        for rows in np.split(order, edges) if len(order) else []:
            node = numbered_node(int(arrays[rows[0]]))
            ndim = int(rank[rows[0]])
            part = whole.take(np.sort(rows))
            made = sorted_rows(part.at(part.coords[:, :ndim]), key=self._key).compact()
            if node in tables and len(tables[node]) >= len(made):
                strays.setdefault(node, []).append(made)
                continue
            if node in tables:
                strays.setdefault(node, []).append(tables[node])
            tables[node] = made
        dialect = Dialect.G1_LIBRARY if self._is_library else Dialect.G1
        return ManifestRecord(tables, dialect, None, self._names, strays)

    def _column(self, name: str) -> Any:  # noqa: ANN401 - an Arrow array
        if name not in self._table.column_names:
            return None
        column = self._table.column(name)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def _numbers(self, name: str, *, default: int | None = None) -> npt.NDArray[np.int64]:
        column = self._column(name)
        if column is None:
            raise self.fail(f"there is no column {name}")
        if column.null_count:
            if default is None:
                raise self.fail(f"{name} is missing in a row")
            column = column.fill_null(default)
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "ui" or (len(values) and int(values.max()) >= 2**63):
            raise self.fail(f"{name} must be a number")
        found: npt.NDArray[np.int64] = values.astype(np.int64)
        if len(found) and int(found.min()) < 0:
            raise self.fail(f"{name} must not be negative")
        return found

    def _bytes(self, name: str) -> tuple[npt.NDArray[np.uint8], I64, I64]:
        """A binary column: its bytes, and where the value of each row begins and ends."""
        column = self._column(name)
        column = column.cast(arrow().large_binary())
        _, offsets, data = column.buffers()
        count = len(column)
        if not count:
            return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
        ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + count + 1]
        raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return raw, ends[:-1].copy(), ends[1:].copy()

    def _coords(self, encoding: str) -> tuple[npt.NDArray[np.uint64], I64]:
        name = "coords" if self._is_library else "coord"
        column = self._column(name)
        if column is None or column.null_count:
            raise self.fail("a reference has no coordinates")
        return decode_as(encoding, *self._bytes(name), key=self._key)

    def _encoding(self) -> str | None:
        """How the file says that coordinates are encoded; None where it does not."""
        named = (self._table.schema.metadata or {}).get(COORD_KEY)
        if named is not None:
            return str(named, "utf-8", "replace")
        return "be64" if self._is_library else None

    def _guessed(self, arrays: I64, grids: Grids) -> tuple[I64, npt.NDArray[np.uint64], I64]:
        """The coordinates in the only encoding that puts all of them into their arrays.

        Raises:
            FormatError: there is none, or there are several that differ.
        """
        known = np.isin(arrays, [int.from_bytes(node, "big") for node in grids])
        if not known.any():
            raise self.undecided("no snapshot tells how many axes its arrays have")
        self._table = self._table.filter(arrow().array(known))
        arrays = arrays[known]
        fitting: dict[str, tuple[npt.NDArray[np.uint64], I64]] = {}
        for encoding in ENCODINGS:
            try:
                coords, rank = self._coords(encoding)
            except FormatError:
                continue
            if _make_sense(arrays, coords, rank, grids):
                fitting[encoding] = coords, rank
        if not fitting:
            raise self.undecided(f"none of {', '.join(ENCODINGS)} puts them into their arrays")
        first, *others = fitting.values()
        if any(not np.array_equal(first[0], coords) for coords, _ in others):
            raise self.undecided(f"they make sense as {' and as '.join(fitting)}")
        return arrays, *first

    def undecided(self, why: str) -> FormatError:
        """The error for coordinates whose encoding is ambiguous."""
        return FormatError(
            f"the encoding of chunk coordinates is undecided: the file does not name it, and {why}",
            kind=ErrorKind.DESERIALIZATION,
            key=self._key,
        )

    # --- what the references point to ---

    def _references(self, coords: npt.NDArray[np.uint32]) -> ChunkTable:
        """All rows as one table, in the order of the file."""
        n = len(coords)
        length = self._numbers("length")
        offset = self._numbers("offset", default=0)
        inline, is_inline = self._column("inline_data"), np.zeros(n, bool)
        if inline is not None:
            is_inline = inline.is_valid().to_numpy(zero_copy_only=False)
        file, pool = self._files()
        if (is_inline == (file >= 0)).any():
            raise self.fail("a reference must be either inline or to a file")
        ids, is_external = self._resolve(pool)
        is_virtual = np.zeros(n, bool)
        is_virtual[file >= 0] = is_external[file[file >= 0]]
        kind = np.where(is_inline, INLINE, np.where(is_virtual, VIRTUAL, NATIVE)).astype(np.uint8)
        chunk_id = np.zeros((n, 12), np.uint8)
        native = kind == NATIVE
        chunk_id[native] = ids[file[native]]
        data = b""
        if is_inline.any():
            raw, starts, ends = self._bytes("inline_data")
            sizes = (ends - starts)[is_inline]
            if (sizes != length[is_inline]).any():
                raise self.fail("an inline chunk has another length than its row says")
            data, stops = gather_runs(raw.data, starts[is_inline], sizes)
            offset[is_inline] = stops - sizes
        return ChunkTable(
            coords=coords,
            kind=kind,
            offset=offset.astype(np.uint64),
            length=length.astype(np.uint64),
            chunk_id=chunk_id,
            location=np.where(is_virtual, file, ABSENT).astype(np.int32),
            etag=constant(ABSENT, np.int32, n),
            last_modified=constant(0, np.uint32, n),
            locations=StringPool.of(list(pool)),
            inline_data=data,
        )

    def _files(self) -> tuple[npt.NDArray[np.int64], Sequence[str]]:
        """The number of each row's file, -1 for none, and the names of all files."""
        column = self._column("chunk_file")
        if column is not None:
            return self._numbered("chunk_file")
        number, pool = self._numbered("virtual_path")
        if any(EXTERNAL not in name for name in pool):
            raise self.fail("a virtual reference has no URL")
        own, raw = self._numbered("chunk_id")
        if ((own >= 0) & (number >= 0)).any():
            raise self.fail("a reference is both native and virtual")
        names = [self._chunk_name(each) for each in raw]
        return np.where(own >= 0, own + len(pool), number), [*pool, *names]

    def _numbered(self, name: str) -> tuple[I64, list[Any]]:
        """Each row's value as a number, -1 for none, and the distinct values."""
        column = self._column(name)
        if column is None:
            return np.full(self._table.num_rows, ABSENT, np.int64), []
        coded = column.dictionary_encode()
        numbers = coded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False)
        return numbers.astype(np.int64), coded.dictionary.to_pylist()

    def _chunk_name(self, raw: bytes) -> str:
        if len(raw) != 16:
            raise self.fail("a chunk id must have 16 bytes")
        return base64_name(raw) + EXTENSION if self._is_library else crockford(raw)

    def _resolve(self, pool: Sequence[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """The ids of files, and which of them are external."""
        ids = np.zeros((len(pool), 12), np.uint8)
        external = np.zeros(len(pool), bool)
        for number, name in enumerate(pool):
            if EXTERNAL in name:
                external[number] = True
                continue
            if not is_file_name(name):
                raise self.fail(f"{name!r} is not the name of a file")
            id = self._id(name)
            ids[number] = np.frombuffer(id, np.uint8)
        return ids, external

    def _id(self, name: str) -> ChunkId:
        """The id of a file; its name is remembered unless it is the plain one."""
        raw = from_crockford(name, WIDE_ID)
        if raw is not None and is_widened_id(raw):
            id = ChunkId(narrow_id(raw))
            if id not in self._names:
                return id
        id = id_of_name(ChunkId, name)
        remember(self._names, LegacyGeneration.G1, "chunks", id, name, self._key)
        return id


def _make_sense(arrays: I64, coords: npt.NDArray[np.uint64], rank: I64, grids: Grids) -> bool:
    """Whether coordinates have one index for each axis, inside the grid, and each occurs once."""
    for number in np.unique(arrays).tolist():
        rows = np.flatnonzero(arrays == number)
        own = grids[numbered_node(number)]
        ranks = {len(grid) for grid in own}
        if len(ranks) != 1 or (rank[rows] != next(iter(ranks))).any():
            return False
        limits = np.array([max(1, *axis) for axis in zip(*own, strict=True)], np.uint64)
        part = coords[rows, : len(limits)]
        distinct = len(np.unique(part, axis=0)) if len(limits) else 1
        if (part >= limits).any() or distinct != len(part):
            return False
    return True


# --- writing ---


def encode_inventory(record: ManifestRecord) -> bytes:
    """Write an inventory, in the specified widths if all values fit.

    Raises:
        InvalidInputError: a virtual reference has a checksum, which has no place here.
        FormatError: an array has no number.
    """
    pa = arrow()
    tables = sorted(
        ((node_number(node), table) for node, table in record.tables.items() if len(table)),
        key=lambda item: item[0],
    )
    longest = max((int(table.length.max()) for _, table in tables), default=0)
    profile = SEED if longest <= LIMITS[WIDTHS[SEED].size] else WIDE
    schema = inventory_schema(profile)
    schema = schema.with_metadata({**schema.metadata, COORD_KEY: OVI1})
    count = sum(len(table) for _, table in tables)
    parts = [_columns(number, table, record.names) for number, table in tables]
    names = [field.name for field in schema if field.name != "id"]
    columns = {"id": pa.array(np.arange(count, dtype=np.uint32))}
    for name in names:
        field = schema.field(name)
        chunks = [part[name].cast(field.type) for part in parts]
        columns[name] = pa.chunked_array(chunks, type=field.type)
    made = pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)
    return write_table(made, sorting=("array_id", "coord"))


def _columns(number: int, table: ChunkTable, names: Mapping[ChunkId, str]) -> dict[str, Any]:
    """The columns of one array."""
    pa = arrow()
    is_inline = table.kind == INLINE
    return {
        "array_id": pa.array(np.full(len(table), number, np.uint32)),
        "coord": _coord_column(table),
        "inline_data": _inline_column(table, is_inline),
        "chunk_file": pa.array(_chunk_files(table, names), pa.string()),
        "offset": pa.array(np.ascontiguousarray(table.offset), mask=is_inline),
        "length": pa.array(np.ascontiguousarray(table.length)),
    }


def _coord_column(table: ChunkTable) -> Any:  # noqa: ANN401 - Arrow
    pa = arrow()
    data, ends = encode_column(table.coords)
    offsets = np.append(np.zeros(1, np.int64), ends)
    made = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(table), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return made.cast(pa.binary())


def _inline_column(table: ChunkTable, is_inline: npt.NDArray[np.bool_]) -> Any:  # noqa: ANN401 - an Arrow array
    pa = arrow()
    if not is_inline.any():
        return pa.nulls(len(table), pa.binary())
    pieces: list[bytes | None] = [None] * len(table)
    for row in np.flatnonzero(is_inline).tolist():
        start = int(table.offset[row])
        pieces[row] = bytes(table.inline_data[start : start + int(table.length[row])])
    return pa.array(pieces, pa.binary())


def _chunk_files(table: ChunkTable, names: Mapping[ChunkId, str]) -> list[str | None]:
    native = np.flatnonzero(table.kind == NATIVE)
    texts = stored_names(LegacyGeneration.G1, table.chunk_id[native], names)
    if len(native) == len(table):
        return list(texts)
    found: list[str | None] = [None] * len(table)
    for row, text in zip(native.tolist(), texts, strict=True):
        found[row] = text
    for row in np.flatnonzero(table.kind == VIRTUAL).tolist():
        ref = table.ref(row)
        assert isinstance(ref, VirtualRef)
        check_reference(Dialect.G1, ref)
        if EXTERNAL not in ref.location:
            raise FormatError(
                "a virtual reference must have a URL",
                kind=ErrorKind.SERIALIZATION,
                location=ref.location,
            )
        found[row] = ref.location
    return found
