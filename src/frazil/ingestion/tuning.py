"""Tuning of ingests: how much is read at once, and what a process keeps.

Times are medians of processor times on a busy machine with two cores (`scripts/tune`), those of an
object store on the clock.
"""

from __future__ import annotations

from typing import Final

# --- reading files ---

HEADER_BYTES: Final = 64 << 10
"""Bytes of a NetCDF 3 file that are read first: most headers fit. Not measured."""
GRIB_BLOCK: Final = 64 << 10
"""Bytes of a GRIB file that are read at a time. Not measured."""
TASK_BYTES: Final = 64 << 20
"""Bytes of values that a task which copies holds, unless a single chunk has more. Not measured."""
REFS_BY_TASKS: Final = 1_000_000
"""The manifests of arrays with so many references are written by tasks. Not measured."""
ASKED_AT_ONCE: Final = 32
"""Requests for the versions of files that references name. Not measured."""

# --- the processes that scan files ---

IDLE_HELPERS: Final = 4
"""Scanning processes that are kept for later calls. Not measured."""
START_S: Final = 0.5
"""Seconds that a call waits for a busy one: starting another takes as long, and a processor."""

# --- what a process keeps ---
