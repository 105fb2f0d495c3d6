"""Writing DataFrames, step by step as Spark's tasks and driver do it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr

import frazil
from frazil.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from frazil.formats.zarr_meta import array_document
from frazil.fsck import fsck
from tests.support.spark import (
    WEATHER_ENCODING,
    make_repository,
    messages_of,
    opened,
    read_here,
    rows_of,
    sink_here,
    weather,
    write_here,
)

DIMS = ["time", "lat", "lon"]
CHUNKS = {"time": 4, "lat": 3, "lon": 2}


def same(found: xr.Dataset, expected: xr.Dataset) -> None:
    """Compare values, whatever order labels are in."""
    for name, values in expected.data_vars.items():
        chosen = found[name].sel({dim: expected[dim] for dim in values.dims})
        np.testing.assert_allclose(chosen.values, values.values, rtol=1e-6)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with packed and plain variables."""
    path = tmp_path / "repo"
    make_repository(path, weather(), **WEATHER_ENCODING)
    return path


# --- making arrays ---


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_become_arrays_whatever_tasks_have_them(tmp_path: Path, parts: int) -> None:
    rows = rows_of(weather(), shuffled=1)
    cut = [rows.slice(n * 350 // parts, (n + 1) * 350 // parts - n * 350 // parts)
           for n in range(parts)]  # fmt: skip
    write_here(tmp_path / "r", *cut, dims=DIMS, chunks=CHUNKS, message="first")
    found = opened(tmp_path / "r")
    same(found, weather())
    assert found.t2m.dims == tuple(DIMS)
    assert found.t2m.encoding["chunks"] == (4, 3, 2)
    assert found.lat.values.tolist() == sorted(weather().lat.values)
    assert messages_of(tmp_path / "r") == ["first"]


def test_types_chunks_and_codecs_of_new_arrays_are_by_option(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3], "n": [1, None, 3], "v": [0.5, 1.5, None]})
    write_here(
        tmp_path / "r",
        rows,
        dims=["x"],
        dtype={"n": "int16"},
        fill_value={"n": -1},
        compressor="gzip:1",
        chunks={"x": 2},
        attributes='{"v": {"units": "K"}}',
    )
    store = frazil.Repository.open(tmp_path / "r").readonly_session("main").store
    n = zarr.open_array(store, path="n", mode="r")
    assert (n.dtype, n.chunks, n.fill_value) == (np.dtype("i2"), (2,), -1)
    assert [type(c).__name__ for c in n.compressors] == ["GzipCodec"]
    assert np.asarray(n[:]).tolist() == [1, -1, 3]
    assert opened(tmp_path / "r").v.attrs["units"] == "K"
    back = read_here(tmp_path / "r")
    assert back.column("n").to_pylist() == [1, None, 3]
    assert back.column("v").to_pylist() == [0.5, 1.5, None]


def test_texts_of_chunks_and_compressors_are_those_of_an_ingest(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3], "y": [1, 1, 1], "v": [0.5, 1.5, 2.5]})
    write_here(
        tmp_path / "r", rows, dims=["x", "y"], chunks={"x": -1, "y": 2}, compressor="blosc:lz4:7"
    )
    store = frazil.Repository.open(tmp_path / "r").readonly_session("main").store
    array = zarr.open_array(store, path="v", mode="r")
    assert array.chunks == (3, 2)
    compressor: Any = array.compressors[0]
    made = compressor.to_dict()
    assert (made["configuration"]["cname"], made["configuration"]["clevel"]) == ("lz4", 7)
    assert np.asarray(array[:, 0]).tolist() == [0.5, 1.5, 2.5]


