"""What changed between two snapshots, told from their nodes alone."""

from __future__ import annotations

import json
from dataclasses import replace

from frazil.ids import NodeId, SnapshotId
from frazil.model.derived_log import derived_log, is_same_node, moves_between
from frazil.model.nodes import GroupNode, Node

ID = SnapshotId.random()
A, B = NodeId(b"a" * 8), NodeId(b"b" * 8)


def group(id: NodeId, path: str, **attributes: int) -> GroupNode:
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return GroupNode(id, path, json.dumps(document).encode())


def no_tables(_: Node) -> object:
    raise AssertionError("groups have no chunks")


def test_nodes_are_made_changed_moved_and_deleted() -> None:
    before = [group(A, "/a", x=1), group(B, "/b")]
    log = derived_log(ID, before, [group(A, "/a", x=2)], no_tables)  # type: ignore[arg-type]
    assert (log.updated_groups, log.deleted_groups, log.new_groups) == ((A,), (B,), ())
    log = derived_log(ID, before, [before[0], replace(before[1], path="/c")], no_tables)  # type: ignore[arg-type]
    assert [(move.source, move.target) for move in log.moved_nodes] == [("/b", "/c")]
    assert (log.new_groups, log.deleted_groups, log.updated_groups) == ((), (), ())


def test_the_order_of_attributes_is_no_difference() -> None:
    log = derived_log(ID, [group(A, "/a", x=1, y=2)], [group(A, "/a", y=2, x=1)], no_tables)  # type: ignore[arg-type]
    assert not log.updated_groups


def test_an_id_that_means_something_else_is_another_node() -> None:
    one, other = group(A, "/a", x=1), group(A, "/b", x=2)
    assert not is_same_node(one, other)
    assert moves_between({A: one}, {A: other}) == ()
    log = derived_log(ID, [one], [other], no_tables)  # type: ignore[arg-type]
    assert (log.new_groups, log.deleted_groups) == ((A,), (A,))
