"""Statistics that are kept while chunks are written are those that an analysis would make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import TransposeCodec

from frazil.bulk.write import write_region
from frazil.repository import Repository
from frazil.statistics.files import read_index
from frazil.statistics.recording import recording
from frazil.statistics.records import decoding_of
from frazil.storage.memory import MemoryStorage
from tests.unit.statistics.samples import Array, all_coords, files, known, make, require_true

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs")
ROUND = [{"name": "numcodecs.bitround", "configuration": {"keepbits": 3}}]
RNG = np.random.default_rng(5)
GAPS = RNG.normal(0, 5, (7, 8))
GAPS[RNG.random(GAPS.shape) < 0.3] = np.nan
CASES: dict[str, tuple[Array, dict[str, Any]]] = {
    "gaps": (GAPS, {"chunks": (3, 3)}),
    "single": (GAPS.astype("f4"), {"chunks": (7, 8)}),
    "packed": (
        RNG.integers(-9, 90, (9, 4)).astype("i2"),
        {"chunks": (4, 4), "attributes": {"scale_factor": 0.1, "_FillValue": -9}},
    ),
    "shards": (GAPS, {"chunks": (2, 2), "shards": (4, 4)}),
    "turned": (GAPS, {"chunks": (3, 3), "filters": [TransposeCodec(order=(1, 0))]}),
    "rounded": (GAPS.astype("f4"), {"chunks": (3, 3), "filters": ROUND}),
    "plain": (np.arange(600_000.0).reshape(600, 1000), {"chunks": (300, 500), "compressors": None}),
    "scalar": (np.array(4.5), {}),
    "whole": (RNG.integers(0, 2**62, (50,)), {"chunks": (16,)}),
}


def create(session: Any, name: str, values: Array, options: dict[str, Any]) -> None:  # noqa: ANN401
    """An array without values."""
    zarr.create_array(session.store, name=name, shape=values.shape, dtype=values.dtype, **options)


def rows(repo: Repository, name: str) -> list[bytes]:
    """All that is kept of an array, bit by bit."""
    state = repo.readonly_session("main").state
    decoding = decoding_of(state.array(f"/{name}"))
    assert decoding is not None
    return [row.tobytes() for row in read_index(state.context.place, decoding.id).rows]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("inline", [0, 512])
def test_rows_are_those_of_an_analysis(storage: MemoryStorage, name: str, inline: int) -> None:
    values, options = CASES[name]
    repo = make(storage, inline=inline)
    session = repo.writable_session("main")
    create(session, name, values, options)
    with recording(session):
        write_region(session, name, ..., values)
        session.commit("written")
    told = rows(repo, name)
    assert told
    assert repo.audit.analyze().chunks == 0
    storage.delete_many(files(storage))
    assert repo.audit.analyze().chunks == len(told)
    assert rows(repo, name) == told


def test_parts_of_chunks_and_other_types_are_told_as_they_are_stored(
    storage: MemoryStorage,
) -> None:
    repo = make(storage)
    session = repo.writable_session("main")
    create(session, "a", np.zeros((6, 6), "f4"), {"chunks": (3, 3)})
    wanted = np.zeros((6, 6), "f4")
    with recording(session):
        session.array("a")[1:5, 2:4] = np.full((4, 2), 1 / 3)
        session.array("a")[0, 0] = 7.0
        session.commit("written")
    wanted[1:5, 2:4], wanted[0, 0] = 1 / 3, 7.0
    coords = all_coords((6, 6), (3, 3))
    found = known(repo, "a", coords)
    assert found.known.all()
    require_true(found, wanted, coords, (3, 3))


def test_zarr_writes_are_seen_too(storage: MemoryStorage) -> None:
    repo = make(storage)
    session = repo.writable_session("main")
    with recording(session):
        zarr.create_array(session.store, name="a", data=np.arange(12.0), chunks=(5,))
        session.commit("written")
    assert known(repo, "a", all_coords((12,), (5,))).known.all()


def test_what_is_not_committed_is_not_told(storage: MemoryStorage) -> None:
    repo = make(storage)
    session = repo.writable_session("main")
    create(session, "a", GAPS, {"chunks": (3, 3)})
    with recording(session):
        session.array("a")[...] = GAPS
    assert not files(storage)
    session.commit("later")
    assert not files(storage)
