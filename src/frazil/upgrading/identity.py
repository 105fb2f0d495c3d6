"""Ids of what is written anew, made from the old ones so that every run finds the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from frazil.formats.legacy.names import MAX_NODE_NUMBER
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.derived_log import is_same_node
from frazil.model.nodes import Extents, Node

NODE: Final = b"icechunk-legacy-node"
MANIFEST: Final = b"icechunk-legacy-manifest"
NodeIds: TypeAlias = Mapping[NodeId, NodeId]
"""Old node ids and the new ones, as far as they differ."""


def node_id(first: SnapshotId, old: NodeId) -> NodeId:
    """The id of a node that was known by a number, from the snapshot where it first appears."""
    number = int.from_bytes(old, "big")
    raw = number.to_bytes(4, "big") if number <= MAX_NODE_NUMBER else bytes(old)
    return NodeId(hashlib.sha256(NODE + first + raw).digest()[: NodeId.width])


def manifest_id(old: ManifestId, node: NodeId, box: Extents | None = None) -> ManifestId:
    """The id of the part of a manifest that belongs to an array.

    `box` tells which chunks were kept, where some were dropped: the same old manifest may serve
    an array before and after it shrank.
    """
    kept = b"" if box is None else np.array(box, ">u8").tobytes()
    found = hashlib.sha256(MANIFEST + old + node + kept).digest()
    return ManifestId(found[: ManifestId.width])


def node_ids(
    id: SnapshotId,
    nodes: Iterable[Node],
    before: Mapping[NodeId, Node],
    known: NodeIds,
    *,
    moves: bool,
) -> NodeIds:
    """The new ids of the nodes of a snapshot.

    `before` are the nodes of its parent and `known` their new ids. A node keeps its id while it
    stays the same node; `moves` tells whether it may do so at another path.
    """
    made: dict[NodeId, NodeId] = {}
    for node in nodes:
        old = before.get(node.id)
        is_kept = old is not None and is_same_node(old, node)
        if is_kept and old is not None and (moves or old.path == node.path):
            new = known.get(node.id, node.id)
        elif old is not None or int.from_bytes(node.id, "big") <= MAX_NODE_NUMBER:
            new = node_id(id, node.id)
        else:
            new = node.id
        if new != node.id:
            made[node.id] = new
    return known if made == known else made
