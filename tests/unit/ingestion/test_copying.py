"""Values are copied region by region: which regions, from which files, and what is refused."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from frazil.errors import InvalidInputError
from frazil.ingestion.copying import (
    CopyTask,
    SourceRegion,
    apply_cf,
    chunk_boxes,
    copies,
    copy,
    digest,
    gather_values,
    read_part,
    read_safely,
)
from frazil.ingestion.isolation import ParserLimits
from frazil.ingestion.plans import IngestMode
from frazil.ingestion.records import FileScan, ScanTask, VariableOrigin
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url
from frazil.repository import Repository
from frazil.session import ForkSession
from frazil.storage.memory import MemoryStorage
from frazil.transaction.forks import merge_changes
from tests.support.scans import array_of, base, planned, scan


def origin(path: Path, **datasets: object) -> VariableOrigin:
    """The variable `v` of a file of these datasets."""
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    found = scan_file(ScanTask(as_url(path)), {})
    assert isinstance(found, FileScan)
    return found.origin("v")


# --- regions ---


@pytest.mark.parametrize(
    ("first", "shape", "chunks", "limit"),
    [
        ((0, 0), (7, 5), (3, 2), 1),
        ((0, 0), (7, 5), (3, 2), 12),
        ((0, 0), (7, 5), (3, 2), 1000),
        ((4, 0), (9, 5), (3, 2), 12),
        ((0,), (1,), (1024,), 8),
        ((), (), (), 1),
    ],
)
def test_regions_hold_whole_chunks_and_every_new_cell_once(
    first: tuple[int, ...], shape: tuple[int, ...], chunks: tuple[int, ...], limit: int
) -> None:
    seen = np.zeros(shape, int)
    for region in chunk_boxes(first, shape, chunks, limit):
        seen[region] += 1
        ends = zip(region, first, shape, chunks, strict=True)
        for part, begin, end, size in ends:
            assert part.start == begin or part.start % size == 0
            assert part.stop == end or part.stop % size == 0
        lengths = [part.stop - part.start for part in region]
        assert prod(lengths) <= max(limit, prod(chunks))
    fresh = tuple(slice(begin, None) for begin in first)
    assert (seen[fresh] == 1).all()
    assert seen.sum() == prod(n - begin for n, begin in zip(shape, first, strict=True))


def test_nothing_is_copied_of_an_array_without_cells() -> None:
    assert [*chunk_boxes((0, 0), (0, 5), (3, 2), 100)] == []


def test_each_region_is_made_of_the_files_that_reach_into_it() -> None:
    plan, _ = planned(scan(0, time=[0, 1]), scan(1, time=[2, 3]), chunks={"time": 3})
    tasks = [*copies(plan, array_of(plan), "/v", limit=1)]
    assert [task.region[0] for task in tasks] == [slice(0, 3), slice(3, 4)]
    pieces = [
        [(each.origin.url[-4:], each.source[0], each.target[0]) for each in task.pieces]
        for task in tasks
    ]
    assert pieces == [
        [("0.nc", slice(0, 2), slice(0, 2)), ("1.nc", slice(0, 1), slice(2, 3))],
        [("1.nc", slice(1, 2), slice(0, 1))],
    ]


def test_only_what_is_new_is_copied_behind_an_array() -> None:
    plan, findings = planned(
        scan(0, time=[3, 4]), base=base(time=[0, 1, 2]), native_arrays=frozenset(["v"])
    )
    assert not findings.errors
    tasks = [*copies(plan, array_of(plan), "/v", limit=1)]
    assert [task.region[0] for task in tasks] == [slice(3, 4), slice(4, 5)]


def test_regions_that_no_file_reaches_into_are_left_out() -> None:
    places = [([2, 3], [3.0, 4.0]), ([0, 1], [1.0, 2.0]), ([2, 3], [1.0, 2.0])]
    fill = {"_FillValue": 0}
    tiles = [scan(n, time=time, lat=lat, attrs=fill) for n, (time, lat) in enumerate(places)]
    plan, findings = planned(*tiles, mode=IngestMode.NATIVE)
    assert not findings.errors
    regions = [task.region for task in copies(plan, array_of(plan), "/v", limit=1)]
    assert (slice(0, 2), slice(2, 4)) not in regions
    assert len(regions) == 3


# --- values ---


def test_packing_is_undone_as_xarray_does_it() -> None:
    values = np.array([1, -9, 3], "<i2")
    found = apply_cf(values, {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -9})
    assert np.array_equal(found, [10.5, np.nan, 11.5], equal_nan=True)
    assert apply_cf(values, {"units": "days since 2000-01-01"}).tolist() == [1, -9, 3]


@pytest.mark.parametrize("fill", [-9.0, "abc", None])
def test_packing_is_undone_whatever_stands_for_the_fill_value(fill: object) -> None:
    values = np.array([1, -9, 3], "<f4")
    found = apply_cf(values, {"scale_factor": 0.5, "_FillValue": fill})
    expected = np.array([0.5, np.nan if fill == -9.0 else -4.5, 1.5])
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_file_that_changed_since_it_was_scanned_is_not_read(tmp_path: Path) -> None:
    made = origin(tmp_path / "a.h5", v=np.arange(6))
    assert read_part(made, (slice(1, 3),), {}).tolist() == [1, 2]
    os.utime(tmp_path / "a.h5", (5e9, 5e9))
    with pytest.raises(InvalidInputError, match="has changed while it was ingested") as refusal:
        read_part(made, (), {})
    assert "a.h5" in str(refusal.value)


def test_equal_values_have_equal_digests_however_they_are_stored(tmp_path: Path) -> None:
    values = np.arange(6, dtype="<i4")
    whole = digest({}, origin(tmp_path / "a.h5", v=values))
    assert digest({}, origin(tmp_path / "b.h5", w=0, v=values)) == whole
    others = (values + 1, values.reshape(2, 3), values.view("<u4"))
    for number, other in enumerate(others):
        assert digest({}, origin(tmp_path / f"{number}.h5", v=other)) != whole


def test_what_cannot_be_read_is_told_with_the_variable_and_the_file(tmp_path: Path) -> None:
    made = origin(tmp_path / "a.h5", v=np.arange(6))
    with pytest.raises(InvalidInputError, match=r"values of 'v' cannot be read.*a\.h5"):
        read_safely(ParserLimits(), made, (slice(0, 2), slice(0, 2)), {})


def test_cells_without_a_file_are_filled_and_the_rest_is_written(tmp_path: Path) -> None:
    made = origin(tmp_path / "a.h5", v=np.arange(6, dtype="<i4"))
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    zarr.create_group(session.store).create_array("v", shape=(4,), chunks=(2,), dtype="i4")
    piece = SourceRegion(made, (slice(2, 5),), (slice(1, 4),))
    task = CopyTask("/v", (slice(0, 4),), np.dtype("<i4"), -1, (piece,), decode=False)
    assert task.shape == (4,)
    assert gather_values(task, {}, ParserLimits()).tolist() == [-1, 2, 3, 4]
    done = copy(ForkSession.with_nodes_of(session), {}, ParserLimits(), task)
    assert (done.chunks, done.nbytes) == (2, 16)
    merge_changes(session.state.changes, done.changes)
    session.state.move_base(session.state.base_id)
    session.commit("copied")
    found = repository.readonly_session("main").array("/v")
    assert np.asarray(found[:]).tolist() == [-1, 2, 3, 4]
