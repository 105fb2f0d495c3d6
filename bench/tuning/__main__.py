"""Measure constants of the `tuning.py` tables: `scripts/tune [TABLE | TABLE.CONSTANT]...`.

The same work is done with each value in turn, in many rounds. Prints the median processor time of
this process and those it started, and in brackets the time on the clock and the most memory that
was added to what there was.
"""

from __future__ import annotations

import argparse
import traceback
from importlib import import_module

from bench.tuning.sweep import RUNNING, Row, measure

TABLES = (
    "bulk storage flatbuf transaction model statistics maintenance fsck ingestion upgrading spark"
)


def main() -> None:
    """Measure all rows, or those of some tables or constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wanted", nargs="*", help="tables or constants, such as bulk.ROW_BYTES")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row, about")
    given = parser.parse_args()
    wanted: list[str] = given.wanted or TABLES.split()
    with RUNNING:
        for table in dict.fromkeys(name.partition(".")[0] for name in wanted):
            rows: list[Row] = import_module(f"bench.tuning.{table}").ROWS
            for row in rows:
                if table in wanted or row.name in wanted:
                    _try(row, given.seconds)


def _try(row: Row, seconds: float) -> None:
    """Measure a row; one that fails does not stop the others."""
    try:
        measure(row, seconds)
    except Exception:
        traceback.print_exc()


if __name__ == "__main__":
    main()
