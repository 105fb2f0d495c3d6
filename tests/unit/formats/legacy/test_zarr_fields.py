"""`zarr.json` through the structured fields of the older generations and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.zarr_fields import (
    build_document,
    parse_fields,
    put_attributes,
)
from tests.unit.formats.legacy.samples import ATTRIBUTES, array_json, dumps, group_json

G1, G2, G3 = LegacyGeneration
ALL = (G1, G2, G3)


@pytest.mark.parametrize(
    ("changes", "field", "able"),
    [
        ({"data_type": "datetime64"}, "data_type", [G1]),
        ({"data_type": {"name": "x", "configuration": {}}, "fill_value": 0}, "data_type", [G1]),
        ({"data_type": "string", "fill_value": ""}, "data_type", [G1, G3]),
        ({"data_type": "r16", "fill_value": [0, 0]}, "data_type", [G1, G2]),
        (
            {"chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shapes": [5, 5]}}},
            "chunk_grid",
            [],
        ),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 5]}}},
            "chunk_grid",
            [G1],
        ),
        (
            {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}},
            "chunk_key_encoding",
            [G1],
        ),
        (
            {"chunk_key_encoding": {"name": "own", "configuration": {"separator": "-"}}},
            "chunk_key_encoding",
            [G1],
        ),
        ({"storage_transformers": [{"name": "x"}]}, "storage_transformers", [G2, G3]),
        ({"storage_transformers": []}, "storage_transformers", ALL),
        ({"codecs": [{"name": "bytes", "must_understand": False}]}, "codecs", []),
        ({"extension": {"name": "x"}}, "extension", []),
        ({"extension": {"name": "x", "must_understand": False}}, "extension", ALL),
        ({"attributes": {"big": 2**70}}, "attributes", [G1]),
    ],
)
@pytest.mark.parametrize("generation", ALL)
def test_what_a_generation_cannot_hold_is_named(
    generation: LegacyGeneration,
    changes: dict[str, Any],
    field: str,
    able: list[LegacyGeneration],
) -> None:
    document = array_json(**changes)
    if generation in able:
        parse_fields(generation, document)
        return
    with pytest.raises(InvalidInputError) as caught:
        parse_fields(generation, document)
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE
    assert caught.value.facts["field"] == field


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"[]",
        dumps({"zarr_format": 2}),
        dumps({"zarr_format": 3, "node_type": "leaf"}),
        array_json(shape=[-1, 2]),
        array_json(shape=[1]),
        array_json(dimension_names=["a"]),
        array_json(codecs="bytes"),
        array_json(attributes=[1]),
        array_json(chunk_grid={"name": "regular"}),
    ],
)
def test_documents_that_are_wrong_for_everybody(document: bytes) -> None:
    for generation in ALL:
        with pytest.raises(InvalidInputError) as caught:
            parse_fields(generation, document)
        assert caught.value.kind is ErrorKind.BAD_METADATA


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dimension_names": ["y", None]},
        {"attributes": {"units": "K", "n": [1, {"a": None}]}},
        {"shape": [], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}}},
        {"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}]},
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
        {"shape": [0, 70000]},
    ],
)
@pytest.mark.parametrize("generation", ALL)
def test_documents_come_back(generation: LegacyGeneration, changes: dict[str, Any]) -> None:
    document = array_json(**changes)
    assert build_document(parse_fields(generation, document)) == document


def test_shorthand_is_written_out() -> None:
    document = array_json(codecs=["bytes"], chunk_key_encoding="default")
    found = json.loads(build_document(parse_fields(G3, document)))
    assert found["codecs"] == [{"name": "bytes"}]
    assert found["chunk_key_encoding"] == {"name": "default"}
    found = json.loads(build_document(parse_fields(G1, document)))
    assert found["chunk_key_encoding"]["configuration"] == {"separator": "/"}


def test_consolidated_metadata_is_dropped() -> None:
    document = dumps({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"a": 1}})
    for generation in ALL:
        assert build_document(parse_fields(generation, document)) == group_json()


@given(ATTRIBUTES)
def test_attributes_are_kept(attributes: dict[str, Any]) -> None:
    for generation in ALL:
        found = build_document(parse_fields(generation, group_json(attributes)))
        assert json.loads(found)["attributes"] == attributes
    assert json.loads(put_attributes(group_json(), attributes))["attributes"] == attributes
