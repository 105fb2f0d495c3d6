"""The hierarchy of groups and arrays as a session sees it, by path."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace

from frazil.formats.snapshot_nodes import NodeTable
from frazil.ids import NodeId, is_below, parent_path
from frazil.model.nodes import ArrayNode, GroupNode, Node
from frazil.session.changeset import ArrayData, ChangeSet


class Tree:
    """Nodes by path, with the names below each path; mutable."""

    __slots__ = ("_base", "_children", "_nodes", "_unfolding")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._base = nodes if isinstance(nodes, NodeTable) else None
        """where nodes are found until somebody asks for all of them"""
        self._unfolding = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, dict[str, None]] = {}
        if self._base is None:
            for node in nodes:
                self._put(node)

    def _unfold(self) -> dict[str, Node]:
        """All nodes by path."""
        if self._base is not None:
            with self._unfolding:  # one of a reader and a writer would lose what the other did
                base = self._base
                if base is not None:
                    whole = Tree(tuple(base))
                    self._nodes, self._children = whole._nodes, whole._children
                    self._base = None  # last: other threads look here first
        return self._nodes

    @property
    def untouched(self) -> NodeTable | None:
        """The nodes of a large base, if nobody has changed or walked through them."""
        return self._base

    def get(self, path: str) -> Node | None:
        """The node at a path."""
        base = self._base
        return self._nodes.get(path) if base is None else base.find(path)

    def put(self, node: Node) -> None:
        """Add or replace a node."""
        self._unfold()
        self._put(node)

    def _put(self, node: Node) -> None:
        path = node.path
        if path not in self._nodes and path != "/":
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent or "/", {})[name] = None
        self._nodes[path] = node

    def remove(self, path: str) -> None:
        """Take a node out; what is below it stays."""
        del self._unfold()[path]
        if path != "/":
            parent = parent_path(path)
            self._children[parent].pop(path.rpartition("/")[2])

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._unfold().values()))  # a copy: other threads may change the tree

    def __len__(self) -> int:
        return len(self._nodes) if self._base is None else len(self._base)

    def children(self, path: str) -> list[str]:
        """Names of the nodes directly below a path."""
        self._unfold()
        return list(self._children.get(path, ()))

    def descendants(self, path: str) -> list[Node]:
        """Nodes strictly below a path, orphans without a parent node included."""
        return [node for node in self if is_below(node.path, path)]

    def paths(self) -> dict[str, Node]:
        """A copy of the nodes by path."""
        return dict(self._unfold())

    def ids(self) -> dict[NodeId, str]:
        """Paths by node id."""
        return {node.id: node.path for node in self}


def build_tree(base: Iterable[Node], changes: ChangeSet) -> Tree:
    """The hierarchy of a base snapshot with changes applied."""
    if not changes.changes_nodes:
        return Tree(base)
    gone = changes.deleted_groups.keys() | changes.deleted_arrays.keys()
    tree = Tree(_changed(node, changes) for node in base if node.id not in gone)
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
    """An old array with new metadata; its manifests stay."""
    return replace(
        node, user_data=data.user_data, shape=data.shape, dimension_names=data.dimension_names
    )
