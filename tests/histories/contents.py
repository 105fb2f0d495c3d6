"""What every snapshot must hold, worked out from what was done to its parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tests.histories.field import EMPTY, LOG_CHUNK, LOG_LIMIT, SCRATCH, Content
from tests.histories.graph import Graph
from tests.histories.records import Operation

Values: TypeAlias = Mapping[str, int | tuple[int, ...] | None]
SAME: Final = frozenset({"rewrite", "compact"})


class CannotMergeError(Exception):
    """Both sides changed the same: the merge should have been refused."""


class Contents:
    """The content of snapshots, by the rules of each operation; None where it is not certain."""

    def __init__(self, graph: Graph, empty: Content) -> None:
        self._graph = graph
        self._empty = empty
        self._known: dict[str, Content | None] = {}
        self.problems: list[str] = []

    def of(self, snapshot: str) -> Content | None:
        """The content that a snapshot must have."""
        todo = [snapshot]
        while todo:
            current = todo[-1]
            if current in self._known:
                todo.pop()
                continue
            made = self._graph.made_by(current)
            needed = [] if made is None else self._needs(current, made)
            missing = [each for each in needed if each not in self._known and each not in todo]
            if missing:
                todo += missing
            else:
                self._known[current] = self._make(current, made)
                todo.pop()
        return self._known[snapshot]

    def adopt(self, snapshot: str, found: Content) -> None:
        """Take what was read for true, where nothing else tells."""
        self._known[snapshot] = found

    def _needs(self, snapshot: str, made: Operation) -> list[str]:
        graph = self._graph
        source = made.args.get("source")
        wanted = [graph.parent(snapshot), source, *made.result.get("bases", ())]
        if source:
            wanted.append(graph.parent(source))
        wanted += [made.notes.get("base"), made.result.get("previous")]
        return [each for each in wanted if each is not None]

    def _make(self, snapshot: str, made: Operation | None) -> Content | None:
        seen = self._graph.snapshots.get(snapshot)
        if made is None:
            return dict(self._empty) if seen is not None and seen.token == 0 else None
        base = {"amend": made.notes.get("base"), "squash": made.result.get("previous")}.get(
            made.kind, self._graph.parent(snapshot)
        )
        before = None if base is None else self._known.get(base)
        if before is None:
            return None
        try:
            return self._applied(made, dict(before), snapshot)
        except CannotMergeError as error:
            self.problems.append(f"{snapshot} merged {error}, which both sides changed: {made}")
            return None

    def _applied(self, made: Operation, before: Content, snapshot: str) -> Content | None:
        match made.kind:
            case "write" | "amend":
                kept = self._kept_by_others(made, snapshot)
                if kept is None:
                    return None
                return before | {c: made.token for c in made.args["cells"] if c not in kept}
            case "append":
                log = before["log"]
                assert isinstance(log, list)
                return before | {"log": [*(log if len(log) < LOG_LIMIT else ()), made.token]}
            case "replace":
                fresh = {f"scratch/{i}": EMPTY for i in range(SCRATCH)}
                return before | fresh | {"scratch/0": made.token}
            case "move":
                return before | {"place of slot": made.notes["to"]}
            case "note":
                return before | {f"notes/a{made.token // 1_000_000}": made.token}
            case "merge" | "pick" | "revert":
                return self._merged(made, before)
            case "rewrite" | "compact" | "squash":
                return before
            case other:
                raise AssertionError(f"no rule for {other}")

    def _kept_by_others(self, made: Operation, snapshot: str) -> set[str] | None:
        """Cells of which the solver lets others' values stand: those they wrote since the base."""
        if made.args.get("solver") != "theirs":
            return set()
        graph, base = self._graph, made.notes["base"]
        changed: set[str] = set()
        for each in graph.ancestors(graph.parent(snapshot)):
            if each == base:
                return changed
            parent = graph.parent(each)
            new, old = self._known.get(each), self._known.get(parent or "")
            if new is None or old is None:
                return None
            changed |= {cell for cell in made.args["cells"] if new.get(cell) != old.get(cell)}
            other = graph.made_by(each)
            if other is None or other.kind in SAME or other.kind == "replace":
                return None  # wrote chunks without changing what they say
        return None

    def _merged(self, made: Operation, ours: Content) -> Content | None:
        source = made.args["source"]
        parent = self._graph.parent(source)
        match made.kind:
            case "merge":
                bases = made.result.get("bases", ())
                base, theirs = (bases[0] if len(bases) == 1 else None), source
            case "pick":
                base, theirs = parent, source
            case _:
                base, theirs = source, parent
        if base is None or theirs is None:
            return None
        old, new = self._known.get(base), self._known.get(theirs)
        return None if old is None or new is None else three_way(old, ours, new)


def three_way(base: Content, ours: Content, theirs: Content) -> Content:
    """What both sides together make of a base, chunk by chunk."""
    old, left, right = by_chunk(base), by_chunk(ours), by_chunk(theirs)
    found: dict[str, int | tuple[int, ...] | None] = {}
    for key in old.keys() | left.keys() | right.keys():
        a, b, c = old.get(key), left.get(key), right.get(key)
        if c == a or b == c:
            found[key] = b
        elif b == a:
            found[key] = c
        else:
            raise CannotMergeError(key)
    return from_chunks(found)


def by_chunk(content: Content) -> Values:
    """The log in pieces as it is stored; the rest is so already."""
    log = content["log"]
    assert isinstance(log, list)
    parts = {
        f"log#{at // LOG_CHUNK}": tuple(log[at : at + LOG_CHUNK])
        for at in range(0, len(log), LOG_CHUNK)
    }
    cells = {key: value for key, value in content.items() if isinstance(value, int)}
    return {**cells, **parts, "length": len(log)}


def from_chunks(values: Values) -> Content:
    """The other way round."""
    length = values["length"]
    assert isinstance(length, int)
    log: list[int] = []
    for at in range(0, length, LOG_CHUNK):
        part = values.get(f"log#{at // LOG_CHUNK}") or ()
        assert isinstance(part, tuple)
        log += [*part, *[EMPTY] * LOG_CHUNK][:LOG_CHUNK]
    cells = {
        key: value for key, value in values.items() if isinstance(value, int) and key != "length"
    }
    return {**cells, "log": log[:length]}
