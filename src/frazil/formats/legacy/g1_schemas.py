"""The Arrow schemas of G1 files in two profiles: as specified, and widened where values ask.

The specified widths hold arrays of up to 65535 elements along an axis. A file is written in one
profile as a whole, and says which in its key-value metadata.

The Parquet library ends the process when it is asked for the columns of a damaged footer. So the
few sizes that must be known before anything is unpacked are read here, from Thrift's compact
protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.envelope import justified, references_justified, too_large
from frazil.formats.legacy.header import MAX_MESSAGE

if TYPE_CHECKING:
    import pyarrow as pa


MAGIC: Final = b"PAR1"
TAIL: Final = 8
"""Bytes of the footer's length and the magic at the end."""
MAX_DEPTH: Final = 32
"""Nesting of a Parquet footer; real ones have less than ten levels."""
MAX_VARINT: Final = 10

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
FIXED: Final = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}
"""Bytes of types that always have as many."""
ROW_GROUPS: Final = 4
"""Field of a file's metadata."""
COLUMNS: Final = 1
"""Field of a row group."""
COLUMN_METADATA: Final = 3
"""Field of a column chunk."""
UNCOMPRESSED_SIZE: Final = 6
"""Field of a column's metadata."""


def column_sizes(blob: bytes, *, key: str) -> list[int]:
    """How many bytes each column of each row group says it unpacks to."""
    length = int.from_bytes(blob[-TAIL : -len(MAGIC)], "little")
    if len(blob) < TAIL or blob[-len(MAGIC) :] != MAGIC or length > len(blob) - TAIL:
        raise _damaged(key)
    reader = _Compact(blob[len(blob) - TAIL - length : len(blob) - TAIL], key)
    return [
        size
        for field, kind in reader.fields()
        for _ in reader.structs(kind, field == ROW_GROUPS)
        for size in _sizes_of_group(reader)
    ]


def _sizes_of_group(reader: _Compact) -> Iterator[int]:
    for field, kind in reader.fields():
        for _ in reader.structs(kind, field == COLUMNS):
            yield from _sizes_of_column(reader)


def _sizes_of_column(reader: _Compact) -> Iterator[int]:
    for field, kind in reader.fields():
        if field != COLUMN_METADATA or kind != STRUCT:
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner == UNCOMPRESSED_SIZE and inner_kind == I64:
                yield reader.integer()
            else:
                reader.skip(inner_kind)


def _damaged(key: str) -> FormatError:
    return FormatError("damaged Parquet footer", kind=ErrorKind.DESERIALIZATION, key=key)


