"""Chunk grids of documents: regular and rectilinear ones, and those that make no sense."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from frazil.bulk.grid import (
    LONGEST,
    MOST_AXES,
    GridAxis,
    array_layout,
    chunk_in_grid,
    grid_of,
    layout_of,
    parse_grid,
    regular_grid,
)
from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import NodeId
from frazil.model.nodes import ArrayNode, Dimension
from tests.support.rectilinear import RECTILINEAR


def document(shape: list[int], name: str, axes: object) -> dict[str, Any]:
    """As much of a `zarr.json` as a grid needs."""
    what = "chunk_shape" if name == "regular" else "chunk_shapes"
    return {"shape": shape, "chunk_grid": {"name": name, "configuration": {what: axes}}}


def rectilinear(length: int, axis: object) -> GridAxis:
    """The one axis of a rectilinear grid."""
    (found,) = parse_grid(document([length], "rectilinear", [axis]))
    return found


def chunks_of(axis: GridAxis) -> list[tuple[int, int]]:
    """Where each chunk of an axis begins, and its full length."""
    numbers = np.arange(axis.count)
    return [*zip(axis.start_of(numbers).tolist(), axis.size_of(numbers).tolist(), strict=True)]


@pytest.mark.parametrize(
    ("length", "axis", "expected"),
    [
        (10, 4, [(0, 4), (4, 4), (8, 4)]),
        (8, 4, [(0, 4), (4, 4)]),
        (12, [[3, 2], 1, 8], [(0, 3), (3, 3), (6, 1), (7, 8)]),
        (6, [1, 2, 3], [(0, 1), (1, 2), (3, 3)]),
        (4, [2, 2, 9], [(0, 2), (2, 2)]),
        (4, [[2, 0], 4], [(0, 4)]),
        (0, 4, []),
        (0, [], []),
    ],
)
def test_chunks_begin_where_those_before_them_end(
    length: int, axis: object, expected: list[tuple[int, int]]
) -> None:
    found = rectilinear(length, axis)
    assert chunks_of(found) == expected
    elements = np.arange(length)
    holders = [n for n, (_, size) in enumerate(expected) for _ in range(size)][:length]
    assert found.chunk_of(elements).tolist() == holders


def test_runs_of_equal_chunks_are_one() -> None:
    """A list of a million equal chunks is as small as its one length."""
    axis = rectilinear(3_000_000, [3] * 5 + [[3, 999_995]])
    assert axis.is_regular
    assert axis.sizes == (3,)
    assert axis.count == 1_000_000


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (document([4], "regular", [0]), "must have a length"),
        (document([4], "rectilinear", [[2, 0, 2]]), "must have a length"),
        (document([4], "regular", [-1]), "must have a length"),
        (document([4], "rectilinear", [[2, 1]]), "cover 3 of 4"),
        (document([4, 4], "regular", [2]), "1 axes for an array with 2"),
        (document([4], "other", [2]), "'other'"),
        (document([LONGEST + 1], "regular", [1]), "at most"),
        (document([1], "regular", [LONGEST + 1]), "at most"),
        (document([1], "rectilinear", [[[2, LONGEST]]]), "at most"),
        (document([1] * (MOST_AXES + 1), "regular", [1] * (MOST_AXES + 1)), "65 axes"),
    ],
)
def test_grids_that_make_no_sense_are_refused(found: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem) as caught:
        parse_grid(found)
    assert caught.value.kind is ErrorKind.INVALID_ARRAY_METADATA


def test_the_longest_axis_can_be_read() -> None:
    (axis,) = parse_grid(document([LONGEST], "regular", [LONGEST]))
    assert axis.count == 1
    (axis,) = parse_grid(document([LONGEST], "regular", [1]))
    assert axis.chunk_of(np.array([LONGEST - 1])).tolist() == [LONGEST - 1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0/0", (0, 0)),
        ("2/10", (2, 10)),
        ("3/0", None),
        ("0/11", None),
        ("0", None),
        ("0/0/0", None),
        ("00/0", None),
        ("0/+1", None),
        ("0/-1", None),
        ("0/ 1", None),
        ("0/1\n", None),
        ("0/²", None),
        ("0/", None),
        ("", None),
    ],
)
def test_only_one_spelling_names_a_chunk(text: str, found: tuple[int, ...] | None) -> None:
    assert chunk_in_grid(text, "/", (3, 11)) == found


def test_a_scalar_has_a_chunk_without_coordinates() -> None:
    assert chunk_in_grid("", "/", ()) == ()
    assert chunk_in_grid("1.2", ".", (2, 3)) == (1, 2)


def changed(**fields: object) -> bytes:
    """The document of the rectilinear array with other fields."""
    return json.dumps(json.loads(RECTILINEAR) | fields).encode()


def node_of(user_data: bytes) -> ArrayNode:
    dimensions = (Dimension(12, 4), Dimension(10, 3))
    return ArrayNode(NodeId(bytes(8)), "/deep/a", user_data, dimensions, None, ())


def test_a_layout_tells_the_shape_of_chunks_where_all_have_the_same() -> None:
    layout = array_layout(node_of(RECTILINEAR))
    assert layout is not None
    assert layout.chunks is None
    assert (layout.shape, layout.attributes, layout.dimension_names) == ((12, 10), {}, None)
    assert [axis.count for axis in layout.grid] == [4, 3]
    assert layout.grid == grid_of(node_of(RECTILINEAR))
    even = {"name": "regular", "configuration": {"chunk_shape": [3, 4]}}
    layout = layout_of(changed(chunk_grid=even, dimension_names=["x", None], attributes={"u": 1}))
    assert layout is not None
    assert layout.chunks == (3, 4)
    assert layout.inner_grid is layout.grid
    assert (layout.attributes, layout.dimension_names) == ({"u": 1}, ("x", None))


def test_the_smallest_parts_of_shards_are_their_inner_chunks() -> None:
    plain = {"name": "bytes", "configuration": {"endian": "little"}}
    inner = {"chunk_shape": [3, 2], "codecs": [plain], "index_codecs": [plain]}
    even = {"name": "regular", "configuration": {"chunk_shape": [6, 4]}}
    codecs = [{"name": "sharding_indexed", "configuration": inner}]
    layout = layout_of(changed(chunk_grid=even, codecs=codecs))
    assert layout is not None
    assert layout.chunks == (6, 4)
    assert layout.inner_grid == regular_grid((12, 10), (3, 2))


@pytest.mark.parametrize(
    "fields",
    [
        {"codecs": [{"name": "unheard-of"}]},
        {"data_type": "quaternion"},
        {"fill_value": "much"},
        {"storage_transformers": [{"name": "mirror"}]},
    ],
)
def test_what_only_zarr_may_know_has_no_layout(fields: dict[str, object]) -> None:
    assert array_layout(node_of(changed(**fields))) is None


def test_a_damaged_document_is_named_by_the_path_of_its_array() -> None:
    for damaged in (changed(attributes=[1]), RECTILINEAR[:-1], b"[]"):
        with pytest.raises(FormatError) as caught:
            array_layout(node_of(damaged))
        assert caught.value.facts["path"] == "/deep/a"
