"""Tuning of storage: how many requests and threads at once, how much in one, what is kept.

Times are of a machine with two cores and a local disk, some of them processor times while it was
busy (`scripts/tune`). "Not measured" means that the value is a guess. What a store
itself limits is beside the code that obeys it.
"""

from __future__ import annotations

from typing import Final

# --- threads and requests ---

POOL_THREADS: Final = 32
"""Threads of the one pool. Requests wait most of the time, so there may be more threads than cores.
Not measured."""
FEW_CALLS: Final = 8
"""Up to so many calls to a local storage are made in line, more in threads. 8 files of 1 KiB
from the page cache cost 0.07 ms, in threads 0.17 ms; waiting for a disk was not measured."""
DEFAULT_LIMIT: Final = 256
"""Requests in flight at once to stores that are not on this machine. Not measured."""
CLIENTS_KEPT: Final = 16
"""Clients of object stores that a process keeps for places it has been at. Not measured."""
IDLE_CONNECTIONS: Final = 32
"""Connections to web servers that are kept for the next requests. Not measured."""
MANY_NAMES: Final = 64
"""More chunks of an old repository than this are found by listing all, fewer by asking for each.
Not measured."""

# --- ranges and parts of objects ---

RANGE_GAP: Final = 64 << 10
"""Ranges of one object that lie no further apart are read with one request. Not measured."""
RANGE_BYTES: Final = 16 << 20
"""Bytes of such a request at most. Not measured."""
PART_BYTES: Final = 8 << 20
"""Bytes of a part of a multipart upload. Not measured."""
PARTED_FROM: Final = 2 * PART_BYTES
"""Objects from this size on are uploaded in parts, side by side, unless the settings name a size.
Not measured."""

# --- local disk ---

LARGE_OBJECT: Final = 256 << 10
"""Objects from this size on are read in threads, and synced in the background once they are
written: 16 of this size from the page cache cost 0.38 ms, in threads 0.77 ms; of 1 MiB 2.3 ms and
2.5 ms."""
DELETED_TOGETHER: Final = 64
"""Objects that one call deletes under the lock; more are deleted in threads, so many each at least.
Not measured."""
DELETERS: Final = 16
"""Threads that delete at once. No clear difference was measured: 4,000 files cost 56 ms with one,
55 ms with 4, 70 ms with 16, 61 ms with 32."""
SYNC_ALL_FROM: Final = 128
"""From so many files on the whole file system is synced: 2,048 new files of 16 KiB take 50 ms that
way, 200 ms by fsync in 16 threads, 600 ms one by one."""
EARLY_SYNCS: Final = 16
"""Threads that may wait for a sync in the background; files beyond that are synced by the commit.
Not measured."""
EARLY_KEPT: Final = 4096
"""Files whose sync in the background is remembered. Not measured."""
REMEMBERED_BYTES: Final = 16 << 20
"""The bytes of a conditional object of up to this size are kept, to compare them. Not measured."""

# --- the disk cache ---

CACHE_READERS: Final = 8
"""Threads that look for cached copies at once. Not measured."""
CACHE_SLACK: Final = 16
"""The folder is looked through about each time that one part in so many of its limit was added.
Not measured."""
CACHE_LARGEST: Final = 4
"""An entry takes one part in so many of the limit at most, so that it cannot displace all others.
Not measured."""
