"""Nodes of three states are paired: by their ids, and by their paths where both made one."""

from __future__ import annotations

import pytest

from frazil.errors import FormatError
from frazil.ids import NodeId
from frazil.merging.places import Triple, pair
from frazil.model.nodes import ArrayNode, Dimension, GroupNode

A, B, C = (NodeId(letter * 8) for letter in (b"a", b"b", b"c"))


def group(id: NodeId, path: str) -> GroupNode:
    return GroupNode(id, path, b"{}")


def array(id: NodeId, path: str) -> ArrayNode:
    return ArrayNode(id, path, b"{}", (Dimension(1, 1),), None, ())


def test_a_node_is_known_by_its_id_wherever_it_is() -> None:
    base, ours = group(A, "/a"), group(A, "/moved")
    assert pair([base], [ours], [base]) == [Triple(base, ours, base)]


def test_what_both_made_at_one_path_is_one_node() -> None:
    ours, theirs = group(A, "/a"), group(B, "/a")
    assert pair([], [ours], [theirs]) == [Triple(None, ours, theirs)]


def test_an_array_and_a_group_at_one_path_are_two() -> None:
    ours, theirs = group(A, "/a"), array(B, "/a")
    assert pair([], [ours], [theirs]) == [Triple(ours=ours), Triple(theirs=theirs)]


def test_what_one_side_made_anew_belongs_to_what_was_there() -> None:
    base, anew = group(A, "/a"), group(B, "/a")
    assert pair([base], [anew], [base]) == [Triple(base, anew, base)]


def test_an_id_of_an_array_and_of_a_group_is_damage() -> None:
    with pytest.raises(FormatError, match="damaged history"):
        pair([group(A, "/a")], [array(A, "/a")], [])
