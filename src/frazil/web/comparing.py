"""Two versions side by side: nodes, attributes, and the chunks whose references differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from frazil.arrays import I64
from frazil.cli.values import zarr_json
from frazil.comparing.candidates import different_chunks, written_chunks
from frazil.errors import FrazilError
from frazil.ids import ManifestId, NodeId
from frazil.model.nodes import ArrayNode, Node
from frazil.model.values import Diff
from frazil.session import Session
from frazil.transaction.working import WorkingState
from frazil.web.settings import RequestLimits

KINDS: Final = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_groups",
    "updated_arrays",
)


@dataclass(frozen=True, slots=True)
class ChangedField:
    """One entry of a `zarr.json` that differs, as text."""

    name: str
    before: Any
    after: Any
    has_before: bool
    has_after: bool


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What became of one node."""

    path: str
    kind: str
    """group or array"""
    what: str
    """added, deleted, moved or changed"""
    before: str | None = None
    """where it was, if it moved"""
    fields: tuple[ChangedField, ...] = ()
    chunks: int | None = None
    """how many references differ; None: not counted"""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a commit changed, as much of it as one page shows."""

    nodes: tuple[tuple[str, str], ...]
    """what happened, as `Diff` calls it, and the path"""
    moved: tuple[tuple[str, str], ...]
    chunks: Mapping[str, int]
    """how many chunks of each array were written"""
    more: int
    """how many lines were left out"""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.nodes or self.moved or self.chunks)


def changes_of(found: Diff, most: int) -> Changes:
    """The first changes of a commit; a commit may have a million."""
    nodes = [(kind, path) for kind in KINDS for path in sorted(getattr(found, kind))]
    moved, chunks = list(found.moved_nodes), sorted(found.updated_chunks.items())
    left_out = sum(max(0, len(each) - most) for each in (nodes, moved, chunks))
    return Changes(
        tuple(nodes[:most]),
        tuple(moved[:most]),
        {path: len(written) for path, written in chunks[:most]},
        left_out,
    )


class _Budget:
    """References that a comparison may still look at; those of a manifest count once."""

    def __init__(self, references: int) -> None:
        self._left = references
        self._seen: set[ManifestId] = set()

    def allows(self, state: WorkingState, manifests: set[ManifestId]) -> bool:
        """Whether some manifests may be read too."""
        files = state.manifest_files
        fresh = manifests - self._seen
        cost = sum(files[each].num_chunk_refs for each in fresh if each in files)
        if cost > self._left:
            return False
        self._left -= cost
        self._seen |= fresh
        return True


def compare(old: Session, new: Session, limits: RequestLimits) -> tuple[list[NodeChange], int]:
    """The nodes of two snapshots that differ, by path: the first of them, and how many."""
    before = {node.id: node for node in old.state.tree}
    budget = _Budget(limits.references)
    found: list[NodeChange] = []
    kept: set[NodeId] = set()
    for node in new.state.tree:
        earlier = before.get(node.id)
        if earlier is None:
            found.append(NodeChange(node.path, _kind(node), "added"))
            continue
        kept.add(node.id)
        change = _changed(old.state, earlier, new.state, node, budget)
        if change is not None:
            found.append(change)
    found += [_gone(node) for key, node in before.items() if key not in kept]
    found.sort(key=lambda each: (each.path.split("/"), each.what))
    shown = [_counted(new.state, change, budget) for change in found[: limits.rows]]
    return shown, len(found)


def same_node(state: WorkingState, node: Node) -> Node | None:
    """What a node of another version is here, where it may have another path."""
    found = state.tree.get(node.path)
    if found is not None and found.id == node.id:
        return found
    return next((each for each in state.tree if each.id == node.id), None)


def _kind(node: Node) -> str:
    return "array" if isinstance(node, ArrayNode) else "group"


def _gone(node: Node) -> NodeChange:
    return NodeChange(node.path, _kind(node), "deleted")


def _counted(state: WorkingState, change: NodeChange, budget: _Budget) -> NodeChange:
    """A new array with the number of its chunks."""
    node = state.tree.get(change.path)
    if change.what != "added" or not isinstance(node, ArrayNode):
        return change
    fits = budget.allows(state, {ref.id for ref in node.manifests})
    return replace(change, chunks=len(state.table(node)) if fits else None)


def _changed(
    old: WorkingState, one: Node, new: WorkingState, other: Node, budget: _Budget
) -> NodeChange | None:
    fields = () if one.user_data == other.user_data else changed_fields(one, other)
    chunks = _differing(old, one, new, other, budget)
    moved = one.path != other.path
    if not fields and chunks == 0 and not moved:
        return None
    what = "moved" if moved else "changed"
    return NodeChange(other.path, _kind(other), what, one.path if moved else None, fields, chunks)


def _differing(
    old: WorkingState, one: Node, new: WorkingState, other: Node, budget: _Budget
) -> int | None:
    """How many chunks differ; None: not counted, they are too many."""
    if not (isinstance(one, ArrayNode) and isinstance(other, ArrayNode)):
        return 0
    if one.manifests == other.manifests:
        return 0
    first, last = ({ref.id for ref in node.manifests} for node in (one, other))
    if not budget.allows(old, first - last) or not budget.allows(new, last - first):
        return None
    return len(differing_chunks(old, one, new, other))


def differing_chunks(old: WorkingState, one: ArrayNode, new: WorkingState, other: ArrayNode) -> I64:
    """The chunks of an array whose references differ, (n, ndim)."""
    if len(one.shape) != len(other.shape):
        return new.table(other).coords.astype(np.int64)
    candidates = written_chunks(old, one, new, other)
    return different_chunks(old, one, new, other, candidates)


def changed_fields(one: Node, other: Node) -> tuple[ChangedField, ...]:
    """What differs in the `zarr.json` of a node, attribute by attribute."""
    try:
        before, after = zarr_json(one), zarr_json(other)
    except FrazilError:
        return ()
    found = _fields(before, after, skip=("attributes",))
    attrs = (before.get("attributes"), after.get("attributes"))
    first, last = (each if isinstance(each, dict) else {} for each in attrs)
    return (*found, *_fields(first, last, prefix="attributes."))


def _fields(
    before: dict[str, Any], after: dict[str, Any], prefix: str = "", skip: tuple[str, ...] = ()
) -> tuple[ChangedField, ...]:
    names = [name for name in dict.fromkeys((*before, *after)) if name not in skip]
    return tuple(
        ChangedField(
            prefix + name, before.get(name), after.get(name), name in before, name in after
        )
        for name in names
        if (name in before) != (name in after) or before.get(name) != after.get(name)
    )
