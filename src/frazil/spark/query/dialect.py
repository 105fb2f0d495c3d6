"""Spark's SQL as sqlglot reads it, with what sqlglot leaves out."""

from __future__ import annotations

from typing import Final

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark


class _Parser(Spark.Parser):  # type: ignore[valid-type,misc]  # a variable
    """Takes any expression in CUBE, ROLLUP and GROUPING SETS, as Spark does.

    sqlglot's own parser takes no comparisons there, such as `ROLLUP(lat > 0)`.
    """

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
        if self._match(TokenType.CUBE):
            kind: type[exp.Cube | exp.Rollup] = exp.Cube
        elif self._match(TokenType.ROLLUP):
            kind = exp.Rollup
        else:
            return None
        items = [] if with_prefix else self._parse_wrapped_csv(self._parse_disjunction)
        made: exp.Cube | exp.Rollup = self.expression(kind(expressions=items))
        return made

    def _parse_grouping_set(self) -> exp.Expr | None:
        sets = self._parse_grouping_sets() or self._parse_cube_or_rollup()
        found: exp.Expr | None = sets or self._parse_disjunction()
        return found


class FrazilSpark(Spark):
    """The dialect."""

    Parser = _Parser


DIALECT: Final = FrazilSpark
