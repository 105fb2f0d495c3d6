"""The pipeline on Spark: query, write, stream and maintain repositories with PySpark.

`spark.read.format("frazil").load("URL[@version]")` works without registration wherever Frazil
is installed. Names are loaded on first use, so that `import frazil.spark` needs no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from frazil.spark.auditing import sql_check as sql_check
    from frazil.spark.auditing import staged as staged
    from frazil.spark.blocks import map_blocks as map_blocks
    from frazil.spark.blocks import reduce_blocks as reduce_blocks
    from frazil.spark.calls import register as register
    from frazil.spark.checking import storage as storage
    from frazil.spark.checking import verify as verify
    from frazil.spark.cloning import clone as clone
    from frazil.spark.ingesting import ingest as ingest
    from frazil.spark.maintain import collect_garbage as collect_garbage
    from frazil.spark.maintain import find_garbage as find_garbage
    from frazil.spark.packing import compact_chunks as compact_chunks
    from frazil.spark.querying import register_views as register_views
    from frazil.spark.querying import run_query as run_query
    from frazil.spark.reading import read as read
    from frazil.spark.rechunking import rechunk as rechunk
    from frazil.spark.rule_checks import fsck as fsck
    from frazil.spark.sessions import session as session
    from frazil.spark.table import FrazilTable as FrazilTable
    from frazil.spark.upgrading import upgrade_older as upgrade_older
    from frazil.spark.value_diffs import diff_values as diff_values
    from frazil.spark.writing import write as write
    from frazil.spark.zarr_export import export as export
    from frazil.spark.zarr_import import import_zarr as import_zarr

_HOME: Final = {
    "diff_values": "frazil.spark.value_diffs",
    "sql_check": "frazil.spark.auditing",
    "staged": "frazil.spark.auditing",
    "reduce_blocks": "frazil.spark.blocks",
    "map_blocks": "frazil.spark.blocks",
    "register_views": "frazil.spark.querying",
    "run_query": "frazil.spark.querying",
    "compact_chunks": "frazil.spark.packing",
    "storage": "frazil.spark.checking",
    "verify": "frazil.spark.checking",
    "find_garbage": "frazil.spark.maintain",
    "fsck": "frazil.spark.rule_checks",
    "collect_garbage": "frazil.spark.maintain",
    "import_zarr": "frazil.spark.zarr_import",
    "export": "frazil.spark.zarr_export",
    "clone": "frazil.spark.cloning",
    "upgrade_older": "frazil.spark.upgrading",
    "FrazilTable": "frazil.spark.table",
    "ingest": "frazil.spark.ingesting",
    "read": "frazil.spark.reading",
    "rechunk": "frazil.spark.rechunking",
    "register": "frazil.spark.calls",
    "session": "frazil.spark.sessions",
    "write": "frazil.spark.writing",
}
"""public names by the module they live in"""

__all__ = [
    "FrazilTable",
    "clone",
    "collect_garbage",
    "compact_chunks",
    "diff_values",
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
