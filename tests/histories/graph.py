"""Snapshots and their parents as all processes together have seen them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.histories.field import token_of
from tests.histories.records import Operation


@dataclass(slots=True)
class Seen:
    """What was seen of one snapshot."""

    id: str
    token: int | None
    written_at: float
    parents: list[tuple[str | None, Operation]] = field(default_factory=list)
    """with the look that saw it, in order of time"""


class Graph:
    """Who comes after whom, and which operation made it."""

    def __init__(self, history: Sequence[Operation]) -> None:
        self.problems: list[str] = []
        self.operations = {one.token: one for one in history}
        self.expiries = [
            one for one in history if one.kind == "expire" and one.outcome != "refused"
        ]
        self.snapshots: dict[str, Seen] = {}
        self.by_token: dict[int, set[str]] = defaultdict(set)
        for one in history:
            if one.kind == "look" and one.is_done:
                self._learn(one)
        self._check_tokens()
        self.parents = {each: self._parent_at_first(seen) for each, seen in self.snapshots.items()}
        for one in history:
            if one.kind == "look" and one.is_done:
                self._check_links(one)

    def _learn(self, look: Operation) -> None:
        entries = look.result["entries"]
        for id_, parent, text, written_at in entries:
            token = token_of(text)
            seen = self.snapshots.setdefault(id_, Seen(id_, token, written_at))
            if seen.token != token:
                self.problems.append(f"{id_} was said to be {seen.token}, then {text!r}: {look}")
            if token is not None:
                self.by_token[token].add(id_)
            seen.parents.append((parent, look))
        for (id_, parent, *_), (following, *_) in pairwise(entries):
            if parent != following:
                self.problems.append(f"{id_} says its parent is {parent}, not {following}: {look}")

    def _check_tokens(self) -> None:
        for token, ids in self.by_token.items():
            made = self.operations.get(token)
            if token == 0:
                continue
            if len(ids) > 1:
                self.problems.append(f"duplicate: {sorted(ids)} are all {made}")
            if made is None or not made.may_be_done:
                self.problems.append(f"phantom: {sorted(ids)} was never committed: {made}")
            elif made.is_done and made.result.get("id") not in ids:
                self.problems.append(f"{sorted(ids)} is not what was acknowledged: {made}")

    def id_of(self, one: Operation) -> str | None:
        """The snapshot that an operation made, acknowledged or not, if it made one."""
        if one.is_done:
            made: str | None = one.result.get("id")
            return made
        return next(iter(self.by_token.get(one.token, ())), None)

    def made_by(self, snapshot: str) -> Operation | None:
        """The operation that made a snapshot."""
        seen = self.snapshots.get(snapshot)
        return None if seen is None or seen.token is None else self.operations.get(seen.token)

    def parent(self, snapshot: str) -> str | None:
        """The parent that a snapshot was made with; None where that is not certain."""
        return self.parents.get(snapshot)

    def _parent_at_first(self, seen: Seen) -> str | None:
        made = None if seen.token is None else self.operations.get(seen.token)
        if made is None:
            return seen.parents[0][0]
        if "previous" in made.result and made.kind != "squash":
            previous: str = made.result["previous"]
            return previous
        if made.kind != "amend" and "base" in made.notes and made.args.get("solver") is None:
            base: str = made.notes["base"]
            return base
        parent, look = min(seen.parents, key=lambda pair: pair[1].ended or 0)
        if any(self._meets(one, made.began, look.ended or 0) for one in self.expiries):
            return None
        return parent

    def _meets(self, expiry: Operation, start: float, stop: float) -> bool:
        ended = expiry.latest if expiry.ended is None else expiry.ended
        return expiry.began < stop and (ended is None or ended > start)

    def ancestors(self, snapshot: str | None) -> Iterator[str]:
        """A snapshot and its ancestors, as far as they are certain."""
        while snapshot is not None:
            yield snapshot
            snapshot = self.parent(snapshot)

    def _check_links(self, look: Operation) -> None:
        """A history leaves out a snapshot only if it has expired."""
        for id_, parent, *_ in look.result["entries"]:
            first = self.parent(id_)
            if first is None or parent == first or self.snapshots[id_].token is None:
                continue
            skipped = []
            for each in self.ancestors(first):
                if each == parent:
                    break
                skipped.append(each)
            kept = [each for each in skipped if each != parent and not self._expired(each, look)]
            # The very first snapshot stays for ever, and is the parent of what expiry leaves.
            kept = [each for each in kept if self.parent(each) is not None]
            if kept:
                self.problems.append(f"the history of {id_} has lost {kept[:5]}: {look}")

    def _expired(self, snapshot: str, look: Operation) -> bool:
        seen = self.snapshots.get(snapshot)
        if seen is None:
            return True  # nobody has ever seen its time
        return any(
            one.args["cutoff"] >= seen.written_at - 0.001 and one.began < (look.ended or 0)
            for one in self.expiries
        )
