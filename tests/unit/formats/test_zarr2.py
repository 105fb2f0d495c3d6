"""What `.zarray` and `.zattrs` say, as `zarr.json` says it."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.formats.zarr2 import zarr3_document

PLAIN: dict[str, Any] = {"shape": [4, 6], "chunks": [2, 3], "dtype": "<i4"}


def made(attributes: dict[str, Any] | None = None, **meta: object) -> dict[str, Any]:
    """The document of a plain array with some fields replaced."""
    return zarr3_document({**PLAIN, **meta}, attributes or {})


def test_shape_chunks_and_keys() -> None:
    found = made()
    assert found["shape"] == [4, 6]
    assert found["chunk_grid"]["configuration"]["chunk_shape"] == [2, 3]
    assert found["chunk_key_encoding"]["configuration"] == {"separator": "."}
    assert found["codecs"] == [{"name": "bytes", "configuration": {"endian": "little"}}]
    nested = made(dimension_separator="/")
    assert nested["chunk_key_encoding"]["configuration"] == {"separator": "/"}


def test_filters_that_take_bytes_follow_the_bytes() -> None:
    filters = [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 3}]
    codecs = made(filters=filters)["codecs"]
    assert [codec["name"] for codec in codecs] == ["bytes", "numcodecs.shuffle", "numcodecs.zlib"]


def test_filters_of_values_come_before_the_bytes_and_columns_first_before_all() -> None:
    codecs = made(filters=[{"id": "delta", "dtype": "<i4"}], order="F")["codecs"]
    assert [codec["name"] for codec in codecs] == ["transpose", "numcodecs.delta", "bytes"]
    assert codecs[0]["configuration"] == {"order": [1, 0]}
    line = made(shape=[4], chunks=[2], order="F")["codecs"]
    assert [codec["name"] for codec in line] == ["bytes"]


@pytest.mark.parametrize(
    ("compressor", "codec"),
    [
        ({"id": "gzip"}, {"name": "gzip", "configuration": {"level": 1}}),
        (
            {"id": "zstd", "level": 3},
            {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        ),
        (
            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2},
            {
                "name": "blosc",
                "configuration": {
                    "typesize": 4,
                    "cname": "lz4",
                    "clevel": 5,
                    "shuffle": "bitshuffle",
                    "blocksize": 0,
                },
            },
        ),
        # Shuffling that depends on the values has no name in version 3.
        (
            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1},
            {
                "name": "numcodecs.blosc",
                "configuration": {"cname": "lz4", "clevel": 5, "shuffle": -1},
            },
        ),
    ],
)
def test_compressors_that_version_3_has_are_named_as_there(
    compressor: dict[str, Any], codec: dict[str, Any]
) -> None:
    assert made(compressor=compressor)["codecs"][-1] == codec


@pytest.mark.parametrize(
    ("dtype", "given", "fill", "attribute"),
    [
        ("<i4", None, 0, None),
        ("<i4", 7, 7, 7),
        ("<f8", None, 0.0, None),
        ("<f4", "NaN", "NaN", "AAAAAAAA+H8="),
        ("<f4", -9.5, -9.5, "AAAAAAAAI8A="),
        ("<c8", [1, "Infinity"], (1.0, "Infinity"), ["AAAAAAAA8D8=", "AAAAAAAA8H8="]),
        ("<M8[s]", None, -(2**63), None),
        ("|S3", "YWI=", "YWI=", "YWI="),
    ],
)
def test_fill_values_are_attributes_too_as_xarray_spells_them(
    dtype: str, given: object, fill: object, attribute: object
) -> None:
    found = made(dtype=dtype, fill_value=given)
    assert found["fill_value"] == fill
    assert found["attributes"].get("_FillValue") == attribute


def test_floats_without_a_fill_value_read_as_the_caller_says() -> None:
    found = zarr3_document({**PLAIN, "dtype": "<f4"}, {}, unset=float("nan"))
    assert found["fill_value"] == "NaN"
    assert zarr3_document(PLAIN, {}, unset=float("nan"))["fill_value"] == 0


@pytest.mark.parametrize(("given", "fill"), [(None, ""), ("none", "none"), (0, "0")])
def test_texts_have_a_text_where_nothing_was_written(given: object, fill: str) -> None:
    found = made(dtype="|O", filters=[{"id": "vlen-utf8"}], fill_value=given)
    assert (found["data_type"], found["fill_value"]) == ("string", fill)
    assert [codec["name"] for codec in found["codecs"]] == ["vlen-utf8"]


def test_dimensions_are_no_attribute_any_more() -> None:
    found = made({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"})
    assert found["dimension_names"] == ["y", "x"]
    assert found["attributes"] == {"units": "K"}
    assert "dimension_names" not in made()


def test_axes_without_cells_may_have_chunks_without_cells() -> None:
    found = made(shape=[0, 6], chunks=[0, 3])
    assert found["chunk_grid"]["configuration"]["chunk_shape"] == [1, 3]


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({"chunks": [0, 3]}, "no chunks of the lengths"),
        ({"fill_value": 2**31}, "none of the type int32"),
        ({"fill_value": 0.5}, "none of the type int32"),
        ({"dtype": "|O"}, "values of any length"),
        ({"filters": [{"id": "pickle"}]}, "values of any length"),
        ({"filters": [{"id": "zlib"}, {"id": "delta", "dtype": "<i4"}]}, "follows one of bytes"),
        ({"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": []}, "is no text"),
    ],
)
def test_what_version_3_cannot_say_is_refused(meta: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        made(**meta)
