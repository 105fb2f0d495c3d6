"""The nodes of a snapshot in the order of a tree, so that a page of a large one costs its rows."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from frazil.model.nodes import ArrayNode
from frazil.transaction.working import WorkingState


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """Paths in the order of a tree: every node is followed by all that is below it."""

    keys: tuple[str, ...]
    """paths with NUL for `/`, which sorts before all that a name may hold"""
    arrays: int

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.keys) - self.arrays

    def count_below(self, path: str) -> int:
        """How many nodes are strictly below a path."""
        first, last = self._ends(path)
        return last - first

    def below(self, path: str, start: int, count: int) -> list[str]:
        """Some paths strictly below a path."""
        first, last = self._ends(path)
        begin = min(first + start, last)
        return [_path(key) for key in self.keys[begin : min(begin + count, last)]]

    def _ends(self, path: str) -> tuple[int, int]:
        prefix = _key(path.rstrip("/")) + "\0"
        first, last = bisect_left(self.keys, prefix), bisect_left(self.keys, prefix[:-1] + "\1")
        # The root's own key is the prefix of all.
        return (first + 1 if first < last and self.keys[first] == prefix else first), last


def outline_of(state: WorkingState) -> Outline:
    """Put the nodes of a snapshot in order."""
    keys, arrays = [], 0
    for node in state.tree:
        keys.append(_key(node.path))
        arrays += isinstance(node, ArrayNode)
    return Outline(tuple(sorted(keys)), arrays)


def _key(path: str) -> str:
    return path.replace("/", "\0")


def _path(key: str) -> str:
    return key.replace("\0", "/")
