"""Aggregates beside joins: when a table may be reduced before it is joined.

If a join condition uses only labels, all cells of a label join with the same rows, so counts and
sums of the cells can be computed before the join. That holds for inner and cross joins,
and for semi and anti joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import TokenType, exp

from frazil.spark.query.functions import SCALARS
from frazil.spark.query.linear import Refusal
from frazil.spark.query.rewriting import Where
from frazil.spark.query.scopes import TableUse
from frazil.spark.query.tables import OpenTable
from frazil.spark.query.tokens import Block, Tokens, TokenSpan

ELSEWHERE: Final = "it is about columns of other tables"
NOWHERE: Final = "it is about no column"
_JOINING: Final = frozenset(
    {"join", "inner", "cross", "left", "right", "full", "semi", "anti", "natural", "lateral"}
)


@dataclass(slots=True)
class WhereParts:
    """The conditions of a SELECT: those that the source applies, and those left for Spark."""

    applied: list[TokenSpan]
    left: dict[TokenSpan, str]
    """with the reasons"""

    def beside_joins(self) -> Where:
        """The conditions for a table that is reduced before it is joined.

        Raises:
            Refusal: one looks at cells, and not at labels and other tables.
        """
        if not {*self.left.values()} <= {ELSEWHERE, NOWHERE}:
            raise Refusal("tasks cannot apply all conditions")
        return Where(tuple(self.applied), tuple(self.left))


def require_joinable(tokens: Tokens, block: Block, use: TableUse, table: OpenTable) -> None:
    """Refuse joins that do not let a table be reduced before.

    Raises:
        Refusal: with the reason.
    """
    select = use.select
    assert select is not None
    joins = select.args.get("joins") or ()
    source = select.args.get("from_") or select.args.get("from")
    tops = [join.this for join in joins] + ([] if source is None else [source.this])
    if select.args.get("laterals") or not any(top is use.node for top in tops):
        raise Refusal("the SELECT has other tables too, in an unusual way")
    for join in joins:
        side, kind = (str(join.args.get(word) or "").upper() for word in ("side", "kind"))
        if join.args.get("using") or join.args.get("method"):
            raise Refusal("columns of a join by USING or NATURAL are of several tables")
        asks = side in ("", "LEFT") and kind in ("SEMI", "ANTI") and join.this is not use.node
        if not asks and (side or kind not in ("", "INNER", "CROSS")):
            raise Refusal("an outer join may find no row of a table")
        condition = join.args.get("on")
        if condition is not None and condition.find(exp.Select) is not None:
            raise Refusal("ON has a query within")
    for span in _conditions(tokens, block):
        for name, _ in tokens.calls(span):
            if name not in SCALARS:
                raise Refusal(f"{name}() may give another answer each time")
    for column in select.find_all(exp.Column):
        is_bare = not column.table and column.find_ancestor(exp.Select) is select
        if is_bare and table.find(column.name) is not None:
            raise Refusal(f"{column.name} has no table before it, and may be of several")


def _conditions(tokens: Tokens, block: Block) -> Iterator[TokenSpan]:
    """What stands after ON."""
    first = None
    level = tokens.depth[block.whole.first]
    for n in range(block.sources.first, block.sources.stop):
        if tokens.depth[n] != level:
            continue
        is_end = tokens.word(n) in _JOINING or tokens.kind(n) is TokenType.COMMA
        if first is not None and is_end:
            yield TokenSpan(first, n)
            first = None
        if tokens.kind(n) is TokenType.ON:
            first = n + 1
    if first is not None:
        yield TokenSpan(first, block.sources.stop)
