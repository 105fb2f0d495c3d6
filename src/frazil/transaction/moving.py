"""Which moves of nodes are allowed."""

from __future__ import annotations

from frazil.errors import AlreadyExistsError, ErrorKind, NodeNotFoundError, SessionStateError
from frazil.ids import is_below, parent_path
from frazil.model.nodes import GroupNode
from frazil.transaction.tree import Tree


def check_move(tree: Tree, source: str, target: str) -> None:
    """Refuse to move a node where it cannot be.

    Raises:
        NodeNotFoundError: there is none.
        SessionStateError: the target is below the node, or its parent is not a group.
        AlreadyExistsError: there is a node at the target.
    """
    if tree.get(source) is None:
        raise NodeNotFoundError(f"node not found at {source!r}")
    if source == target or is_below(target, source):
        raise SessionStateError(
            f"cannot move {source!r} into itself or its own descendant {target!r}",
            kind=ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT,
        )
    if tree.get(target) is not None:
        raise AlreadyExistsError(
            f"move would overwrite existing node at {target!r}",
            kind=ErrorKind.MOVE_WONT_OVERWRITE,
        )
    parent = tree.get(parent_path(target))
    if parent is None:
        raise SessionStateError(
            f"the destination's parent group {parent_path(target)!r} does not exist",
            kind=ErrorKind.MOVE_DESTINATION_PARENT_MISSING,
        )
    if not isinstance(parent, GroupNode):
        raise SessionStateError(
            f"the destination's parent {parent.path!r} is an array, not a group",
            kind=ErrorKind.MOVE_DESTINATION_PARENT_NOT_GROUP,
        )
