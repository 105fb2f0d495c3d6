"""The work as others do it; runs in an environment of theirs, without Frazil or Spark.

`python -m bench.spark.peers FOLDER` answers requests, one JSON text per line.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.spark.data import BAND, DAY, new_place
from bench.spark.questions import HOT, QUESTIONS
from bench.spark.serving import serve


class Peers:
    """Everything opened anew for each piece of work, but the dask cluster."""

    def __init__(self, folder: Path) -> None:
        from distributed import Client

        self.folder = folder
        self.client = Client(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
        )

    def open(self) -> Any:
        """The repository through the official package."""
        import icechunk
        import xarray

        storage = icechunk.local_filesystem_storage(str(self.folder / "repository"))
        session = icechunk.Repository.open(storage).readonly_session("main")
        return xarray.open_zarr(session.store, consolidated=False, chunks={})

    def run(self, case: str, who: str) -> Any:
        """Do the work of a case once."""
        if case == "spark-ingest":
            return self.ingest()
        return self.by_sql(case) if who == "xarray-sql" else self.by_dask(case)

    def by_dask(self, case: str) -> float:
        """By blocks on two processes."""
        t2m = self.open()["t2m"].astype("f8")
        if case in ("spark-sql-value", "spark-sql-known"):
            return float((t2m > HOT).sum().compute())
        if case == "spark-sql-season":
            chosen = t2m.sel(time=t2m["time.month"].isin([3, 4, 5]))
            return float(chosen.mean(("time", "lon")).compute()[0])
        if case == "spark-sql-weighted":
            weights = np.cos(np.deg2rad(t2m["lat"]))
            days = t2m.weighted(weights).mean(("lat", "lon"))
            return float(days.groupby("time.month").mean().compute().sel(month=1))
        if case in ("spark-month", "spark-sql-month"):
            months = t2m.groupby("time.month").mean(...).compute()
            return float(months.sel(month=1))
        if case in ("spark-where", "spark-sql-band"):
            t2m = t2m.sel(time=DAY, lat=slice(*BAND))
        return float(t2m.mean().compute())

    def by_sql(self, case: str) -> float:
        """By DataFusion."""
        from xarray_sql import XarrayContext  # type: ignore[import-not-found]

        context = XarrayContext()
        context.from_dataset("fields", self.open(), chunks={"time": 10})
        if case in QUESTIONS:
            question = QUESTIONS[case]
            rows = context.sql(question.query("fields", "CAST(t2m AS DOUBLE)")).to_pandas()
            return float(len(rows) if question.counts_rows else rows.iloc[0, 0])
        if case == "spark-month":
            found = context.sql(
                "SELECT date_trunc('month', time) AS month, avg(CAST(t2m AS DOUBLE)) AS mean "
                "FROM fields GROUP BY 1 ORDER BY 1"
            ).to_pandas()
            return float(found["mean"].iloc[0])
        condition = (
            f"WHERE time = '{DAY}' AND lat BETWEEN {BAND[0]} AND {BAND[1]}"
            if case == "spark-where"
            else ""
        )
        query = f"SELECT avg(CAST(t2m AS DOUBLE)) AS mean FROM fields {condition}"
        return float(context.sql(query).to_pandas()["mean"].iloc[0])

    def ingest(self) -> int:
        """All files by VirtualiZarr, in one commit by the official package."""
        import icechunk
        from obspec_utils.registry import ObjectStoreRegistry
        from obstore.store import LocalStore
        from virtualizarr import open_virtual_mfdataset
        from virtualizarr.parsers import HDFParser

        files = sorted((self.folder / "files").glob("*.nc"))
        found = open_virtual_mfdataset(
            [file.as_uri() for file in files],
            parser=HDFParser(),
            registry=ObjectStoreRegistry({"file://": LocalStore()}),
            parallel="dask",
            combine="nested",
            concat_dim="time",
            loadable_variables=["time", "lat", "lon"],
            compat="override",
            coords="minimal",
            data_vars="minimal",
        )
        config = icechunk.RepositoryConfig.default()
        prefix = f"{(self.folder / 'files').as_uri()}/"
        store = icechunk.local_filesystem_store(str(self.folder / "files"))
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
        repository = icechunk.Repository.create(
            icechunk.local_filesystem_storage(new_place(self.folder)), config
        )
        session = repository.writable_session("main")
        found.vz.to_icechunk(session.store)
        session.commit("files")
        return len(files)


def prepare() -> tuple[Callable[[str, str], Any], Callable[[], Any]]:
    """Start the cluster."""
    warnings.simplefilter("ignore")
    peers = Peers(Path(sys.argv[1]))
    return peers.run, peers.client.close


if __name__ == "__main__":
    serve(prepare)
