"""SQL texts that take the place of a table in a query."""

from __future__ import annotations

from pyspark.sql import types as t
from sqlglot import TokenType

from frazil.spark.query.scopes import TableUse
from frazil.spark.query.tokens import TextEdit, Tokens, braced
from frazil.texts import backquoted


def table_edit(tokens: Tokens, use: TableUse, name: str) -> TextEdit:
    """The edit that puts a frame in a table's place, under the name that it had."""
    parts = use.node.parts
    first = tokens.at(use.start)
    last = tokens.at(int(parts[-1].meta["start"]))
    assert first is not None
    assert last is not None
    if use.node.args.get("version") is not None:
        last = _version_end(tokens, last)
    new = f"{{{name}}}"
    if not use.node.alias and not use.node.args.get("sample"):
        new += f" AS {braced(backquoted(use.alias))}"
    return tokens.all[first].start, tokens.all[last].end + 1, new


def _version_end(tokens: Tokens, last: int) -> int:
    """The last token of a version after a table's name."""
    at = last + 1
    while tokens.word(at) != "of":
        at += 1
    at += 1
    if tokens.kind(at) not in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN):
        at += 1  # as in TIMESTAMP '2024-05-01', or a function
    return tokens.closing(at) if tokens.kind(at) is TokenType.L_PAREN else at


def null_table(schema: t.StructType) -> str:
    """A table with the columns of a schema, for Spark to say what a query makes of them."""
    columns = (
        f"CAST(NULL AS {each.dataType.simpleString()}) AS {backquoted(each.name)}"
        for each in schema
    )
    return f"(SELECT {', '.join(columns)})"
