"""The pipeline on Spark: query, write, stream and maintain repositories with PySpark.

`spark.read.format("frazil").load("URL[@version]")` works without registration wherever Frazil
is installed. Names are loaded on first use, so that `import frazil.spark` needs no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from frazil.spark.calls import register as register
    from frazil.spark.reading import read as read
    from frazil.spark.sessions import session as session
    from frazil.spark.table import FrazilTable as FrazilTable

_HOME: Final = {
    "FrazilTable": "frazil.spark.table",
    "read": "frazil.spark.reading",
    "register": "frazil.spark.calls",
    "session": "frazil.spark.sessions",
}
"""public names by the module they live in"""

__all__ = ["FrazilTable", "read", "register", "session"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'frazil.spark' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
