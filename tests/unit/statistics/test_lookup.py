"""Statistics of chunks are found for the decoding that they were made with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr

from frazil.bulk.fetch import ChunkReferences
from frazil.statistics.files import read_index, store
from frazil.statistics.records import decoding_of, identified
from frazil.storage.memory import MemoryStorage
from tests.unit.statistics.samples import NAN, all_coords, files, known, make, write
from tests.unit.statistics.test_analyzing import COORDS, VALUES


def test_another_decoding_finds_nothing(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES.astype("i2"), attributes={"scale_factor": 0.5})
    repo.audit.analyze()
    assert known(repo, "a", COORDS).max.max() == 24.0
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a").attrs["scale_factor"] = 0.25
    session.commit("other units")
    assert not known(repo, "a", COORDS).known.any()
    repo.audit.analyze()
    assert known(repo, "a", COORDS).max.max() == 12.0


def test_chunks_that_were_never_written_are_known(storage: MemoryStorage) -> None:
    repo = make(storage)
    session = repo.writable_session("main")
    options: dict[str, Any] = {"shape": (7,), "chunks": (3,), "dtype": "f4"}
    zarr.create_array(session.store, name="a", fill_value=2.5, **options)
    zarr.create_array(session.store, name="b", fill_value=np.nan,
                      attributes={"_FillValue": NAN}, **options)  # fmt: skip
    session.commit("empty")
    coords = all_coords((7,), (3,))
    found = known(repo, "a", coords)
    assert found.known.all()
    assert found.sum.tolist() == [7.5, 7.5, 2.5]
    found = known(repo, "b", coords)
    assert (found.count.tolist(), found.missing.tolist()) == ([0, 0, 0], [3, 3, 1])
    assert not found.has_extremes.any()
    assert repo.audit.analyze().chunks == 0


def test_rows_that_cannot_be_true_are_not_used(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    state = repo.readonly_session("main").state
    node = state.array("/a")
    decoding = decoding_of(node)
    assert decoding is not None
    rows, _ = identified(ChunkReferences.of(state.table(node)), decoding.layout.grid, str)
    rows["form"], rows["count"], rows["has"] = 1, 9, 3
    rows["min"], rows["max"] = np.float64(5.0).view("u8"), np.float64(1.0).view("u8")
    store(storage, decoding.id, rows)
    assert not known(repo, "a", COORDS).known.any()


@pytest.mark.parametrize("kind", ["f8", "i4", "u8"])
@pytest.mark.parametrize("total", [-(10**6), 10**6, 2**61])
def test_sums_that_no_such_values_have_are_not_used(
    storage: MemoryStorage, kind: str, total: int
) -> None:
    repo = make(storage)
    write(repo, "a", (VALUES + 1).astype(kind))
    repo.audit.analyze()
    state = repo.readonly_session("main").state
    decoding = decoding_of(state.array("/a"))
    assert decoding is not None
    rows = read_index(storage, decoding.id).rows.copy()
    assert known(repo, "a", COORDS).known.all()
    rows["sum"] = np.array(total, "f8" if kind == "f8" else "i8").view("u8")
    storage.delete_many(files(storage))
    store(storage, decoding.id, rows)
    assert not known(repo, "a", COORDS).known.any()
