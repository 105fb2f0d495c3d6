"""Merging in plain dictionaries: a model that knows nothing of snapshots, logs or manifests.

A state maps each path to its node: attributes, and for arrays a length and chunks. A history
maps each commit to its state and to all commits that it contains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

Value = Any
Policy = str


@dataclass(frozen=True)
class ModelNode:
    """A group, or an array of some length with one cell a chunk."""

    attributes: dict[str, Value] = field(default_factory=dict)
    length: Value = None
    kind: str = "uint8"
    chunks: dict[int, Value] = field(default_factory=dict)

    @property
    def is_array(self) -> bool:
        return self.length is not None


State = dict[str, ModelNode]


class Clash(Exception):
    """Both sides changed the same."""


_marks = count()


def merge(base: State, ours: State, theirs: State, policy: Policy) -> State:
    """Merge two states by path; a clash is an error, decided by the policy, or a mark."""
    result: State = {}
    for path in sorted({*ours, *theirs}):
        node = _merge_node(base.get(path), ours.get(path), theirs.get(path), policy)
        if node is not None:
            result[path] = node
    return _with_parents(result, base, ours, theirs, policy)


def decide(policy: Policy, ours: Value, theirs: Value) -> Value:
    if policy == "fail":
        raise Clash
    if policy == "mark":
        return f"mark {next(_marks)}"
    return ours if policy == "ours" else theirs


def _pick(base: Value, ours: Value, theirs: Value, policy: Policy) -> Value:
    if ours == theirs or theirs == base:
        return ours
    return theirs if ours == base else decide(policy, ours, theirs)


def _pick_each(
    base: dict[Any, Value], ours: dict[Any, Value], theirs: dict[Any, Value], policy: Policy
) -> dict[Any, Value]:
    found = {
        key: _pick(base.get(key), ours.get(key), theirs.get(key), policy)
        for key in {*ours, *theirs}
    }
    return {key: value for key, value in found.items() if value is not None}


def _merge_node(
    base: ModelNode | None, ours: ModelNode | None, theirs: ModelNode | None, policy: Policy
) -> ModelNode | None:
    if ours is None or theirs is None:
        present = ours or theirs
        if base is None or present is None:
            return present
        if present == base:
            return None
        return _side(policy, ours, theirs, present)
    if isinstance(ours.length, str) or isinstance(theirs.length, str):
        return _side("mark", ours, theirs, ours)
    if base is not None and base.is_array != ours.is_array:
        base = None
    old = base or ModelNode(length=ours.length, kind=ours.kind)
    attributes = _pick_each(old.attributes, ours.attributes, theirs.attributes, policy)
    if not ours.is_array:
        return replace(ours, attributes=attributes)
    return replace(_merge_array(base, ours, theirs, policy), attributes=attributes)


def _side(
    policy: Policy, ours: ModelNode | None, theirs: ModelNode | None, present: ModelNode
) -> ModelNode | None:
    if policy == "mark":
        mark = f"mark {next(_marks)}"
        return ModelNode(
            {"mark": mark}, present.length and mark, mark, dict.fromkeys(present.chunks, mark)
        )
    found = decide(policy, ours, theirs)
    assert found is None or isinstance(found, ModelNode)
    return found


def _merge_array(
    base: ModelNode | None, ours: ModelNode, theirs: ModelNode, policy: Policy
) -> ModelNode:
    if ours.kind != theirs.kind:
        if base is not None and ours.kind == base.kind and _same_cells(ours, base):
            return theirs
        if base is not None and theirs.kind == base.kind and _same_cells(theirs, base):
            return ours
        if policy == "mark":
            return replace(ours, kind=f"mark {next(_marks)}")
        found = decide(policy, ours, theirs)
        assert isinstance(found, ModelNode)
        return found
    old = base.chunks if base is not None else {}
    old_length = base.length if base is not None else None
    if base is None and ours.length == theirs.length:
        old_length = ours.length
    length = _pick(old_length, ours.length, theirs.length, policy)
    is_settled = ours.length != theirs.length and old_length not in (ours.length, theirs.length)
    size = ours.length if isinstance(length, str) else length
    assert ours.length is not None
    assert theirs.length is not None
    assert size is not None
    changed_ours = _changed(old, ours)
    changed_theirs = _changed(old, theirs)
    for side, node, changed in (("ours", ours, changed_ours), ("theirs", theirs, changed_theirs)):
        lost = [n for n in changed if changed[n] is not None and n >= size]
        if lost and not is_settled and decide(policy, "ours", "theirs") == side:
            size = length = node.length
            assert size is not None
    chunks = dict(ours.chunks)
    # Where we have no cells, theirs are the only ones.
    chunks |= {n: value for n, value in theirs.chunks.items() if n >= ours.length}
    for n, value in changed_theirs.items():
        if n >= size or (n in changed_ours and changed_ours[n] == value):
            continue
        chosen = decide(policy, changed_ours[n], value) if n in changed_ours else value
        chunks.pop(n, None)
        if chosen is not None:
            chunks[n] = chosen
    return replace(ours, length=length, chunks={n: v for n, v in chunks.items() if n < size})


def _same_cells(node: ModelNode, base: ModelNode) -> bool:
    return (node.length, node.chunks) == (base.length, base.chunks)


def _changed(old: dict[int, Value], node: ModelNode) -> dict[int, Value]:
    """How chunks differ from the base; of cells it does not have an array says nothing."""
    assert node.length is not None
    return {
        n: node.chunks.get(n)
        for n in {*old, *node.chunks}
        if n < node.length and old.get(n) != node.chunks.get(n)
    }


def _with_parents(result: State, base: State, ours: State, theirs: State, policy: Policy) -> State:
    """Groups that one side deleted stay for what the other put into them, or both go."""
    while True:
        lost = [path for path in sorted(result) if not _parent(path) or _parent(path) in result]
        missing = sorted(set(result) - set(lost))
        if not missing:
            return result
        path = missing[0]
        parent = _parent(path)
        holder = ours if parent in ours else theirs
        is_kept = path in base  # that was decided before
        if not is_kept:
            is_kept = policy == "mark" or decide(policy, ours, theirs) is holder
        if is_kept:
            node = holder[parent]
            if policy == "mark":
                node = replace(node, attributes={"mark": next(_marks)})
            result[parent] = node
        else:
            result = {each: node for each, node in result.items() if each != path}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


# --- histories ---


@dataclass
class Commit:
    """A state and the commits it was made from."""

    state: State
    parents: tuple[str, ...]
    """the parent of the format first"""
    contains: frozenset[str]


@dataclass
class History:
    """All commits ever made."""

    commits: dict[str, Commit] = field(default_factory=dict)

    def add(self, name: str, state: State, *parents: str) -> None:
        """Record a commit."""
        found = frozenset([name]).union(*(self.commits[each].contains for each in parents))
        self.commits[name] = Commit(state, parents, found)

    def bases(self, ours: frozenset[str], theirs: frozenset[str]) -> list[str]:
        """The newest commits that two sets have in common."""
        common = ours & theirs
        return [
            one
            for one in common
            if not any(one in self.commits[other].contains for other in common if other != one)
        ]

    def base_state(self, bases: list[str]) -> State:
        """The state that several bases stand for."""
        if not bases:
            return {}
        first, *rest = sorted(bases, key=list(self.commits).index)
        state, contains = self.commits[first].state, self.commits[first].contains
        for each in rest:
            other = self.commits[each]
            inner = self.base_state(self.bases(contains, other.contains))
            state = merge(inner, state, other.state, "mark")
            contains |= other.contains
        return state

    def merged(self, ours: str, theirs: str, policy: Policy) -> State:
        """The state that merging two commits gives."""
        one, two = self.commits[ours], self.commits[theirs]
        base = self.base_state(self.bases(one.contains, two.contains))
        return merge(base, one.state, two.state, policy)


Check = Callable[[], None]