class _Compact:
    """Reads Thrift's compact protocol from the front; what is not asked for is skipped."""

    def __init__(self, data: bytes, key: str) -> None:
        self._data = data
        self._key = key
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of a struct, as id and type; each must be read or skipped before the next."""
        field = 0
        while (head := self._byte()) != 0:
            kind, delta = head & 15, head >> 4
            field = field + delta if delta else self.integer()
            yield field, kind

    def structs(self, kind: int, is_wanted: bool) -> Iterator[None]:
        """Stand before each struct of a list, if it is a wanted one; skip anything else."""
        if not is_wanted or kind != LIST:
            self.skip(kind)
            return
        count, item = self._list_head()
        if item != STRUCT:
            raise _damaged(self._key)
        for _ in range(count):
            yield

    def integer(self) -> int:
        """A signed number."""
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value."""
        if depth > MAX_DEPTH:
            raise _damaged(self._key)
        if kind in FIXED:
            self._move(FIXED[kind])
        elif kind in (I16, I32, I64):
            self._varint()
        elif kind == BINARY:
            self._move(self._varint())
        elif kind in (LIST, SET):
            count, item = self._list_head()
            self._skip_items(count, (item,), depth)
        elif kind == MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            self._skip_items(count, (kinds >> 4, kinds & 15), depth)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise _damaged(self._key)

    def _skip_items(self, count: int, kinds: tuple[int, ...], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                # In a list, other than in a struct, a truth value has a byte of its own.
                self.skip(BYTE if kind in (TRUE, FALSE) else kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return (self._varint() if count == 15 else count), head & 15

    def _varint(self) -> int:
        found = 0
        for number in range(MAX_VARINT):
            byte = self._byte()
            found |= (byte & 127) << (7 * number)
            if byte < 128:
                return found
        raise _damaged(self._key)

    def _byte(self) -> int:
        self._move(1)
        return self._data[self._at - 1]

    def _move(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise _damaged(self._key)


PROFILE_KEY: Final = b"icechunk.schema_profile"
COORD_KEY: Final = b"icechunk.coord_encoding"
SEED: Final = "seed"
WIDE: Final = "wide"
BATCH_ROWS: Final = 1 << 14
"""Rows decoded at a time, to bound memory."""
MAX_ROWS: Final = 1 << 28
"""More rows are taken for damage, before any of them is read."""
_DESCRIPTIONS: Final = {
    "id": "unique identifier for the node",
    "type": "array or group",
    "path": "path to the node within the store",
    "array_metadata": "All the Zarr array metadata",
    "inline_attrs": "user-defined attributes, stored inline with this entry",
    "attrs_reference": "user-defined attributes, stored in a separate attributes file",
}


def arrow() -> Any:  # noqa: ANN401 - pyarrow ships no types
    """The pyarrow package, which only this generation needs."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInputError(
            "repositories of the oldest generation need pyarrow: pip install 'frazil[legacy]'",
            kind=ErrorKind.INVALID_OPTION,
        ) from error
    return pyarrow


@dataclass(frozen=True, slots=True)
class Widths:
    """The Arrow types of whole numbers in a profile."""

    node: str
    length: str
    row: str
    size: str


WIDTHS: Final = {
    SEED: Widths("uint16", "uint16", "uint16", "uint32"),
    WIDE: Widths("uint32", "uint64", "uint32", "uint64"),
}
LIMITS: Final = {"uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}


def _type(spec: Any) -> Any:  # noqa: ANN401 - types of pyarrow
    """A type: its name, a list of one type and perhaps its length, or fields by name."""
    pa = arrow()
    if isinstance(spec, dict):
        return pa.struct(_fields(spec))
    if isinstance(spec, list):
        return pa.list_(_type(spec[0]), *spec[1:])
    return getattr(pa, spec)()


def _fields(spec: dict[str, Any]) -> list[Any]:
    """Fields by name; a question mark behind it says that values may be missing."""
    return [
        arrow().field(name.removesuffix("?"), _type(kind), nullable=name.endswith("?"))
        for name, kind in spec.items()
    ]


@cache
def structure_schema(profile: str) -> pa.Schema:
    """The schema of structure files."""
    widths = WIDTHS[profile]
    lengths, row = [widths.length], widths.row
    fields = _fields(
        {
            "id": widths.node,
            "type": "string",
            "path": "string",
            "array_metadata?": {
                "shape": lengths,
                "data_type": "string",
                "fill_value?": "binary",
                "dimension_names?": ["string"],
                "chunk_grid?": {"name": "string", "configuration": {"chunk_shape": lengths}},
                "chunk_key_encoding?": {
                    "name": "string",
                    "configuration": {"separator": "string"},
                },
                "codecs?": [{"name": "string", "configuration?": "binary"}],
            },
            "inline_attrs?": "binary",
            "attrs_reference?": {"attrs_file": "string", "row": row, "flags?": "uint16"},
            "inventories?": [
                {
                    "inventory_file": "string",
                    "row": row,
                    "extent": [[*lengths, 2]],
                    "flags?": "uint16",
                }
            ],
        }
    )
    described = [
        each.with_metadata({"description": _DESCRIPTIONS[each.name]})
        if each.name in _DESCRIPTIONS
        else each
        for each in fields
    ]
    return arrow().schema(described, metadata={PROFILE_KEY: profile})


@cache
def inventory_schema(profile: str) -> pa.Schema:
    """The schema of inventories."""
    fields = _fields(
        {
            "id": "uint32",
            "array_id": "uint32",
            "coord": "binary",
            "inline_data?": "binary",
            "chunk_file?": "string",
            "offset?": "uint64",
            "length": WIDTHS[profile].size,
        }
    )
    return arrow().schema(fields, metadata={PROFILE_KEY: profile})


@cache
def attribute_schema() -> pa.Schema:
    """The schema of attribute files."""
    return arrow().schema(_fields({"attrs": "binary", "node_id?": "uint32", "path?": "string"}))


# --- files ---


@contextmanager
def parquet_errors(key: str) -> Iterator[None]:
    """Turn what pyarrow raises for damaged files into our error."""
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, FormatError | InvalidInputError):
            raise
        raise FormatError(
            f"damaged Parquet file: {str(error)[:200]}", kind=ErrorKind.DESERIALIZATION, key=key
        ) from error


def read_table(blob: bytes, *, key: str) -> pa.Table:
    """All rows of a Parquet file, as long as they do not grow out of bounds."""
    pa = arrow()
    with parquet_errors(key):
        file = pa.parquet.ParquetFile(
            pa.BufferReader(blob),
            thrift_string_size_limit=len(blob) + 1024,
            thrift_container_size_limit=len(blob) + 1024,
            page_checksum_verification=True,
        )
        limit = justified(len(blob), MAX_MESSAGE)
        longest = _check_footer(file.metadata, blob, limit, key)
        batches, size = [], 0
        for batch in file.iter_batches(batch_size=max(1, min(BATCH_ROWS, limit // longest))):
            size += batch.nbytes
            if size > limit:
                raise too_large(key, packed=len(blob), limit=limit)
            batch.validate(full=True)
            batches.append(batch)
        return pa.Table.from_batches(batches, schema=file.schema_arrow)


def _check_footer(metadata: pa.FileMetaData, blob: bytes, limit: int, key: str) -> int:
    """Refuse a file that says it holds more than it can, before any of it is unpacked.

    Encodings of Parquet repeat a value for less than a byte. So the rows are counted too: each
    names another node or chunk. Returns how many bytes a single value may have.
    """
    if not 0 <= metadata.num_rows <= min(MAX_ROWS, references_justified(len(blob))):
        raise FormatError("file has too many rows", key=key, rows=metadata.num_rows)
    sizes = column_sizes(blob, key=key)
    if min(sizes, default=0) < 0 or sum(sizes) > limit:
        raise too_large(key, packed=len(blob), limit=limit)
    return max(1, *sizes, 1)


def write_table(table: pa.Table, *, sorting: tuple[str, ...] = ()) -> bytes:
    """A Parquet file with these rows, its row groups small enough to be skipped one by one."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    columns = [pa.parquet.SortingColumn(table.schema.get_field_index(name)) for name in sorting]
    pa.parquet.write_table(
        table,
        sink,
        compression="zstd",
        row_group_size=100_000,
        sorting_columns=columns or None,
        write_page_checksum=True,
        use_compliant_nested_type=False,  # items of lists keep the name the schema gives them
    )
    made: bytes = sink.getvalue().to_pybytes()
    return made
