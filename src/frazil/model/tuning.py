"""Tuning of the tables in memory: thresholds that choose between two ways to the same result.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`).
"""

from __future__ import annotations

from typing import Final

# --- chunk tables ---

FEW_CHANGES: Final = 32
"""Up to so many changes are put into a table one by one, without an index of the table: 32 among
500,000 in 13 ms instead of 20 ms, among 5,000 in 0.55 ms instead of 0.35 ms."""
DENSE_CELLS: Final = 64 << 20
"""The largest box of coordinates that gets a dense index, at 4 bytes a cell: 256 MiB."""
DENSE_SHARE: Final = 16
"""A dense index is made if at least one cell in so many has a reference, so that a reference takes
64 bytes of it at most. 200,000 references in 16 times as many cells take 6.8 ms, with a sorted
index 7.9 ms; in 64 times as many 22 ms and 8.1 ms."""

# --- pools of texts ---

LONG_RUN: Final = 4096
"""Runs of bytes from this length on are copied one by one, shorter ones with one gather: 16 MiB in
runs of 512 bytes take 25 ms one by one and 6.8 ms with a gather, of 4 KiB 5.9 ms and 6.2 ms, of 32
KiB 3.0 ms and 5.1 ms."""
DEDUPE_TEXTS: Final = 1 << 16
"""Merged pools with up to so many texts are searched for equal ones, which takes about 20 ms."""
TEXTS_AT_ONCE: Final = 1 << 14
"""Texts that are cut out of a pool at a time. A list of more is made with one split, which is twice
as fast as cutting out each."""
SAMPLED_TEXTS: Final = 4096
"""Texts that are sampled to see whether many are equal: of a million texts that occur twice each,
such a sample has about eight twice."""

# --- manifests of an array ---

SPLIT_ABOVE: Final = 1 << 18
"""An array with more references gets several manifests. Ten million in one: a lookup takes 550 ms
instead of 5 ms, a commit of one chunk 1.4 s instead of 18 ms. The commit that goes beyond it writes
all of them anew: with a million the next million takes 2.4 s instead of 1.2 s."""
UNITE_BELOW: Final = SPLIT_ABOVE // 4
"""An array keeps several manifests down to so many references: a grid whose references come and go
is not rewritten until they have become a quarter."""
REFS_PER_MANIFEST: Final = 1 << 17
"""References of one of several manifests at most, where they lie evenly. With a million, small
commits would take eight times as long."""
