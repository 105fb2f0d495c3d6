"""Tuning of garbage collection, compaction and other maintenance: how much is done at once.

"Not measured" means that the value is a guess. The memory for manifests is a setting of the caller.
"""

from __future__ import annotations

from typing import Final

SNAPSHOTS_AT_ONCE: Final = 32
"""Snapshots that are fetched together to find shared files. Not measured."""
PREFETCH: Final = 64
"""Snapshots of a v1 history that are in memory as a whole at a time. Not measured."""
DECODED_REF_BYTES: Final = 128
"""Memory that one reference is taken to need while its manifest is open, as part of the unpacked
file and in columns. Not measured."""
NAMES_AT_ONCE: Final = 1 << 16
"""Names of a listing that become columns at a time. Not measured."""
HEADS_AT_ONCE: Final = 4096
"""Objects whose sizes are asked for together. Not measured."""
MIN_PENDING: Final = 1 << 16
"""Ids that are collected before they are sorted into a set. A million, added in thousands,
take 1.8 s, with 1,024 2.3 s, all at once 1.1 s, but then repeated ids take memory."""
DISK_BATCH: Final = 1 << 16
"""Files of a local disk that one call deletes; it spreads its work over threads itself.
Not measured."""
MOVED_BYTES: Final = 256 << 20
"""Bytes of objects in memory while they are moved to the trash or back. Not measured."""
ITEM_PACKS: Final = 4
"""Packs that one item of work of a compaction fills. Not measured."""
