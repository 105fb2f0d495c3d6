"""Rows of coordinates: in order, or there twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.model.lookup import are_distinct

FAR = 2**32 - 1


@given(
    st.integers(1, 3).flatmap(
        lambda ndim: st.lists(
            st.tuples(*[st.sampled_from([0, 1, 2, FAR - 1, FAR])] * ndim), min_size=1, max_size=8
        )
    )
)
def test_rows_are_distinct_if_none_is_there_twice(rows: list[tuple[int, ...]]) -> None:
    assert are_distinct(np.array(rows, np.uint32)) == (len(set(rows)) == len(rows))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_scalar_has_one_place(count: int) -> None:
    assert are_distinct(np.zeros((count, 0), np.uint32)) == (count < 2)
