"""The next snapshot of a history: counters, ancestors and names that follow from the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from frazil.formats.legacy.names import node_number, numbered_node
from frazil.formats.legacy.records import (
    Ancestor,
    AttributeRef,
    Dialect,
    Names,
    Nanos,
    SnapshotRecord,
)
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Snapshot
from frazil.model.nodes import ArrayNode, Node

MAX_HISTORY: Final = 1000
"""Ancestors that a snapshot lists; whoever wants more opens the oldest of them."""
ROOT_MESSAGE: Final = "Repository initialized"
ROOT_MARK: Final = "__root"
_PARENT_ONLY: Final = frozenset({Dialect.G3H, Dialect.G3I})


def root_record(snapshot: Snapshot, dialect: Dialect) -> SnapshotRecord:
    """The record of the first snapshot of a repository, marked as its dialect does."""
    if dialect in _PARENT_ONLY:
        snapshot = replace(snapshot, metadata={**snapshot.metadata, ROOT_MARK: True})
    when = snapshot.flushed_at * 1000
    return SnapshotRecord(snapshot, dialect, written_at=when, started_at=when)


def successor(
    parent: SnapshotRecord,
    snapshot: Snapshot,
    *,
    names: Names | None = None,
    attributes: Mapping[str, AttributeRef] | None = None,
    started_at: Nanos | None = None,
) -> SnapshotRecord:
    """The record of a snapshot committed upon another, in the same dialect.

    Nodes whose documents are those of the parent keep the references to their attributes;
    `attributes` are further ones, and `names` those of manifests that come from elsewhere.
    """
    base = parent.snapshot
    entry = Ancestor(base.id, parent.written_at or base.flushed_at * 1000, base.message)
    kept = _kept_attributes(parent, snapshot.nodes)
    known = parent.names if names is None else parent.names | names
    is_short = parent.dialect in _PARENT_ONLY
    history = () if is_short else (entry, *parent.history)[:MAX_HISTORY]
    when = snapshot.flushed_at * 1000
    return SnapshotRecord(
        snapshot=replace(snapshot, parent_id=base.id),
        dialect=parent.dialect,
        history=history,
        total_parents=0 if is_short else parent.total_parents + 1,
        written_at=when,
        started_at=when if started_at is None else started_at,
        attributes={**kept, **(attributes or {})},
        names=_used_names(known, (base.id, *(each.id for each in history)), snapshot),
    )


def _kept_attributes(parent: SnapshotRecord, nodes: Iterable[Node]) -> dict[str, AttributeRef]:
    if not parent.attributes:
        return {}
    before = {node.path: node.user_data for node in parent.snapshot.nodes}
    return {
        node.path: parent.attributes[node.path]
        for node in nodes
        if node.path in parent.attributes and before.get(node.path) == node.user_data
    }


def _used_names(names: Names, snapshots: Iterable[SnapshotId], snapshot: Snapshot) -> Names:
    """The names that a snapshot needs, without those it no longer refers to."""
    manifests = {file.id for file in snapshot.manifest_files}
    for node in snapshot.nodes:
        if isinstance(node, ArrayNode):
            manifests.update(ref.id for ref in node.manifests)
    return Names(
        snapshots={id: names.snapshots[id] for id in snapshots if id in names.snapshots},
        manifests={id: names.manifests[id] for id in sorted(manifests) if id in names.manifests},
    )


# --- nodes with numbers ---


def next_node_number(nodes: Iterable[Node]) -> int:
    """The number that a new node gets: one more than the largest, from 1 on."""
    return 1 + max((node_number(node.id) for node in nodes), default=0)


def number_new_nodes(nodes: Sequence[Node], base: Iterable[Node]) -> dict[NodeId, NodeId]:
    """New ids for the nodes of a snapshot that have random ones, numbered on from the base.

    Raises:
        FormatError: a node of the base has no number.
    """
    following = next_node_number(base)
    renamed: dict[NodeId, NodeId] = {}
    taken = {node.id for node in nodes}
    for node in nodes:
        if int.from_bytes(node.id, "big") >> 32:
            while numbered_node(following) in taken:
                following += 1
            renamed[node.id] = numbered_node(following)
            following += 1
    return renamed
