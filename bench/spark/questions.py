"""Questions in SQL, the same text for the front door, Spark on Parquet and DataFusion."""

from __future__ import annotations

from dataclasses import dataclass

from bench.spark.data import BAND, DAY

MONTHLY = "FROM {table} GROUP BY 2 ORDER BY 2"
WEIGHTED = "sum({t2m} * cos(radians(lat))) / sum(cos(radians(lat)))"
HOT = 304
"""so warm are some cells of one in a hundred days"""
SELECT_1 = "Spark, SELECT 1"
"""what Spark needs for a query on nothing"""


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
    known: bool = False
    """whether it is asked where the chunks, of a day each, have statistics"""
    is_free: bool = False
    """whether no chunk of data need be read, so that it should take what a query on nothing does"""

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
    "spark-sql-count": Question(
        "count(*)", "SELECT count(*) FROM {table}", for_dask=False, is_free=True
    ),
    "spark-sql-extremes": Question(
        "min and max of coordinates",
        "SELECT max(lat), min(lat), max(lon), min(time), max(time) FROM {table}",
        for_dask=False,
        is_free=True,
    ),
    "spark-sql-limit": Question(
        "LIMIT 10",
        "SELECT time, lat, lon, t2m FROM {table} LIMIT 10",
        for_dask=False,
        counts_rows=True,
        is_free=True,
    ),
    "spark-sql-value": Question(
        "count of hot cells", f"SELECT count(*) FROM {{table}} WHERE t2m > {HOT}"
    ),
    "spark-sql-known": Question(
        "count of hot cells, with statistics of chunks",
        f"SELECT count(*) FROM {{table}} WHERE t2m > {HOT}",
        2,
        5,
        known=True,
    ),
}
