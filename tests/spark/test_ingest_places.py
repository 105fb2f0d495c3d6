"""Ingest on Spark from stores that every worker reaches by itself: S3's protocol, and the web."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil.spark
from frazil.ingestion.reports import IngestRefusedError, IngestStatus
from tests.support.archive import archive, decoded
from tests.support.fixtures import s3_server as s3_server
from tests.support.fixtures import web_server as web_server
from tests.support.servers import REGION, S3Server
from tests.support.web import WebServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
]


def options_of(server: S3Server) -> dict[str, Any]:
    """How to reach the S3 server."""
    return {
        "region": REGION,
        "endpoint_url": server.endpoint,
        "allow_http": True,
        "force_path_style": True,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }


def put_files(server: S3Server, folder: Path, prefix: str, count: int) -> None:
    """Put an archive of files below a prefix of the bucket."""
    bucket = server.client()
    for file in archive(folder, count):
        obstore.put(bucket, f"{prefix}/{file.name}", file)


def values_of(rows: Any, name: str) -> np.ndarray[Any, Any]:  # noqa: ANN401  (a DataFrame)
    """A variable of all rows, in the order of their coordinates."""
    ordered = rows.orderBy("time", "lat", "lon").select(name).toArrow()
    found: np.ndarray[Any, Any] = ordered.column(0).to_numpy()
    return found


def test_from_a_bucket_into_a_bucket(
    spark: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    options = options_of(s3_server)
    put_files(s3_server, tmp_path / "files", "spark-ingest/files", 3)
    root = f"s3://{s3_server.bucket}/spark-ingest"
    files, url = f"{root}/files/*.nc", f"{root}/repo"
    reach = {"source_options": options, "storage_options": options}
    report = frazil.spark.ingest(files, url, spark=spark, **reach)  # type: ignore[arg-type]
    assert (report.status, len(report.files)) == (IngestStatus.COMMITTED, 3)
    secret = s3_server.secret_access_key
    assert secret not in str(report.as_dict())
    given = {f"storage.{name}": value for name, value in options.items()} | {
        "authorize-virtual-chunk-access": ", ".join(report.containers),
        "virtual.access_key_id": s3_server.access_key_id,
        "virtual.secret_access_key": secret,
    }
    rows = frazil.spark.read(url, spark=spark, variables=["t2m"], **given)
    expected = decoded(0, 1, 2)
    np.testing.assert_array_equal(values_of(rows, "t2m"), expected.t2m.values.ravel())
    again = frazil.spark.ingest(files, url, spark=spark, **reach)  # type: ignore[arg-type]
    assert again.status == IngestStatus.UNCHANGED
    copied = frazil.spark.ingest(
        files,
        f"{url}@copies",
        spark=spark,
        group="copy",
        chunks={"time": 5},
        **reach,  # type: ignore[arg-type]
    )
    assert copied.native_chunks > 0
    plain = frazil.spark.read(
        f"{url}@copies#/copy",
        spark=spark,
        variables=["rain"],
        **{f"storage.{name}": value for name, value in options.items()},
    )
    found = values_of(plain, "rain")
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected.rain.values.ravel()))
    assert np.nanmax(np.abs(found - expected.rain.values.ravel())) < 1e-6


def test_from_the_web(spark: SparkSession, web_server: WebServer, tmp_path: Path) -> None:
    for file in archive(tmp_path / "files", 3):
        web_server.files[f"/data/{file.name}"] = file.read_bytes()
    files = [f"{web_server.url}/data/part-{number}.nc" for number in range(3)]
    url = str(tmp_path / "repo")
    report = frazil.spark.ingest(files, url, spark=spark)
    assert report.containers == (f"{web_server.url}/data/",)
    rows = frazil.spark.read(
        url,
        spark=spark,
        variables=["t2m"],
        authorize_virtual_chunk_access=", ".join(report.containers),
    )
    np.testing.assert_array_equal(values_of(rows, "t2m"), decoded(0, 1, 2).t2m.values.ravel())
    with pytest.raises(IngestRefusedError, match=r"part-9\.nc"):
        frazil.spark.ingest(
            [f"{web_server.url}/data/part-9.nc"], str(tmp_path / "none"), spark=spark
        )
    assert not (tmp_path / "none").exists()
    copy = str(tmp_path / "copy")
    frazil.spark.ingest(files, copy, spark=spark, mode="native")
    with xr.open_dataset(copy, engine="frazil") as found:
        xr.testing.assert_equal(found.load(), decoded(0, 1, 2))
