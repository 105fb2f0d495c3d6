"""Tuning of upgrades from older generations: how much is done at once, and what is kept.

"Not measured" means that the value is a guess.
"""

from __future__ import annotations

from typing import Final

PORTION_BYTES: Final = 256 << 20
"""Bytes that one item of work copies: some seconds of work, so that a retry repeats little."""
PORTION_CHUNKS: Final = 2048
"""Chunk objects that an item copies or links at most. Not measured."""
MOVED_AT_ONCE: Final = 1024
"""Objects that are linked or copied before they are made durable together. Not measured."""
MANIFESTS_AT_ONCE: Final = 64
"""Manifests that are being stored at a time. Not measured."""
CACHED_REFS: Final = 2_000_000
"""References of old manifests that are kept, since several arrays share one. Not measured."""
