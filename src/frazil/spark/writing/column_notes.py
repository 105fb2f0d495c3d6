"""Attributes of arrays as notes on columns, so that rows which are written again keep them.

Spark keeps the metadata of a column that is selected or renamed, and drops it when the column is
computed anew. Only what describes values goes along: how they are packed, masked or counted, and
which other arrays belong to them, is decided by whoever makes the new array.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import types as t

from frazil.cf.attributes import ENCODING
from frazil.cf.times import is_time
from frazil.spark.reading.variables import Variable

NOTE: Final = "frazil.attributes"


def note_of(variable: Variable) -> dict[str, str]:
    """The metadata of a column with the decoded values of a variable."""
    found = {key: value for key, value in variable.attrs.items() if key not in ENCODING}
    if is_time(found.get("units")):
        del found["units"]
    return {NOTE: json.dumps(found)} if found else {}


def noted_attributes(column: t.StructField) -> Mapping[str, Any]:
    """The attributes that a column brings along; none if its note is not one of ours."""
    try:
        found = json.loads((column.metadata or {}).get(NOTE, "{}"))
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
