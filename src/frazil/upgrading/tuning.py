"""Tuning of upgrades from older generations: how much is done at once, and what is kept.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`), those
of an object store on the clock.
"""

from __future__ import annotations

from typing import Final

PORTION_BYTES: Final = 256 << 20
"""Bytes that one item of work copies: some seconds of work, so that a retry repeats little."""
PORTION_CHUNKS: Final = 2048
"""Chunk objects that an item copies or links at most, and makes durable together: 4,096 links take
160 ms, in items of 256 119 ms, all in one 139 ms."""
MANIFESTS_AT_ONCE: Final = 64
"""Manifests that are being stored at a time: 200 in a store 30 ms away take 0.67 s, with 8 1.4 s,
with 512 0.78 s."""
CACHED_REFS: Final = 2_000_000
"""References of old manifests that are kept, since several arrays share one: some 45 bytes each in
columns, 90 MiB."""
