"""The Arrow schemas of G1 files in two profiles: as specified, and widened where values ask.

The specified widths hold arrays of up to 65535 elements along an axis. A file is written in one
profile as a whole, and says which in its key-value metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.bounds import justified, references_justified, too_large
from frazil.formats.legacy.header import MAX_MESSAGE
from frazil.formats.legacy.parquet_footer import column_sizes

if TYPE_CHECKING:
    import pyarrow as pa

PROFILE_KEY: Final = b"icechunk.schema_profile"
COORD_KEY: Final = b"icechunk.coord_encoding"
SEED: Final = "seed"
WIDE: Final = "wide"
BATCH_ROWS: Final = 1 << 14
MAX_ROWS: Final = 1 << 28
_DESCRIPTIONS: Final = {
    "id": "unique identifier for the node",
    "type": "array or group",
    "path": "path to the node within the store",
    "array_metadata": "All the Zarr array metadata",
    "inline_attrs": "user-defined attributes, stored inline with this entry",
    "attrs_reference": "user-defined attributes, stored in a separate attributes file",
}


def arrow() -> Any:  # noqa: ANN401 - pyarrow ships no types
    """The pyarrow package, which only this generation needs.

    Raises:
        InvalidInputError: it is not installed.
    """
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


@cache
def structure_schema(profile: str) -> pa.Schema:
    """The schema of structure files."""
    pa = arrow()
    widths = WIDTHS[profile]
    length, row, flags = (getattr(pa, name)() for name in (widths.length, widths.row, "uint16"))
    text, binary, field, struct = pa.string(), pa.binary(), pa.field, pa.struct
    array_metadata = struct(
        [
            field("shape", pa.list_(length), nullable=False),
            field("data_type", text, nullable=False),
            field("fill_value", binary),
            field("dimension_names", pa.list_(text)),
            field(
                "chunk_grid",
                _configured(pa, field("chunk_shape", pa.list_(length), nullable=False)),
            ),
            field("chunk_key_encoding", _configured(pa, field("separator", text, nullable=False))),
            field(
                "codecs",
                pa.list_(
                    struct([field("name", text, nullable=False), field("configuration", binary)])
                ),
            ),
        ]
    )
    attrs_reference = struct(
        [
            field("attrs_file", text, nullable=False),
            field("row", row, nullable=False),
            field("flags", flags),
        ]
    )
    inventory = struct(
        [
            field("inventory_file", text, nullable=False),
            field("row", row, nullable=False),
            field("extent", pa.list_(pa.list_(length, 2)), nullable=False),
            field("flags", flags),
        ]
    )
    fields = [
        field("id", getattr(pa, widths.node)(), nullable=False),
        field("type", text, nullable=False),
        field("path", text, nullable=False),
        field("array_metadata", array_metadata),
        field("inline_attrs", binary),
        field("attrs_reference", attrs_reference),
        field("inventories", pa.list_(inventory)),
    ]
    described = [
        each.with_metadata({"description": _DESCRIPTIONS[each.name]})
        if each.name in _DESCRIPTIONS
        else each
        for each in fields
    ]
    return pa.schema(described, metadata={PROFILE_KEY: profile})


def _configured(pa: Any, option: Any) -> Any:  # noqa: ANN401 - types of pyarrow
    return pa.struct(
        [
            pa.field("name", pa.string(), nullable=False),
            pa.field("configuration", pa.struct([option]), nullable=False),
        ]
    )


@cache
def inventory_schema(profile: str) -> pa.Schema:
    """The schema of inventories."""
    pa = arrow()
    size = getattr(pa, WIDTHS[profile].size)()
    return pa.schema(
        [
            pa.field("id", pa.uint32(), nullable=False),
            pa.field("array_id", pa.uint32(), nullable=False),
            pa.field("coord", pa.binary(), nullable=False),
            pa.field("inline_data", pa.binary()),
            pa.field("chunk_file", pa.string()),
            pa.field("offset", pa.uint64()),
            pa.field("length", size, nullable=False),
        ],
        metadata={PROFILE_KEY: profile},
    )


@cache
def attribute_schema() -> pa.Schema:
    """The schema of attribute files."""
    pa = arrow()
    return pa.schema(
        [
            pa.field("attrs", pa.binary(), nullable=False),
            pa.field("node_id", pa.uint32()),
            pa.field("path", pa.string()),
        ]
    )


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
    """All rows of a Parquet file, as long as they do not grow out of bounds.

    Raises:
        FormatError: the file is damaged or too large.
    """
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


def write_table(
    table: pa.Table, *, sorting: tuple[str, ...] = (), group_rows: int = 100_000
) -> bytes:
    """A Parquet file with these rows, its row groups small enough to be skipped one by one."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    columns = [pa.parquet.SortingColumn(table.schema.get_field_index(name)) for name in sorting]
    pa.parquet.write_table(
        table,
        sink,
        compression="zstd",
        row_group_size=group_rows,
        sorting_columns=columns or None,
        write_page_checksum=True,
        use_compliant_nested_type=False,  # items of lists keep the name the schema gives them
    )
    made: bytes = sink.getvalue().to_pybytes()
    return made
