"""Views for the time of one query, which leave those of the user as they were."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMES: Final = threading.RLock()
"""The names of views belong to a session, which threads may share."""


@contextmanager
def temporary_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Let a query see frames under names; views that had these names are back afterwards."""
    with _NAMES:
        taken = {name.lower() for name in _temporary(spark)}
        before = {name: spark.table(f"`{name}`") for name in frames if name.lower() in taken}
        made: list[str] = []
        try:
            for name, frame in frames.items():
                frame.createOrReplaceTempView(f"`{name}`")
                made.append(name)
            yield
        finally:
            for name in made:
                if name in before:
                    before[name].createOrReplaceTempView(f"`{name}`")
                else:
                    spark.catalog.dropTempView(name)


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, where views are looked up when a query runs."""
    return ".connect." in type(spark).__module__


def _temporary(spark: SparkSession) -> list[str]:
    """The names of the temporary views of a session."""
    return [row["viewName"] for row in spark.sql("SHOW VIEWS").collect() if row["isTemporary"]]
