"""The process that Spark forks its Python workers from, with what they need loaded already.

Spark starts workers anew for each plan, and a worker that begins by importing numpy, Arrow and
zarr spends more time on that than on planning. Forked from here it finds them in its memory.
"""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

from frazil.spark.worker import keep

LOADED: Final = (
    "pyspark.sql.datasource",
    "zarr.core.metadata.v3",
    "frazil.spark.source",
    "frazil.spark.tables",
    "frazil.spark.cells",
    "frazil.spark.chunk_rows",
)


def load() -> None:
    """Import what most workers need."""
    # Spark reads a port from the standard output, where no library may print.
    with contextlib.redirect_stdout(sys.stderr):
        for name in LOADED:
            import_module(name)
    keep()


if __name__ == "__main__":
    # Elsewhere the libraries of the system may not be used on the other side of a fork.
    if sys.platform == "linux":
        load()
    manager()
