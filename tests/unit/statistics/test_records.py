"""Rows of statistics: how extremes are kept, and how many cells of the array a chunk has."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.bulk.grid import GridAxis
from frazil.statistics.records import NumberType, cell_counts, form_of, shapes
from frazil.transaction.verification import crc32c

GRID = (GridAxis(10, (4,)), GridAxis(3, (3,)))


@pytest.mark.parametrize(
    ("dtype", "form"),
    [
        ("f4", NumberType.FLOAT),
        ("i8", NumberType.INTEGER),
        ("M8[ns]", NumberType.INTEGER),
        ("u2", NumberType.UNSIGNED),
        ("?", NumberType.UNSIGNED),
        ("U5", NumberType.NONE),
        ("c8", NumberType.NONE),
    ],
)
def test_extremes_are_kept_as_numbers_of_their_kind(dtype: str, form: NumberType) -> None:
    assert form_of(np.dtype(dtype)) is form


def test_cells_beyond_the_end_of_the_array_do_not_count() -> None:
    coords = np.array([[0, 0], [2, 0], [3, 0]])
    full, inside = shapes(GRID, coords)
    assert full.tolist() == [[4, 3]] * 3
    assert inside.tolist() == [[4, 3], [2, 3], [0, 3]]
    assert cell_counts(GRID, coords)[0].tolist() == [12, 6, 0]


def test_counts_that_do_not_fit_are_not_told() -> None:
    huge = (GridAxis(1 << 62, (1 << 40,)),) * 2
    counts, fits = cell_counts(huge, np.array([[0, 0]]))
    assert (counts.tolist(), fits.tolist()) == ([0], [False])


def test_the_checksum_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
