"""Moving nodes to other paths, and the chunks of an array to other coordinates; no bytes move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    SessionStateError,
)
from frazil.formats.zarr_meta import array_document
from frazil.ids import is_below, parent_path
from frazil.model.chunks import ChunkRef
from frazil.model.nodes import ArrayNode, Coordinates, GroupNode
from frazil.transaction.tree import NodeTree
from frazil.transaction.working import WorkingState


def check_move(tree: NodeTree, source: str, target: str) -> None:
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


# --- chunks ---


ChunkMapping: TypeAlias = Callable[[list[int]], Iterable[int] | None]


def shift_array(state: WorkingState, node: ArrayNode, offset: Sequence[int]) -> None:
    """Move every chunk by an offset; those leaving the grid are dropped."""
    state.require_editable()
    _require_regular(node)
    if len(offset) != len(node.shape):
        raise InvalidInputError(
            f"{node.path!r} has {len(node.shape)} dimensions, the offset has {len(offset)}",
            kind=ErrorKind.INVALID_CHUNK_INDEX,
        )
    if not any(offset):
        return
    table = state.table(node)
    moved = table.coords.astype(np.int64) + np.array(offset, np.int64)
    inside = np.asarray(((moved >= 0) & (moved < np.array(node.grid, np.int64))).all(axis=1))
    kept = replace(table.take(inside), coords=moved[inside].astype(np.uint32))
    state.delete_chunks(node, table.coords)
    state.set_table(node, kept)
    state.refer_to_base()
    state.note_shift(node)


def reindex_array(
    state: WorkingState, node: ArrayNode, forward: ChunkMapping, backward: ChunkMapping | None
) -> None:
    """Move every chunk to where `forward` says; `backward` tells which cells fall empty."""
    state.require_editable()
    _require_regular(node)
    old: dict[Coordinates, ChunkRef] = dict(state.table(node).refs())
    new: dict[Coordinates, ChunkRef] = {}
    for coords, ref in old.items():
        target = forward(list(coords))
        if target is None:
            continue
        place = tuple(int(index) for index in target)
        state.require_held(node, place)
        new[place] = ref
    for coords in old if backward else ():
        if coords in new:
            continue
        assert backward is not None
        source = backward(list(coords))
        if source is None or tuple(int(index) for index in source) not in old:
            state.delete_chunk(node, coords)
    for place, ref in new.items():
        state.set_chunk(node, place, ref)
    state.refer_to_base()
    state.note_shift(node)


def _require_regular(node: ArrayNode) -> None:
    grid = array_document(node)["chunk_grid"]["name"]
    if grid != "regular":
        raise InvalidInputError(
            f"chunks of {node.path!r} cannot be moved: its chunk grid is {grid}, not regular",
            kind=ErrorKind.INVALID_ARRAY_METADATA,
        )
