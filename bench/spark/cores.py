"""The work as Spark does it on so many cores.

`python -m bench.spark.cores FOLDER CORES` answers requests, one JSON text per line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.spark.ours import Spark
from bench.spark.serving import serve


def prepare() -> tuple[Callable[[str, str], Any], Callable[[], None]]:
    """Start Spark, with everything that it starts, on these cores."""
    from frazil.spark import session

    folder, cores = Path(sys.argv[1]), int(sys.argv[2])
    # Spark's tasks are not all that computes: its Java has threads of its own, and so have we.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    spark = session(f"local[{cores}]")
    return Spark(spark, folder).run, spark.stop


if __name__ == "__main__":
    serve(prepare)
