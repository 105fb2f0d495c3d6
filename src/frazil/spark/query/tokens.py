"""The text of a query in parts: where its clauses, conditions and calls begin and end.

Queries are changed by replacing parts of their text, never by generating them from a syntax tree.
All other text reaches Spark as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import Token, TokenType, tokenize

from frazil.spark.query.dialect import DIALECT

_OPEN: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSE: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_SET_OPERATORS: Final = frozenset(
    {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SEMICOLON}
)
CLAUSES: Final = {
    TokenType.WHERE: "where",
    TokenType.GROUP_BY: "group by",
    TokenType.HAVING: "having",
    TokenType.ORDER_BY: "order by",
    TokenType.SORT_BY: "sort by",
    TokenType.CLUSTER_BY: "cluster by",
    TokenType.DISTRIBUTE_BY: "distribute by",
    TokenType.LIMIT: "limit",
    TokenType.OFFSET: "offset",
    TokenType.WINDOW: "window",
    TokenType.QUALIFY: "qualify",
    TokenType.LATERAL: "lateral",
}
"""what may follow the tables of a SELECT"""
TAIL: Final = frozenset({"order by", "sort by", "cluster by", "distribute by", "limit", "offset"})
"""clauses that belong to all of a UNION, where there is one"""


TextEdit: TypeAlias = tuple[int, int, str]
"""A part of a text, from a place to before another, and what is to stand there."""


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Tokens from one to before another."""

    first: int
    stop: int

    def __bool__(self) -> bool:
        return self.first < self.stop


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT by its clauses."""

    whole: TokenSpan
    """without clauses that belong to a UNION"""
    is_distinct: bool
    items: tuple[TokenSpan, ...]
    """what is selected"""
    sources: TokenSpan
    clauses: dict[str, TokenSpan]
    """after FROM, without their first words"""
    in_set: bool
    """whether it is part of a UNION or the like"""


class Tokens:
    """The tokens of a query, with the text they were read from."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all: Sequence[Token] = tokenize(text, read=DIALECT)
        self.depth: list[int] = []
        depth = 0
        for token in self.all:
            depth -= token.token_type in _CLOSE
            self.depth.append(depth)
            depth += token.token_type in _OPEN
        self._at = {token.start: number for number, token in enumerate(self.all)}

    def __len__(self) -> int:
        return len(self.all)

    def kind(self, number: int) -> TokenType | None:
        """What a token is; None beyond the end."""
        return self.all[number].token_type if 0 <= number < len(self.all) else None

    def word(self, number: int) -> str:
        """A token as it was written, in lower case; empty beyond the end."""
        return self.all[number].text.lower() if 0 <= number < len(self.all) else ""

    def at(self, start: int) -> int | None:
        """The number of the token that begins at a place of the text."""
        return self._at.get(start)

    def text_of(self, span: TokenSpan) -> str:
        """The text of some tokens, as it was written."""
        if not span:  # it may begin where the tokens end
            return ""
        return self.text[self.all[span.first].start : self.all[span.stop - 1].end + 1]

    def closing(self, number: int) -> int:
        """The number of the token that closes a parenthesis."""
        level = self.depth[number]
        return next(n for n in range(number + 1, len(self)) if self.depth[n] == level)

    def opening(self, number: int) -> int | None:
        """The number of the token that opens the parentheses which a token is in."""
        first = self._opened(number, self.depth[number])
        return first - 1 if first else None

    def split(self, span: TokenSpan, kind: TokenType) -> list[TokenSpan]:
        """The parts of a span between tokens of a kind that are in no parentheses of it."""
        if not span:
            return []
        level, found, first = self.depth[span.first], [], span.first
        for number in range(span.first, span.stop):
            if self.depth[number] == level and self.kind(number) is kind:
                found.append(TokenSpan(first, number))
                first = number + 1
        return [*found, TokenSpan(first, span.stop)]

    def conjuncts(self, span: TokenSpan) -> list[TokenSpan]:
        """The conditions of a span that AND joins."""
        if not span:
            return []
        level, found, first = self.depth[span.first], [], span.first
        cases = betweens = 0
        for number in range(span.first, span.stop):
            if self.depth[number] != level:
                continue
            match self.kind(number):
                case TokenType.CASE:
                    cases += 1
                case TokenType.END:
                    cases -= 1
                case TokenType.BETWEEN if not cases:
                    betweens += 1
                case TokenType.AND if not cases:
                    if betweens:
                        betweens -= 1
                    else:
                        found.append(TokenSpan(first, number))
                        first = number + 1
                case TokenType.OR | TokenType.XOR if not cases:
                    return [span]
                case _:
                    pass
        return [*found, TokenSpan(first, span.stop)]

    def block(self, number: int) -> Block | None:
        """The SELECT whose tables a token is among; None when it is written in another way."""
        level = self.depth[number]
        start = self._left(number, level, TokenType.FROM)
        if start is None:
            return None
        select = self._left(start - 1, level, TokenType.SELECT)
        if select is None or any(
            self.kind(n) in _SET_OPERATORS and self.depth[n] == level for n in range(select, start)
        ):
            return None
        stop = next(
            (
                n
                for n in range(number, len(self))
                if self.depth[n] < level
                or (self.depth[n] == level and self.kind(n) in _SET_OPERATORS)
            ),
            len(self),
        )
        before = next((n for n in range(select - 1, -1, -1) if self.depth[n] <= level), None)
        in_set = self.kind(stop) in _SET_OPERATORS - {TokenType.SEMICOLON} or any(
            self.kind(n) in _SET_OPERATORS and self.depth[n] == level
            for n in range(0 if before is None else self._opened(select, level), select)
        )
        marks = [
            n for n in range(number, stop) if self.depth[n] == level and self.kind(n) in CLAUSES
        ]
        ends = [*marks[1:], stop][: len(marks)]
        clauses: dict[str, TokenSpan] = {}
        whole = stop
        for mark, end in zip(marks, ends, strict=True):
            name = CLAUSES[self.all[mark].token_type]
            if in_set and name in TAIL:
                whole = min(whole, mark)
            else:
                clauses[name] = TokenSpan(mark + 1, end)
        first = select + 1
        is_distinct = self.kind(first) is TokenType.DISTINCT
        first += is_distinct or self.word(first) == "all"
        return Block(
            TokenSpan(select, whole),
            is_distinct,
            tuple(self.split(TokenSpan(first, start), TokenType.COMMA)),
            TokenSpan(start + 1, marks[0] if marks else stop),
            clauses,
            in_set,
        )

    def _left(self, number: int, level: int, kind: TokenType) -> int | None:
        """The nearest token of a kind to the left, in the same parentheses."""
        for n in range(number, -1, -1):
            if self.depth[n] < level:
                return None
            if (
                self.depth[n] == level
                and self.kind(n) is kind
                and not (kind is TokenType.FROM and self.kind(n - 1) is TokenType.DISTINCT)
            ):
                return n
        return None

    def _opened(self, number: int, level: int) -> int:
        """Where the parentheses begin that a token is in."""
        return next((n + 1 for n in range(number, -1, -1) if self.depth[n] < level), 0)

    def calls(self, span: TokenSpan) -> Iterator[tuple[str, int]]:
        """Words before parentheses, with the number of the word; keywords of SQL left out."""
        for n in range(span.first, span.stop - 1):
            if self.kind(n + 1) is TokenType.L_PAREN and self.word(n) not in _NO_CALLS:
                text = self.all[n].text
                if text and (text[0].isalpha() or text[0] == "_"):
                    yield text.lower(), n


_NO_CALLS: Final = frozenset(
    ["and", "or", "not", "in", "between", "like", "ilike", "rlike", "regexp", "is", "filter",
     "where", "case", "when", "then", "else", "end", "select", "distinct", "from", "by", "having",
     "on", "using", "as", "values", "over", "all", "union", "except", "intersect", "with", "join",
     "escape", "interval", "sets"]
)  # fmt: skip
"""Words of SQL that parentheses may follow, and that are no functions."""


def replaced(text: str, edits: Iterable[TextEdit]) -> str:
    """A text with parts replaced, for `spark.sql(text, name=frame)`: its own braces stay braces."""
    found, at = [], 0
    for start, stop, new in sorted(edits):
        found += [braced(text[at:start]), new]
        at = stop
    return "".join([*found, braced(text[at:])])


def braced(text: str) -> str:
    """A text whose braces `str.format` leaves alone."""
    return text.replace("{", "{{").replace("}", "}}")
