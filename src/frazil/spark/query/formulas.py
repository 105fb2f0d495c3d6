"""What the aggregates of a SELECT become: formulas over the rows that tasks give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import types as t

from frazil.spark.options.labels import Lists, parse_lists
from frazil.spark.query.linear import Refusal, is_column, linear
from frazil.spark.query.tokens import TextEdit, braced
from frazil.spark.reading.aggregating import can_compare, column_name, sum_type
from frazil.spark.reading.reducing import COUNT, SQUARES, SUM
from frazil.spark.reading.scan import Scan, column_type
from frazil.texts import backquoted

SHIFT: Final = "__frazil_near_{}__"
"""placeholder for a number near the mean of a variable, until that is known"""
FILTER: Final = "\x00"
"""placeholder for FILTER, after each aggregate of a formula"""
MADE: Final = "\x01"
"""marks each aggregate of a formula"""
_AGGREGATE: Final = re.compile(MADE + r"(?:sum|min|max)\(")


@dataclass(slots=True)
class RewrittenSelect:
    """A SELECT on the rows that tasks give."""

    alias: str
    """what it calls the table"""
    edits: list[TextEdit] = field(default_factory=list)
    labels: dict[str, None] = field(default_factory=dict)
    """columns to keep"""
    mentioned: set[int] = field(default_factory=set)
    """where in the text Spark looks at them"""
    wanted: dict[str, set[str]] = field(default_factory=dict)
    """aggregates by variable"""
    shifted: dict[str, str] = field(default_factory=dict)
    """variables of which a number near the mean is needed, with what stands for it"""
    doubles: list[str] = field(default_factory=list)
    """expressions that must be doubles for all this to be right"""
    is_summed: bool = False
    """whether some aggregates are rewritten, so that it makes one row of all"""
    is_mixed: bool = False
    """whether an aggregate has a FILTER, or is left as it is"""
    is_apart: bool = True
    """whether labels of an axis need not meet those of others, as in `min(lat), max(lon)`"""
    with_extremes: bool = True
    """whether tasks find those of coordinates"""
    unnamed: list[int] = field(default_factory=list)
    """numbers of the items that need a name"""

    @property
    def is_total(self) -> bool:
        """Whether it aggregates all cells into one value."""
        return self.is_summed and not self.labels and not self.is_mixed

    def column(self, name: str) -> str:
        """A column of the rows that tasks give, as the text of the SELECT names it.

        Its table stands before it: in ORDER BY and HAVING, `sum(t2m)` alone may be of the answer.
        """
        return braced(f"{backquoted(self.alias)}.{backquoted(name)}")

    def aggregates(self) -> Lists:
        """What tasks compute of each variable."""
        return parse_lists(
            ", ".join(
                f"{backquoted(name)}=[{', '.join(sorted(words))}]"
                for name, words in sorted(self.wanted.items())
            )
        )


def added(text: str) -> str:
    """A rewritten text for the rows that tasks give: Spark adds them up."""
    return text.replace(MADE, "")


def alone(text: str) -> str:
    """The same where there is one row: it is the answer."""
    return _AGGREGATE.sub("(", text)


def _total(expression: str) -> str:
    return f"{MADE}sum({expression}){FILTER}"


def of_labels(found: RewrittenSelect, aggregate: str, text: str, rows: str) -> str:
    """An aggregate of a value that all cells of a label share: it is weighted by their number."""
    present = f"CASE WHEN ({braced(text)}) IS NOT NULL THEN {rows} END"
    match aggregate:
        case "count" if text == "*":
            return f"coalesce({_total(rows)}, 0L)"
        case "count":
            if "," in text:
                raise Refusal("tasks cannot count by several columns")
            return f"coalesce({_total(present)}, 0L)"
        case "sum":
            found.doubles.append(text)
            return _total(f"({braced(text)}) * nullif({rows}, 0L)")
        case "avg":
            found.doubles.append(text)
            total = _total(f"({braced(text)}) * nullif({rows}, 0L)")
            return f"({total} / nullif({_total(present)}, 0L))"
        case _:
            raise Refusal(f"tasks cannot compute {aggregate}() of coordinates")


def of_values(
    found: RewrittenSelect,
    aggregate: str,
    text: str,
    name: str,
    scan: Scan,
    inside: Mapping[int, str],
) -> str:
    """An aggregate of a variable, or of an expression that is linear in it."""
    column = scan.values[name]
    kind = column_type(column, scan.request)
    is_plain = len(inside) == 1 and is_column(text)
    wanted = found.wanted.setdefault(name, set())

    def own(word: str) -> str:
        wanted.add(word)
        return found.column(column_name(word, name))

    match aggregate:
        case "count" if is_plain:
            return f"coalesce({_total(own(COUNT))}, 0L)"
        case "min" | "max" if is_plain:
            if not can_compare(column.dtype):
                raise Refusal(f"tasks cannot compare {kind.simpleString()}")
            return f"{MADE}{aggregate}({own(aggregate)}){FILTER}"
    if sum_type(kind) is None:
        raise Refusal(f"tasks cannot add {kind.simpleString()}")
    match aggregate:
        case "sum" if is_plain and isinstance(kind, t.LongType):
            return f"CAST({_total(own(SUM))} AS BIGINT)"
        case "sum" if is_plain:
            return _total(own(SUM))
        case "avg" if is_plain:
            return f"(CAST({_total(own(SUM))} AS DOUBLE) / nullif({_total(own(COUNT))}, 0L))"
        case "count" | "sum" | "avg":
            made = linear(text, name, own(SUM), own(COUNT), inside)
            others = {start: each for start, each in inside.items() if each != name}
            found.labels.update(dict.fromkeys(others.values()))
            found.mentioned.update(others)
            count = f"CASE WHEN ({made}) IS NOT NULL THEN {own(COUNT)} END"
            found.doubles.append(text)
            if aggregate == "count":
                return f"coalesce({_total(count)}, 0L)"
            if aggregate == "sum":
                return _total(made)
            return f"({_total(made)} / nullif({_total(count)}, 0L))"
        case "min" | "max":
            raise Refusal(f"tasks cannot find the extremes of {text}")
    if not is_plain:
        raise Refusal(f"tasks cannot compute {aggregate}() of {text}")
    return _spread(aggregate, own(COUNT), own(SUM), own(SQUARES), found, name)


def _spread(
    aggregate: str, count: str, total: str, squares: str, found: RewrittenSelect, name: str
) -> str:
    """Variances from those of parts: within the parts, and between their means.

    Means are taken from a number near them all, so that no digits are lost.
    """
    near = found.shifted.setdefault(name, SHIFT.format(len(found.shifted)))
    apart = f"(CAST({total} AS DOUBLE) / nullif({count}, 0L) - {near})"
    number = _total(count)
    # Where all means are the same, what is lost in the difference would look like a spread.
    between = (
        f"CASE WHEN {MADE}min({apart}){FILTER} = {MADE}max({apart}){FILTER} THEN 0.0D ELSE "
        f"{_total(f'{count} * {apart} * {apart}')} - {_total(f'{count} * {apart}')} * "
        f"{_total(f'{count} * {apart}')} / nullif({number}, 0L) END"
    )
    both = f"greatest({_total(squares)} + {between}, 0.0D)"
    by = f"nullif({number}, 0L)" if aggregate.endswith("_pop") else f"nullif({number} - 1L, 0L)"
    variance = f"CASE WHEN {number} > 0L THEN {both} / {by} END"
    return f"sqrt({variance})" if aggregate.startswith("stddev") else f"({variance})"
