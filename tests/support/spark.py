"""Reading through the data source in this process: the same parts that Spark's workers run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import frazil
from frazil.spark.options.written import as_text, spelled
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.source import FrazilSource
from frazil.xarray import to_icechunk


def read_here(url: str | Path, schema: StructType | None = None, **options: Any) -> pa.Table:  # noqa: ANN401
    """What `spark.read.format("frazil")` gives, by planning, pickling and reading as Spark does."""
    given = {spelled(name): as_text(value) for name, value in options.items()}
    source = FrazilSource({"path": str(url), **given})
    wanted = source.schema() if schema is None else schema
    source = pickle.loads(pickle.dumps(source))
    reader = source.reader(wanted)
    sent = pickle.loads(pickle.dumps(reader))
    batches = [
        batch
        for partition in reader.partitions()
        for batch in sent.read(pickle.loads(pickle.dumps(partition)))
    ]
    expected = arrow_schema(wanted)
    for batch in batches:
        assert batch.schema == expected, "Spark refuses batches of any other schema"
    return pa.Table.from_batches(batches, expected)


def partitions_of(url: str | Path, **options: Any) -> list[Any]:  # noqa: ANN401
    """The partitions that a read would have."""
    given = {spelled(name): as_text(value) for name, value in options.items()}
    source = FrazilSource({"path": str(url), **given})
    return list(source.reader(source.schema()).partitions())


def frame(table: pa.Table, *index: str) -> pd.DataFrame:
    """A table as a frame in the order of some columns."""
    found: pd.DataFrame = table.to_pandas()
    return found.set_index(list(index)).sort_index() if index else found


def make_repository(path: Path, dataset: xr.Dataset, **encoding: Any) -> frazil.Repository:  # noqa: ANN401
    """A repository with one commit that holds a dataset."""
    repository = frazil.Repository.create(path)
    session = repository.writable_session("main")
    to_icechunk(dataset, session, encoding=encoding or None)
    session.commit("made")
    return repository


def weather(days: int = 10, *, lats: int = 7, lons: int = 5, seed: int = 0) -> xr.Dataset:
    """Daily fields on a grid with descending latitudes: packed, with gaps, and as they are."""
    rng = np.random.default_rng(seed)
    t2m = rng.normal(280, 10, (days, lats, lons)).round(1)
    t2m[0, 0, 0] = t2m[-1, -1, -1] = np.nan
    wind = rng.normal(0, 5, (days, lats, lons)).astype("f4")
    return xr.Dataset(
        {"t2m": (("time", "lat", "lon"), t2m), "wind": (("time", "lat", "lon"), wind)},
        coords={
            "time": np.datetime64("2024-01-30", "ns") + np.arange(days) * np.timedelta64(1, "D"),
            "lat": np.linspace(60, -60, lats),
            "lon": np.arange(lons) * 10.0,
        },
    )


WEATHER_ENCODING: dict[str, dict[str, Any]] = {
    "t2m": {
        "dtype": "i2",
        "scale_factor": 0.1,
        "add_offset": 250.0,
        "_FillValue": -32768,
        "chunks": (4, 3, 2),
    },
    "wind": {"chunks": (4, 3, 2)},
}


def rows_of(dataset: xr.Dataset, *, shuffled: int | None = None) -> pa.Table:
    """A row for each cell, as Spark would hand them over."""
    found = dataset.to_dataframe().reset_index()
    if shuffled is not None:
        found = found.sample(frac=1, random_state=shuffled)
    table = pa.Table.from_pandas(found, preserve_index=False)
    fields = [
        pa.field(f.name, pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


def sink_here(
    url: str | Path,
    schema: pa.Schema,
    mode: str = "append",
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """The writer that Spark would get, as it comes to tasks."""
    given = {spelled(name): as_text(value) for name, value in options.items()}
    source = FrazilSource({"path": str(url), **given})
    writer = source.writer(from_arrow_schema(schema), mode == "overwrite")
    return pickle.loads(pickle.dumps(writer))


def write_here(
    url: str | Path,
    *partitions: pa.Table,
    mode: str = "append",
    **options: Any,  # noqa: ANN401
) -> None:
    """What `df.write.format("frazil")` does, by planning, writing and committing as Spark does."""
    writer = sink_here(url, partitions[0].schema, mode, **options)
    messages = []
    for partition in partitions:
        task = pickle.loads(pickle.dumps(writer))
        batches = partition.to_batches(max_chunksize=97)
        messages.append(pickle.loads(pickle.dumps(task.write(iter(batches)))))
    writer.commit(messages)


def opened(url: str | Path, branch: str = "main", **options: Any) -> xr.Dataset:  # noqa: ANN401
    """What xarray reads of a repository now."""
    session = frazil.Repository.open(url).readonly_session(branch)
    found: xr.Dataset = xr.open_zarr(session.store, consolidated=False, **options).load()
    return found


def messages_of(url: str | Path, branch: str = "main") -> list[str]:
    """Messages of the commits of a branch, oldest first, without the first one."""
    found = frazil.Repository.open(url).ancestry(branch=branch)
    return [commit.message for commit in found][-2::-1]


def stream_sink_here(
    url: str | Path,
    schema: pa.Schema,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """The writer of a stream that Spark would get; it makes a new one for each step."""
    given = {spelled(name): as_text(value) for name, value in options.items()}
    source = FrazilSource({"path": str(url), **given})
    return pickle.loads(pickle.dumps(source.streamWriter(from_arrow_schema(schema), False)))


def stream_here(url: str | Path, **options: Any) -> Any:  # noqa: ANN401
    """The reader of a stream that Spark would get."""
    given = {spelled(name): as_text(value) for name, value in options.items()}
    source = FrazilSource({"path": str(url), **given})
    return source.streamReader(source.schema())


def read_stream(reader: Any, start: Any, end: Any) -> pa.Table:  # noqa: ANN401
    """The rows of a stream between two offsets, as Spark's tasks read them."""
    sent = pickle.loads(pickle.dumps(reader))
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    expected = arrow_schema(reader.schema)
    return pa.Table.from_batches([b for part in parts for b in sent.read(part)], expected)
