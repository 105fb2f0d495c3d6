"""Tuning of garbage collection, compaction and other maintenance: how much is done at once.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`), those
of an object store on the clock. The memory for manifests is a setting of the caller.
"""

from __future__ import annotations

from typing import Final

FILES_AT_ONCE: Final = 64
"""Snapshots that are fetched together, twice as many as there are threads: 256 of a store 30 ms
away take 0.70 s, with 8 1.6 s, with 512 0.53 s. So many are in memory as a whole."""
DECODED_REF_BYTES: Final = 128
"""Memory that one reference is taken to need while its manifest is open, as part of the unpacked
file and in columns: a native one takes 99 bytes, a virtual one with a short location 185."""
NAMES_AT_ONCE: Final = 4096
"""Names of a listing that become columns at a time, and objects whose sizes are asked for together:
100,000 names take 0.31 s, with an eighth of it 0.33 s, with 65,536 0.33 s."""
MIN_PENDING: Final = 1 << 20
"""Ids that are collected before they are sorted into a set, at 12 bytes each: 12 MiB. Half a
million, added in thousands, take 0.52 s, with 65,536 0.93 s."""
MOVED_BYTES: Final = 256 << 20
"""Bytes of objects in memory at most while they are moved to the trash or back: 256 MiB."""
ITEM_PACKS: Final = 4
"""Packs that one item of work of a compaction fills: 256 MiB with packs of 64 MiB, so that a retry
repeats little."""
