"""Types and fill values that are read without zarr are those that zarr reads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from zarr.core.dtype import get_data_type_from_json

from frazil.bulk.data_types import dtype_of, fill_of

WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize(
    ("name", "fills"),
    [
        ("bool", [False, True]),
        *((name, [0, 1, 127]) for name in WHOLE),
        *((f"float{b}", [0, 0.0, -1.5, "NaN", "Infinity", "-Infinity"]) for b in (16, 32, 64)),
        ("float32", ["0x7fc00000"]),
        ("complex64", [[0.0, 1.0]]),
        ("string", ["", "none"]),
    ],
)
def test_plain_types_are_read_as_zarr_reads_them(name: str, fills: list[object]) -> None:
    kind = get_data_type_from_json(name, zarr_format=3)
    assert dtype_of(name) == kind.to_native_dtype()
    for fill in fills:
        expected = kind.from_json_scalar(fill, zarr_format=3)  # type: ignore[arg-type]
        found = fill_of(name, fill)
        assert type(found) is type(expected)
        assert found == expected or (math.isnan(found) and math.isnan(expected))  # type: ignore[arg-type]


def test_other_types_are_left_to_zarr() -> None:
    time = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}
    assert dtype_of(time) == np.dtype("M8[s]")
    assert np.isnat(fill_of(time, "NaT"))


@pytest.mark.parametrize(("kind", "fill"), [("int8", 1000), ("int8", "x"), ("float32", "much")])
def test_wrong_fill_values_are_refused(kind: str, fill: object) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        fill_of(kind, fill)


def test_unknown_types_are_refused() -> None:
    with pytest.raises((ValueError, KeyError)):
        dtype_of("quaternion")