def test_shards_and_codecs_as_json(tmp_path: Path) -> None:
    rows = pa.table({"x": list(range(10)), "v": np.arange(10.0)})
    write_here(tmp_path / "a", rows, dims=["x"], chunks={"x": 2}, shards={"x": 4})
    array = zarr.open_array(
        frazil.Repository.open(tmp_path / "a").readonly_session("main").store, path="v", mode="r"
    )
    assert (array.shards, array.chunks) == ((4,), (2,))
    assert np.asarray(array[:]).tolist() == list(range(10))
    codecs = '[{"name": "bytes", "configuration": {"endian": "big"}}]'
    write_here(tmp_path / "b", rows, dims=["x"], codecs=codecs)
    assert opened(tmp_path / "b").v.values.tolist() == list(range(10))


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 5, 1, 12, 30, 1, 5)
    rows = pa.table(
        {
            "station": ["b", "a", "ü"],
            "flag": [True, False, True],
            "small": pa.array([1, -2, 3], pa.int8()),
            "name": ["x", "", "long text"],
            "when": pa.array([moment, None, moment], pa.timestamp("us")),
            "day": pa.array([dt.date(2024, 1, 2)] * 3),
            "span": pa.array([dt.timedelta(seconds=1)] * 3, pa.duration("us")),
            "single": pa.array([1.5, None, float("nan")], pa.float32()),
        }
    )
    write_here(tmp_path / "r", rows, dims=["station"])
    back = {row["station"]: row for row in read_here(tmp_path / "r").to_pylist()}
    assert list(back) == ["a", "b", "ü"]
    assert back["b"]["when"] == moment
    assert back["a"]["when"] is None
    assert back["ü"]["day"] == dt.datetime(2024, 1, 2)
    assert [back[s]["flag"] for s in "abü"] == [False, True, True]
    assert [back[s]["small"] for s in "abü"] == [-2, 1, 3]
    assert [back[s]["name"] for s in "abü"] == ["", "x", "long text"]
    assert back["a"]["span"] == dt.timedelta(seconds=1)
    assert [back[s]["single"] for s in "ab"] == [None, 1.5]


def test_coordinates_may_be_given(tmp_path: Path) -> None:
    rows = pa.table({"time": pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us")), "v": [1.0]})
    coords = '{"time": ["2024-01-01", "2024-01-02", "2024-01-03"]}'
    write_here(tmp_path / "r", rows, dims=["time"], coords=coords)
    found = opened(tmp_path / "r")
    assert found.v.isnull().values.tolist() == [True, False, True]
    assert found.time.values[2] == np.datetime64("2024-01-03")
    late = pa.table({"time": pa.array([dt.datetime(2025, 1, 2)], pa.timestamp("us")), "v": [1.0]})
    with pytest.raises(InvalidInputError, match=r"2025-01-02.*none of the 3 labels"):
        write_here(tmp_path / "r", late)


def test_groups_are_made(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2], "v": [1.0, 2.0]})
    write_here(f"{tmp_path / 'r'}#/deep/down", rows, dims=["x"])
    assert opened(tmp_path / "r", group="deep/down").v.values.tolist() == [1.0, 2.0]


def test_statistics_are_kept_with_the_chunks_when_asked_for(tmp_path: Path) -> None:
    rows = rows_of(weather(), shuffled=1)
    half = rows.num_rows // 2
    for name, asked in {"asked": True, "not": False}.items():
        parts = rows.slice(0, half), rows.slice(half)
        write_here(tmp_path / name, *parts, dims=DIMS, chunks=CHUNKS, statistics=asked)
    known, plain = (frazil.Repository.open(tmp_path / name).audit for name in ("asked", "not"))
    paths = ("/t2m", "/wind")
    assert [known.analyze("main", path).chunks for path in paths] == [0, 0]
    assert all(plain.analyze("main", path).chunks for path in paths)


def test_no_rows_make_nothing_but_can_replace_everything(tmp_path: Path) -> None:
    none = pa.table({"x": pa.array([], pa.int64()), "v": pa.array([], pa.float64())})
    write_here(tmp_path / "r", none, dims=["x"])
    assert messages_of(tmp_path / "r") == []
    write_here(tmp_path / "r", pa.table({"x": [1], "v": [1.0]}), dims=["x"])
    write_here(tmp_path / "r", none, mode="overwrite")
    assert dict(opened(tmp_path / "r").sizes) == {"x": 0}


def test_texts_are_appended_in_order(tmp_path: Path) -> None:
    write_here(tmp_path / "r", pa.table({"s": ["b", "d"], "v": [1.0, 2.0]}), dims=["s"])
    new = pa.table({"s": ["c", "a", "d"], "v": [3.0, 4.0, 5.0]})
    write_here(tmp_path / "r", new, append_dim="s")
    found = opened(tmp_path / "r")
    assert dict(zip(found.s.values.tolist(), found.v.values.tolist(), strict=True)) == {
        "b": 1.0, "d": 5.0, "a": 4.0, "c": 3.0,
    }  # fmt: skip


