"""The hierarchy of groups and arrays as a session sees it, by path."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from frazil.formats.snapshot_nodes import NodeTable
from frazil.ids import NodeId, is_below, parent_path
from frazil.model.nodes import ArrayNode, GroupNode, Node
from frazil.transaction.changeset import ArrayData, ChangeSet
from frazil.transaction.tuning import MANY_EDITS


class Edits(NamedTuple):
    """The nodes of a large base, and what is different from them."""

    base: NodeTable
    put: dict[str, Node]
    """changed and new nodes by path"""
    removed: list[str]


class NodeTree:
    """Nodes by path, with the names below each path; mutable.

    Of a large base only nodes that are asked for are read. Nodes that are put or removed are kept
    apart as long as they are few, so that a commit can reuse the bytes of the base.
    """

    __slots__ = ("_base", "_children", "_edits", "_nodes", "_unfolding")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._base = nodes if isinstance(nodes, NodeTable) else None
        """where nodes are found until many of them are changed"""
        self._edits: dict[str, Node | None] = {}
        """nodes that differ from the base; None for deleted ones"""
        self._unfolding = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, dict[str, None]] = {}
        if self._base is None:
            for node in nodes:
                self._put(node)

    def _unfold(self) -> None:
        """Read all nodes of the base, and forget it."""
        with self._unfolding:  # else a reader and a writer could overwrite each other's result
            if self._base is not None:
                whole = NodeTree(tuple(_with_edits(self._base, self._edits).values()))
                self._nodes, self._children = whole._nodes, whole._children
                self._base = None  # last: other threads look here first

    @property
    def edits(self) -> Edits | None:
        """What is different from a large base; None when there is none, or too much is."""
        base = self._base
        if base is None:
            return None
        with self._unfolding:
            edits = dict(self._edits)
        put = {path: node for path, node in edits.items() if node is not None}
        return Edits(base, put, [path for path, node in edits.items() if node is None])

    def get(self, path: str) -> Node | None:
        """The node at a path."""
        base = self._base
        if base is None:
            return self._nodes.get(path)
        try:
            return self._edits[path]
        except KeyError:
            return base.find(path)

    def put(self, node: Node) -> None:
        """Add or replace a node."""
        if not self._edit(node.path, node):
            self._put(node)

    def _put(self, node: Node) -> None:
        path = node.path
        if path not in self._nodes and path != "/":
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent or "/", {})[name] = None
        self._nodes[path] = node

    def remove(self, path: str) -> None:
        """Take a node out; what is below it stays."""
        if not self._edit(path, None):
            self._remove(path)

    def _remove(self, path: str) -> None:
        del self._nodes[path]
        if path != "/":
            parent = parent_path(path)
            self._children[parent].pop(path.rpartition("/")[2])

    def _edit(self, path: str, node: Node | None) -> bool:
        """Note a change of a large base; False if there is none."""
        base = self._base
        if base is None:
            return False
        if len(self._edits) * MANY_EDITS > len(base):
            self._unfold()
            return False
        with self._unfolding:
            if self._base is None:
                return False
            self._edits[path] = node
        return True

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self.paths().values()))

    def __len__(self) -> int:
        base = self._base
        return len(base) if base is not None and not self._edits else len(self.paths())

    def children(self, path: str) -> list[str]:
        """Names of the nodes directly below a path."""
        edits = self.edits
        if edits is None:
            return list(self._children.get(path, ()))
        below = f"{path.rstrip('/')}/"
        found = dict.fromkeys(edits.base.paths_below(path))
        for gone in edits.removed:
            found.pop(gone, None)
        found.update(dict.fromkeys(each for each in edits.put if each.startswith(below)))
        names = (each[len(below) :] for each in found)
        return [name for name in names if name and "/" not in name]

    def descendants(self, path: str) -> list[Node]:
        """Nodes strictly below a path, orphans without a parent node included."""
        edits = self.edits
        if edits is None or path == "/":
            return [node for node in self if is_below(node.path, path)]
        found = {node.path: node for node in edits.base.below(path)}
        for gone in edits.removed:
            found.pop(gone, None)
        found.update((each, node) for each, node in edits.put.items() if is_below(each, path))
        return list(found.values())

    def paths(self) -> dict[str, Node]:
        """A copy of the nodes by path: other threads may change the tree."""
        base = self._base
        if base is None:
            return dict(self._nodes)
        with self._unfolding:
            edits = dict(self._edits)
        return _with_edits(base, edits)

    def ids(self) -> dict[NodeId, str]:
        """Paths by node id."""
        return {node.id: node.path for node in self}


def nodes_of(nodes: Sequence[Node], ids: Set[NodeId]) -> list[Node]:
    """The nodes that have one of these ids."""
    if isinstance(nodes, NodeTable):
        return nodes.of_ids(ids) if ids else []
    return [node for node in nodes if node.id in ids] if ids else []


def _with_edits(base: NodeTable, edits: Mapping[str, Node | None]) -> dict[str, Node]:
    """All nodes by path."""
    found = {node.path: node for node in base}
    for path, node in edits.items():
        if node is None:
            found.pop(path, None)
        else:
            found[path] = node
    return found


def build_tree(base: Iterable[Node], changes: ChangeSet) -> NodeTree:
    """The hierarchy of a base snapshot with changes applied."""
    if not changes.changes_nodes:
        return NodeTree(base)
    gone = changes.deleted_groups.keys() | changes.deleted_arrays.keys()
    if isinstance(base, NodeTable):
        tree = NodeTree(base)
        different = base.of_ids(
            gone
            | changes.updated_groups.keys()
            | changes.updated_arrays.keys()
            | changes.moves.keys()
        )
        # First all go, for a node may have moved to where another was.
        for node in different:
            if node.id in gone or node.id in changes.moves:
                tree.remove(node.path)
        for node in different:
            if node.id not in gone:
                tree.put(_changed(node, changes))
    else:
        tree = NodeTree(_changed(node, changes) for node in base if node.id not in gone)
    for path, group in changes.new_groups.items():
        tree.put(GroupNode(group.id, path, group.user_data))
    for path, array in changes.new_arrays.items():
        ready = changes.ready.get(array.id)
        made = array_node(path, array)
        tree.put(made if ready is None else replace(made, manifests=ready.refs))
    return tree


def _changed(node: Node, changes: ChangeSet) -> Node:
    move = changes.moves.get(node.id)
    if move is not None:
        node = replace(node, path=move.target)
    if isinstance(node, ArrayNode):
        array = changes.updated_arrays.get(node.id)
        return node if array is None else updated_array(node, array)
    group = changes.updated_groups.get(node.id)
    return node if group is None else replace(node, user_data=group.user_data)


def array_node(path: str, data: ArrayData) -> ArrayNode:
    """A new array, without manifests yet."""
    return ArrayNode(data.id, path, data.user_data, data.shape, data.dimension_names, ())


def updated_array(node: ArrayNode, data: ArrayData) -> ArrayNode:
    """An old array with new metadata; its manifests stay unless it has other axes now."""
    return replace(
        node,
        user_data=data.user_data,
        shape=data.shape,
        dimension_names=data.dimension_names,
        manifests=node.manifests if len(node.shape) == len(data.shape) else (),
    )
