"""Blocks that statistics rule out are not read, and the rows stay the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr

from tests.support.spark import make_repository, partitions_of, read_here

TIMES, LATS = 12, 7
NAMES = ("v", "gaps", "packed", "w", "flag")
CONDITIONS = (
    "v > 100",
    "v >= 60 AND v < 70",
    "v = 33",
    "v != 5",
    "v IN (3, 80)",
    "NOT v IN (3, 80)",
    "NOT v < 50",
    "gaps IS NULL",
    "gaps IS NOT NULL AND v < 20",
    "packed > 7.5",
    "packed <= 1.5 OR v > 80",
    "w < 2",
    "w > 10",
    "time > 8 AND v < 80",
    "flag = true",
    "v < -1",
)


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    """Values that ascend, so that few chunks have those that are asked for."""
    v = np.arange(TIMES * LATS, dtype="f4").reshape(TIMES, LATS)
    v[4, 3] = np.nan
    gaps = v.astype("f8")
    gaps[:4] = np.nan
    return xr.Dataset(
        {
            "v": (("time", "lat"), v),
            "gaps": (("time", "lat"), gaps),
            "packed": (("time", "lat"), np.round(np.nan_to_num(v) / 10, 1)),
            "w": (
                ("time", "lat"),
                np.nan_to_num(v).astype("i4") % 5 + (np.arange(TIMES) // 3)[:, None],
            ),
            "flag": (("time", "lat"), np.nan_to_num(v) > 75),
        },
        coords={"time": np.arange(TIMES), "lat": np.arange(LATS) * 10.0},
    )


@pytest.fixture(scope="module", params=["all", "some"])
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: xr.Dataset
) -> tuple[Path, Path]:
    """A repository whose chunks have statistics, all or some, and the same one without any."""
    folder = tmp_path_factory.mktemp("skipping")
    encoding: dict[str, Any] = {
        "v": {"chunks": (3, 2), "_FillValue": None},
        "gaps": {"chunks": (2, 7), "_FillValue": -1.0},
        "packed": {"chunks": (3, 4), "dtype": "i2", "scale_factor": 0.1, "_FillValue": -9},
        "w": {"chunks": (3, 2)},
        "flag": {"chunks": (6, 2)},
    }
    repo = make_repository(folder / "known", data, **encoding)
    repo.audit.analyze()
    if request.param == "some":
        session = repo.writable_session("main")
        session.array("v")[:2] = 150.0
        session.array("w")[5:6] = -4
        session.commit("changed since")
    shutil.copytree(folder / "known", folder / "plain")
    shutil.rmtree(folder / "plain" / "frazil" / "statistics")
    return folder / "known", folder / "plain"


def rows(place: Path, condition: str, **options: Any) -> pa.Table:  # noqa: ANN401  (options of any kind)
    """The rows that meet a condition, in order."""
    found = read_here(place, variables=list(NAMES), value_where=condition, **options)
    return found.sort_by([("time", "ascending"), ("lat", "ascending")])


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_without_statistics(places: tuple[Path, Path], condition: str) -> None:
    known, plain = places
    for options in ({}, {"chunks_per_partition": 1}):
        one, other = rows(known, condition, **options), rows(plain, condition)
        # Two NaN are one value here.
        assert one.num_rows == other.num_rows
        assert one.to_pandas().equals(other.to_pandas())


@pytest.mark.parametrize(
    ("variable", "condition", "blocks"),
    [
        ("v", "v > 1000", 1),  # the block with NaN, which is greater than every number
        ("v", "v = 33", 4),
        ("v", "v < -1", 0),
        ("gaps", "gaps IS NULL", 3),
        ("packed", "packed > 100", 0),
        ("w", "w > 100", 0),
    ],
)
def test_blocks_are_left_out(data: xr.Dataset, tmp_path: Path, variable: str, condition: str,
                             blocks: int) -> None:  # fmt: skip
    chunks = {"v": (3, 2), "gaps": (2, 7), "packed": (3, 4), "w": (3, 2)}[variable]
    encoding = {"packed": {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -9}}
    own = {"chunks": chunks, "_FillValue": None, **encoding.get(variable, {})}
    if variable == "gaps":
        own["_FillValue"] = -1.0
    repo = make_repository(tmp_path / "r", data[[variable]], **{variable: own})
    options = {"variables": variable, "value_where": condition, "chunks_per_partition": 1}
    before = partitions_of(tmp_path / "r", **options)
    assert len(before) == -(-TIMES // chunks[0]) * -(-LATS // chunks[1])
    repo.audit.analyze()
    left = [each for each in partitions_of(tmp_path / "r", **options) if each.value is not None]
    assert len(left) == blocks


def test_aggregates_of_chosen_values_are_the_same(places: tuple[Path, Path]) -> None:
    options: dict[str, Any] = {
        "layout": "aggregates",
        "variables": ["v"],
        "columns": "time",
        "aggregates": {"v": ["count", "sum"]},
        "value_where": "v > 40 AND v < 60",
    }
    found = []
    for place in places:
        table = read_here(place, **options).to_pandas().groupby("time").sum()
        found.append(table[table["count(*)"] > 0])
    assert found[0].equals(found[1])
    assert len(found[0])


def test_a_hostile_file_changes_nothing(data: xr.Dataset, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "r", data[["v"]], v={"chunks": (3, 2), "_FillValue": None})
    plain = read_here(tmp_path / "r", variables="v", value_where="v > 40")
    repo.audit.analyze()
    for file in (tmp_path / "r" / "frazil" / "statistics").rglob("*"):
        if file.is_file():
            blob = bytearray(file.read_bytes())
            blob[len(blob) // 2] ^= 1
            file.write_bytes(bytes(blob))
    found = read_here(tmp_path / "r", variables="v", value_where="v > 40")
    assert found.num_rows == plain.num_rows
