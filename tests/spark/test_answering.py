"""Aggregates that statistics tell are those of the values, and nothing is read for them."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.spark.source import FrazilSource
from tests.support.spark import make_repository, partitions_of, read_here

WORDS = ("count", "sum", "min", "max")
SHAPE = (6, 8)
ENCODINGS: dict[str, dict[str, Any]] = {
    "v": {"_FillValue": None},
    "gaps": {"_FillValue": -1.0},
    "packed": {"dtype": "i2", "scale_factor": 0.25, "add_offset": 3.0, "_FillValue": -9},
    "whole": {},
    "big": {},
    "small": {"dtype": "u1"},
}


def values_of(name: str, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Values with what is strange about each type: NaN, gaps, infinities, sums beyond 64 bits."""
    match name:
        case "v":
            found = rng.normal(0, 3, SHAPE).astype("f4")
            found[rng.random(SHAPE) < rng.choice([0, 0.1, 0.9])] = np.nan
            found[rng.random(SHAPE) < rng.choice([0, 0.05])] = np.inf
            found[rng.random(SHAPE) < rng.choice([0, 0.05])] = -np.inf
            return found
        case "gaps" | "packed":
            kept = (rng.integers(0, 60, SHAPE) * 0.25).astype("f8")
            kept[rng.random(SHAPE) < rng.choice([0, 0.3, 1])] = np.nan
            return kept
        case "whole":
            return rng.integers(-(2**31), 2**31, SHAPE).astype("i4")
        case "big":
            return rng.integers(2**62 * rng.integers(-1, 2), 2**62 + 5, SHAPE)
        case _:
            return rng.integers(0, 256, SHAPE).astype("u1")


def random_table(rng: np.random.Generator, folder: Path) -> tuple[Path, Path, list[str]]:
    """A table of which some chunks are known, the same one without statistics, and variables."""
    names = [*rng.permutation([*ENCODINGS])[: rng.integers(1, 4)]]
    data = xr.Dataset(
        {name: (("time", "lat"), values_of(name, rng)) for name in names},
        coords={"time": np.arange(SHAPE[0]), "lat": np.arange(SHAPE[1]) * 5.0},
    )
    chunks = (int(rng.choice([1, 1, 2, 3, 4, 6])), int(rng.choice([2, 3, 4, 8])))
    encoding = {}
    for name in names:
        own = chunks if rng.random() < 0.8 else (chunks[0], 8)
        encoding[name] = {**ENCODINGS[name], "chunks": own}
    if rng.random() < 0.4:
        data["flat"] = ("lat", rng.integers(-5, 5, SHAPE[1]).astype("i8"))
        encoding["flat"] = {"chunks": (chunks[1],)}
        names.append("flat")
    repo = make_repository(folder / "known", data, **encoding)
    repo.audit.analyze()
    if rng.random() < 0.5:
        session = repo.writable_session("main")
        at = int(rng.integers(0, SHAPE[0]))
        session.array(names[0])[at : at + 1] = session.array(names[0])[0:1]
        session.commit("changed since")
    shutil.copytree(folder / "known", folder / "plain")
    shutil.rmtree(folder / "plain" / "frazil" / "statistics")
    return folder / "known", folder / "plain", names


def joined(table: pa.Table, labels: list[str]) -> dict[Any, dict[str, Any]]:
    """Rows of parts put together, as a query does it."""
    found = table.to_pandas()
    groups = found.groupby(labels) if labels else [((), found)]
    return {
        key: {name: _one(rows[name], name) for name in rows.columns if name not in labels}
        for key, rows in groups
        if len(rows)
    }


def _one(values: pd.Series[Any], name: str) -> Any:  # noqa: ANN401  (a number or None)
    word, _, variable = name.partition("(")
    if variable == "v)" and word != "count":
        kept = values.to_numpy(dtype="f8")  # here NaN is a value
        pick = {"sum": np.add, "min": np.fmin, "max": np.maximum}[word]
        with np.errstate(invalid="ignore"):
            return pick.reduce(kept)
    there = [value for value in values if value is not None and value == value]
    if word == "count":
        return int(sum(there))
    if not there:
        return None
    return sum(there) if word == "sum" else min(there) if word == "min" else max(there)


