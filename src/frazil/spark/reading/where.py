"""The text of a `where` option, parsed into a condition.

    time >= '2024-05-01' AND (lat BETWEEN 10 AND 20 OR NOT station IN ('a', 'b'))

`NOT` is pushed down to the comparisons while parsing. In SQL a comparison with NULL is neither true
nor false, so a finished true/false mask could not be negated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from frazil.errors import ErrorKind, InvalidInputError
from frazil.texts import text as given

Literal: TypeAlias = str | int | float | bool
P = TypeVar("P")

OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SPELLINGS: Final = {"==": "=", "<>": "!="}
_DEEPEST: Final = 100
"""Nesting that no query needs; deeper ones are refused before Python's stack ends."""
_WORDS: Final = frozenset(
    ["AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP",
     "TIMESTAMP_NTZ"]
)  # fmt: skip
_DATE: Final = re.compile(r"\d{4}(-\d{1,2}(-\d{1,2})?)?")
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),+\-]))"
)


@dataclass(frozen=True, slots=True)
class Compare:
    """A coordinate compared with a value."""

    name: str
    sign: str
    value: Literal
    at: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """A coordinate that is, or is not, one of some values."""

    name: str
    values: tuple[Literal, ...]
    at: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """A coordinate that has, or has not, a value."""

    name: str
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Positions:
    """Places along a dimension, by number."""

    name: str
    start: int
    stop: int
    step: int = 1
    numbers: tuple[int, ...] = ()
    """instead of the range, if there are any"""
    runs: tuple[tuple[int, int], ...] = ()
    """ranges in order that do not meet, likewise"""


@dataclass(frozen=True, slots=True)
class All:
    """Conditions that all hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Any_:
    """Conditions of which one holds."""

    parts: tuple[Condition, ...]


Leaf: TypeAlias = Compare | OneOf | IsNull | Positions
Condition: TypeAlias = Leaf | All | Any_


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition with the text that it was read from, which errors point into."""

    text: str
    condition: Condition


def parse_predicate(text: str) -> Predicate:
    """Read the text of an option that chooses cells.

    Raises:
        InvalidInputError: it cannot be read; the message points at the place.
    """
    written = given(text)
    return Predicate(written, parse_where(written))


def parse_where(text: str) -> Condition:
    """Read a condition in SQL.

    Raises:
        InvalidInputError: it cannot be read; the message points at the place.
    """
    return _Parser(text).parse()


def negate(condition: Condition) -> Condition:
    """The condition that holds where this one fails, missing values apart."""
    match condition:
        case All(parts):
            return Any_(tuple(map(negate, parts)))
        case Any_(parts):
            return All(tuple(map(negate, parts)))
        case Compare(name, sign, value, at):
            return Compare(name, OPPOSITE[sign], value, at)
        case OneOf(name, values, at, negated):
            return OneOf(name, values, at, not negated)
        case IsNull(name, negated, at):
            return IsNull(name, not negated, at)
        case Positions():
            raise TypeError("positions are chosen, never excluded")


def both(first: Condition | None, second: Condition | None) -> Condition | None:
    """The condition that two both hold, either of which may be absent."""
    if first is None or second is None:
        return first or second
    return All((*conjuncts(first), *conjuncts(second)))


def conjuncts(condition: Condition | None) -> tuple[Condition, ...]:
    """The parts of a condition that must all hold."""
    if condition is None:
        return ()
    if isinstance(condition, All):
        return tuple(inner for part in condition.parts for inner in conjuncts(part))
    return (condition,)


def leaves(condition: Condition) -> tuple[Leaf, ...]:
    """The comparisons that a condition is made of."""
    if isinstance(condition, All | Any_):
        return tuple(leaf for part in condition.parts for leaf in leaves(part))
    return (condition,)


