"""What is taken from `zarr.json` documents, and which documents are refused."""

from __future__ import annotations

import json

import pytest

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.zarr_meta import ArrayMeta, GroupMeta, parse_node
from frazil.model.nodes import Dimension


def document(**changes: object) -> bytes:
    base = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 0],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4]}},
    }
    return json.dumps(base | changes).encode()


def rectilinear(*axes: object) -> dict[str, object]:
    return {"name": "rectilinear", "configuration": {"chunk_shapes": list(axes)}}


def regular(*chunks: object) -> dict[str, object]:
    return {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}


def test_a_group_needs_only_its_type() -> None:
    assert parse_node(b'{"node_type":"group"}', spec=1) == GroupMeta()


def test_a_regular_grid_is_counted() -> None:
    assert parse_node(document(), spec=1) == ArrayMeta((Dimension(10, 4), Dimension(0, 0)), None)


def test_a_scalar_has_no_axes() -> None:
    assert parse_node(document(shape=[], chunk_grid=regular()), spec=2) == ArrayMeta((), None)


def test_chunks_of_length_zero_are_no_chunks() -> None:
    found = parse_node(document(shape=[5], chunk_grid=regular(0)), spec=2)
    assert found == ArrayMeta((Dimension(5, 0),), None)


def test_dimension_names_may_be_missing_one_by_one() -> None:
    found = parse_node(document(dimension_names=["x", None]), spec=2)
    assert isinstance(found, ArrayMeta)
    assert found.dimension_names == ("x", None)
    empty = parse_node(document(dimension_names=["x", ""]), spec=2)
    assert found == empty
    assert parse_node(document(dimension_names=None), spec=2) == parse_node(document(), spec=2)


def test_a_rectilinear_grid_is_counted_with_its_runs() -> None:
    grid = rectilinear([3, [2, 3], 1], [[5, 2]])
    found = parse_node(document(shape=[10, 10], chunk_grid=grid), spec=2)
    assert found == ArrayMeta((Dimension(10, 5), Dimension(10, 2)), None)


def test_a_rectilinear_grid_needs_spec_2() -> None:
    grid = rectilinear([10], [10])
    with pytest.raises(InvalidInputError, match="format version 1"):
        parse_node(document(shape=[10, 10], chunk_grid=grid), spec=1)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        document(node_type="thing"),
        document(shape=None),
        document(shape=[1]),
        document(shape=[1.0, 2]),
        document(shape=[True, 2]),
        document(shape=[-1, 2]),
        document(shape=[2**64, 2]),
        document(shape=[2**40, 1], chunk_grid=regular(1, 1)),
        document(chunk_grid=None),
        document(chunk_grid={"name": "regular"}),
        document(chunk_grid={"name": "hexagonal", "configuration": {}}),
        document(chunk_grid=regular("3", 4)),
        document(chunk_grid=rectilinear([3])),
        document(chunk_grid=rectilinear(["x"], [1])),
        document(chunk_grid=rectilinear([[1, 2, 3]], [1])),
        document(chunk_grid={"name": "rectilinear", "configuration": {"chunk_shapes": 3}}),
        document(dimension_names="xy"),
        document(dimension_names=[1, 2]),
        document(dimension_names=["x"]),
    ],
)
def test_what_cannot_be_stored_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_node(raw, spec=2)
    assert caught.value.kind == ErrorKind.BAD_METADATA


def test_documents_of_zarr_2_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match="only version 3"):
        parse_node(document(zarr_format=2), spec=2)
