"""Tuning of bulk reads and writes, of the codec pipeline and of the store.

Most thresholds say from which size on a thread pays. Times are of a machine with two cores and a
local disk, some of them processor times while it was busy (`scripts/tune`). "Not measured" means
that the value is a guess.
"""

from __future__ import annotations

from typing import Final

# --- batches ---

DISK_BATCH: Final = 1 << 20
"""Bytes of chunks that a thread reads or writes at a time in memory or on a local disk.
Not measured."""
REMOTE_BATCH: Final = 16 << 20
"""The same for an object store, which takes the chunks of a batch side by side. Not measured."""
REMOTE_BATCHES: Final = 4
"""Batches at work for an object store. Not measured."""
LOOKUP_ROWS: Final = 1 << 16
"""Chunks whose references are held at a time. Not measured."""
LEAST_BYTES: Final = 1 << 10
"""A chunk to be written counts as so large at least, since even a tiny one is some work.
Not measured."""

# --- threads, or none ---

SMALL_CHUNK: Final = 64 << 10
"""Uncompressed chunks below this size are read from a disk by one thread: 16 MiB in 16 KiB chunks
from the page cache cost 14 ms, with threads 22 ms; in chunks of 256 KiB 6.3 ms and 8.6 ms."""
READ_PATIENCE_S: Final = 0.005
"""Seconds that a thread waits for another one that reads small compressed chunks from a disk. A
batch takes 0.6 ms from the page cache. 64 MiB in 16 KiB chunks cost 165 ms and 400 waits of
threads so, 195 ms and 1,000 waits where all read at once."""
SMALL_RESULT: Final = 4 << 20
"""Arrays below this size are read side by side, larger ones one after the other, each by threads of
its own. Not measured."""
LARGE_FILE: Final = 256 << 10
"""Files from this size on are written to a disk by several threads, from where their bytes lie:
16 MiB in files of 64 KiB cost 83 ms, with threads 102 ms; in files of 1 MiB 16 ms and 23 ms. The
time on the clock was not measured."""
LARGE_VALUE: Final = 256 << 10
"""Values from this size on are read or written in a thread even on a local disk, so that zarr's
event loop stays free meanwhile. Not measured."""
SMALL_BATCH: Final = 8
"""Up to so many small chunks of one call by zarr are read or written without a thread.
Not measured."""
LISTED_PER_TURN: Final = 256
"""Keys of a listing in memory that are returned before other tasks of the event loop may run.
Not measured."""

# --- memory ---

ROW_BYTES: Final = 4096
"""Rows of at least so many bytes are stored from where they lie, shorter ones are joined first.
Not measured."""
PACK_SHARE: Final = 4
"""One part in so many of the memory for a write is for the pack being filled. Not measured."""
PACKS_SENT: Final = 2
"""Full packs on their way to an object store while the next one is being filled. Not measured."""
CUTS_KEPT: Final = 64
"""Selections across fewer chunks than this are remembered, 4,096 of them. Not measured."""
SHARD_ENTRIES: Final = 1 << 22
"""Inner chunks of shards whose places are remembered from one lookup to the next. Not measured."""

# --- Zstandard ---

ZSTD_AT_ONCE: Final = 128 << 10
"""Frames of up to so many bytes are decoded to new memory, larger ones as a stream: 30 us instead
of 32 us for 16 KiB. No more than this fits into one block, which decoding in batches relies on."""
ZSTD_BY_NUMCODECS: Final = 256 << 10
"""Chunks from this size on are compressed by numcodecs, smaller ones by a compressor that a thread
keeps. Not measured."""
