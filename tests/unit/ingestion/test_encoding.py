"""Encodings that we make by ourselves are those that the libraries make."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from xarray.backends.zarr import FillValueCoder

from frazil.ingestion.encoding import (
    Meaning,
    decoded_fill,
    encoded_attributes,
    encoding_of,
    filter_configuration,
    foreign_encoding,
    plain_encoding,
)
from frazil.ingestion.records import canonical

TYPES = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "u8", "<f4", ">f4", "<f8", ">f8"]
FILTERS = [
    filter_configuration("shuffle", (4, 0)),
    filter_configuration("gzip", 4),
]


@pytest.mark.parametrize("codecs", [[], FILTERS[1:], FILTERS], ids=["raw", "gzip", "both"])
@pytest.mark.parametrize("dtype", TYPES)
def test_plain_encodings_are_those_of_the_libraries(
    dtype: str, codecs: list[dict[str, Any]]
) -> None:
    kind = np.dtype(dtype)
    fills: dict[str, list[float]]
    fills = {"b": [False, True], "f": [0.0, math.nan, math.inf, -math.inf, 1e-3]}
    for fill in fills.get(kind.kind, [0, 100]):
        meaning = Meaning(kind, fill, canonical(codecs))
        assert plain_encoding(kind, fill, codecs) is not None
        assert json.loads(encoding_of(meaning)) == json.loads(foreign_encoding(meaning))
        assert encoding_of(meaning) == foreign_encoding(meaning)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("<i2", 1 << 20), ("<f2", 0.0), ("<c8", 0.0), ("S3", b""), ("<u2", -1)]
)
def test_what_is_not_plain_is_left_to_the_libraries(dtype: str, fill: object) -> None:
    assert plain_encoding(np.dtype(dtype), fill, []) is None
    assert plain_encoding(np.dtype("f4"), 0.0, [{"name": "numcodecs.bz2"}]) is None
    assert filter_configuration("lzf", None) is None


@pytest.mark.parametrize("dtype", TYPES)
def test_fill_attributes_are_those_of_xarray(dtype: str) -> None:
    from virtualizarr.parsers.utils import encode_cf_fill_value

    kind = np.dtype(dtype)
    for value in [0, 1] if kind.kind in "biu" else [0.1, math.nan, 9.96921e36]:
        scalar = np.asarray(value).astype(kind)
        attributes = encoded_attributes(scalar, kind)
        assert attributes == {"_FillValue": encode_cf_fill_value(scalar, kind)}
        found = decoded_fill(attributes, kind)
        expected = FillValueCoder.decode(attributes["_FillValue"], kind.str)
        assert type(found) is type(expected)
        assert found == expected or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("<f4", 0, 0.0),
        ("<f8", -9999.5, -9999.5),
        ("<f4", [7.0], 7.0),
        ("<f4", "-Infinity", -math.inf),
        ("<i2", [-9], -9),
        ("<f4", None, None),
        ("<f4", "abc", None),
        ("u1", -1, 255),
        ("<i2", 70_000, None),
        ("<i2", 1.5, None),
        ("<i2", "abc", None),
        ("S3", 7, None),
        ("S3", "?", None),
    ],
)
def test_fill_attributes_of_other_writers_are_numbers_or_nothing(
    dtype: str, given: object, expected: object
) -> None:
    """Only xarray spells floats in Base64; GDAL and users of zarr write them as numbers."""
    assert decoded_fill({"_FillValue": given}, np.dtype(dtype)) == expected
