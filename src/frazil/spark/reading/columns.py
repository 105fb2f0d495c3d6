"""Decoded numpy values as columns of Spark: types, and Arrow arrays without copies where possible.

Unsigned numbers are widened, complex ones become a struct of two, texts and bytes are as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as t

from frazil.arrays import Mask
from frazil.cf.decoding import TEXT, DecodedValues, Values
from frazil.errors import unsuitable

LONG: Final = t.LongType()

NUMBERS: Final[tuple[tuple[str, t.DataType, pa.DataType], ...]] = (
    ("b1", t.BooleanType(), pa.bool_()),
    ("i1", t.ByteType(), pa.int8()),
    ("i2", t.ShortType(), pa.int16()),
    ("i4", t.IntegerType(), pa.int32()),
    ("i8", LONG, pa.int64()),
    ("f4", t.FloatType(), pa.float32()),
    ("f8", t.DoubleType(), pa.float64()),
)
"""What numpy, by its code, Spark and Arrow all have"""
_WIDER: Final = {"u1": "i2", "u2": "i4", "u4": "i8"}
_SPARK: Final[dict[str, t.DataType]] = {
    **{code: spark for code, spark, _ in NUMBERS},
    "u8": t.DecimalType(20, 0),
    "m8": t.DayTimeIntervalType(),
}
_FIXED: Final = {
    **{code: arrow for code, _, arrow in NUMBERS},
    "M8": pa.timestamp("us"),
    "m8": pa.duration("us"),
}
"""Arrow types of decoded values that lie in memory as Arrow has them"""
_ARROW: Final[dict[type[t.DataType], pa.DataType]] = {
    **{type(spark): arrow for _, spark, arrow in NUMBERS},
    t.BinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimestampType: pa.timestamp("us", tz="UTC"),
    t.TimestampNTZType: pa.timestamp("us"),
}


def spark_type(dtype: np.dtype[Any], *, instants: bool = False) -> t.DataType:
    """The Spark type of decoded values; `instants` asks for timestamps in UTC."""
    match dtype.kind:
        case "T":
            return t.StringType()
        case "S" | "V" | "O":
            return t.BinaryType()
        case "M":
            return t.TimestampType() if instants else t.TimestampNTZType()
        case "c":
            part = t.FloatType() if dtype.itemsize == 8 else t.DoubleType()
            return t.StructType([t.StructField("re", part), t.StructField("im", part)])
        case _:
            return _SPARK[_WIDER.get(_code(dtype), _code(dtype))]


def arrow_type(kind: t.DataType) -> pa.DataType:
    """The Arrow type that Spark expects for one of its types.

    Raises:
        InvalidInputError: no source of ours fills such a column.
    """
    if type(kind) in _ARROW:
        return _ARROW[type(kind)]
    match kind:
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.StringType():
            return pa.string()
        case t.DayTimeIntervalType():
            return pa.duration("us")
        case t.ArrayType():
            inner = pa.field("element", arrow_type(kind.elementType), kind.containsNull)
            return pa.list_(inner)
        case t.MapType():
            key = pa.field("key", arrow_type(kind.keyType), nullable=False)
            value = pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull)
            return pa.map_(key, value)
        case t.StructType():
            return pa.struct(list(arrow_schema(kind)))
        case _:
            raise unsuitable(f"a column cannot be {kind.simpleString()} here")


_WORDS: Final[dict[str, t.DataType]] = {
    "boolean": t.BooleanType(),
    "int": t.IntegerType(),
    "long": LONG,
    "double": t.DoubleType(),
    "string": t.StringType(),
    "timestamp": t.TimestampType(),
    "array<long>": t.ArrayType(LONG),
    "array<string>": t.ArrayType(t.StringType()),
    "map<string,string>": t.MapType(t.StringType(), t.StringType()),
}


def struct(columns: str) -> t.StructType:
    """The schema for columns as Spark's SQL writes them, where no JVM can be asked."""
    pairs = (column.split() for column in columns.split(", "))
    return t.StructType([t.StructField(name, _WORDS[kind]) for name, kind in pairs])


def arrow_schema(schema: t.StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for one of its own, nullability included."""
    return pa.schema(
        [pa.field(f.name, arrow_type(f.dataType), nullable=f.nullable) for f in schema.fields]
    )


def row_batch(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch."""
    columns = [*zip(*rows, strict=True)] or [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_arrow(decoded: DecodedValues) -> pa.Array:
    """One-dimensional decoded values as an Arrow array of their own type."""
    values, missing = decoded.values, decoded.missing
    match values.dtype.kind:
        case "T" | "O" | "S":
            kind = pa.string() if values.dtype == TEXT else pa.binary()
            return pa.array(values.tolist(), kind, mask=missing)
        case "V":
            return pa.array([bytes(value) for value in values], pa.binary(), mask=missing)
        case "c":
            parts = [_fixed(part, None) for part in (values.real, values.imag)]
            mask = None if missing is None else _fixed(missing, None)
            return pa.StructArray.from_arrays(parts, names=["re", "im"], mask=mask)
        case "u" if _code(values.dtype) in _WIDER:
            return _fixed(values.astype(_WIDER[_code(values.dtype)]), missing)
        case "u":
            return pa.array(values, mask=missing).cast(pa.decimal128(20, 0))
        case _:
            return _fixed(values, missing)


def _fixed(values: Values, missing: Mask | None) -> pa.Array:
    """Numbers and times as they lie in memory; `pa.array` would import pandas first."""
    kind = _FIXED[_code(values.dtype)]
    is_bool = values.dtype.kind == "b"
    data = _bits(values) if is_bool else np.ascontiguousarray(values).view(np.uint8)
    validity = None if missing is None else pa.py_buffer(_bits(~missing))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)])


def _bits(values: Values) -> npt.NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")


def is_fixed_width(dtype: np.dtype[Any]) -> bool:
    """Tell whether numpy can repeat values faster than Arrow can take them."""
    return dtype.kind in "biufMm"


def require_cast(name: str, natural: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse a column type of a user's schema that its values cannot be turned into.

    Raises:
        InvalidInputError: there is no such conversion.
    """
    if natural == wanted:
        return
    try:
        pa.array([], natural).cast(wanted)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise unsuitable(
            f"column {name!r} holds {natural}, which does not fit {wanted} of the schema"
        ) from error


def cast(name: str, array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values as the type of a schema.

    Raises:
        InvalidInputError: a value does not fit.
    """
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise unsuitable(
            f"column {name!r} has a value that does not fit {wanted} of the schema: {error}"
        ) from error


def _code(dtype: np.dtype[Any]) -> str:
    return f"{dtype.kind}{dtype.itemsize}"