# --- changing what is there ---


def test_cells_are_updated_in_their_encoding(repo: Path) -> None:
    new = weather(seed=5).isel(time=[1, 7], lat=[0, 6], lon=[4]).round(1)
    rows = rows_of(new, shuffled=3)
    write_here(repo, rows.slice(0, 2), rows.slice(2))
    expected = weather().copy(deep=True)
    expected.t2m[[1, 7], [0, 6], 4:] = new.t2m
    expected.wind[[1, 7], [0, 6], 4:] = new.wind
    found = opened(repo)
    np.testing.assert_allclose(found.t2m, expected.t2m, atol=0.051)
    np.testing.assert_array_equal(found.wind, expected.wind)
    assert found.t2m.encoding["dtype"] == np.dtype("i2")


def test_null_becomes_the_fill_value(repo: Path) -> None:
    rows = rows_of(weather().isel(time=[0], lat=[1], lon=[1]))
    empty = rows.set_column(3, "t2m", pa.array([None], pa.float64()))
    write_here(repo, empty)
    raw = opened(repo, mask_and_scale=False)
    assert raw.t2m.values[0, 1, 1] == -32768


def test_append_extends_one_dimension_and_fills_the_last_chunk(repo: Path) -> None:
    more = weather(13, seed=2)
    rows = rows_of(more.isel(time=slice(10, 13)), shuffled=4)
    write_here(repo, rows.slice(0, 40), rows.slice(40), append_dim="time")
    expected = xr.concat([weather(), more.isel(time=slice(10, 13))], "time")
    found = opened(repo)
    assert found.time.values.tolist() == expected.time.values.tolist()
    np.testing.assert_allclose(found.t2m, expected.t2m, atol=0.051)
    np.testing.assert_array_equal(found.wind, expected.wind)


def test_append_extends_what_is_not_written_too(tmp_path: Path) -> None:
    write_here(tmp_path / "r", rows_of(weather()), dims=DIMS, chunks=CHUNKS)
    more = weather(11).isel(time=[10])[["wind"]]
    write_here(tmp_path / "r", rows_of(more), append_dim="time")
    found = opened(tmp_path / "r")
    assert found.sizes["time"] == 11
    assert bool(found.t2m.isel(time=10).isnull().all())


def test_append_refuses_to_give_values_to_what_is_not_written(repo: Path) -> None:
    more = weather(11).isel(time=[10])[["wind"]]
    with pytest.raises(InvalidInputError, match=r"t2m.* would read as values; write it as well"):
        write_here(repo, rows_of(more), append_dim="time")


def test_cells_without_rows_are_missing(repo: Path) -> None:
    more = weather(13).isel(time=[12], lat=[3], lon=[2])
    write_here(repo, rows_of(more), append_dim="time")
    found = opened(repo)
    assert found.sizes["time"] == 11
    assert int(found.t2m.isel(time=10).notnull().sum()) == 1
    np.testing.assert_allclose(found.t2m[:10], weather().t2m, atol=0.051)
    write_here(repo, rows_of(more), mode="overwrite", dims=DIMS)
    assert int(opened(repo).t2m.notnull().sum()) == 1


def test_appended_labels_must_come_after(repo: Path) -> None:
    early = weather().assign_coords(time=weather().time - np.timedelta64(400, "D"))
    with pytest.raises(InvalidInputError, match="'time' has new labels that do not come after"):
        write_here(repo, rows_of(early.isel(time=[0])), append_dim="time")


def test_overwrite_replaces_the_table_and_keeps_encodings(repo: Path) -> None:
    new = weather(3, lats=4, seed=8)
    write_here(repo, rows_of(new), mode="overwrite")
    found = opened(repo)
    assert dict(found.sizes) == {"time": 3, "lat": 4, "lon": 5}
    np.testing.assert_allclose(
        found.t2m.sel(lat=new.lat), new.t2m.where(new.t2m.notnull()), atol=0.051
    )
    assert found.t2m.encoding["dtype"] == np.dtype("i2")


