"""Rows as SQL writes them, where that is shorter than to give Spark a table."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pyarrow as pa

from frazil.texts import backquoted

_KINDS: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.decimal128(38, 0): "DECIMAL(38, 0)",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
"""types whose values have one spelling, whatever the settings of a session"""


def row_text(table: pa.Table) -> str | None:
    """A table of one row for FROM; None where it has a column that cannot surely be written."""
    found = []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = _KINDS.get(field.type)
        try:
            value = column[0].as_py()
        except ValueError:  # a time of a year that Python does not have
            return None
        if kind is None:
            return None
        # The column may be without a value, to Spark, as that of a table may.
        found.append(f"CASE WHEN true THEN CAST({_written(value)} AS {kind}) END")
    names = ", ".join(map(backquoted, table.schema.names))
    return f"(SELECT * FROM VALUES ({', '.join(found)}) AS made({names}))"


def _written(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return f"'{str(value).lower()}'"
        case float():  # Java knows nan and inf under other names
            text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
            return f"'{text}'"
        case Decimal():
            return f"'{value:f}'"
        case _:
            return f"'{value}'"
