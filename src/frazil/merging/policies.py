"""How conflicts are resolved: one side for all, rules by path, or a function; and the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import is_below
from frazil.merging.records import ConflictKind, Contested, MergeConflict, Resolution, Side

Policy: TypeAlias = str | Mapping[str, str] | Callable[[MergeConflict], str | None]
"""`fail`, `ours`, `theirs`; those by path pattern, the first that matches; or a function."""
Decide: TypeAlias = Callable[[MergeConflict], Side | None]
FAIL: Final = "fail"
_CHOICES: Final[dict[str, Side | None]] = {FAIL: None, "ours": "ours", "theirs": "theirs"}


def decider(policy: Policy) -> Decide:
    """The function that a policy means."""
    if isinstance(policy, str):
        side = _choice(policy)
        return lambda _: side
    if isinstance(policy, Mapping):
        rules = [(pattern, _choice(chosen)) for pattern, chosen in policy.items()]
        return lambda conflict: _by_path(rules, conflict.path)
    if not callable(policy):
        raise _bad(policy)
    ask = policy

    def decide(conflict: MergeConflict) -> Side | None:
        answer = ask(conflict)
        return None if answer is None else _choice(answer)

    return decide


def parse_policy(texts: Iterable[str]) -> Policy:
    """Read policies written as words: `ours` for all, or `/group=theirs` for a path."""
    rules: dict[str, str] = {}
    for text in texts:
        pattern, _, choice = text.strip().rpartition("=")
        if pattern and not pattern.startswith(("/", "*")):
            raise InvalidInputError(
                f"{text!r} is no rule for a path: paths begin with /",
                kind=ErrorKind.INVALID_OPTION,
            )
        rules.setdefault(pattern or "/", choice)
    return rules or FAIL


def _by_path(rules: list[tuple[str, Side | None]], path: str) -> Side | None:
    """What the first rule says whose pattern is the path, one above it, or fits it."""
    for pattern, side in rules:
        plain = pattern.rstrip("/") or "/"
        if path == plain or is_below(path, plain) or fnmatchcase(path, pattern):
            return side
    return None


def _choice(text: object) -> Side | None:
    if not isinstance(text, str) or text not in _CHOICES:
        raise _bad(text)
    return _CHOICES[text]


def _bad(policy: object) -> InvalidInputError:
    return InvalidInputError(
        f"{policy!r} is no merge policy; there are fail, ours, theirs, a mapping from path "
        "patterns to those, and functions",
        kind=ErrorKind.INVALID_OPTION,
    )


class Ledger:
    """Resolves conflicts and records how; without a policy they are recorded as contested."""

    def __init__(self, decide: Decide | None) -> None:
        self._decide = decide
        self.conflicts: list[MergeConflict] = []
        self.contested: set[int] = set()
        """nodes, by number, whose content is undecided in a merged base"""
        self.displaced: set[int] = set()
        """nodes whose place is undecided in a merged base"""

    def settle(self, conflict: MergeConflict, numbers: Iterable[int] = ()) -> Resolution:
        """Decide a conflict; `numbers` name the nodes that are undecided as a whole, if any."""
        if self._decide is None:
            is_moved = conflict.kind == ConflictKind.MOVED
            (self.displaced if is_moved else self.contested).update(numbers)
            return Contested()
        side = self._decide(conflict)
        self.conflicts.append(conflict.resolved(side))
        return side

    def leave(self, conflict: MergeConflict) -> None:
        """Record a conflict that a policy cannot resolve."""
        self.conflicts.append(conflict)
