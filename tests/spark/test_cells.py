"""Cells as rows: every value where xarray and numpy have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
import zarr
from pyspark.sql import types as t

import frazil
from frazil.errors import InvalidInputError, NodeNotFoundError, NotFoundError
from frazil.spark.reading import cells
from frazil.spark.reading.cells import LabelCache, Regions, read_cells, slabs
from frazil.spark.reading.stored import read_variable
from frazil.spark.source import FrazilSource, PlanReader
from frazil.xarray.engine import FrazilBackend
from tests.support.spark import frame, make_repository, partitions_of, read_here, weather


def expected_frame(url: Path, **options: Any) -> pd.DataFrame:  # noqa: ANN401
    """The same data as xarray reads it."""
    found = xr.open_dataset(url, engine=FrazilBackend, **options)
    return found.to_dataframe().sort_index()


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(
        found[sorted(found.columns)],
        expected[sorted(expected.columns)],
        check_index_type=False,
        check_dtype=False,
    )


def make_arrays(
    path: Path, arrays: dict[str, tuple[npt.NDArray[Any], dict[str, Any]]]
) -> frazil.Repository:
    """A repository with plain arrays: values, and what zarr is told of them."""
    repository = frazil.Repository.create(path)
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    for name, (values, how) in arrays.items():
        made = root.create_array(name, shape=values.shape, dtype=values.dtype, **how)
        made[...] = values
    session.commit("arrays")
    return repository


def test_packed_fields_with_gaps_and_partial_chunks(weather_repo: Path) -> None:
    found = frame(read_here(weather_repo), "time", "lat", "lon")
    assert_same(found, expected_frame(weather_repo))
    assert found["t2m"].isna().sum() == 2


def test_gaps_are_null_and_not_nan(weather_repo: Path) -> None:
    assert read_here(weather_repo)["t2m"].null_count == 2


@pytest.mark.parametrize("split", ["1", "300", "2k", "1g"])
def test_every_cell_comes_once_whatever_the_partitions(weather_repo: Path, split: str) -> None:
    found = frame(read_here(weather_repo, split_size=split), "time", "lat", "lon")
    assert_same(found, expected_frame(weather_repo))


def test_partitions_follow_the_split_size(weather_repo: Path) -> None:
    chunks = 3 * 3 * 3
    assert len(partitions_of(weather_repo, split_size="1")) == chunks
    assert len(partitions_of(weather_repo, chunks_per_partition=5)) == 6
    assert len(partitions_of(weather_repo, split_size="1", max_partitions=4)) <= 4


def test_four_dimensions(tmp_path: Path) -> None:
    values = np.arange(3 * 4 * 5 * 6, dtype="i4").reshape(3, 4, 5, 6)
    data = xr.Dataset({"v": (("a", "b", "c", "d"), values)}, coords={"c": list("vwxyz")})
    make_repository(tmp_path / "r", data, v={"chunks": (2, 3, 2, 4)})
    found = frame(read_here(tmp_path / "r", split_size="100"), "a", "b", "c", "d")
    full = data.assign_coords({n: np.arange(data.sizes[n]) for n in "abd"})
    assert_same(found, full.to_dataframe().sort_index())


def test_one_dimension_without_coordinate_gets_positions(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 11)
    how = {"chunks": (4,), "dimension_names": ("x",)}
    make_arrays(tmp_path / "r", {"v": (values, how)})
    found = read_here(tmp_path / "r")
    assert found.column_names == ["x", "v"]
    assert found["x"].to_pylist() == list(range(11))
    np.testing.assert_array_equal(found["v"].to_numpy(), values)


def test_unnamed_dimensions_are_numbered(tmp_path: Path) -> None:
    make_arrays(tmp_path / "r", {"v": (np.arange(6).reshape(2, 3), {"chunks": (1, 2)})})
    found = read_here(tmp_path / "r")
    assert found.column_names == ["dim_0", "dim_1", "v"]
    assert frame(found, "dim_0", "dim_1")["v"].tolist() == list(range(6))


def test_a_scalar_is_one_row(tmp_path: Path) -> None:
    make_repository(tmp_path / "r", xr.Dataset({"x": ((), 4.5), "n": ((), 7)}))
    assert read_here(tmp_path / "r").to_pylist() == [{"n": 7, "x": 4.5}]


def test_an_empty_array_has_no_rows_but_columns(tmp_path: Path) -> None:
    how = {"chunks": (2, 2), "dimension_names": ("x", "y")}
    make_arrays(tmp_path / "r", {"v": (np.zeros((0, 3)), how)})
    found = read_here(tmp_path / "r")
    assert (found.num_rows, found.column_names) == (0, ["x", "y", "v"])


def test_missing_chunks_are_the_fill_value(tmp_path: Path) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    made = zarr.create_array(
        session.store,
        name="v",
        shape=(6, 6),
        chunks=(2, 2),
        dtype="f4",
        fill_value=9.5,
        dimension_names=("y", "x"),
    )
    made[2:4, 2:4] = 1
    session.commit("sparse")
    expected = np.full((6, 6), 9.5, "f4")
    expected[2:4, 2:4] = 1
    found = frame(read_here(tmp_path / "r"), "y", "x")["v"].to_numpy()
    np.testing.assert_array_equal(found.reshape(6, 6), expected)


def test_coordinates_that_repeat_keep_all_their_cells(tmp_path: Path) -> None:
    data = xr.Dataset(
        {"v": (("x",), [1, 2, 3, 4])}, coords={"x": ("x", [5.0, 5.0, np.nan, 1.0], {})}
    )
    make_repository(tmp_path / "r", data, x={"_FillValue": None}, v={"chunks": (3,)})
    found = read_here(tmp_path / "r").to_pandas()
    assert found["v"].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(found["x"], [5.0, 5.0, np.nan, 1.0])


def test_nan_without_fill_value_stays_nan(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("x",), np.array([1.0, np.nan, np.inf]))})
    make_repository(tmp_path / "r", data, v={"_FillValue": None})
    column = read_here(tmp_path / "r")["v"]
    assert column.null_count == 0
    np.testing.assert_array_equal(column.to_numpy(), [1.0, np.nan, np.inf])


DTYPES: dict[str, tuple[npt.NDArray[Any], str]] = {
    "i1": (np.array([-128, 0, 127], "i1"), "tinyint"),
    "i2": (np.array([-3, 0, 3], "i2"), "smallint"),
    "i4": (np.array([-3, 0, 3], "i4"), "int"),
    "i8": (np.array([-(2**60), 0, 3], "i8"), "bigint"),
    "u1": (np.array([0, 255, 3], "u1"), "smallint"),
    "u2": (np.array([0, 65535, 3], "u2"), "int"),
    "u4": (np.array([0, 2**32 - 1, 3], "u4"), "bigint"),
    "u8": (np.array([0, 2**64 - 1, 3], "u8"), "decimal(20,0)"),
    "f2": (np.array([0.5, 1, 2], "f2"), "float"),
    "f4": (np.array([0.5, 1, 2], "f4"), "float"),
    "f8": (np.array([0.5, 1, 2], "f8"), "double"),
    "bool": (np.array([True, False, True]), "boolean"),
    "c8": (np.array([1 + 2j, 0, -1j], "c8"), "struct<re:float,im:float>"),
    "c16": (np.array([1 + 2j, 0, -1j], "c16"), "struct<re:double,im:double>"),
    "M8": (np.array(["2024-01-01T00:00:00.5", "NaT", "1969-12-31"], "M8[ms]"), "timestamp_ntz"),
    "m8": (np.array([1, -5, 90_000], "m8[s]"), "interval day to second"),
    "U": (np.array(["a", "bç", ""], "U2"), "string"),
    "S": (np.array([b"a", b"xyz", b""], "S3"), "string"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_has_its_column(tmp_path: Path, name: str) -> None:
    values, kind = DTYPES[name]
    how = {"chunks": (2,), "dimension_names": ("x",)}
    make_arrays(tmp_path / "r", {"v": (values, how)})
    from frazil.spark.source import FrazilSource

    field = FrazilSource({"path": str(tmp_path / "r")}).schema()["v"]
    assert field.dataType.simpleString() == kind
    found = read_here(tmp_path / "r")["v"]
    match values.dtype.kind:
        case "c":
            expected: list[Any] = [{"re": v.real, "im": v.imag} for v in values.tolist()]
        case "S":
            expected = [v.decode() for v in values.tolist()]
        case "M" | "m":
            expected = [None if v is None else v for v in values.tolist()]
        case _:
            expected = values.tolist()
    assert found.to_pylist() == expected


def test_texts_of_any_length(tmp_path: Path) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    made = zarr.create_array(
        session.store, name="v", shape=(3,), chunks=(2,), dtype=str, dimension_names=("x",)
    )
    made[...] = np.array(["short", "", "a rather long text, ☃"], dtype=object)
    session.commit("texts")
    found = read_here(tmp_path / "r", where="x >= 1")
    assert found["v"].to_pylist() == ["", "a rather long text, ☃"]


def test_groups_by_option_and_in_the_url(tmp_path: Path) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    for number, group in enumerate(("a", "a/b")):
        data = xr.Dataset({"v": (("x",), np.arange(3) + 10 * number)})
        frazil.xarray.to_icechunk(data, session, group=group)
    session.commit("groups")
    assert read_here(tmp_path / "r", group="a")["v"].to_pylist() == [0, 1, 2]
    assert read_here(f"{tmp_path}/r#/a/b")["v"].to_pylist() == [10, 11, 12]
    assert read_here(f"{tmp_path}/r@main#/a/b/v")["v"].to_pylist() == [10, 11, 12]
    with pytest.raises(NodeNotFoundError, match=r"no group '/c'.*there are /, /a, /a/b"):
        read_here(tmp_path / "r", group="c")
    with pytest.raises(NotFoundError, match="no data variables"):
        read_here(tmp_path / "r")


def test_different_dimensions_are_an_error_that_lists_the_choices(tmp_path: Path) -> None:
    data = xr.Dataset({"a": (("x", "y"), np.ones((2, 3))), "b": (("x",), [5, 6]), "c": ((), 1)})
    make_repository(tmp_path / "r", data)
    with pytest.raises(InvalidInputError) as caught:
        read_here(tmp_path / "r")
    for choice in ("variables=a (x: 2, y: 3)", "variables=b (x: 2)", "variables=c (scalar)"):
        assert choice in str(caught.value)
    assert read_here(tmp_path / "r", variables="b")["b"].to_pylist() == [5, 6]


def test_transposed_variables_share_rows(tmp_path: Path) -> None:
    a = np.arange(6).reshape(2, 3)
    data = xr.Dataset({"a": (("x", "y"), a), "b": (("y", "x"), a.T * 10)})
    make_repository(tmp_path / "r", data)
    found = read_here(tmp_path / "r").to_pandas()
    assert (found["b"] == found["a"] * 10).all()


def test_bounds_and_labels_of_others_are_no_data(tmp_path: Path) -> None:
    data = xr.Dataset(
        {"v": (("x",), [1, 2]), "x_bnds": (("x", "n"), np.zeros((2, 2)))},
        coords={"x": ("x", [0.5, 1.5], {"bounds": "x_bnds"}), "name": ("x", ["p", "q"])},
    )
    make_repository(tmp_path / "r", data)
    assert read_here(tmp_path / "r").column_names == ["x", "v"]
    found = read_here(tmp_path / "r", columns="name, v", where="name = 'q'")
    assert found.to_pylist() == [{"name": "q", "v": 2}]


def test_labels_of_two_dimensions(tmp_path: Path) -> None:
    lat = np.add.outer(np.arange(4.0), np.arange(3.0) / 10)
    data = xr.Dataset(
        {"v": (("y", "x"), np.arange(12).reshape(4, 3))}, coords={"lat": (("y", "x"), lat)}
    )
    make_repository(tmp_path / "r", data, v={"chunks": (2, 2)})
    found = read_here(tmp_path / "r", columns=["lat", "v"], where="lat > 1.05 AND x < 2")
    expected = [
        (v, w)
        for v, w in zip(lat[:, :2].ravel(), np.arange(12).reshape(4, 3)[:, :2].ravel(), strict=True)
        if v > 1.05
    ]
    assert sorted(zip(found["lat"].to_pylist(), found["v"].to_pylist(), strict=True)) == sorted(
        expected
    )


def test_columns_in_the_order_asked_for(weather_repo: Path) -> None:
    found = read_here(weather_repo, columns="wind, lat")
    assert found.column_names == ["wind", "lat"]
    whole = read_here(weather_repo)
    assert sorted(found["wind"].to_pylist()) == sorted(whole["wind"].to_pylist())


def test_a_schema_chooses_columns_and_types(weather_repo: Path, dataset: xr.Dataset) -> None:
    wanted = t.StructType(
        [t.StructField("time", t.TimestampType()), t.StructField("wind", t.DoubleType())]
    )
    found = read_here(weather_repo, schema=wanted)
    assert found.num_rows == dataset["wind"].size
    assert str(found["time"].type) == "timestamp[us, tz=UTC]"
    np.testing.assert_array_equal(
        np.sort(found["wind"].to_numpy()), np.sort(dataset["wind"].to_numpy().ravel())
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tim": t.LongType()}, "no column 'tim'; did you mean 'time'"),
        ({"wind": t.BooleanType(), "time": t.BooleanType()}, "'time' holds timestamp"),
        ({"wind": t.ArrayType(t.LongType())}, "'wind' holds float"),
    ],
)
def test_a_schema_that_does_not_fit(
    weather_repo: Path, fields: dict[str, t.DataType], message: str
) -> None:
    wanted = t.StructType([t.StructField(name, kind) for name, kind in fields.items()])
    with pytest.raises(InvalidInputError, match=message):
        read_here(weather_repo, schema=wanted)


def test_unknown_variables_are_named_with_those_there_are(weather_repo: Path) -> None:
    with pytest.raises(NodeNotFoundError, match=r"no variable 'wnd'.*did you mean 'wind'.*t2m"):
        read_here(weather_repo, variables="wnd")


def test_chunks_of_different_sizes_go_together(tmp_path: Path) -> None:
    data = weather(9)
    make_repository(tmp_path / "r", data, t2m={"chunks": (2, 7, 5)}, wind={"chunks": (3, 2, 4)})
    found = frame(read_here(tmp_path / "r", split_size="1"), "time", "lat", "lon")
    assert_same(found, expected_frame(tmp_path / "r"))


def test_shards_are_read_in_parts(tmp_path: Path) -> None:
    values = np.arange(64 * 64, dtype="f8").reshape(64, 64)
    how = {"chunks": (8, 8), "shards": (32, 32), "dimension_names": ("y", "x")}
    make_arrays(tmp_path / "r", {"v": (values, how)})
    assert len(partitions_of(tmp_path / "r", split_size="4k")) == 8
    found = frame(read_here(tmp_path / "r", split_size="4k"), "y", "x")["v"].to_numpy()
    np.testing.assert_array_equal(found.reshape(64, 64), values)


def test_lines_hold_the_last_dimension(weather_repo: Path, dataset: xr.Dataset) -> None:
    found = read_here(weather_repo, layout="lines", variables="wind", split_size="1g")
    assert found.column_names == ["time", "lat", "lon", "wind"]
    exploded = found.to_pandas().explode(["lon", "wind"])
    cells = exploded.astype({"lon": "f8", "wind": "f4"}).set_index(["time", "lat", "lon"])
    assert_same(cells.sort_index(), dataset[["wind"]].to_dataframe().sort_index())


def test_lines_keep_only_chosen_cells(weather_repo: Path) -> None:
    condition = "lat > 0 AND (lon = 10 OR lon >= 30) AND (lon = 10 OR time > '2024-02-03')"
    lines = read_here(weather_repo, layout="lines", columns=["lon", "wind"], where=condition)
    cells = read_here(weather_repo, columns=["lon", "wind"], where=condition)
    exploded = [
        pair for row in lines.to_pylist() for pair in zip(row["lon"], row["wind"], strict=True)
    ]
    assert sorted(exploded) == sorted(tuple(row.values()) for row in cells.to_pylist())


def test_chunks_as_arrays_and_as_bytes(weather_repo: Path, dataset: xr.Dataset) -> None:
    wind = dataset["wind"].to_numpy()
    for values in ("array", "binary"):
        found = read_here(weather_repo, layout="chunks", variables="wind", values=values)
        assert found.num_rows == 27
        rebuilt = np.full(wind.shape, np.nan, "f4")
        for row in found.to_pylist():
            box = tuple(slice(o, o + n) for o, n in zip(row["offset"], row["shape"], strict=True))
            flat = (
                row["values"] if values == "array" else np.frombuffer(row["values"], row["dtype"])
            )
            rebuilt[box] = np.array(flat, "f4").reshape(row["shape"])
            assert row["chunk_index"] == [
                o // c for o, c in zip(row["offset"], (4, 3, 2), strict=True)
            ]
        np.testing.assert_array_equal(rebuilt, wind)


def test_chunks_are_cut_by_a_condition(weather_repo: Path) -> None:
    found = read_here(
        weather_repo, layout="chunks", variables="wind", isel="time=3:5, lat=0, lon=1"
    )
    shapes = {tuple(row["chunk_index"]): row["shape"] for row in found.to_pylist()}
    assert shapes == {(0, 0, 0): [1, 1, 1], (1, 0, 0): [1, 1, 1]}


def test_raw_values_without_decoding(weather_repo: Path) -> None:
    found = read_here(weather_repo, decode_cf="false", variables="t2m")
    assert str(found["t2m"].type) == "int16"
    assert found["t2m"].null_count == 0
    assert str(found["time"].type) == "int64"
    assert -32768 in found["t2m"].to_pylist()


def region_reader(path: Path, **options: str) -> Regions:
    source = FrazilSource({"path": str(path), **options})
    reader = source.reader(source.schema())
    assert isinstance(reader, PlanReader)
    assert isinstance(reader.plan, Regions)
    return reader.plan


@pytest.mark.parametrize("cells_at_once", [1 << 20, 7])
@pytest.mark.parametrize("options", [{}, {"where": "lat > 0"}, {"isel": "lon=[0, 3]"}])
def test_labels_kept_from_one_region_to_the_next_are_those_of_the_region(
    weather_repo: Path,
    options: dict[str, Any],
    cells_at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = region_reader(weather_repo, **options)
    monkeypatch.setattr(cells, "REGION_CELLS", cells_at_once)
    kept, seen = LabelCache(), 0
    for region in reader.grid.regions(0, reader.grid.total, 1):
        found = [*read_cells(reader.scan, region, kept=kept)]
        assert found == [*read_cells(reader.scan, region)]
        seen += sum(batch.num_rows for batch in found)
    assert seen == read_here(weather_repo, **options).num_rows


def test_labels_of_the_same_places_are_made_once(weather_repo: Path) -> None:
    reader, kept = region_reader(weather_repo), LabelCache()
    region = next(iter(reader.grid.regions(0, reader.grid.total, 1)))
    first, second = (next(read_cells(reader.scan, region, kept=kept)) for _ in range(2))
    for name in ("time", "lat", "lon"):
        places = {each.column(name).buffers()[1].address for each in (first, second)}
        assert len(places) == 1, name


def test_lines_stay_whole_however_long_they_are(
    weather_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_here(weather_repo, layout="lines", variables="wind", split_size="1g")
    monkeypatch.setattr(cells, "REGION_CELLS", 2)
    found = read_here(weather_repo, layout="lines", variables="wind", split_size="1g")
    assert found.to_pylist() == whole.to_pylist()
    assert {len(line) for line in found["lon"].to_pylist()} == {5}


@pytest.mark.parametrize(("most", "lines"), [(3, 1), (10, 2), (14, 2)])
def test_batches_of_lines_hold_no_more_cells_than_those_of_cells(
    weather_repo: Path, most: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = region_reader(weather_repo, layout="lines", variables="wind", **{"split-size": "1g"})
    monkeypatch.setattr(cells, "BATCH_ROWS", most)
    sizes = [batch.num_rows for part in reader.parts() for batch in reader.read(part)]
    assert sizes[0] == max(sizes) == lines
    assert sum(sizes) == 70


@pytest.mark.parametrize(
    ("limit", "sizes"), [(24, [24]), (23, [18, 6]), (12, [12, 12]), (7, [6] * 4), (5, [5, 1] * 4)]
)
def test_slabs_take_the_room_there_is_and_no_more(limit: int, sizes: list[int]) -> None:
    found = [[part.stop - part.start for part in slab] for slab in slabs((4, 6), limit)]
    assert [rows * columns for rows, columns in found] == sizes


def test_values_that_a_condition_has_looked_at_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(4).normal(0, 1, (12, 9)).astype("f4")
    how = {"chunks": (5, 4), "dimension_names": ["y", "x"]}
    make_arrays(tmp_path / "r", {"a": (values, how), "b": (values * 2, how)})
    seen: list[str] = []

    def counted(pinned: Any, variable: Any, decoder: Any, places: Any) -> Any:  # noqa: ANN401
        seen.append(f"{variable.name} {places}")
        return read_variable(pinned, variable, decoder, places)

    monkeypatch.setattr(cells, "read_variable", counted)
    found = read_here(tmp_path / "r", value_where="a > 0.5")
    assert sorted(found["a"].to_pylist()) == sorted(values[values > 0.5].tolist())
    assert sorted(found["b"].to_pylist()) == sorted((values[values > 0.5] * 2).tolist())
    assert len(set(seen)) == len(seen) == 18, "each of nine chunks of both"
