"""Attributes of CF: names of other arrays, and fill values as xarray spells them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from frazil.cf.decoding import (
    DESCRIBING,
    LOADED,
    decode_double,
    encode_double,
    fill_attribute,
    fill_values,
    named_arrays,
)


def test_attributes_name_arrays() -> None:
    given = [{"coordinates": "lat lon", "bounds": "b"}, {"formula_terms": "a: ap ps: p"}]
    assert named_arrays(given, DESCRIBING) == {"lat", "lon", "b"}
    assert named_arrays(given, LOADED) == {"lat", "lon", "b", "a", "ap", "ps", "p"}


@pytest.mark.parametrize("value", [0.0, -0.0, 1e300, -999.9, math.inf])
def test_floats_are_kept_to_the_last_bit(value: float) -> None:
    assert np.float64(decode_double(encode_double(value))).tobytes() == np.float64(value).tobytes()


@pytest.mark.parametrize("text", ["AAA=", "not base64!", ""])
def test_other_text_is_no_float(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (of base64 or struct)
        decode_double(text)


@pytest.mark.parametrize(
    ("fill", "dtype", "expected"),
    [(-1, "i2", -1), (255, "u1", 255), (-9.5, "f4", -9.5), (True, "?", True)],
)
def test_fill_values_come_back(fill: Any, dtype: str, expected: object) -> None:  # noqa: ANN401
    kind = np.dtype(dtype)
    assert fill_values({"_FillValue": fill_attribute(fill, kind)}, kind) == (expected,)


def test_both_names_of_missing_values_count() -> None:
    kind = np.dtype("i2")
    assert set(fill_values({"_FillValue": -1, "missing_value": -2}, kind)) == {-1, -2}
    assert fill_values({"missing_value": "none"}, kind) == ()


@pytest.mark.parametrize("missing", [1e20, "NaN", "Infinity", -999.9, 70_000.0, 70_000])
def test_missing_values_that_no_whole_number_is(missing: object) -> None:
    assert fill_values({"missing_value": missing}, np.dtype("i2")) == ()


@pytest.mark.parametrize(("missing", "kind", "expected"), [(-1, "u1", 255), (255.0, "i1", -1)])
def test_missing_values_of_the_other_sign(missing: float, kind: str, expected: int) -> None:
    assert fill_values({"missing_value": missing}, np.dtype(kind)) == (expected,)
