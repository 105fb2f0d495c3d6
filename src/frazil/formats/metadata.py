"""Times and named JSON values as snapshots and the repo object store them."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgpack

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.flatbuf.reader import U64, Table
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats import flex
from frazil.formats.legacy.messages import unpack_message
from frazil.model.plain import JSON, MAX_MICROS, Metadata, Micros, ValueCodec

ITEM: Final = TableLayout(OFFSET, OFFSET)
LONG_VALUE: Final = 1 << 20
"""Values from this size on are read within bounds, which takes longer."""


def codec_of(spec: int, key: str) -> ValueCodec:
    """How snapshot files of this spec pack values."""
    return flex.codec(key) if spec == 2 else ValueCodec(_pack, partial(_unpack, key=key))


def read_metadata(table: Table, slot: int, codec: ValueCodec, name: str | None = None) -> Metadata:
    """Read a vector of named values; `name` makes it required."""
    return {
        item.required_text(0, "name"): codec.unpack(item.required_blob(1, "value"))
        for item in table.tables(slot, name)
    }


def read_time(table: Table, slot: int) -> Micros:
    """Read a time, which must be one that a date can be made of."""
    found = table.number(slot, U64)
    if found > MAX_MICROS:
        raise table.buffer.fail("impossible time")
    return found


def write_metadata(writer: FlatWriter, metadata: Metadata, codec: ValueCodec) -> int:
    """Write a vector of named values, ascending by name."""
    return writer.offsets(
        [
            writer.table(ITEM, writer.text(name), writer.blob(codec.pack(metadata[name])))
            for name in sorted(metadata, key=str.encode)
        ]
    )


def _pack(value: JSON) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"metadata cannot hold this value: {error}", kind=ErrorKind.BAD_METADATA
        ) from error
    return packed


def _unpack(data: bytes, *, key: str) -> JSON:
    if len(data) > LONG_VALUE:
        # The library has no limit for the number of values.
        return _plain(unpack_message(data, key=key), key, flex.MAX_DEPTH)
    try:
        # An extension type would come back as bytes or an object, which JSON cannot hold.
        value = msgpack.unpackb(data, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise FormatError(
            f"damaged metadata value: {error}", kind=ErrorKind.DESERIALIZATION, key=key
        ) from error
    return _plain(value, key, flex.MAX_DEPTH)


def _refuse_extension(code: int, _data: bytes) -> JSON:
    raise ValueError(f"extension type {code}")


def _plain(value: JSON, key: str, depth: int) -> JSON:
    """Check that JSON can hold a value; bytes become numbers."""
    if depth < 0:
        raise FormatError("damaged metadata value: nested too deeply", key=key)
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, list):
        return [_plain(item, key, depth - 1) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise FormatError("damaged metadata value: a key is not text", key=key)
        return {name: _plain(item, key, depth - 1) for name, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise FormatError("damaged metadata value: JSON cannot hold it", key=key)
