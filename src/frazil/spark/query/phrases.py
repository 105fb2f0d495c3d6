"""Statements word by word: names, words and values in the order in which SQL has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import TokenType

from frazil.errors import InvalidInputError
from frazil.spark.query.names import NamePart
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.tokens import Tokens, TokenSpan

_NO_NAMES: Final = frozenset(
    {TokenType.DOT, TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.EQ}
)


class Phrase:
    """A statement that is read from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.at = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left but a semicolon."""
        return self.at >= len(self.tokens) or (
            self.at == len(self.tokens) - 1 and self.kind is TokenType.SEMICOLON
        )

    @property
    def kind(self) -> TokenType | None:
        """What the next token is."""
        return self.tokens.kind(self.at)

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        return self._length(words) is not None

    def accept(self, *words: str) -> bool:
        """Pass words, if they come next."""
        length = self._length(words)
        if length is None:
            return False
        self.at += length
        return True

    def _length(self, words: tuple[str, ...]) -> int | None:
        """How many tokens words are; some of the tokens have two words."""
        at, left = self.at, " ".join(words)
        while left:
            # What is quoted is a name or a text, and no word of SQL.
            word = self.tokens.word(at)
            is_quoted = self.tokens.kind(at) in (TokenType.STRING, TokenType.IDENTIFIER)
            if is_quoted or not word or not f"{left} ".startswith(f"{word} "):
                return None
            left = left[len(word) :].lstrip()
            at += 1
        return at - self.at

    def expect(self, *words: str) -> None:
        """Pass words that must come next.

        Raises:
            InvalidInputError: others do.
        """
        if not self.accept(*words):
            raise self.wrong(" ".join(words).upper())

    def end(self) -> None:
        """Check that nothing is left.

        Raises:
            InvalidInputError: something is.
        """
        if not self.is_done:
            raise self.wrong("the end of the statement")

    def wrong(self, expected: str) -> InvalidInputError:
        """The error for a statement that has something else where `expected` must be."""
        found = "the end" if self.is_done else repr(self.tokens.all[self.at].text)
        return invalid_query(f"the statement cannot be read: {expected} is expected before {found}")

    def name(self) -> tuple[NamePart, ...]:
        """A name with dots."""
        found = [self._part()]
        while self.kind is TokenType.DOT:
            self.at += 1
            found.append(self._part())
        return tuple(found)

    def _part(self) -> NamePart:
        if self.is_done or self.kind in _NO_NAMES or self.kind is TokenType.STRING:
            raise self.wrong("a name")
        token = self.tokens.all[self.at]
        self.at += 1
        return NamePart(token.text, token.token_type is TokenType.IDENTIFIER)

    def value(self) -> str:
        """A word, a number or a text, without quotes."""
        if self.is_done or self.kind in _NO_NAMES:
            raise self.wrong("a value")
        self.at += 1
        return self.tokens.all[self.at - 1].text

    def until(self, is_end: Callable[[], bool]) -> str:
        """The text up to a token outside of parentheses and CASE, or to the end."""
        first, cases = self.at, 0
        level = self.tokens.depth[first] if not self.is_done else 0
        while not self.is_done:
            if self.tokens.depth[self.at] == level and not cases and is_end():
                break
            cases += (self.kind is TokenType.CASE) - (self.kind is TokenType.END)
            self.at += 1
        return self.since(first)

    def since(self, first: int) -> str:
        """The text from a token to where we are."""
        return self.tokens.text_of(TokenSpan(first, self.at)) if first < self.at else ""

    def rest(self) -> str:
        """All that is left."""
        return self.until(lambda: False)

    def items(self) -> list[TokenSpan]:
        """What stands in the parentheses that come next, between commas.

        Raises:
            InvalidInputError: there are none.
        """
        if self.kind is not TokenType.L_PAREN:
            raise self.wrong("(")
        try:
            close = self.tokens.closing(self.at)
        except StopIteration:
            raise self.wrong(")") from None
        inside = TokenSpan(self.at + 1, close)
        self.at = close + 1
        return self.tokens.split(inside, TokenType.COMMA)

    def pairs(self) -> dict[str, str]:
        """Options in parentheses: `name = value`, or a blank between them."""
        found: dict[str, str] = {}
        for span in self.items():
            end, self.at = self.at, span.first
            name = ".".join(part.text for part in self._key())
            self.accept("=")
            found[name] = self.value()
            if self.at != span.stop:
                raise self.wrong("a comma")
            self.at = end
        return found

    def _key(self) -> tuple[NamePart, ...]:
        if self.kind is TokenType.STRING:
            return (NamePart(self.value()),)
        return self.name()
