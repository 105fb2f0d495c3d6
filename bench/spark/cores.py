"""The work as Spark does it on so many cores.

`python -m bench.spark.cores FOLDER CORES` answers requests, one JSON text per line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.spark.ours import Spark
from bench.spark.serving import serve


def main() -> None:
    """Answer until the input ends."""
    from frazil.spark import session

    folder, cores = Path(sys.argv[1]), int(sys.argv[2])
    # Spark's tasks are not all that computes: its Java has threads of its own, and so have we.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    spark = session(f"local[{cores}]")
    serve(lambda: Spark(spark, folder).run)
    spark.stop()


if __name__ == "__main__":
    main()
