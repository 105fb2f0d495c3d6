"""Questions in SQL, the same text for the front door, Spark on Parquet and DataFusion."""

from __future__ import annotations

from dataclasses import dataclass

from bench.spark.data import BAND, DAY

MONTHLY = "FROM {table} GROUP BY 2 ORDER BY 2"
WEIGHTED = "sum({t2m} * cos(radians(lat))) / sum(cos(radians(lat)))"
WARM = 287


@dataclass(frozen=True, slots=True)
class Question:
    """A query whose answer is the first value of its first row, or the number of its rows."""

    title: str
    text: str
    must: float | None = None
    goal: float | None = None
    """how much faster than Spark on Parquet"""
    for_dask: bool = True
    counts_rows: bool = False

    def query(self, table: str, t2m: str = "t2m") -> str:
        """The text for a table; what adds up in single precision is given a wider value."""
        return self.text.format(table=table, t2m=t2m)


QUESTIONS = {
    "spark-sql-mean": Question("mean", "SELECT avg({t2m}) FROM {table}", 1.2, 2),
    "spark-sql-month": Question(
        "mean by month", f"SELECT avg({{t2m}}), date_trunc('month', time) {MONTHLY}", 3.5, 6
    ),
    "spark-sql-weighted": Question(
        "area-weighted mean by month",
        f"SELECT {WEIGHTED}, date_trunc('month', time) {MONTHLY}",
        3.5,
        6,
    ),
    "spark-sql-season": Question(
        "zonal mean of a season",
        "SELECT avg({t2m}), lat FROM {table} WHERE date_part('month', time) IN (3, 4, 5) "
        "GROUP BY 2 ORDER BY 2",
    ),
    "spark-sql-band": Question(
        "mean of a band of a day",
        f"SELECT avg({{t2m}}) FROM {{table}} WHERE time = '{DAY}' "
        f"AND lat BETWEEN {BAND[0]} AND {BAND[1]}",
        5,
        20,
    ),
    "spark-sql-count": Question("count(*)", "SELECT count(*) FROM {table}", for_dask=False),
    "spark-sql-limit": Question(
        "LIMIT 10", "SELECT time, lat, lon, t2m FROM {table} LIMIT 10", for_dask=False,
        counts_rows=True,
    ),
    "spark-sql-value": Question(
        "count of warm cells", f"SELECT count(*) FROM {{table}} WHERE t2m > {WARM}"
    ),
}  # fmt: skip
