"""From a merged result to the change set that makes it of our side.

References are carried over; the bytes of chunks stay where they are.
"""

from __future__ import annotations

from frazil.formats.zarr_meta import parse_node
from frazil.merging.chunk_deltas import U32
from frazil.merging.states import StoredState
from frazil.merging.three_way import Merged, MergedNode, dimension_names_of, shape_of
from frazil.model.nodes import ArrayNode, Node
from frazil.transaction.changeset import ArrayData, ChangeSet, GroupData, ReadyManifests


def change_set(merged: Merged, theirs: StoredState, *, spec: int) -> ChangeSet:
    """The changes that turn our side into the result.

    Raises:
        InvalidInputError: a document of theirs cannot be stored with this spec.
    """
    changes = ChangeSet(sources={theirs.snapshot_id})
    for node in merged.gone:
        _delete(changes, node)
    for each in merged.nodes:
        ours = each.triple.ours
        if ours is not None and ours.id == each.id:
            _update(changes, each, ours, spec)
            continue
        if ours is not None:
            _delete(changes, ours)
        _create(changes, each, theirs, spec)
    return changes


def _delete(changes: ChangeSet, node: Node) -> None:
    if isinstance(node, ArrayNode):
        changes.delete_array(node.path, node.id)
    else:
        changes.delete_group(node.path, node.id)


def _array_data(each: MergedNode, spec: int) -> ArrayData:
    parse_node(each.document, spec=spec)
    return ArrayData(each.id, each.document, shape_of(each), dimension_names_of(each))


def _update(changes: ChangeSet, each: MergedNode, ours: Node, spec: int) -> None:
    is_array = isinstance(ours, ArrayNode)
    if each.document != ours.user_data:
        if is_array:
            changes.updated_arrays[each.id] = _array_data(each, spec)
        else:
            changes.updated_groups[each.id] = GroupData(each.id, each.document)
    if each.path != ours.path:
        changes.record_move(ours.path, each.path, each.id, is_array=is_array)
    if each.delta is not None and len(each.delta):
        chunks = changes.chunk_changes(each.id, each.delta.table.ndim)
        chunks.drop_many(each.delta.dropped)
        chunks.set_many(each.delta.table)


def _create(changes: ChangeSet, each: MergedNode, theirs: StoredState, spec: int) -> None:
    if not each.triple.is_array:
        changes.new_groups[each.path] = GroupData(each.id, each.document)
        return
    changes.new_arrays[each.path] = _array_data(each, spec)
    assert each.table is not None
    table = each.table()
    if not len(table):
        return
    ready = _ready(each, theirs, table.coords)
    if ready is None:
        changes.chunk_changes(each.id, table.ndim).set_many(table)
    else:
        changes.ready[each.id] = ready
        changes.touched = True


def _ready(each: MergedNode, theirs: StoredState, coords: U32) -> ReadyManifests | None:
    """The manifests of theirs, if they can be taken as they are."""
    if each.ready is None:
        return None
    refs = each.ready.manifests
    files = tuple(theirs.manifest_files[ref.id] for ref in refs if ref.id in theirs.manifest_files)
    return ReadyManifests(refs, files, coords) if len(files) == len(refs) else None
