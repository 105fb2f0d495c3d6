"""Tuning of ingests: how much is read at once, and what a process keeps.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`), those
of an object store on the clock.
"""

from __future__ import annotations

from typing import Final

# --- reading files ---

HEADER_BYTES: Final = 64 << 10
"""Bytes of a NetCDF 3 file that are read first. The header of 60 variables with ten attributes each
has 50 KiB; in a store 30 ms away 8 KiB take 56 ms and 64 KiB 50 ms."""
GRIB_BLOCK: Final = 64 << 10
"""Bytes of a GRIB file that are read at a time. The headers of 500 messages of 1.4 kB take 6 ms
with 8 KiB, 64 KiB and 512 KiB; of 30 kB 11 ms, 17 ms and 17 ms; of 480 kB 11 ms, 15 ms and, as all
is read then, 174 ms."""
TASK_BYTES: Final = 64 << 20
"""Bytes of values that a task which copies holds, unless a single chunk has more: 64 MiB, beside
what a bulk write takes."""
REFS_BY_TASKS: Final = 4_000_000
"""The manifests of new arrays with so many references are written by tasks. An ingest of a million
takes 0.8 s on the clock, with tasks 1.3 s; of five million 4.1 s and 5.0 s on two cores, and 150
MiB more memory of this process. More cores than these make tasks the quicker way."""

# --- the processes that scan files ---

IDLE_HELPERS: Final = 4
"""Scanning processes that are kept for later calls, at 42 MiB each: 170 MiB."""
START_S: Final = 0.5
"""Seconds that a call waits for a busy one: starting another takes as long, and a processor."""

# --- what a process keeps ---
