"""The pipeline on Spark: query, write, stream and maintain repositories with PySpark.

`spark.read.format("frazil").load("URL[@version]")` works without registration wherever Frazil
is installed. Names are loaded on first use, so that `import frazil.spark` needs no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from frazil.spark.jobs.blocks import map_blocks as map_blocks
    from frazil.spark.jobs.blocks import reduce_blocks as reduce_blocks
    from frazil.spark.jobs.copying import clone as clone
    from frazil.spark.jobs.copying import export as export
    from frazil.spark.jobs.copying import import_zarr as import_zarr
    from frazil.spark.jobs.copying import ingest as ingest
    from frazil.spark.jobs.copying import upgrade_older as upgrade_older
    from frazil.spark.jobs.rechunking import rechunk as rechunk
    from frazil.spark.jobs.value_diffs import diff_values as diff_values
    from frazil.spark.query.aggregate import aggregate as aggregate
    from frazil.spark.query.names import attach as attach
    from frazil.spark.query.run_query import register_views as register_views
    from frazil.spark.query.run_query import run_query as run_query
    from frazil.spark.query.sql import explain as explain
    from frazil.spark.query.sql import sql as sql
    from frazil.spark.reading.read import read as read
    from frazil.spark.sessions import session as session
    from frazil.spark.table import FrazilTable as FrazilTable
    from frazil.spark.upkeep.auditing import sql_check as sql_check
    from frazil.spark.upkeep.auditing import staged as staged
    from frazil.spark.upkeep.calls import register as register
    from frazil.spark.upkeep.fsck import fsck as fsck
    from frazil.spark.upkeep.fsck import verify as verify
    from frazil.spark.upkeep.garbage import collect_garbage as collect_garbage
    from frazil.spark.upkeep.garbage import find_garbage as find_garbage
    from frazil.spark.upkeep.space import compact_chunks as compact_chunks
    from frazil.spark.upkeep.space import storage as storage
    from frazil.spark.writing.write import write as write

_NAMES: Final = {
    "jobs.blocks": "map_blocks reduce_blocks",
    "jobs.copying": "clone export import_zarr ingest upgrade_older",
    "jobs.rechunking": "rechunk",
    "jobs.value_diffs": "diff_values",
    "query.aggregate": "aggregate",
    "query.names": "attach",
    "query.run_query": "register_views run_query",
    "query.sql": "explain sql",
    "reading.read": "read",
    "sessions": "session",
    "table": "FrazilTable",
    "upkeep.auditing": "sql_check staged",
    "upkeep.calls": "register",
    "upkeep.fsck": "fsck verify",
    "upkeep.garbage": "collect_garbage find_garbage",
    "upkeep.space": "compact_chunks storage",
    "writing.write": "write",
}
"""public names by the module they live in"""
_HOME: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'frazil.spark' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"frazil.spark.{_HOME[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
