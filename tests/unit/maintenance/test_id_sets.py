"""Sets of ids as rows of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.maintenance import id_sets
from frazil.maintenance.id_sets import RowSet, id_rows

IDS = st.binary(min_size=12, max_size=12) | st.integers(0, 3).map(lambda n: n.to_bytes(12, "big"))


@given(st.lists(st.lists(IDS)), st.lists(IDS))
def test_row_sets_hold_what_sets_hold(parts: list[list[bytes]], asked: list[bytes]) -> None:
    found = RowSet()
    for part in parts:
        found.add_ids(part)
    expected = {one for part in parts for one in part}
    assert found.contains(id_rows(asked)).tolist() == [one in expected for one in asked]
    assert [row.tobytes() for row in found.rows()] == sorted(expected)
    assert len(found) == len(expected)


def test_row_sets_settle_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_sets, "MIN_PENDING", 4)
    found = RowSet()
    for number in range(100):
        found.add_ids([(number % 10).to_bytes(12, "big")] * 3)
    assert len(found) == 10