def assert_same(one: dict[Any, Any], other: dict[Any, Any]) -> None:
    """Whole numbers and extremes are equal, sums of floats nearly."""
    assert one.keys() == other.keys()
    for key, row in one.items():
        for name, value in row.items():
            wanted = other[key][name]
            if isinstance(value, float):
                assert value == pytest.approx(wanted, rel=1e-9, abs=1e-9, nan_ok=True), name
            else:
                assert value == wanted, name


def questions(rng: np.random.Generator, names: list[str]) -> Iterator[dict[str, Any]]:
    """Aggregates over selections that take chunks whole, cut them, or leave nothing."""
    for _ in range(10):
        chosen = [*rng.permutation(names)[: rng.integers(1, len(names) + 1)]]
        options: dict[str, Any] = {
            "layout": "aggregates",
            "variables": chosen,
            "broadcast": "true",
            "aggregates": {
                name: [*rng.permutation(WORDS)[: rng.integers(1, 5)]] for name in chosen
            },
        }
        is_flat = chosen == ["flat"]
        labels = rng.choice(["", "time", "lat"])
        if labels and not (is_flat and labels == "time"):
            options["columns"] = labels
        dims = ["lat"] if is_flat else ["time", "lat"]
        if rng.random() < 0.6:
            ends = {dim: sorted(rng.integers(0, 9, 2).tolist()) for dim in dims}
            options["isel"] = ", ".join(f"{dim}={a}:{b}" for dim, (a, b) in ends.items())
        if rng.random() < 0.5:
            options["chunks_per_partition"] = int(rng.integers(1, 4))
        yield options


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_the_values(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    known, plain, names = random_table(rng, tmp_path)
    for options in questions(rng, names):
        labels = [options["columns"]] if "columns" in options else []
        found, wanted = (joined(read_here(each, **options), labels) for each in (known, plain))
        assert_same(found, wanted)


def test_such_questions_are_often_answered(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    known, _, names = random_table(rng, tmp_path)
    told = [
        any(isinstance(part.value, pa.RecordBatch) for part in partitions_of(known, **options))
        for options in questions(rng, names)
    ]
    assert any(told)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day in each chunk, analyzed; the chunks themselves are gone, but for those of labels."""
    days = np.datetime64("2024-01-01", "ns") + np.arange(10).astype("m8[D]")
    v = np.arange(10 * 40 * 40, dtype="f8").reshape(10, 40, 40)
    v[3, 0, 0] = np.nan
    n = np.random.default_rng(0).integers(0, 9, v.shape)
    n[:4, 0, 0] = -(2**62)
    data = xr.Dataset(
        {
            "v": (("time", "lat", "lon"), v),
            "n": (("time", "lat", "lon"), n),
        },
        coords={"time": days, "lat": np.arange(40.0), "lon": np.arange(40.0)},
    )
    path = tmp_path_factory.mktemp("answered") / "r"
    encoding = {name: {"chunks": (1, 40, 40), "_FillValue": None} for name in ("v", "n")}
    encoding["n"].pop("_FillValue")
    make_repository(path, data, **encoding).audit.analyze()
    for file in (path / "chunks").iterdir():
        if file.stat().st_size > 1000:
            file.unlink()
    return path


def test_nothing_is_read_for_what_statistics_tell(place: Path, spark: SparkSession) -> None:
    query = f"SELECT count(v), sum(v), avg(v), min(v), max(v), count(*) FROM frazil.`{place}`"
    told = frazil.spark.explain(query + " WHERE time < '2024-01-03'", spark)
    assert "to read: 0 of 10 chunks, 0 bytes as they are stored, 0 of 128,000 bytes" in told
    assert "answered from statistics: 2 chunks" in told
    first = frazil.spark.sql(query + " WHERE time < '2024-01-03'", spark).first()
    assert tuple(first or ()) == (3200, 3199 * 1600.0, 3199 / 2, 0.0, 3199.0, 3200)
    # NaN is greater than every number, and every sum with it is NaN.
    row = frazil.spark.sql(query, spark).first()
    assert row is not None
    assert (row[0], row[3], row[5]) == (16000, 0.0, 16000)
    assert np.isnan([row[1], row[2], row[4]]).all()


def test_labels_with_a_chunk_each_are_told_by_tasks_too(place: Path, spark: SparkSession) -> None:
    spark.conf.set("spark.frazil.sql.localBytes", "0")
    try:
        found = frazil.spark.sql(
            f"SELECT time, max(v) AS top FROM frazil.`{place}` WHERE day(time) > 4 GROUP BY time",
            spark,
        )
        assert sorted(row.top for row in found.collect()) == [1600.0 * n - 1 for n in range(5, 11)]
    finally:
        spark.conf.unset("spark.frazil.sql.localBytes")


def test_sums_beyond_64_bits_overflow_as_in_spark(place: Path, spark: SparkSession) -> None:
    assert frazil.spark.sql(f"SELECT min(n) FROM frazil.`{place}`", spark).first() == (-(2**62),)
    total = frazil.spark.sql(f"SELECT sum(n) FROM frazil.`{place}`", spark)
    with pytest.raises(Exception, match="OVERFLOW"):
        total.collect()


def test_a_chunk_that_is_cut_is_read(place: Path, spark: SparkSession) -> None:
    query = f"SELECT max(v) FROM frazil.`{place}` WHERE lat < 39 AND time < '2024-01-02'"
    assert "to read: 1 of 10 chunks" in frazil.spark.explain(query, spark)
    with pytest.raises(frazil.FrazilError):  # the chunk that it needs is gone
        frazil.spark.sql(query, spark)


def test_what_was_written_or_decoded_otherwise_since_is_read(tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("x",), np.arange(12, dtype="i4"))}, coords={"x": np.arange(12)})
    repo = make_repository(tmp_path / "r", data, v={"chunks": (4,)})
    repo.audit.analyze()
    options: dict[str, Any] = {
        "layout": "aggregates",
        "variables": "v",
        "aggregates": {"v": ["sum", "max"]},
    }

    def answer() -> tuple[int, float, float]:
        """Parts that are read, and what comes of all."""
        parts = partitions_of(tmp_path / "r", chunks_per_partition=1, **options)
        found = read_here(tmp_path / "r", **options).to_pandas()
        read = sum(isinstance(part.value, tuple) for part in parts)
        return read, found["sum(v)"].sum(), found["max(v)"].max()

    assert answer() == (0, 66, 11)
    session = repo.writable_session("main")
    session.array("v")[5] = 100
    session.commit("one cell")
    assert answer() == (1, 161, 100)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="v").attrs["scale_factor"] = 10.0
    session.commit("other units")
    assert answer() == (3, 1610.0, 1000.0)


@pytest.mark.parametrize("more", [{}, {"value_where": "v > 20"}])
def test_tasks_read_what_was_planned_whatever_became_of_statistics(
    tmp_path: Path, more: dict[str, str]
) -> None:
    data = xr.Dataset({"v": (("x",), np.arange(40.0))}, coords={"x": np.arange(40)})
    repo = make_repository(tmp_path / "r", data, v={"chunks": (4,)})
    repo.audit.analyze(path="/v")
    session = repo.writable_session("main")
    session.array("v")[30] = 100.0
    session.commit("unknown")
    options = {"layout": "aggregates", "variables": "v", "aggregates": "v=[sum]", **more}
    given = {name.replace("_", "-"): value for name, value in options.items()}
    source = FrazilSource({"path": str(tmp_path / "r"), **given})
    reader = source.reader(source.schema())
    sent = pickle.loads(pickle.dumps(reader))
    parts = reader.partitions()
    shutil.rmtree(tmp_path / "r" / "frazil" / "statistics")
    sums = [b["sum(v)"].to_pylist() for part in parts for b in sent.read(part)]
    wanted = sum(n for n in range(40) if n != 30 and (not more or n > 20)) + 100
    assert sum(sum(each) for each in sums) == wanted
