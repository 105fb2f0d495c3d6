"""Labels that a query does not distinguish: their rows are added up before Spark gets them.

A query that groups by `date_trunc('month', time)`, and mentions `time` nowhere else, gives the same
answer when each time is replaced by another one of its month. So Spark evaluates what a query makes
of the labels of one dimension, on the small table of these labels, and the cells of labels for
which all of it comes out the same become one row, with one of these labels. The query itself stays
as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t
from sqlglot import TokenType

from frazil.spark.errors import spark_errors, without_pyspark_logging
from frazil.spark.query.conditions import POSITION, label_arrays, schema_of
from frazil.spark.query.functions import SCALARS
from frazil.spark.query.tokens import Tokens, TokenSpan
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.reading.reducing import Counts, LabelClasses
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.tuning import CLASS_LABELS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PLAIN: Final = (
    t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType,
    t.DecimalType, t.StringType, t.DateType, t.TimestampType, t.TimestampNTZType,
)  # fmt: skip
"""kinds of values that are the same where Python has the same"""

Terms: TypeAlias = Mapping[int, frozenset[str]]
"""What a query makes of the labels of one dimension, by the number of its axis."""


def terms_of(
    tokens: Tokens, scan: Scan, names: Mapping[int, str], mentioned: Collection[int]
) -> Terms:
    """What a SELECT makes of the labels of each dimension.

    Args:
        tokens: the query.
        scan: the table.
        names: columns of the table by where they begin in the text.
        mentioned: the places among these at which Spark looks at labels.
    """
    looked_at = {at: names[start] for start in mentioned if (at := tokens.at(start)) is not None}
    found: dict[int, set[str]] = {}
    apart: set[int] = set()
    for at, name in looked_at.items():
        column = scan.values.get(name) or scan.coordinates[name]
        if name in scan.values or len(column.axes) != 1:
            apart.update(column.axes)
            continue
        axis = column.axes[0]
        span = _widest(tokens, scan, looked_at, at, axis)
        if not [*tokens.calls(span)] and name == scan.axes[axis].name:
            apart.add(axis)  # labels of a dimension are distinct, as a rule
        found.setdefault(axis, set()).add(tokens.text_of(span))
    return {axis: frozenset(texts) for axis, texts in found.items() if axis not in apart}


def _widest(tokens: Tokens, scan: Scan, names: Mapping[int, str], at: int, axis: int) -> TokenSpan:
    """The largest call around a column that uses labels of one axis only; else the column."""
    span = TokenSpan(at, at + (3 if tokens.kind(at + 1) is TokenType.DOT else 1))
    while True:
        opening = tokens.opening(span.first)
        if opening is None:
            return span
        wider = TokenSpan(opening - 1, tokens.closing(opening) + 1)
        if not _is_call(tokens, wider) or not _is_along(tokens, scan, names, wider, axis):
            return span
        span = wider


def _is_call(tokens: Tokens, span: TokenSpan) -> bool:
    """Whether a span is a call of a function whose answer depends on its arguments alone."""
    calls = {at: name for name, at in tokens.calls(span)}
    kinds = {tokens.kind(n) for n in range(span.first, span.stop)}
    return (
        span.first in calls
        and SCALARS.issuperset(calls.values())
        and tokens.kind(span.first - 1) is not TokenType.DOT
        and TokenType.SELECT not in kinds
    )


def _is_along(
    tokens: Tokens, scan: Scan, names: Mapping[int, str], span: TokenSpan, axis: int
) -> bool:
    """Whether all columns of a span are labels of an axis."""
    for at, name in names.items():
        if span.first <= at < span.stop:
            column = None if name in scan.values else scan.coordinates.get(name)
            if column is None or column.axes != (axis,):
                return False
    return True


def find_classes(
    scan: Scan, terms: Terms, spark: SparkSession, alias: str
) -> dict[int, LabelClasses]:
    """The labels that come to the same, by axis; axes with hardly any are left out.

    `alias` is what the query calls the table.
    """
    sizes = {axis: scan.shape[axis] for axis in terms if scan.shape[axis] >= 2}
    longest = max(sizes.values(), default=0)
    if not 0 < longest <= CLASS_LABELS:
        return {}
    columns: list[Column] = []
    arrays: list[pa.Array] = []
    for axis, size in sizes.items():
        # Short ones are filled up with their last label: one question to Spark for all.
        places = pa.array(np.minimum(np.arange(longest), size - 1))
        own = [each for each in scan.coordinates.values() if each.axes == (axis,)]
        columns += own
        arrays += [each.take(places) for each in label_arrays(scan, own, (axis,))]
    kinds = t.StructType([*schema_of(scan, columns), t.StructField(POSITION, t.LongType())])
    table = pa.Table.from_arrays(
        [*arrays, pa.array(np.arange(longest))], schema=arrow_schema(kinds)
    )
    texts = [(axis, text) for axis in sizes for text in sorted(terms[axis])]
    try:
        with without_pyspark_logging():
            frame = spark.createDataFrame(table, kinds).alias(alias)
            answers = _answers(frame, [POSITION, *(text for _, text in texts)])
    except (*spark_errors(), pa.ArrowException, ValueError):
        return {}  # the query will say what is wrong, if it comes to that
    found = {}
    for axis, size in sizes.items():
        own_answers = [
            each[:size] for (of, _), each in zip(texts, answers, strict=True) if of == axis
        ]
        classes = LabelClasses.of(own_answers)
        if classes.count * 2 <= size:  # else hardly any rows are saved
            found[axis] = classes
    return found


def _answers(frame: DataFrame, texts: Sequence[str]) -> list[Counts]:
    """Spark's results for labels as numbers: equal results get equal numbers.

    Raises:
        ValueError: it is of a kind that is not looked into, or a time that Python does not have.
    """
    found = frame.selectExpr(*texts)
    kinds = [each.dataType for each in found.schema]
    if not all(isinstance(kind, _PLAIN) for kind in kinds):
        raise ValueError("values of this kind are not told apart")
    if any(isinstance(kind, t.TimestampType) for kind in kinds):
        # Python would have them by the clock, on which an hour may come twice.
        found = frame.selectExpr(
            *(
                f"unix_micros({text})" if isinstance(kind, t.TimestampType) else text
                for text, kind in zip(texts, kinds, strict=True)
            )
        )
    # Spark gives a few rows of a table in memory without a job.
    rows = found.collect()
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    order = np.argsort(columns[0].to_numpy())
    return [_numbered(column)[order] for column in columns[1:]]


def _numbered(values: pa.Array) -> Counts:
    # Arrow tells the two zeros apart, as what is made of them may.
    numbers: Counts = values.dictionary_encode("encode").indices.to_numpy().astype(np.int64)
    return numbers