def pointing(text: str, at: int, problem: str, option: str = "where") -> InvalidInputError:
    """The error that shows a place of a text."""
    line = text.replace("\n", " ")
    start = max(at - 60, 0)
    shown = ("…" if start else "") + line[start : at + 40] + ("…" if at + 40 < len(line) else "")
    mark = " " * (at - start + bool(start)) + "^"
    return InvalidInputError(
        f"option {option!r} cannot be read at position {at + 1}: {problem}\n  {shown}\n  {mark}",
        kind=ErrorKind.INVALID_EXPRESSION,
    )


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    """Reads one condition, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def _split(self) -> list[_Token]:
        found, at = [], 0
        end = len(self._text.rstrip())
        while at < end:
            token = _TOKEN.match(self._text, at)
            if token is None or token.lastgroup is None:
                place = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                quote = self._text[place] in "'\"`"
                raise pointing(
                    self._text,
                    place,
                    "this quote is never closed" if quote else "this has no meaning here",
                )
            kind, text = token.lastgroup, token[token.lastgroup]
            if kind == "word" and text.upper() in _WORDS:
                kind, text = "keyword", text.upper()
            found.append(_Token(kind, text, token.start(token.lastgroup)))
            at = token.end()
        found.append(_Token("end", "", end))
        return found

    def parse(self) -> Condition:
        if len(self._tokens) == 1:
            raise self._error("a condition is expected, such as lat > 10")
        found = self._either()
        if self._token.kind != "end":
            raise self._error("AND, OR or the end is expected")
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _error(self, problem: str, token: _Token | None = None) -> InvalidInputError:
        return pointing(self._text, (token or self._token).at, problem)

    def _take(self) -> _Token:
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    def _accept(self, *texts: str) -> bool:
        token = self._token
        if token.kind in ("keyword", "sign") and token.text in texts:
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"{text} is expected")

    def _either(self) -> Condition:
        parts = self._joined("OR", self._every)
        return parts[0] if len(parts) == 1 else Any_(parts)

    def _every(self) -> Condition:
        parts = self._joined("AND", self._unary)
        return parts[0] if len(parts) == 1 else All(parts)

    def _joined(self, word: str, part: Callable[[], P]) -> tuple[P, ...]:
        """One or more parts with a word, or a sign, between them."""
        found = [part()]
        while self._accept(word):
            found.append(part())
        return tuple(found)

    def _unary(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error("the condition is nested too deeply")
        try:
            if self._accept("NOT"):
                return negate(self._unary())
            if self._accept("("):
                found = self._either()
                self._expect(")")
                return found
            return self._predicate()
        finally:
            self._depth -= 1

    def _predicate(self) -> Condition:
        token = self._token
        if token.kind not in ("word", "quoted"):
            value = self._literal()
            sign = self._sign()
            name = self._name()
            return Compare(name, _MIRRORED[sign], value, token.at)
        name = self._name()
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._expect("NULL")
            return IsNull(name, negated, token.at)
        negated = self._accept("NOT")
        found: Condition
        if self._accept("BETWEEN"):
            low = self._literal()
            self._expect("AND")
            high = self._literal()
            found = All((Compare(name, ">=", low, token.at), Compare(name, "<=", high, token.at)))
        elif self._accept("IN"):
            found = OneOf(name, self._list(), token.at)
        elif negated:
            raise self._error("IN or BETWEEN is expected after NOT")
        else:
            found = Compare(name, self._sign(), self._literal(), token.at)
        return negate(found) if negated else found

    def _sign(self) -> str:
        token = self._take()
        sign = _SPELLINGS.get(token.text, token.text)
        if token.kind != "sign" or sign not in OPPOSITE:
            raise self._error("a comparison is expected (=, !=, <, <=, >, >=, BETWEEN, IN)", token)
        return sign

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            raise self._error("the name of a coordinate is expected", token)
        if self._token.text == "(":
            raise self._error("functions have no place here, compare the coordinate itself", token)
        return token.text

    def _list(self) -> tuple[Literal, ...]:
        self._expect("(")
        found = self._joined(",", self._literal)
        self._expect(")")
        return found

    def _literal(self) -> Literal:
        negative = False
        while self._token.kind == "sign" and self._token.text in "+-":
            negative ^= self._take().text == "-"
            if self._token.kind != "number":
                raise self._error("a number is expected")
        is_date = self._token.kind == "keyword" and self._token.text == "DATE"
        if self._accept("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and self._token.kind != "text":
            raise self._error("a date in quotes is expected")
        token = self._take()
        if is_date and _DATE.fullmatch(token.text[1:-1].strip()) is None:
            # Spark would leave the time of day out.
            raise self._error("DATE has no time of day; TIMESTAMP_NTZ has", token)
        match token.kind:
            case "number":
                value = _number(token.text)
                return -value if negative else value
            case "text":
                quote = token.text[0]
                return token.text[1:-1].replace(quote * 2, quote)
            case "keyword" if token.text in ("TRUE", "FALSE"):
                return token.text == "TRUE"
            case "word" | "quoted":
                raise self._error("a value is expected; text and dates stand in quotes", token)
            case _:
                raise self._error("a value is expected", token)


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)
