"""Tuning of the tables in memory: thresholds that choose between two ways to the same result.

Times are of a machine with two cores. "Not measured" means that the value is a guess.
"""

from __future__ import annotations

from typing import Final

# --- chunk tables ---

FEW_CHANGES: Final = 32
"""Up to so many changes are put into a table one by one, without an index of the table. Not
measured."""
DENSE_CELLS: Final = 64 << 20
"""The largest box of coordinates that gets a dense index, at 4 bytes a cell: 256 MiB."""
DENSE_SHARE: Final = 16
"""A dense index is made if at least one cell in so many has a reference, so that a reference takes
64 bytes of it at most. Not measured."""

# --- pools of texts ---

LONG_RUN: Final = 4096
"""Runs of bytes from this length on are copied one by one, shorter ones with one gather. Not
measured."""
DEDUPE_TEXTS: Final = 1 << 16
"""Merged pools with up to so many texts are searched for equal ones, which takes about 20 ms."""
TEXTS_AT_ONCE: Final = 1 << 14
"""Texts that are cut out of a pool at a time. A list of more is made with one split, which is twice
as fast as cutting out each."""
SAMPLED_TEXTS: Final = 4096
"""Texts that are sampled to see whether many are equal: of a million texts that occur twice each,
such a sample has about eight twice."""

# --- manifests of an array ---

SPLIT_ABOVE: Final = 1_000_000
"""An array with more references gets several manifests. Ten million in one: a lookup takes 550 ms
instead of 5 ms, a commit of one chunk 1.4 s instead of 18 ms."""
UNITE_BELOW: Final = SPLIT_ABOVE // 4
"""An array keeps several manifests down to so many references: between the two numbers nothing is
rewritten. Not measured."""
REFS_PER_MANIFEST: Final = 1 << 17
"""References of one of several manifests at most, where they lie evenly. With a million, small
commits would take eight times as long."""
