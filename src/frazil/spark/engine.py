"""Which runner a job gets: threads of this process for small work, Spark for more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from frazil.errors import SessionStateError, invalid_option
from frazil.run import LocalRunner, Runner
from frazil.spark.sessions import active_session, require_java, require_pyspark
from frazil.spark.tuning import FEW_BYTES, FEW_ITEMS
from frazil.spelling import nearest

if TYPE_CHECKING:
    from frazil.spark.runner import SparkRunner

T = TypeVar("T")
R = TypeVar("R")

AUTO: Final = "auto"
LOCAL: Final = "local"
SPARK: Final = "spark"
ENGINES: Final = (AUTO, LOCAL, SPARK)


def runner_for(engine: str = AUTO, master: str | None = None) -> Runner:
    """The runner of an engine: `auto`, `local` or `spark`; a master means Spark.

    Raises:
        InvalidInputError: there is no such engine, or it takes no master.
    """
    if engine not in ENGINES:
        raise invalid_option(
            f"engine is {engine!r}, and can be {', '.join(ENGINES)}{nearest(engine, ENGINES)}"
        )
    if engine == LOCAL:
        if master is not None:
            raise invalid_option("the local engine runs in this process: leave out the master")
        return LocalRunner()
    return _on_spark(master) if engine == SPARK or master is not None else AutoRunner()


class AutoRunner:
    """Runs small work in this process, and more on Spark if there is one.

    Each step of a job is judged by itself, but once Spark has started it does all that follows.
    """

    def __init__(self) -> None:
        self._spark: SparkRunner | None = None

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, R]]:
        """Answers with the numbers of their items."""
        is_small = len(items) <= FEW_ITEMS and size_bytes <= FEW_BYTES
        if self._spark is None and items and (_has_session() or (not is_small and _can_start())):
            self._spark = _on_spark(None)
        return (self._spark or LocalRunner()).run(work, items, size_bytes=size_bytes)

    def facts(self) -> dict[str, object]:
        """What Spark tells, if it was used."""
        return {} if self._spark is None else self._spark.facts()


def _on_spark(master: str | None) -> SparkRunner:
    require_pyspark()
    from frazil.spark.runner import SparkRunner

    return SparkRunner(master=master)


def _has_session() -> bool:
    """Whether this process has an active Spark session; PySpark is not imported for that."""
    return "pyspark.sql" in sys.modules and active_session() is not None


def _can_start() -> bool:
    try:
        require_pyspark()
        require_java()
    except SessionStateError:
        return False
    return True
