"""Types of the columns of metadata tables."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as t

TEXT: Final = t.StringType()
LONG: Final = t.LongType()
TIME: Final = t.TimestampType()
LONGS: Final = t.ArrayType(LONG)
TEXTS: Final = t.ArrayType(TEXT)
MAP: Final = t.MapType(TEXT, TEXT)


def struct(**kinds: t.DataType) -> t.StructType:
    """The schema of a table by the names of its columns."""
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])