@pytest.mark.parametrize(
    "options",
    [{"replaceWhere": "time < '2024-02-02' AND lat > 0"}, {"region": "time=0:3, lat=0:3"}],
)
def test_a_region_is_replaced_and_nothing_else(repo: Path, options: dict[str, str]) -> None:
    new = weather(seed=9).isel(time=[1], lat=[0, 2])
    write_here(repo, rows_of(new), mode="overwrite", **options)
    expected = weather().copy(deep=True)
    for name in ("t2m", "wind"):
        expected[name][0:3, 0:3] = np.nan
        expected[name][1:2, [0, 2]] = new[name]
    found = opened(repo)
    np.testing.assert_allclose(found.t2m, expected.t2m, atol=0.051)
    np.testing.assert_array_equal(found.wind, expected.wind.where(expected.wind.notnull()))


@pytest.mark.parametrize(
    "options",
    [{"replaceWhere": "time < '2024-02-03' AND lat > 0"}, {"region": "time=0:4, lat=0:3"}],
)
def test_chunks_of_a_region_that_no_row_is_for_lose_their_values(
    repo: Path, options: dict[str, str]
) -> None:
    new = weather(seed=9).isel(time=[1], lat=[0, 2], lon=[0])
    write_here(repo, rows_of(new), mode="overwrite", **options)
    expected = weather().copy(deep=True)
    for name in ("t2m", "wind"):
        expected[name][0:4, 0:3] = np.nan
        expected[name][1:2, [0, 2], 0:1] = new[name]
    found = opened(repo)
    np.testing.assert_allclose(found.t2m, expected.t2m, atol=0.051)
    np.testing.assert_array_equal(found.wind, expected.wind)


def test_a_chunk_whose_cells_all_become_missing_is_no_longer_there(repo: Path) -> None:
    rows = rows_of(weather().isel(time=slice(0, 4), lat=slice(0, 3), lon=slice(0, 2)))
    for at, name in enumerate(rows.schema.names):
        if name in ("t2m", "wind"):
            nothing = pa.nulls(rows.num_rows, rows.schema.field(name).type)
            rows = rows.set_column(at, name, nothing)
    write_here(repo, rows)
    expected = weather().copy(deep=True)
    for name in ("t2m", "wind"):
        expected[name][0:4, 0:3, 0:2] = np.nan
    found = opened(repo)
    np.testing.assert_allclose(found.t2m, expected.t2m, atol=0.051)
    np.testing.assert_array_equal(found.wind, expected.wind)
    session = frazil.Repository.open(repo).readonly_session("main")
    assert str(session.chunk_type("/wind", (0, 0, 0))) == str(frazil.ChunkType.uninitialized)


@pytest.mark.parametrize("condition", ["height < 0", "time < '2024-02-02' OR height < 0"])
def test_a_region_is_not_chosen_by_what_lies_along_no_dimension(
    tmp_path: Path, condition: str
) -> None:
    """It would be the whole table, though nothing or little of it meets the condition."""
    made = weather().assign_coords(height=2.0)
    make_repository(tmp_path / "repo", made, **WEATHER_ENCODING)
    rows = rows_of(weather(seed=9).isel(time=[1]))
    with pytest.raises(InvalidInputError, match="conditions on one dimension each"):
        write_here(tmp_path / "repo", rows, mode="overwrite", replaceWhere=condition)
    assert messages_of(tmp_path / "repo") == ["made"]


def test_rows_outside_of_the_region_are_refused(repo: Path) -> None:
    rows = rows_of(weather().isel(time=[5]))
    with pytest.raises(InvalidInputError, match="outside of the region"):
        write_here(repo, rows, mode="overwrite", region="time=0:3")


def test_dimensions_without_labels_take_positions(tmp_path: Path) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(4, 3), dtype="i4", chunks=(2, 2), dimension_names=["y", "x"]
    )[:] = np.arange(12).reshape(4, 3)
    session.commit("made")
    write_here(tmp_path / "r", pa.table({"y": [3, 0], "x": [2, 0], "v": [-1, -2]}))
    expected = np.arange(12).reshape(4, 3)
    expected[3, 2], expected[0, 0] = -1, -2
    assert opened(tmp_path / "r").v.values.tolist() == expected.tolist()
    with pytest.raises(InvalidInputError, match="y = 4, which is none of the 4 positions"):
        write_here(tmp_path / "r", pa.table({"y": [4], "x": [2], "v": [1]}))


