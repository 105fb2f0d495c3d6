"""Names in options: nothing unknown is ignored, and one rule for upper and lower case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr

import frazil
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.spark.upkeep.calls import call
from tests.support.spark import make_repository, read_here, rows_of, weather, write_here

DIMS = ["time", "lat", "lon"]
HOW: list[dict[str, Any]] = [
    {"columns": ["LAT", "T2M"]},
    {"where": "Lat > 10 AND NOT (LON = 0 OR TIME IS NULL)"},
    {"sel": {"LAT": slice(-60, 0)}},
    {"isel": {"LAT": slice(0, 2), "Time": 3}},
    {"variables": ["T2M"]},
    {"columns": ["Message"], "table": "snapshots"},
    {"layout": "chunks", "columns": ["Variable", "OFFSET"]},
]


def lowered(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {name.lower(): each for name, each in value.items()}
    return value.lower() if isinstance(value, str) and " " in value else value


@pytest.mark.parametrize("how", HOW, ids=lambda how: next(iter(how)))
def test_case_does_not_matter_where_only_one_can_be_meant(
    weather_repo: Path, how: dict[str, Any]
) -> None:
    options = dict(how)
    url = f"{weather_repo}#{options.pop('table')}" if "table" in options else weather_repo
    plain: dict[str, Any] = {}
    for name, value in options.items():
        if name == "where":
            plain[name] = "lat > 10 AND NOT (lon = 0 OR time IS NULL)"
        elif isinstance(value, list):
            plain[name] = [each.lower() for each in value]
        else:
            plain[name] = lowered(value)
    found, expected = read_here(url, **options), read_here(url, **plain)
    assert found.num_rows == expected.num_rows > 0
    assert [each.to_pylist() for each in found.columns] == [
        each.to_pylist() for each in expected.columns
    ]


def test_names_that_differ_in_case_only_are_told_apart(tmp_path: Path) -> None:
    both = xr.Dataset({"a": ("x", [1, 2]), "A": ("x", [3, 4])})
    make_repository(tmp_path / "r", both)
    assert read_here(tmp_path / "r", variables=["A"])["A"].to_pylist() == [3, 4]
    make_repository(tmp_path / "s", both.rename({"a": "bb", "A": "BB"}))
    with pytest.raises(NodeNotFoundError, match="no variable 'Bb'"):
        read_here(tmp_path / "s", variables=["Bb"])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"where": "lta > 1"}, "no coordinate 'lta'; did you mean 'lat'?"),
        ({"sel": {"tme": "2024"}}, "no coordinate 'tme'; did you mean 'time'?"),
        ({"isel": {"tme": 0}}, "no dimension 'tme'; did you mean 'time'?"),
        ({"variables": ["t2n"]}, "no variable 't2n' in group '/'; did you mean 't2m'?"),
        ({"columns": ["t2n"]}, "no column 't2n'; did you mean 't2m'?"),
        ({"colums": ["t2m"]}, "unknown option 'colums'; did you mean 'columns'?"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest_name(
    weather_repo: Path, how: dict[str, Any], said: str
) -> None:
    with pytest.raises(frazil.FrazilError) as raised:
        read_here(weather_repo, **how)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"chunks": {"tme": 4}}, "option 'chunks': there is no dimension 'tme'"),
        ({"shards": {"tme": 4}}, "option 'shards': there is no dimension 'tme'"),
        ({"dtype": "t2n=float32"}, "option 'dtype': there is no column 't2n'; did you mean 't2m'?"),
        ({"fill_value": "t2n=-1"}, "option 'fill-value': there is no column 't2n'"),
        ({"attributes": '{"t2n": {"units": "K"}}'}, "option 'attributes': there is no column"),
        ({"coords": '{"lta": [1, 2]}'}, "option 'coords': there is no dimension 'lta'"),
        ({"append_dim": "tme"}, "which is no dimension; did you mean 'time'?"),
    ],
)
def test_a_write_ignores_no_name(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        write_here(tmp_path / "r", rows_of(weather()), dims=DIMS, **how)
    assert said in str(raised.value)


def test_a_write_takes_the_names_that_columns_have(tmp_path: Path) -> None:
    rows = pa.table({"X": [1, 2, 3], "v": [0.5, 1.5, 2.5]})
    write_here(
        tmp_path / "r", rows, dims=["x"], chunks={"x": 2}, dtype="V=float32", fill_value="V=-1"
    )
    session = frazil.Repository.open(tmp_path / "r").readonly_session("main")
    made = session.array("/v")
    assert (made.chunks, made.dtype) == ((2,), np.dtype("f4"))


def test_a_procedure_that_is_not_there_is_told(weather_repo: Path) -> None:
    with pytest.raises(InvalidInputError, match="no procedure 'expire_snapshot'; did you mean"):
        call("expire_snapshot", str(weather_repo), None)
