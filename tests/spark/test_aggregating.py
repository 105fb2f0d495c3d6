"""`layout=aggregates`, `broadcast`, `value-where` and ranges of `isel`, against numpy."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from tests.support.spark import make_repository, read_here

TIMES, LATS = 7, 5


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    """Values with NaN and gaps, large whole numbers, and a mask without time."""
    rng = np.random.default_rng(3)
    shape = (TIMES, LATS)
    v = rng.normal(0, 3, shape).astype("f4")
    v[0, 1] = np.nan
    gaps = rng.normal(5, 1, shape)
    gaps[2] = np.nan
    return xr.Dataset(
        {
            "v": (("time", "lat"), v),
            "gaps": (("time", "lat"), gaps),
            "big": (("time", "lat"), rng.integers(2**61, 2**62, shape)),
            "mask": (("lat",), np.array([0, 1, 0, 2, 1], "i1")),
        },
        coords={"time": np.arange(TIMES), "lat": np.arange(LATS) * 10.0},
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, data: xr.Dataset) -> Path:
    """The repository; gaps are stored as a fill value, NaN of `v` as it is."""
    path = tmp_path_factory.mktemp("aggregates") / "r"
    encoding = {
        "v": {"chunks": (3, 2), "_FillValue": None},
        "gaps": {"chunks": (2, 5), "_FillValue": -1.0},
        "big": {"chunks": (4, 4)},
    }
    make_repository(path, data, **encoding)
    return path


def test_labels_that_are_kept_have_rows(place: Path, data: xr.Dataset) -> None:
    found = read_here(
        place,
        layout="aggregates",
        variables=["v", "gaps", "big"],
        columns="time",
        aggregates={
            "v": ["min", "max", "count"],
            "gaps": ["count", "sum", "squares"],
            "big": "sum",
        },
        split_size=1,
    ).to_pandas()
    for time, rows in found.groupby("time"):
        own = data.isel(time=int(time))
        assert rows["count(*)"].sum() == LATS
        assert rows["count(v)"].sum() == LATS
        assert rows["count(gaps)"].sum() == int(own.gaps.count())
        assert rows["sum(gaps)"].sum() == pytest.approx(float(own.gaps.sum()))
        assert sum(map(int, rows["sum(big)"])) == sum(map(int, own.big.values))
        least = np.fmin.reduce(rows["min(v)"].to_numpy())
        assert least == np.float32(np.nanmin(own.v.values))
        most = np.maximum.reduce(rows["max(v)"].to_numpy())
        np.testing.assert_equal(most, np.max(own.v.values))


def test_parts_add_up(place: Path, data: xr.Dataset) -> None:
    options: dict[str, Any] = {
        "layout": "aggregates",
        "variables": "gaps",
        "aggregates": {"gaps": ["squares", "sum"]},
    }
    (whole,) = read_here(place, **options).to_pylist()
    values = data.gaps.values[~np.isnan(data.gaps.values)]
    assert whole["squares(gaps)"] == pytest.approx(values.var() * values.size)
    assert whole["sum(gaps)"] == pytest.approx(values.sum())
    parts = read_here(place, **options, chunks_per_partition=1).to_pylist()
    assert len(parts) == -(-TIMES // 2)
    assert sum(part["sum(gaps)"] or 0 for part in parts) == pytest.approx(values.sum())
    assert sum(part["count(*)"] for part in parts) == TIMES * LATS


def test_no_data_are_needed_to_count(place: Path) -> None:
    found = read_here(place, layout="aggregates", variables="v", columns="lat", isel="time=1:4")
    assert {row["lat"]: row["count(*)"] for row in found.to_pylist()} == dict.fromkeys(
        np.arange(LATS) * 10.0, 3
    )


def test_variables_may_be_labels(place: Path, data: xr.Dataset) -> None:
    found = read_here(
        place, layout="aggregates", variables="v, mask", broadcast=True, columns="mask",
        aggregates={"v": "count"},
    )  # fmt: skip
    counts: dict[int, int] = {}
    for row in found.to_pylist():
        counts[row["mask"]] = counts.get(row["mask"], 0) + row["count(v)"]
    assert counts == {0: 2 * TIMES, 1: 2 * TIMES, 2: TIMES}


def test_large_whole_numbers_are_added_exactly(place: Path, data: xr.Dataset) -> None:
    (row,) = read_here(
        place, layout="aggregates", variables="big", aggregates={"big": ["sum", "min"]}
    ).to_pylist()
    assert row["sum(big)"] == Decimal(sum(map(int, data.big.values.ravel())))
    assert row["min(big)"] == int(data.big.min())


def test_values_may_be_chosen_by(place: Path, data: xr.Dataset) -> None:
    options: dict[str, Any] = {"variables": "v, mask", "broadcast": True, "columns": "time, lat, v"}
    found = read_here(place, **options, value_where="v > 1 AND NOT mask = 1").to_pylist()
    wide = data.v.where((data.v > 1) | np.isnan(data.v)).where(data.mask != 1)
    kept = int(((data.v > 1) | np.isnan(data.v)).where(data.mask != 1, False).sum())
    assert len(found) == kept
    assert {(r["time"], r["lat"]) for r in found if not np.isnan(r["v"])} == {
        (int(t), float(y)) for t, y in np.argwhere(~np.isnan(wide.values)) * [1, 10]
    }
    (row,) = read_here(
        place, layout="aggregates", variables="gaps", aggregates={"gaps": "count"},
        value_where="gaps IS NULL",
    ).to_pylist()  # fmt: skip
    assert (row["count(*)"], row["count(gaps)"]) == (LATS, 0)


def test_positions_may_be_several_ranges(place: Path) -> None:
    found = read_here(place, variables="v", columns="time, lat", isel="time=[0:2, 5, 4:6], lat=-1")
    assert [row["time"] for row in found.to_pylist()] == [0, 1, 4, 5]
    assert len(read_here(place, variables="v", isel="time=[1:1, 3:3]")) == 0
    with pytest.raises(InvalidInputError, match="has no step"):
        read_here(place, variables="v", isel="time=[0:4:2, 5]")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"aggregates": "v=middle"}, "no aggregate 'middle'"),
        ({"aggregates": "w=sum"}, "no column 'w'"),
        ({"value_where": "time > 3 AND w > 1"}, "w"),
    ],
)
def test_what_is_not_there_is_told(place: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        read_here(place, layout="aggregates", variables="v", **options)


def test_lengths_must_agree(tmp_path: Path) -> None:
    data = xr.Dataset({"a": (("x", "y"), np.zeros((2, 3)))})
    other = xr.Dataset({"b": (("x",), np.zeros(5))})
    repository = make_repository(tmp_path / "r", data)
    session = repository.writable_session("main")
    from frazil.xarray import to_icechunk

    to_icechunk(other, session, mode="a")
    session.commit("b")
    with pytest.raises(InvalidInputError, match="dimension 'x' has another length"):
        read_here(tmp_path / "r", variables="a, b", broadcast=True)
