"""Which coordinates an array and a manifest have."""

from __future__ import annotations

import pytest

from frazil.ids import ManifestId, NodeId
from frazil.model.nodes import ArrayNode, Coordinates, Dimension, ManifestRef, overlap


def array(*chunks: int) -> ArrayNode:
    """An array with so many chunks along each axis."""
    shape = tuple(Dimension(10 * count, count) for count in chunks)
    return ArrayNode(NodeId.random(), "/a", b"{}", shape, None, ())


@pytest.mark.parametrize(
    ("coords", "is_held"),
    [
        ((0, 0), True),
        ((1, 2), True),
        ((2, 0), False),
        ((0, 3), False),
        ((-1, 0), False),
        ((0, -1), False),
        ((0,), False),
        ((0, 0, 0), False),
        ((), False),
    ],
)
def test_chunks_of_an_array_are_those_of_its_grid(coords: Coordinates, is_held: bool) -> None:
    assert array(2, 3).holds(coords) is is_held


def test_a_scalar_has_one_chunk_and_so_has_an_empty_axis_for_one_to_come() -> None:
    assert array().holds(())
    assert not array().holds((0,))
    assert array(0).holds((0,))
    assert not array(0).holds((1,))


@pytest.mark.parametrize(
    ("coords", "is_covered"),
    [((2, 5), True), ((3, 7), True), ((4, 5), False), ((1, 5), False), ((2, 8), False)],
)
def test_a_manifest_covers_its_box(coords: Coordinates, is_covered: bool) -> None:
    assert ManifestRef(ManifestId.random(), ((2, 4), (5, 8))).covers(coords) is is_covered


def test_a_manifest_without_extents_may_hold_anything() -> None:
    assert ManifestRef(ManifestId.random(), ()).covers((7, 7))


def test_boxes_that_only_touch_do_not_overlap() -> None:
    assert overlap(((0, 2), (0, 2)), ((1, 3), (1, 3)))
    assert not overlap(((0, 2), (0, 2)), ((2, 3), (0, 2)))
