"""Conditions: exactly the rows that they mean, and no chunk outside of them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.spark.reading.where import All, Any_, Compare, OneOf, leaves, parse_where
from tests.support.spark import make_repository, read_here, weather

CONDITIONS = {
    "lat > 10": lambda d: d.lat > 10,
    "lat >= 20 AND lon < 20": lambda d: (d.lat >= 20) & (d.lon < 20),
    "20 = lat or lon != 10": lambda d: (d.lat == 20) | (d.lon != 10),
    "lat <> 20": lambda d: d.lat != 20,
    "NOT lat > 10": lambda d: ~(d.lat > 10),
    "NOT (lat > 10 OR lon = 0)": lambda d: ~((d.lat > 10) | (d.lon == 0)),
    "lon BETWEEN 10 AND 30": lambda d: (d.lon >= 10) & (d.lon <= 30),
    "lon NOT BETWEEN 10 AND 30": lambda d: (d.lon < 10) | (d.lon > 30),
    "lon IN (0, 20, 99)": lambda d: d.lon.isin([0, 20, 99]),
    "lon NOT IN (0, 20.0)": lambda d: ~d.lon.isin([0, 20]),
    "time >= '2024-02-01'": lambda d: d.time >= "2024-02-01",
    "time < '2024-02' AND lat < -1e1": lambda d: (d.time < "2024-02-01") & (d.lat < -10),
    "time BETWEEN DATE '2024-01-31' AND TIMESTAMP '2024-02-02 00:00:00'": lambda d: (
        (d.time >= "2024-01-31") & (d.time <= "2024-02-02")
    ),
    "time IN (\"2024-02-01\", '2024-02-03T00:00:00')": lambda d: d.time.isin(
        pd.to_datetime(["2024-02-01", "2024-02-03"])
    ),
    "(time = '2024-02-01' AND lat = 60) OR (time = '2024-02-05' AND lat = -60)": lambda d: (
        ((d.time == "2024-02-01") & (d.lat == 60)) | ((d.time == "2024-02-05") & (d.lat == -60))
    ),
    "lat IS NOT NULL AND `lon` > +5": lambda d: d.lon > 5,
    "lat IS NULL": lambda d: d.lat.isna(),
    "lat > 1000": lambda d: d.lat > 1000,
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("split", ["1", "1g"])
def test_exactly_the_rows_that_match(weather_repo: Path, condition: str, split: str) -> None:
    whole = read_here(weather_repo).to_pandas()
    expected = whole[CONDITIONS[condition](whole)]
    found = read_here(weather_repo, where=condition, split_size=split).to_pandas()
    keys = ["time", "lat", "lon"]
    pd.testing.assert_frame_equal(
        found.sort_values(keys).reset_index(drop=True),
        expected.sort_values(keys).reset_index(drop=True),
        check_dtype=False,
    )


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"isel": "time=2"}, {"time": slice(2, 3)}),
        ({"isel": "time=-1, lat=0:3"}, {"time": slice(-1, None), "lat": slice(0, 3)}),
        ({"isel": "lon=[4, 0, 0]"}, {"lon": [0, 4]}),
        ({"isel": "time=::3, lat=1:-1"}, {"time": slice(None, None, 3), "lat": slice(1, -1)}),
        ({"isel": {"time": slice(2, 4), "lon": [1]}}, {"time": slice(2, 4), "lon": [1]}),
        ({"isel": "time=20:30"}, {"time": slice(20, 30)}),
    ],
)
def test_positions(weather_repo: Path, dataset: xr.Dataset, options: Any, chosen: Any) -> None:  # noqa: ANN401
    expected = dataset[["wind"]].isel(chosen).to_dataframe().sort_index()
    found = read_here(weather_repo, variables="wind", **options).to_pandas()
    found = found.set_index(["time", "lat", "lon"]).sort_index()
    pd.testing.assert_frame_equal(found, expected, check_index_type=False)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"sel": "lat=20"}, {"lat": [20.0]}),
        ({"sel": "time=2024-02"}, {"time": "2024-02"}),
        ({"sel": "time=2024-02-01:2024-02-03, lon=10:20"},
         {"time": slice("2024-02-01", "2024-02-03"), "lon": slice(10, 20)}),
        ({"sel": "lat=[20, -20], lon=30"}, {"lat": [20.0, -20.0], "lon": [30.0]}),
        ({"sel": {"lat": slice(-25, 25)}}, {"lat": slice(25, -25)}),
        ({"sel": "time='2024-02-01T00:00:00':"}, {"time": slice("2024-02-01", None)}),
        ({"sel": "time=2024-02-01T00:00:00"}, {"time": ["2024-02-01T00:00:00"]}),
    ],
)  # fmt: skip
def test_labels(weather_repo: Path, dataset: xr.Dataset, options: Any, chosen: Any) -> None:  # noqa: ANN401
    expected = dataset[["wind"]].sel(chosen).to_dataframe().sort_index()
    found = read_here(weather_repo, variables="wind", **options).to_pandas()
    found = found.set_index(["time", "lat", "lon"]).sort_index()
    pd.testing.assert_frame_equal(found, expected, check_index_type=False)


def test_all_ways_to_choose_hold_together(weather_repo: Path) -> None:
    found = read_here(weather_repo, where="lat > 0", sel="lon=10", isel="time=0")
    assert {tuple(row.values())[1:3] for row in found.to_pylist()} == {
        (20.0, 10.0),
        (40.0, 10.0),
        (60.0, 10.0),
    }


def test_nan_is_greater_than_every_number_as_in_spark(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("x",), [1, 2, 3])}, coords={"x": ("x", [1.0, np.nan, 5.0])})
    make_repository(tmp_path / "r", data, x={"_FillValue": None})
    assert read_here(tmp_path / "r", where="x > 2")["v"].to_pylist() == [2, 3]
    assert read_here(tmp_path / "r", where="x < 2")["v"].to_pylist() == [1]
    assert read_here(tmp_path / "r", where="x != 5")["v"].to_pylist() == [1, 2]


def test_missing_labels_match_nothing_but_is_null(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("x",), [1, 2, 3])}, coords={"x": ("x", [1.0, np.nan, 5.0])})
    make_repository(tmp_path / "r", data)
    assert read_here(tmp_path / "r", where="x > 2")["v"].to_pylist() == [3]
    assert read_here(tmp_path / "r", where="NOT x > 2")["v"].to_pylist() == [1]
    assert read_here(tmp_path / "r", where="x IS NULL")["v"].to_pylist() == [2]


def test_texts_as_labels(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("s",), np.arange(4))}, coords={"s": ["ab", "o'k", "c", "d"]})
    make_repository(tmp_path / "r", data)
    assert read_here(tmp_path / "r", where="s = 'o''k' OR s >= 'd'")["v"].to_pylist() == [1, 3]
    assert read_here(tmp_path / "r", sel="s=[ab, c]")["v"].to_pylist() == [0, 2]


def test_labels_that_are_true_or_false(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("b",), [1, 2])}, coords={"b": [False, True]})
    make_repository(tmp_path / "r", data)
    assert read_here(tmp_path / "r", where="b = TRUE")["v"].to_pylist() == [2]
    assert read_here(tmp_path / "r", where="b != true")["v"].to_pylist() == [1]
    assert read_here(tmp_path / "r", sel="b=False")["v"].to_pylist() == [1]
    with pytest.raises(InvalidInputError, match="true or false is expected"):
        read_here(tmp_path / "r", where="b = 1")


def test_texts_are_not_compared_with_numbers(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("s",), [1, 2])}, coords={"s": ["1", "2"]})
    make_repository(tmp_path / "r", data)
    assert read_here(tmp_path / "r", where="s = '1'")["v"].to_pylist() == [1]
    with pytest.raises(InvalidInputError, match="it is text"):
        read_here(tmp_path / "r", where="s = 1")


# --- what is fetched ---


def remove_chunk(path: Path, table: ChunkTable, row: int) -> None:
    """Remove the file of one chunk."""
    ref = table.ref(row)
    assert isinstance(ref, NativeRef)
    (path / "chunks" / str(ref.chunk_id)).unlink()


@pytest.fixture
def lone_chunk(tmp_path: Path) -> Path:
    """A repository of which all chunk files of `v` but one, (1, 2), are gone."""
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="w")
    v = group.create_array(
        "v", shape=(40, 60), chunks=(20, 20), dtype="f8", compressors=None, filters=None,
        dimension_names=("y", "x"),
    )  # fmt: skip
    v[...] = np.arange(2400.0).reshape(40, 60)
    for name, size in (("y", 40), ("x", 60)):
        labels = group.create_array(name, shape=(size,), dtype="f8", dimension_names=(name,))
        labels[...] = np.arange(size) * 1.0
    session.commit("v")
    table = session.state.table(session.state.array("/v"))
    assert len(table) == 6
    for row, coords in enumerate(table.coords.tolist()):
        if coords != [1, 2]:
            remove_chunk(tmp_path / "r", table, row)
    return tmp_path / "r"


@pytest.mark.parametrize(
    "options",
    [
        {"where": "y >= 20 AND x >= 40"},
        {"where": "y = 25 AND x BETWEEN 41 AND 50"},
        {"where": "(y > 20 AND x > 50) OR (y > 30 AND x = 45)"},
        {"where": "NOT (y < 20 OR x < 40)"},
        {"sel": "y=25, x=59"},
        {"isel": "y=20:40, x=-1"},
        {"isel": "y=[20, 39], x=40:60:7"},
    ],
)
@pytest.mark.parametrize("layout", ["cells", "lines", "chunks"])
def test_chunks_outside_are_never_fetched(lone_chunk: Path, options: Any, layout: str) -> None:  # noqa: ANN401
    found = read_here(lone_chunk, layout=layout, **options)
    assert found.num_rows > 0
    with pytest.raises(StorageError):
        read_here(lone_chunk, layout=layout)


def test_two_far_boxes_fetch_neither_of_the_other_corners(tmp_path: Path) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    v = zarr.create_array(
        session.store, name="v", shape=(40, 40), chunks=(20, 20), dtype="f8", compressors=None,
        filters=None, dimension_names=("y", "x"),
    )  # fmt: skip
    v[...] = 1.5
    session.commit("v")
    table = session.state.table(session.state.array("/v"))
    for row in (1, 2):
        remove_chunk(tmp_path / "r", table, row)
    condition = "(y < 20 AND x < 20) OR (y >= 20 AND x >= 20)"
    assert read_here(tmp_path / "r", where=condition).num_rows == 800


def test_unread_variables_are_not_fetched(lone_chunk: Path) -> None:
    assert read_here(lone_chunk, columns="x").num_rows == 2400


# --- what cannot be read ---


@pytest.mark.parametrize(
    ("condition", "place", "problem"),
    [
        ("lat >", 6, "a value is expected"),
        ("lat > 10 AND", 13, "a value is expected|name of a coordinate|expected"),
        ("lat > 10 lon", 10, "AND, OR or the end"),
        ("lat ! 10", 5, "no meaning"),
        ("(lat > 10", 10, r"\) is expected"),
        ("lat > 'x", 7, "never closed"),
        ("lat > ten", 7, "text and dates stand in quotes"),
        ("year(time) = 2024", 1, "functions have no place"),
        ("lat BETWEEN 1 OR 2", 15, "AND is expected"),
        ("lat IN 1", 8, r"\( is expected"),
        ("lat NOT 1", 9, "IN or BETWEEN"),
        ("latt > 1", 1, "did you mean 'lat'"),
        ("lat > 1 AND wind > 3", 13, "'wind' is a data variable"),
        ("time > 5", 1, "a date as text"),
        ("time > 'soon'", 1, "cannot be compared"),
        ("lat > 'north'", 1, "cannot be compared"),
        ("lat = TRUE", 1, "a number is expected"),
        ("10 < 20", 6, "the name of a coordinate is expected"),
        ("lat ( 1", 1, "functions have no place"),
        ("lat , 1", 5, "a comparison is expected"),
        ("time > DATE 5", 13, "a date in quotes is expected"),
        ("time > DATE '2024-01-31 12:00'", 13, "DATE has no time of day"),
        ("lat > -", 8, "a number is expected"),
        ("lat > - lon", 9, "a number is expected"),
        ("lat IS 1", 8, "NULL is expected"),
        ("lat = 10)", 9, "AND, OR or the end"),
        ("   ", 0, "must not be empty"),
        ("(" * 200 + "lat > 1" + ")" * 200, 101, "too deeply"),
    ],
)
def test_errors_point_at_the_place(
    weather_repo: Path, condition: str, place: int, problem: str
) -> None:
    with pytest.raises(InvalidInputError, match=problem) as caught:
        read_here(weather_repo, where=condition)
    if place:
        assert f"position {place}:" in str(caught.value)
        assert caught.value.kind == ErrorKind.INVALID_EXPRESSION


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"isel": "tim=0"}, "no dimension 'tim'"),
        ({"isel": "time=99"}, "'time': 99 is outside of a dimension 10 long"),
        ({"isel": "time=a"}, "a number"),
        ({"isel": "time=0::0"}, "step"),
        ({"isel": "0:3"}, "NAME=VALUE"),
        ({"sel": "lat=north"}, "no such label"),
        ({"sel": "lat=21"}, "no label 21"),
        ({"sel": "alt=1"}, "no coordinate 'alt'"),
    ],
)
def test_wrong_choices_are_named(weather_repo: Path, options: Any, problem: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidInputError, match=problem):
        read_here(weather_repo, **options)


def test_precedence_is_that_of_sql() -> None:
    found = parse_where("a = 1 OR b = 2 AND NOT c IN ('x')")
    assert isinstance(found, Any_)
    first, second = found.parts
    assert isinstance(first, Compare)
    assert isinstance(second, All)
    assert isinstance(second.parts[1], OneOf)
    assert second.parts[1].negated


@given(st.text(max_size=40) | st.text("ab() <=>!'\"`,.0123456789eANDORNOT ", max_size=60))
def test_any_text_is_a_condition_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(InvalidInputError):  # the only error that may come
        assert leaves(parse_where(text))


def test_few_rows_of_a_huge_array_come_at_once(tmp_path: Path) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(10**6, 10**5, 1000), chunks=(100, 100, 100), dtype="f4",
        fill_value=2, dimension_names=("t", "y", "x"),
    )  # fmt: skip
    session.commit("10^8 chunks")
    from frazil.spark.source import FrazilSource

    source = FrazilSource({"path": str(tmp_path / "r")})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    import pickle

    assert len(parts) <= 10_000
    assert len(pickle.dumps(parts[-1])) < 200
    assert len(pickle.dumps(reader)) < 20_000
    batch = next(iter(reader.read(parts[-1])))
    assert 0 < batch.num_rows <= 65_536
    chosen = read_here(tmp_path / "r", isel="t=999999, y=0:2, x=5")
    assert chosen.to_pylist() == [
        {"t": 999999, "y": 0, "x": 5, "v": 2.0},
        {"t": 999999, "y": 1, "x": 5, "v": 2.0},
    ]


def test_weather_is_as_described() -> None:
    assert (np.diff(weather().lat) < 0).all()
