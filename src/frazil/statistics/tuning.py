"""Tuning of chunk statistics: how much is read at once, and when files are merged.

"Not measured" means that the value is a guess.
"""

from __future__ import annotations

from typing import Final

TASK_BYTES: Final = 16 << 20
"""Stored bytes that one item of work reads, unless a single chunk is larger. Not measured."""
TASK_CHUNKS: Final = 1024
"""Chunks of an item at most. Not measured."""
BYTES_AT_ONCE: Final = 4 << 20
"""Stored bytes in memory at a time, unless a single chunk is larger. Not measured."""
HELD_ROWS: Final = 1 << 16
"""Rows that are kept before they are written to a file. Not measured."""
MANY_FILES: Final = 16
"""From so many files of one decoding on, they are merged into one. Not measured."""
