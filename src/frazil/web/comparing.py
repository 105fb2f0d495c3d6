"""Two versions side by side: nodes, attributes, and the chunks whose references differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.cli.values import zarr_json
from frazil.comparing.candidates import different_chunks, written_chunks
from frazil.errors import FrazilError
from frazil.model.nodes import ArrayNode, Node
from frazil.model.values import Diff
from frazil.session import Session
from frazil.transaction.working import WorkingState

KINDS: Final = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_groups",
    "updated_arrays",
)
I64: TypeAlias = npt.NDArray[np.int64]


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


def compare(old: Session, new: Session) -> list[NodeChange]:
    """The nodes of two snapshots that differ, by path."""
    before = {node.id: node for node in old.state.tree}
    after = {node.id: node for node in new.state.tree}
    found = [_gone(node) for key, node in before.items() if key not in after]
    for key, node in after.items():
        earlier = before.get(key)
        if earlier is None:
            found.append(_made(new.state, node))
        elif (change := _changed(old.state, earlier, new.state, node)) is not None:
            found.append(change)
    return sorted(found, key=lambda each: (each.path.split("/"), each.what))


def _kind(node: Node) -> str:
    return "array" if isinstance(node, ArrayNode) else "group"


def _gone(node: Node) -> NodeChange:
    return NodeChange(node.path, _kind(node), "deleted")


def _made(state: WorkingState, node: Node) -> NodeChange:
    if not isinstance(node, ArrayNode):
        return NodeChange(node.path, "group", "added")
    files = state.manifest_files
    one_each = len(node.manifests) == 1 and sum(1 for _ in state.arrays()) == 1
    count = files[node.manifests[0].id].num_chunk_refs if one_each else len(state.table(node))
    return NodeChange(node.path, "array", "added", chunks=count)


def _changed(old: WorkingState, one: Node, new: WorkingState, other: Node) -> NodeChange | None:
    fields = () if one.user_data == other.user_data else changed_fields(one, other)
    chunks: int | None = None
    if isinstance(one, ArrayNode) and isinstance(other, ArrayNode):
        chunks = 0
        if one.manifests != other.manifests:
            chunks = len(differing_chunks(old, one, new, other))
    moved = one.path != other.path
    if not fields and not chunks and not moved:
        return None
    what = "moved" if moved else "changed"
    return NodeChange(other.path, _kind(other), what, one.path if moved else None, fields, chunks)


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
