"""Tuning of storage: how many requests and threads at once, how much in one, what is kept.

Most times are medians on a busy machine with two cores and a local disk (`scripts/tune`): of
threads and requests on the clock, all others of the processor. An object store is a server on the
same machine whose answers wait for 30 ms. What a store itself limits is beside the code that obeys
it.
"""

from __future__ import annotations

from typing import Final

# --- threads and requests ---

POOL_THREADS: Final = 32
"""Threads of the one pool. Requests wait most of the time, so there may be more threads than cores:
512 objects of a store 30 ms away take 1.3 s, with 8 threads 3.6 s, with 128 0.8 s, but three times
the memory (9 MiB)."""
SLOW_BATCH_S: Final = 0.03
"""Seconds without a result after which one more thread reads small chunks. A batch of 4 MiB from
the page cache takes 10 ms, from a disk that must be read 40 ms. With a third of it, threads are
added that only get in each other's way: 155 ms instead of 127 ms for 64 MiB in 16 KiB chunks."""
FEW_CALLS: Final = 8
"""Up to so many calls to a local storage are made in line, more in threads. 8 files of 1 KiB from
the page cache take 0.06 ms, in threads 0.57 ms; 8 of 16 KiB from the disk 3.6 ms and 4.9 ms."""
DEFAULT_LIMIT: Final = 256
"""Requests in flight at once to stores that are not on this machine: 512 objects of a store 30 ms
away take 1.02 s, with 32 requests 1.16 s, with 1,024 0.97 s."""
MANY_NAMES: Final = 64
"""More chunks of an old repository than this are found by listing all, fewer by asking for each,
one after the other: as many requests as a listing of 64,000 objects takes, at a thousand in each
answer."""

# --- ranges and parts of objects ---

RANGE_GAP: Final = 64 << 10
"""Ranges of one object that lie no further apart are read with one request. 64 ranges of a store 30
ms away with such gaps take 60 ms together and 192 ms one by one; with gaps of 8 KiB 69 ms and 215
ms, of 512 KiB 551 ms and 159 ms."""
RANGE_BYTES: Final = 16 << 20
"""Bytes of such a request at most: 64 MiB in neighbouring ranges take 1.2 s, with 2 MiB 0.8 s, with
128 MiB 1.8 s; in another sweep 1.8 s, with 2 MiB 1.5 s."""
PART_BYTES: Final = 8 << 20
"""Bytes of a part of a multipart upload: 64 MiB take 60 ms of the processor, in parts of 5 MiB 64
ms, of 32 MiB 57 ms; on the clock 3.3 s, 1.9 s and 2.1 s, which three rounds on loopback do not
settle. Stores want 5 MiB at least."""
PARTED_FROM: Final = 2 * PART_BYTES
"""Objects from this size on are uploaded in parts, side by side, unless the settings name a size.
On loopback, where one connection has all the bandwidth, parts only cost: 16 MiB take 1.0 s instead
of 0.44 s, 64 MiB 2.8 s instead of 1.5 s. Over a real network this was never tried."""

# --- local disk ---

LARGE_OBJECT: Final = 256 << 10
"""Objects from this size on are read in threads, and synced in the background once they are
written: 16 of this size from the page cache cost 0.38 ms, in threads 0.77 ms; of 1 MiB 2.3 ms and
2.5 ms."""
DELETED_TOGETHER: Final = 64
"""Objects that one call deletes under the lock; more are deleted in threads, so many each at least.
16 files take 0.69 ms in line and 0.89 ms in threads, 64 1.3 ms in both ways, 256 3.6 ms and 3.3
ms."""
DELETERS: Final = 16
"""Threads that delete at once: 4,000 files cost 29 ms of the processor with one, 31 ms with 4 and
with 16, 30 ms with 32; on the clock 106 ms, 72 ms, 57 ms and 57 ms."""
SYNC_ALL_FROM: Final = 128
"""From so many files on the whole file system is synced: 2,048 new files of 16 KiB take 50 ms that
way, 200 ms by fsync in 16 threads, 600 ms one by one."""
EARLY_SYNCS: Final = 16
"""Threads that may wait for a sync in the background; files beyond that are synced by the commit.
32 files of 1 MiB take 46 ms on the clock, with none 59 ms, with 2 53 ms, with 64 44 ms."""
EARLY_KEPT: Final = 4096
"""Files whose sync in the background is remembered, at 1.7 KiB each: 7 MiB."""
REMEMBERED_BYTES: Final = 16 << 20
"""The bytes of a conditional object of up to this size are kept, to compare them: one object for
each open storage, 16 MiB at most."""

# --- the disk cache ---

CACHE_READERS: Final = 8
"""Threads that look for cached copies at once. 64 copies of 4 KiB in the page cache take 1.8 ms by
one thread, 2.5 ms by 8, 4.0 ms by 64; of 512 KiB 82 ms, 84 ms and 84 ms."""
CACHE_SLACK: Final = 16
"""The folder is looked through about each time that one part in so many of its limit was added, and
holds fifteen sixteenths of the limit at most afterwards. 4,096 copies of 4 KiB into a cache for
1,024 take 2.0 s, with a half 1.6 s, with a 128th 3.0 s."""
