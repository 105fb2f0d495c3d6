"""Tuning of fsck: how much is checked at once, and what is kept.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`), those
of an object store on the clock.
"""

from __future__ import annotations

from typing import Final

ITEM_FILES: Final = 16
"""Snapshots, manifests or sources of one item of work: 256 small snapshots take 120 ms, with two in
an item 118 ms, with 128 102 ms."""
ITEM_BYTES: Final = 64 << 20
"""Decoded bytes of the manifests of an item, unless a single one has more: half a million
references."""
LARGE_COMMIT: Final = 1_000_000
"""Transaction logs of commits with more new references are checked one at a time: that of 5 million
takes 0.5 GiB of memory."""
CHUNKS_AT_ONCE: Final = 64
"""Chunks whose bytes are in memory at a time: 64 MiB with chunks of 1 MiB. 512 chunks of a store 30
ms away take 1.6 s, with 8 at a time 3.5 s, with 512 1.4 s."""
FEW_OBJECTS: Final = 256
"""Up to so many objects are asked for one by one; for more, all are listed. In a store 30 ms away
256 questions take 0.32 s, and a listing of 2,000 objects 0.12 s."""
KEPT_NODES: Final = 1_000_000
"""Nodes that are kept to compare snapshots with their parents: some 420 bytes each for groups, 400
MiB at most."""
KEPT_REFS: Final = 5_000_000
"""References that are kept for that: 64 bytes each at most while they are as in the file, 300
MiB."""
