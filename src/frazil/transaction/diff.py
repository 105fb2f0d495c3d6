"""What changed between two states, by path, from transaction logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frazil.ids import NodeId
from frazil.model.history import TransactionLog
from frazil.model.nodes import Node
from frazil.model.values import Diff
from frazil.transaction.draft import unique_coords


def diff_of(logs: Sequence[TransactionLog], before: Iterable[Node], after: Iterable[Node]) -> Diff:
    """Unite logs, oldest first, and name nodes by their paths; `after` wins over `before`."""
    paths: dict[NodeId, str] = {node.id: node.path for node in before}
    paths.update((node.id, node.path) for node in after)

    def named(ids: Iterable[NodeId]) -> set[str]:
        return {paths[node_id] for node_id in ids if node_id in paths}

    return Diff(
        new_groups=named(i for log in logs for i in log.new_groups),
        new_arrays=named(i for log in logs for i in log.new_arrays),
        deleted_groups=named(i for log in logs for i in log.deleted_groups),
        deleted_arrays=named(i for log in logs for i in log.deleted_arrays),
        updated_groups=named(i for log in logs for i in log.updated_groups),
        updated_arrays=named(i for log in logs for i in log.updated_arrays),
        updated_chunks=_chunks(logs, paths),
        moved_nodes=[
            (move.source, move.target) for log in reversed(logs) for move in log.moved_nodes
        ],
    )


def _chunks(
    logs: Sequence[TransactionLog], paths: Mapping[NodeId, str]
) -> dict[str, list[list[int]]]:
    by_node: dict[NodeId, list[npt.NDArray[np.uint32]]] = {}
    for log in logs:
        for node_id, coords in log.updated_chunks.items():
            if node_id in paths and len(coords):
                by_node.setdefault(node_id, []).append(coords)
    return {
        paths[node_id]: unique_coords(parts).tolist()
        for node_id, parts in sorted(by_node.items(), key=lambda item: paths[item[0]])
    }
