"""Tuning of chunk statistics: how much is read at once, and when files are merged.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`), those
of an object store on the clock.
"""

from __future__ import annotations

from typing import Final

TASK_BYTES: Final = 16 << 20
"""Stored bytes that one item of work reads, unless a single chunk is larger. 64 MiB in chunks of 1
MiB take 146 ms, with items of 2 MiB 170 ms, of 128 MiB 177 ms."""
TASK_CHUNKS: Final = 1024
"""Chunks of an item at most. 4,096 chunks of 1 KiB take 195 ms, with items of 128 216 ms, of 8,192
190 ms."""
BYTES_AT_ONCE: Final = 4 << 20
"""Stored bytes in memory at a time, unless a single chunk is larger. 32 MiB in chunks of 64 KiB
take 80 ms, with 512 KiB at a time 94 ms, with 32 MiB 94 ms."""
HELD_ROWS: Final = 1 << 16
"""Rows that are kept before they are written to a file, at 96 bytes each: 6 MiB. 65,536 chunks take
3.0 s, with an eighth of it 3.0 s, with eight times as much 2.9 s."""
MANY_FILES: Final = 16
"""From so many files of one decoding on, they are merged into one. To read so many takes 0.9 ms on
a local disk, and 0.6 s in an object store 30 ms away."""