def test_scalars_are_one_row(tmp_path: Path) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session("main")
    zarr.create_array(session.store, name="v", shape=(), dtype="f8")[...] = 1.0
    session.commit("made")
    write_here(tmp_path / "r", pa.table({"v": [2.5]}))
    assert float(opened(tmp_path / "r").v) == 2.5


def test_new_variables_need_to_be_wanted(repo: Path) -> None:
    new = weather().rename(wind="gust")
    with pytest.raises(InvalidInputError, match=r"no variable 'gust'.*merge-schema=true"):
        write_here(repo, rows_of(new))
    write_here(repo, rows_of(new), merge_schema=True, chunks=CHUNKS)
    np.testing.assert_array_equal(opened(repo).gust, weather().wind)


# --- duplicates ---


@pytest.mark.parametrize("together", [True, False])
def test_two_rows_for_a_cell_are_refused_or_one_is_taken(repo: Path, together: bool) -> None:
    rows = rows_of(weather().isel(time=[0]))
    one = rows.slice(3, 1)
    other = one.set_column(4, "wind", pa.array([99.0], pa.float32()))
    parts = [pa.concat_tables([rows, other])] if together else [rows, other]
    with pytest.raises(InvalidInputError, match="duplicates=first"):
        write_here(repo, *parts)
    assert messages_of(repo) == ["made"]
    write_here(repo, *parts, duplicates="first")
    assert 99.0 not in opened(repo).wind.values
    write_here(repo, *parts, duplicates="last")
    assert (opened(repo).wind.values == 99.0).sum() == 1


def test_whole_chunks_in_two_tasks_are_duplicates(repo: Path) -> None:
    rows = rows_of(weather())
    with pytest.raises(InvalidInputError, match="several tasks have rows for the same cells"):
        write_here(repo, rows, rows)


# --- bad input ---


def table(**columns: Any) -> pa.Table:  # noqa: ANN401
    rows = rows_of(weather().isel(time=[0], lat=[1], lon=[1]))
    for name, values in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, values)
    return rows


