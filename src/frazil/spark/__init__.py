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
    from frazil.spark.jobs.ingesting import ingest as ingest
    from frazil.spark.jobs.rechunking import rechunk as rechunk
    from frazil.spark.jobs.upgrading import upgrade_older as upgrade_older
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
    from frazil.spark.upkeep.compaction import compact_chunks as compact_chunks
    from frazil.spark.upkeep.fsck import fsck as fsck
    from frazil.spark.upkeep.fsck import verify as verify
    from frazil.spark.upkeep.garbage import collect_garbage as collect_garbage
    from frazil.spark.upkeep.garbage import find_garbage as find_garbage
    from frazil.spark.upkeep.space import storage as storage
    from frazil.spark.writing.write import write as write

_HOME: Final = {
    "aggregate": "frazil.spark.query.aggregate",
    "attach": "frazil.spark.query.names",
    "explain": "frazil.spark.query.sql",
    "sql": "frazil.spark.query.sql",
    "diff_values": "frazil.spark.jobs.value_diffs",
    "sql_check": "frazil.spark.upkeep.auditing",
    "staged": "frazil.spark.upkeep.auditing",
    "reduce_blocks": "frazil.spark.jobs.blocks",
    "map_blocks": "frazil.spark.jobs.blocks",
    "register_views": "frazil.spark.query.run_query",
    "run_query": "frazil.spark.query.run_query",
    "compact_chunks": "frazil.spark.upkeep.compaction",
    "storage": "frazil.spark.upkeep.space",
    "verify": "frazil.spark.upkeep.fsck",
    "find_garbage": "frazil.spark.upkeep.garbage",
    "fsck": "frazil.spark.upkeep.fsck",
    "collect_garbage": "frazil.spark.upkeep.garbage",
    "import_zarr": "frazil.spark.jobs.copying",
    "export": "frazil.spark.jobs.copying",
    "clone": "frazil.spark.jobs.copying",
    "upgrade_older": "frazil.spark.jobs.upgrading",
    "FrazilTable": "frazil.spark.table",
    "ingest": "frazil.spark.jobs.ingesting",
    "read": "frazil.spark.reading.read",
    "rechunk": "frazil.spark.jobs.rechunking",
    "register": "frazil.spark.upkeep.calls",
    "session": "frazil.spark.sessions",
    "write": "frazil.spark.writing.write",
}
"""public names by the module they live in"""

__all__ = [
    "FrazilTable",
    "aggregate",
    "attach",
    "clone",
    "collect_garbage",
    "compact_chunks",
    "diff_values",
    "explain",
    "export",
    "find_garbage",
    "fsck",
    "import_zarr",
    "ingest",
    "map_blocks",
    "read",
    "rechunk",
    "reduce_blocks",
    "register",
    "register_views",
    "run_query",
    "session",
    "sql",
    "sql_check",
    "staged",
    "storage",
    "upgrade_older",
    "verify",
    "write",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'frazil.spark' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
