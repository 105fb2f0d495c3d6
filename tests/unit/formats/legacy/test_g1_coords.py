"""Coordinates of G1: bytes that sort as the coordinates do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.legacy.g1_coords import (
    BASES,
    decode_column,
    encode_column,
)
from tests.unit.formats.legacy.samples import (
    coords_of,
    encode_coord,
)

INDICES = st.integers(0, 2**64 - 1) | st.integers(0, 300) | st.sampled_from(BASES)


TUPLES = st.lists(INDICES, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("coords", "expected"),
    [
        ((), ""),
        ((0,), "00"),
        ((5, 30, 10), "051e0a"),
        ((127,), "7f"),
        ((128,), "8000"),
        ((256,), "8080"),
        ((1000,), "8368"),
        ((3, 1000, 70000), "038368c0d0f0"),
        ((16511,), "bfff"),
        ((16512,), "c00000"),
        ((65535,), "c0bf7f"),
        ((2113663,), "dfffff"),
        ((2113664,), "e0000000"),
        ((4294967295,), "f0efdfbf7f"),
        ((2**63 - 1,), "ff7efdfbf7efdfbf7f"),
        ((2**64 - 1,), "fffefdfbf7efdfbf7f"),
    ],
)
def test_coordinates_have_these_bytes(coords: tuple[int, ...], expected: str) -> None:
    assert encode_coord(coords).hex() == expected
    if all(index < 2**32 for index in coords):
        data, ends = encode_column(coords_of(coords))
        assert data.tobytes().hex() == expected
        assert ends.tolist() == [len(expected) // 2]


def test_bases_of_the_sizes() -> None:
    assert BASES == (
        0,
        128,
        16_512,
        2_113_664,
        270_549_120,
        34_630_287_488,
        4_432_676_798_592,
        567_382_630_219_904,
        72_624_976_668_147_840,
    )


@given(TUPLES, TUPLES)
def test_coordinates_sort_as_their_bytes_do(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert (encode_coord(one) < encode_coord(other)) == (one < other)


@given(
    st.integers(0, 4).flatmap(
        lambda ndim: st.lists(
            st.tuples(*[st.integers(0, 2**32 - 1) | st.integers(0, 300)] * ndim), max_size=20
        )
    )
)
def test_columns_of_coordinates_come_back(rows: list[tuple[int, ...]]) -> None:
    data, ends = encode_column(coords_of(*rows))
    assert data.tobytes() == b"".join(map(encode_coord, rows))
    starts = np.append(np.zeros(1, np.int64), ends[:-1])[: len(rows)]
    found, rank = decode_column(data, starts, ends, key="k")
    assert rank.tolist() == [len(row) for row in rows]
    assert found.tolist() == [list(row) for row in rows]
