"""Numbers for new nodes, in generations that know nodes by numbers.

A session gives new nodes random ids, which nobody else can have chosen. Only the files of a
commit have numbers, those that follow the highest one of the base; a commit that must be made
anew on another base so gets others by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from frazil.errors import ErrorKind, FormatError
from frazil.ids import NodeId
from frazil.model.nodes import Node, path_order
from frazil.transaction.changeset import ChangeSet, ChunkChanges
from frazil.transaction.working import WorkingState

NodeIds: TypeAlias = Mapping[NodeId, NodeId]
"""Random ids of new nodes, and the ids that stand for their numbers."""


def numbered(state: WorkingState) -> tuple[WorkingState, NodeIds]:
    """The same state with numbers for its new nodes, and which node has which.

    Raises:
        FormatError: there are no more numbers.
    """
    numbers = _numbers(state.base.nodes, state.changes)
    if not numbers:
        return state, numbers
    changes = state.changes.renamed(numbers)
    for path, array in state.changes.new_arrays.items():
        if array.id in state.changes.ready:
            # Manifests that are written know the array by another id: its references go anew.
            node_id, node = numbers[array.id], state.array(path)
            del changes.ready[node_id]
            changes.chunks[node_id] = ChunkChanges(len(node.shape))
            changes.chunks[node_id].set_many(state.table(node))
    return WorkingState(state.context, state.base_id, changes), numbers


def _numbers(nodes: Iterable[Node], changes: ChangeSet) -> NodeIds:
    from frazil.formats.legacy.names import MAX_NODE_NUMBER, numbered_node
    from frazil.formats.legacy.snapshots import next_node_number

    made = [(path, group.id) for path, group in changes.new_groups.items()]
    made += [(path, array.id) for path, array in changes.new_arrays.items()]
    if not made:
        return {}
    first = next_node_number(nodes)
    if first + len(made) > MAX_NODE_NUMBER:
        raise FormatError(
            "this repository has no numbers left for new nodes; upgrade it",
            kind=ErrorKind.SERIALIZATION,
            highest=first - 1,
        )
    made.sort(key=lambda each: path_order(each[0]))
    return {node_id: numbered_node(first + at) for at, (_, node_id) in enumerate(made)}
