"""The next snapshot of a history: counters, ancestors and attributes that follow from the last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from frazil.formats.legacy.names import node_number
from frazil.formats.legacy.records import Ancestor, AttributeRef, Dialect, SnapshotRecord
from frazil.model.history import Snapshot
from frazil.model.nodes import Node

MAX_HISTORY: Final = 1000
"""Ancestors that a snapshot lists; whoever wants more opens the oldest of them."""
ROOT_MARK: Final = "__root"
_PARENT_ONLY: Final = frozenset({Dialect.G3H, Dialect.G3I})


def root_record(snapshot: Snapshot, dialect: Dialect) -> SnapshotRecord:
    """The record of the first snapshot of a repository, marked as its dialect does."""
    if dialect in _PARENT_ONLY:
        snapshot = replace(snapshot, metadata={**snapshot.metadata, ROOT_MARK: True})
    when = snapshot.flushed_at * 1000
    return SnapshotRecord(snapshot, dialect, written_at=when, started_at=when)


def successor(parent: SnapshotRecord, snapshot: Snapshot) -> SnapshotRecord:
    """The record of a snapshot committed upon another, in the same dialect.

    Nodes whose documents are those of the parent keep the references to their attributes.
    """
    base = parent.snapshot
    entry = Ancestor(base.id, parent.written_at or base.flushed_at * 1000, base.message)
    is_short = parent.dialect in _PARENT_ONLY
    history = () if is_short else (entry, *parent.history)[:MAX_HISTORY]
    when = snapshot.flushed_at * 1000
    return SnapshotRecord(
        snapshot=replace(snapshot, parent_id=base.id),
        dialect=parent.dialect,
        history=history,
        total_parents=0 if is_short else parent.total_parents + 1,
        written_at=when,
        started_at=when,
        attributes=_kept_attributes(parent, snapshot.nodes),
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


def next_node_number(nodes: Iterable[Node]) -> int:
    """The number that a new node gets: one more than the largest, from 1 on."""
    return 1 + max((node_number(node.id) for node in nodes), default=0)
