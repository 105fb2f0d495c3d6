"""Lists of objects as columns."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.ids import ChunkId
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.listing import (
    ID_NAME,
    are_older,
    find_ids,
    is_older,
    list_candidates,
    list_older,
    parse_names,
)
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@given(st.lists(st.binary(min_size=12, max_size=12)))
def test_names_are_read_back(raw: list[bytes]) -> None:
    names = [str(ChunkId(one)) for one in raw]
    assert all(ID_NAME.fullmatch(name) for name in names)
    assert [row.tobytes() for row in parse_names(names)] == raw


@pytest.mark.parametrize(
    "name", ["README", "1CECHNKREP0F1RSTCMT1", "1cechnkrep0f1rstcmt0", "1CECHNKREP0F1RSTCMT0X"]
)
def test_names_that_are_no_ids_are_passed_over(name: str) -> None:
    storage = MemoryStorage()
    storage.put(f"chunks/{name}", b"x")
    storage.put("chunks/1CECHNKREP0F1RSTCMT0", b"xyz")
    found = list_older(storage, "chunks/", datetime.now(UTC) + timedelta(days=1))
    assert found.keys() == ["chunks/1CECHNKREP0F1RSTCMT0"]
    assert found.size_bytes == 3


def test_only_older_objects_are_listed() -> None:
    storage = MemoryStorage()
    storage.put("chunks/1CECHNKREP0F1RSTCMT0", b"x")
    assert not len(list_older(storage, "chunks/", datetime.now(UTC) - timedelta(seconds=5)))


def test_a_whole_second_may_be_any_moment_in_it() -> None:
    tick = timedelta(milliseconds=400)
    assert not is_older(NOON, NOON + tick)
    assert is_older(NOON, NOON + timedelta(seconds=1))
    assert is_older(NOON + tick, NOON + 2 * tick)
    assert not is_older(NOON + tick, NOON + tick)


def test_batches_make_up_the_whole() -> None:
    storage = MemoryStorage()
    for _ in range(7):
        storage.put(f"chunks/{ChunkId.random()}", b"ab")
    found = list_older(storage, "chunks/", datetime.now(UTC) + timedelta(days=1))
    parts = list(found.batches(3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert [key for part in parts for key in part.keys()] == found.keys()  # noqa: SIM118
    assert np.concatenate([part.sizes for part in parts]).tolist() == [2] * 7


@given(st.lists(st.text(max_size=21) | st.binary(min_size=12, max_size=12).map(ChunkId).map(str)))
def test_ids_are_found_among_names(names: list[str]) -> None:
    expected = parse_names([name for name in names if ID_NAME.fullmatch(name)])
    assert np.array_equal(find_ids(names), expected)


@given(st.integers(0, 5_000_000), st.integers(0, 5_000_000))
def test_many_times_are_compared_as_one(time: int, cutoff: int) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = is_older(
        epoch + timedelta(microseconds=time), epoch + timedelta(microseconds=cutoff)
    )
    assert are_older(np.array([time]), cutoff).tolist() == [expected]


def test_on_a_disk_ages_are_looked_at_last(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    old, young, gone, used = (str(ChunkId(bytes([number]) * 12)) for number in range(4))
    for name in (old, young, gone, used, "README"):
        storage.put(f"chunks/{name}", name.encode())
        if name != young:
            os.utime(tmp_path / "chunks" / name, (1, 1))
    (tmp_path / "chunks" / str(ChunkId(bytes([9]) * 12))).mkdir()
    cutoff = datetime.now(UTC) - timedelta(hours=1)
    found = list_candidates(storage, "chunks/", cutoff)
    in_use = RowSet()
    in_use.add(parse_names([used]))
    storage.delete_many([f"chunks/{gone}"])
    garbage = found.without(in_use).older(storage, cutoff)
    assert garbage.keys() == [f"chunks/{old}"]
    assert garbage.size_bytes == len(old)
