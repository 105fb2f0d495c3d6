"""Tuning of fsck: how much is checked at once, and what is kept.

"Not measured" means that the value is a guess.
"""

from __future__ import annotations

from typing import Final

ITEM_FILES: Final = 16
"""Snapshots, manifests or sources of one item of work. Not measured."""
ITEM_BYTES: Final = 64 << 20
"""Decoded bytes of the manifests of an item, unless a single one has more. Not measured."""
FILES_AT_ONCE: Final = 64
"""Files of the history that are fetched together. Not measured."""
LARGE_COMMIT: Final = 1_000_000
"""Transaction logs of commits with more new references are checked one at a time: that of 5 million
takes 0.5 GiB of memory."""
CHUNKS_AT_ONCE: Final = 64
"""Chunks whose bytes are in memory at a time. Not measured."""
FEW_OBJECTS: Final = 256
"""Up to so many objects are asked for one by one; for more, all are listed. Not measured."""
KEPT_NODES: Final = 1_000_000
"""Nodes that are kept to compare snapshots with their parents. Not measured."""
KEPT_REFS: Final = 5_000_000
"""References that are kept for that. Not measured."""
