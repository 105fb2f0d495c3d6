"""A row of statistics tells exactly what its values are, or says that it does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from frazil.cf.decoding import DecodedValues
from frazil.statistics.measuring import measure, measured_row
from frazil.statistics.records import TYPES, NumberType, RowFlags, blank_rows

BOTH = RowFlags.EXTREMES | RowFlags.SUM


def told(values: npt.ArrayLike, dtype: str, missing: list[bool] | None = None) -> dict[str, Any]:
    """The numbers of a row, by their names; those that it does not have are left out."""
    mask = None if missing is None else np.array(missing)
    row = measured_row(DecodedValues(np.array(values, dtype), mask))[0]
    kind = TYPES.get(NumberType(int(row["form"])), "<u8")
    names = [("min", RowFlags.EXTREMES), ("max", RowFlags.EXTREMES), ("sum", RowFlags.SUM)]
    numbers = {
        name: np.array([row[name]], "<u8").view(kind).item()
        for name, flag in names
        if row["has"] & flag
    }
    return {name: int(row[name]) for name in ("count", "missing", "nan")} | numbers


def test_missing_values_and_nan_are_in_neither_the_extremes_nor_the_sum() -> None:
    found = told([1.5, np.nan, -4.0, 1000.0], "f4", [False, False, False, True])
    assert found == {"count": 3, "missing": 1, "nan": 1, "min": -4.0, "max": 1.5, "sum": -2.5}


@pytest.mark.parametrize("dtype", ["f8", "i4", "i8", "u8"])
def test_of_no_values_there_are_no_extremes_and_the_sum_is_zero(dtype: str) -> None:
    assert told([], dtype) == {"count": 0, "missing": 0, "nan": 0, "sum": 0}
    assert told([7, 8], dtype, [True, True]) == {"count": 0, "missing": 2, "nan": 0, "sum": 0}


def test_of_nan_alone_there_are_no_extremes() -> None:
    found = told([np.nan, np.nan], "f8")
    assert found == {"count": 2, "missing": 0, "nan": 2, "sum": 0.0}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**63 - 2, 1], "i8"),
        ([-(2**63) + 1, -1], "i8"),
        ([2**63 - 1, -(2**63), 5, -1], "i8"),
        ([2**64 - 2, 1], "u8"),
        ([2**32 - 1] * 9, "u4"),
        ([-(2**31)] * 9, "i4"),
        ([255] * 300, "u1"),
    ],
)
def test_sums_of_integers_are_exact_up_to_the_last_that_fits(values: list[int], dtype: str) -> None:
    found = told(values, dtype)
    assert (found["sum"], found["min"], found["max"]) == (sum(values), min(values), max(values))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**63 - 1, 1], "i8"),
        ([-(2**63), -1], "i8"),
        ([2**64 - 1, 1], "u8"),
        ([1e308, 1e308], "f8"),
        ([np.inf, -np.inf], "f8"),
    ],
)
def test_a_sum_that_does_not_fit_is_left_out(values: list[float], dtype: str) -> None:
    found = told(values, dtype)
    assert "sum" not in found
    assert (found["min"], found["max"]) == (min(values), max(values))


def test_times_have_extremes_and_no_sum_but_lengths_of_time_have_one() -> None:
    times = told(["2000-01-02", "1969-12-31"], "M8[D]")
    assert (times["min"], times["max"]) == (-1, 10958)
    assert "sum" not in times
    assert told([3, -5], "m8[s]")["sum"] == -2


def test_flags_are_counted_and_texts_only_so() -> None:
    flags = {"count": 4, "missing": 0, "nan": 0, "min": 0, "max": 1, "sum": 3}
    assert told([True, True, False, True], "?") == flags
    assert told(["b", "a"], "U1") == {"count": 2, "missing": 0, "nan": 0}
    assert told([1 + 2j], "c8") == {"count": 1, "missing": 0, "nan": 0}


def test_only_the_row_that_is_measured_changes() -> None:
    rows = blank_rows(3)
    measure(DecodedValues(np.arange(6).reshape(2, 3)), rows, 1)
    assert rows["count"].tolist() == [0, 6, 0]
    assert rows["has"].tolist() == [0, BOTH, 0]
