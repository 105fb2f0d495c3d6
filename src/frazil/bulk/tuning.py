"""Tuning of bulk reads and writes, of the codec pipeline and of the store.

Most thresholds say from which size on a thread pays. Most times are medians of processor times on a
busy machine with two cores and a local disk (`scripts/tune`). Those of object stores are on the
clock: of a server on the same machine whose answers wait for 30 ms.
"""

from __future__ import annotations

from typing import Final

# --- batches ---

DISK_BATCH: Final = 1 << 20
"""Bytes of chunks that a thread reads or writes at a time in memory or on a local disk. 32 MiB in
compressed chunks of 64 KiB are read in 48 ms, with 128 KiB at a time in 96 ms, with 8 MiB in 41 ms;
but then an array of 8 MiB is read by one thread."""
LARGE_BATCH: Final = 4 << 20
"""The same for a large read. 64 MiB in compressed chunks of 16 KiB take 106 ms on the clock of a
quiet machine, with 1 MiB at a time 137 ms, with 2 MiB 113 ms, with 8 MiB 106 ms."""
REMOTE_BATCH: Final = 16 << 20
"""The same for an object store, which takes the chunks of a batch side by side: 16 MiB in chunks of
1 MiB take 96 ms, with 2 MiB at a time 158 ms, with 128 MiB 150 ms."""
REMOTE_BATCHES: Final = 4
"""Batches at work for an object store: 96 MiB in chunks of 256 KiB take 1.6 s, with one batch 1.7
s, with 16 1.3 s. Four of them are 64 MiB of memory."""
LOOKUP_ROWS: Final = 1 << 16
"""Chunks whose references are held at a time. 200,000 chunks of four bytes are read in 196 ms, with
an eighth of it in 193 ms, with eight times as much in 205 ms."""
LEAST_BYTES: Final = 1 << 10
"""A chunk to be written counts as so large at least, since even a tiny one is some work: 100,000
chunks of four bytes take 0.51 s, with an eighth of it 0.74 s, with eight times as much 0.45 s."""

# --- threads, or none ---

SMALL_CHUNK: Final = 64 << 10
"""Chunks below this size are read from a disk by one thread at a time: 16 MiB in 16 KiB chunks from
the page cache cost 14 ms, by all threads 22 ms; in chunks of 256 KiB 6.3 ms and 8.6 ms."""
TINY_CHUNK: Final = 8 << 10
"""Uncompressed chunks below this size are put to their places by the thread that reads them, larger
ones while the next are read. 64 MiB on the clock, with one thread and with two: in chunks of 8 KiB
126 ms and 109 ms, of 16 KiB 97 ms and 76 ms, of 32 KiB 114 ms and 60 ms; 100 MiB in chunks of 1 KiB
1.2 s and 1.5 s. For 16 MiB both take the same, within a tenth."""
READ_PATIENCE_S: Final = 0.005
"""Seconds that a thread waits for another one that reads small chunks from a disk. A
batch takes 0.6 ms from the page cache. 64 MiB in 16 KiB chunks cost 165 ms and 400 waits of
threads so, 195 ms and 1,000 waits where all read at once."""
SLOW_DISK_THREADS: Final = 2
"""Threads beside one for each core that read small chunks from a slow disk. 64 MiB in 16 KiB chunks
that are not in the page cache take 328 ms, compressed 320 ms; with four 315 ms and 326 ms; with
none, where only one thread reads uncompressed ones, 555 ms and 353 ms."""
SMALL_RESULT: Final = 4 << 20
"""Arrays below this size are read side by side, larger ones one after the other, each by threads of
its own. Eight arrays of this size take 43 ms in both ways."""
LARGE_FILE: Final = 256 << 10
"""Files from this size on are written to a disk by several threads, from where their bytes lie: 16
MiB in files of 1 MiB take 25 ms on the clock, by one thread 46 ms, at 14 ms and 13 ms of the
processor. In files of 64 KiB both cost the same while the machine was busy (23 ms and 24 ms); an
earlier sweep had 102 ms with threads and 83 ms without."""
LARGE_VALUE: Final = 256 << 10
"""Values from this size on are read or written in a thread even on a local disk, so that zarr's
event loop stays free meanwhile. 32 of 16 KiB take 3.7 ms in line and 5.6 ms in threads, of 256 KiB
5.3 ms and 6.8 ms, of 1 MiB 11 ms and 13 ms."""
SMALL_BATCH: Final = 8
"""Up to so many small chunks of one call by zarr are read or written without a thread: 100 reads of
2 chunks take 36 ms instead of 75 ms, of 8 51 ms instead of 84 ms. Of 32 one sweep had 117 ms
instead of 123 ms, another 198 ms instead of 168 ms."""
LISTED_PER_TURN: Final = 256
"""Keys of a listing in memory that are returned before other tasks of the event loop may run:
20,000 keys take 26 ms, with an eighth of it and with eight times as much 25 ms."""

# --- memory ---

ROW_BYTES: Final = 4096
"""Rows of at least so many bytes are stored from where they lie, shorter ones are joined first. 32
MiB in rows of 512 bytes take 29 ms joined and 76 ms from where they lie, of 4 KiB 25 ms and 28 ms,
of 32 KiB 25 ms and 23 ms."""
PACK_SHARE: Final = 4
"""One part in so many of the memory for a write is for the pack being filled: as much is on its way
twice (`PACKS_SENT`), and the rest is for chunks that are being encoded."""
PACKS_SENT: Final = 2
"""Full packs on their way to an object store while the next one is being filled: 32 MiB in packs of
2 MiB take 2.4 s, with none 3.1 s, with eight 2.2 s."""
CUTS_KEPT: Final = 64
"""Selections across fewer chunks than this are remembered, 4,096 of them at 4.2 KiB: 17 MiB at
most. To cut a slice across 64 chunks takes 35 us, to find it again 1 us."""
SHARD_ENTRIES: Final = 1 << 22
"""Inner chunks of shards whose places are remembered from one lookup to the next, at 16 bytes each:
64 MiB."""

# --- Zstandard ---

ZSTD_AT_ONCE: Final = 128 << 10
"""Frames of up to so many bytes are decoded to new memory, larger ones as a stream: 30 us instead
of 32 us for 16 KiB. No more than this fits into one block, which decoding in batches relies on."""
ZSTD_BY_NUMCODECS: Final = 256 << 10
"""Chunks from this size on are compressed by numcodecs, smaller ones by a compressor that a thread
keeps: 4 MiB in chunks of 16 KiB take 8.2 ms instead of 13.4 ms. From 256 KiB on there is no
difference, and numcodecs keeps no memory."""
