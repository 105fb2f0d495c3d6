"""The commit of a repair, made without a session, which could not read what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.commit.base import (
    Publication,
    later_than,
)
from frazil.fsck.rebuilding_arrays import ArrayRewrite, Rewrite
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.history import (
    ManifestFile,
    Snapshot,
    TransactionLog,
)
from frazil.model.marks import inherited
from frazil.model.nodes import ArrayNode, ManifestRef, Node
from frazil.storage.assets import manifest_key
from frazil.transaction.context import Context

MESSAGE: Final = "repair"
METADATA: Final = "frazil_repair"


def commit_rewrite(context: Context, rewrite: Rewrite) -> SnapshotId:
    """Write manifests, snapshot and log of a repair, and move the branch."""
    base, assets, snapshot_id = rewrite.base, context.assets, SnapshotId.random()
    files = dict(rewrite.files)
    arrays = {each.node.id: each for each in rewrite.arrays}
    nodes = tuple(
        _renewed(context, node, arrays[node.id], files) if node.id in arrays else node
        for node in base.nodes
    )
    used = {ref.id for node in nodes if isinstance(node, ArrayNode) for ref in node.manifests}
    snapshot = Snapshot(
        id=snapshot_id,
        parent_id=base.id,
        nodes=nodes,
        flushed_at=later_than(base.flushed_at),
        message=MESSAGE,
        metadata=inherited({METADATA: rewrite.step().facts}, base.metadata),
        manifest_files=tuple(files[one] for one in sorted(used)),
    )
    log = TransactionLog(snapshot_id, updated_chunks=dict(_touched(rewrite.arrays)))
    keys = [assets.save_snapshot(snapshot), assets.save_log(log)]
    keys += [manifest_key(one) for one in used - rewrite.files.keys()]
    requires = frozenset[SnapshotId]().union(*(each.sources for each in rewrite.arrays))
    entry = snapshot.entry(base.id)
    publication = Publication(rewrite.branch, base.id, entry, requires=requires)
    context.refs.publish(publication, lambda: assets.make_durable(keys))
    return snapshot_id


def _renewed(
    context: Context, node: Node, array: ArrayRewrite, files: dict[ManifestId, ManifestFile]
) -> Node:
    if not isinstance(node, ArrayNode) or not array.is_needed:
        return node
    manifests: list[ManifestRef] = list(array.kept)
    for table in array.tables:
        file = context.assets.save_manifest(ManifestId.random(), {node.id: table.compact()})
        files[file.id] = file
        manifests.append(ManifestRef(file.id, table.extents))
    return replace(node, manifests=tuple(manifests))


def _touched(arrays: Sequence[ArrayRewrite]) -> Iterator[tuple[NodeId, npt.NDArray[np.uint32]]]:
    """The changed chunks of each array, in order."""
    for each in arrays:
        if each.touched:
            coords = np.concatenate(each.touched)
            yield each.node.id, np.unique(coords, axis=0) if coords.shape[1] else coords[:1]