@pytest.mark.parametrize(
    ("rows", "options", "problem"),
    [
        (table(lat=pa.array([None], pa.float64())), {}, "column 'lat' has NULL"),
        (table(lat=pa.array([12.5])), {}, "lat = 12.5, which is none of the 7 labels"),
        (table(lat=pa.array([12.5])), {}, "extend it with append-dim=lat"),
        (
            table(lat=pa.array([12.5])),
            {"append_dim": "time"},
            "only 'time' grows, and all labels of 'lat' must be there .* option 'coords'",
        ),
        (table(t2m=pa.array(["warm"])), {}, "'t2m' holds string, which does not fit"),
        (table(t2m=pa.array([1e9])), {}, "'t2m' has the value 1000000000.*int16"),
        (table(time=pa.array(["2024"])), {}, "'time' holds string, which does not fit"),
        (
            table(time=pa.array([dt.datetime(2024, 1, 30, 1)], pa.timestamp("us"))),
            {},
            "time 2024-01-30T01:00:00.000000, which is no whole number",
        ),
        (table().drop(["lon"]), {}, "no column for the dimension 'lon'"),
        (table().rename_columns(["time", "lat", "lon", "t3m", "wnd"]), {}, "option 'dims'"),
        (table(), {"append_dim": "tim"}, "no dimension; did you mean 'time'"),
        (table(), {"region": "time=0"}, "needs mode overwrite"),
        (table(), {"chunkz": "1"}, "unknown option 'chunkz'; did you mean 'chunks'"),
        (table(), {"txnAppId": "a"}, "go together"),
        (table(), {"tag": "v1"}, "has no meaning here"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_committed(
    repo: Path, rows: pa.Table, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        write_here(repo, rows, **options)
    assert messages_of(repo) == ["made"]


def test_existing_variables_can_be_refused_or_left_alone(repo: Path) -> None:
    rows = rows_of(weather() * 2)
    with pytest.raises(AlreadyExistsError, match="t2m, wind"):
        write_here(repo, rows, ifExists="error")
    write_here(repo, rows, ifExists="ignore")
    assert messages_of(repo) == ["made"]


def test_a_missing_branch_is_an_error(repo: Path) -> None:
    with pytest.raises(NotFoundError, match="dev"):
        write_here(repo, rows_of(weather()), branch="dev")


def test_null_needs_something_to_stand_for_it(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2], "n": [1, None]})
    with pytest.raises(InvalidInputError, match=r"'n' has NULLs.*fill-value"):
        write_here(tmp_path / "r", rows, dims=["x"])
    assert messages_of(tmp_path / "r") == []


# --- commits ---


def test_one_commit_with_message_and_properties_on_a_branch(repo: Path) -> None:
    repository = frazil.Repository.open(repo)
    repository.create_branch("audit", repository.lookup_branch("main"))
    options = {"snapshot-property.author": "me", "message": "checked"}
    write_here(repo, rows_of(weather() * 2), branch="audit", **options)
    assert messages_of(repo) == ["made"]
    newest = next(iter(repository.ancestry(branch="audit")))
    assert (newest.message, newest.metadata["author"]) == ("checked", "me")
    assert newest.metadata["chunks"] == 54


def test_a_series_is_written_once(repo: Path) -> None:
    rows = rows_of(weather())
    for version, factor in ((1, 2), (1, 3), (0, 4), (2, 5)):
        scaled = rows_of(weather() * factor)
        write_here(repo, scaled, txnAppId="job", txnVersion=version, message=f"v{version}")
    assert messages_of(repo) == ["made", "v1", "v2"]
    np.testing.assert_array_equal(opened(repo).wind, weather().wind * 5)
    write_here(repo, rows, txnAppId="other", txnVersion=0, message="other")
    assert messages_of(repo)[-1] == "other"


def test_a_series_is_written_once_even_by_two_at_a_time(repo: Path) -> None:
    rows = rows_of(weather() * 2)
    writers = [sink_here(repo, rows.schema, txnAppId="job", txnVersion=7) for _ in range(2)]
    messages = [[writer.write(iter(rows.to_batches()))] for writer in writers]
    for writer, told in zip(writers, messages, strict=True):
        writer.commit(told)
    assert len(messages_of(repo)) == 2


def test_others_commits_are_rebased_upon_unless_they_touch_the_same(repo: Path) -> None:
    rows = rows_of(weather().isel(time=slice(0, 4)) * 2)
    far = rows_of(weather().isel(time=slice(8, 10)) * 3)
    writer = sink_here(repo, rows.schema)
    told = [writer.write(iter(rows.to_batches()))]
    write_here(repo, far, message="between")
    writer.commit(told)
    found = opened(repo)
    np.testing.assert_array_equal(found.wind[8:], weather().wind[8:] * 3)
    np.testing.assert_array_equal(found.wind[:4], weather().wind[:4] * 2)
    for policy, wins in (("detect", 3), ("none", 3), ("theirs", 3), ("ours", 2)):
        writer = sink_here(repo, rows.schema, rebase=policy)
        told = [writer.write(iter(rows.to_batches()))]
        write_here(repo, rows_of(weather().isel(time=slice(0, 4)) * 3))
        if policy in ("detect", "none"):
            with pytest.raises(ConflictError):
                writer.commit(told)
        else:
            writer.commit(told)
        np.testing.assert_array_equal(opened(repo).wind[:4], weather().wind[:4] * wins)


# --- what is killed ---


def test_repeated_tasks_count_once(repo: Path) -> None:
    rows = rows_of(weather() * 2)
    writer = sink_here(repo, rows.schema)
    batches = rows.to_batches()
    writer.write(iter(batches))  # a speculative copy whose message is never seen
    writer.commit([writer.write(iter(batches))])
    assert len(messages_of(repo)) == 2
    np.testing.assert_array_equal(opened(repo).wind, weather().wind * 2)


def test_a_job_that_is_not_committed_leaves_nothing_but_garbage(repo: Path) -> None:
    before = frazil.Repository.open(repo).lookup_branch("main")
    rows = rows_of(weather() * 2)
    writer = sink_here(repo, rows.schema)
    message = writer.write(iter(rows.to_batches()))
    writer.abort([message, None])
    assert frazil.Repository.open(repo).lookup_branch("main") == before
    same(opened(repo), opened(repo))
    np.testing.assert_array_equal(opened(repo).wind, weather().wind)


def test_many_rows_are_set_aside_in_objects_that_go_after_the_commit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pa.table({"x": np.arange(60_000), "v": rng.normal(size=60_000)})
    writer = sink_here(tmp_path / "r", rows.schema, dims=["x"])
    told = [writer.write(iter(rows.slice(n * 30_000, 30_000).to_batches())) for n in range(2)]
    held = set((tmp_path / "r" / "chunks").iterdir())
    assert len(held) == 2
    writer.commit(told)
    assert not held & set((tmp_path / "r" / "chunks").iterdir())
    np.testing.assert_array_equal(opened(tmp_path / "r").v, rows.column("v"))


@pytest.mark.parametrize("shards", [None, {"x": 4}])
def test_chunks_of_new_arrays_may_end_in_a_checksum(
    tmp_path: Path, shards: dict[str, int] | None
) -> None:
    rows = pa.table({"x": [*range(6)], "v": [0.5 * n for n in range(6)]})
    more: dict[str, Any] = {} if shards is None else {"shards": shards}
    write_here(tmp_path / "r", rows, dims=["x"], chunks={"x": 2}, checksum=True, **more)
    state = frazil.Repository.open(tmp_path / "r").readonly_session("main").state
    codecs = array_document(state.array("/v"))["codecs"]
    inner = codecs if shards is None else codecs[0]["configuration"]["codecs"]
    assert inner[-1] == {"name": "crc32c"}
    store = frazil.Repository.open(tmp_path / "r").readonly_session("main").store
    assert np.asarray(zarr.open_array(store, path="v", mode="r")[:]).tolist() == [
        0.5 * n for n in range(6)
    ]
    assert fsck(frazil.Repository.open(tmp_path / "r"), deep=True).unchecked == {}


# --- like others ---


def test_new_arrays_can_be_like_those_of_another_repository(tmp_path: Path) -> None:
    model = weather()
    model.lat.attrs = {"units": "degrees_north", "standard_name": "latitude"}
    model.t2m.attrs = {"units": "K", "long_name": "air temperature"}
    hours = {"units": "hours since 1900-01-01", "calendar": "standard", "dtype": "i4"}
    make_repository(tmp_path / "model", model, **WEATHER_ENCODING, time=hours)
    rows = rows_of(weather(3))
    write_here(tmp_path / "r", rows, dims=DIMS, like=str(tmp_path / "model"))
    found = opened(tmp_path / "r")
    same(found, weather(3))
    assert found.lat.attrs == model.lat.attrs
    assert found.t2m.attrs == model.t2m.attrs
    assert found.t2m.encoding["chunks"] == (4, 3, 2)
    for name, key in (
        ("time", "units"),
        ("time", "dtype"),
        ("t2m", "dtype"),
        ("t2m", "scale_factor"),
        ("t2m", "_FillValue"),
    ):
        assert found[name].encoding[key] == opened(tmp_path / "model")[name].encoding[key], key
    session = frazil.Repository.open(tmp_path / "r").readonly_session("main")
    stored = zarr.open_group(session.store, mode="r")["time"]
    assert stored.attrs["units"] == "hours since 1900-01-01"


def test_likeness_is_for_what_is_not_told(tmp_path: Path) -> None:
    make_repository(tmp_path / "model", weather(), **WEATHER_ENCODING)
    rows = rows_of(weather(3)).append_column("more", pa.array(np.arange(105)))
    write_here(
        tmp_path / "r",
        rows,
        dims=DIMS,
        like=f"{tmp_path / 'model'}#/t2m",
        chunks={"time": 2, "lat": 7, "lon": 5},
        dtype={"t2m": "float32"},
        attributes='{"t2m": {"scale_factor": 1.0, "add_offset": 0.0, "_FillValue": -1.0}}',
    )
    found = opened(tmp_path / "r")
    same(found, weather(3))
    assert found.t2m.encoding["chunks"] == (2, 7, 5)
    assert found.t2m.encoding["dtype"] == "f4"
    assert found.more.dtype == "i8"
    assert found.wind.encoding["chunks"] == (2, 7, 5)
    with pytest.raises(NotFoundError):
        write_here(tmp_path / "s", rows, dims=DIMS, like=f"{tmp_path / 'model'}#/nope")
