"""Sums of expressions that are linear in one variable, from the variable's own sum and count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError

from frazil.spark.query.dialect import DIALECT
from frazil.spark.query.tokens import braced

_WEIGHTS: Final = frozenset(
    ["abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "degrees", "exp", "floor", "greatest",
     "least", "ln", "log10", "pi", "pow", "power", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
     "cast", "double", "coalesce"]
)  # fmt: skip
"""functions allowed in weights: their SQL is generated again, and must mean the same"""


class Refusal(Exception):
    """Why a SELECT is not rewritten."""


def is_column(text: str) -> bool:
    """Whether an expression is a column and nothing else."""
    return isinstance(_parsed(text), exp.Column)


def asks_presence(text: str) -> bool:
    """Whether a condition is that a column has a value, and nothing else."""
    match _parsed(text):
        case exp.Not(this=exp.Is() as asked):
            return isinstance(asked.this, exp.Column) and isinstance(asked.expression, exp.Null)
        case _:
            return False


def _parsed(text: str) -> exp.Expr:
    try:
        found = parse_one(f"SELECT {text}", dialect=DIALECT)
    except ParseError:
        raise Refusal(f"{text} cannot be read") from None
    if not isinstance(found, exp.Select) or len(found.selects) != 1:
        raise Refusal(f"{text} is not one value")
    return found.selects[0]


def linear(
    text: str,
    name: str,
    total: str,
    count: str,
    inside: Mapping[int, str],
) -> str:
    """The sum of an expression that is linear in a variable, from the variable's sum and count."""
    tree = _parsed(text)
    own = sum(each == name for each in inside.values())
    if sum(each.name.lower() == name.lower() for each in tree.find_all(exp.Column)) > own:
        raise Refusal(f"{text} has a column of the same name of another table")

    def has(node: exp.Expr) -> bool:
        return any(each.name.lower() == name.lower() for each in node.find_all(exp.Column))

    def weight(node: exp.Expr) -> str:
        for each in node.walk():
            is_plain = isinstance(
                each,
                exp.Column | exp.Identifier | exp.Literal | exp.Binary | exp.Neg | exp.Paren
                | exp.DataType,
            )  # fmt: skip
            # `2.5D` is read as a cast of a number.
            is_plain = is_plain or (isinstance(each, exp.TryCast) and each.this.is_number)
            if not is_plain and not (
                isinstance(each, exp.Func) and {*map(str.lower, each.sql_names())} & _WEIGHTS
            ):
                raise Refusal(f"{node.sql(dialect=DIALECT)} is no weight that tasks know")
        return f"({braced(node.sql(dialect=DIALECT))})"

    def summed(node: exp.Expr) -> str:
        match node:
            case exp.Column():
                return total
            case exp.Paren() | exp.Alias():
                return f"({summed(node.this)})"
            case exp.Neg():
                return f"(-{summed(node.this)})"
            case exp.Cast() if node.to.is_type("double"):
                return f"CAST({summed(node.this)} AS DOUBLE)"
            case exp.Add() | exp.Sub():
                sign = "+" if isinstance(node, exp.Add) else "-"
                left, right = (
                    summed(side) if has(side) else f"({weight(side)} * {count})"
                    for side in (node.this, node.expression)
                )
                return f"({left} {sign} {right})"
            case exp.Mul() if not has(node.this):
                return f"({weight(node.this)} * {summed(node.expression)})"
            case exp.Mul() if not has(node.expression):
                return f"({summed(node.this)} * {weight(node.expression)})"
            case exp.Div() if not has(node.expression):
                return f"({summed(node.this)} / {weight(node.expression)})"
            case _:
                raise Refusal(f"{text} is not linear in {name}")

    return summed(tree)
