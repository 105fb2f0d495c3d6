"""Tuning of `flatbuf` and `formats`: how files are read and written, never what is in them.

Most thresholds choose between tables one by one (Python) and all tables as columns (numpy), which
needs some 100 us before the first row. Most times are medians of processor times on a busy machine
with two cores (`scripts/tune`).
"""

from __future__ import annotations

from typing import Final

# --- one by one, or as columns ---

FEW_NODES: Final = 24
"""Up to so many nodes of a snapshot are read one by one; so many take 750 us in both ways."""
FEW_REFS: Final = 12
"""Up to so many branches, or tags, are read one by one. A repo object with 12 tags takes 0.50 ms so
and 0.65 ms with columns, one with 48 tags 0.64 ms and 0.68 ms."""
FEW_COORDS: Final = 16
"""Up to so many changed chunks of a transaction log are read and written one by one: two are
written in 37 us and read in 84 us, as columns in 100 us and 193 us; both are equal at about 30."""
FEW_FRESH: Final = 16
"""Up to so many new rows of the repo object are added one by one to those that are written already:
sixteen take 220 us, all 2,000 of a history as columns 450 us."""
LONG_PATH: Final = 256
"""Paths of nodes longer than this are compared one by one, since columns are padded to the longest:
2,000 paths, one of them with 256 letters, take 0.50 ms as columns and 0.81 ms one by one, with
2,048 letters 0.93 ms and 0.82 ms."""

# --- a few rows of many ---

FINDS_PER_DECODE: Final = 500
"""One search for a chunk in the bytes of a manifest takes as long as decoding so many references:
an array is decoded when the searches in it have taken that long. A search in 50,000 references
takes 50 us, decoding them 3.4 ms."""
PATCHED_ROWS: Final = 32
"""A manifest is patched for up to so many changed references, and decoded for more: a commit of 32
among 100,000 takes 46 ms patched and 75 ms anew."""
PATCHED_FROM: Final = 20_000
"""Manifests with fewer references are not patched but written anew. A commit of one reference takes
10 ms patched and 28 ms anew among 20,000, 4.6 ms and 14 ms among 5,000."""
KEPT_NODES: Final = 50
"""After a commit, a snapshot of up to so many nodes is kept as objects and written anew by the next
commit; a larger one is read back, so that the next commit can copy its bytes. Four commits to 25
nodes take 3.7 ms and 5.8 ms, to 100 nodes 5.3 ms and 5.9 ms."""
MANY_FOUND: Final = 16
"""Once one node in so many was looked up, all nodes of a snapshot are read. To read 2,000 groups
takes as long as 120 lookups: to look up each of them takes 10 ms, with one in four 24 ms, one by
one 73 ms."""

# --- files that grow by rows put behind the others ---

GROWTH_SHARE: Final = 8
"""A file may grow by one part in so many before it is written in full. A million references (44 MB)
are then written in full after some 40,000 changes of one, and an eighth of a file is unused at
most."""
FREE_GROWTH: Final = 1 << 15
"""Bytes that rows of a repo object may always grow by, so that short lists are not written in full
for each row. A hundred commits to a new repository take 77 ms, with an eighth of it 78 ms, with
eight times as much 75 ms."""

# --- many tables at once ---

WHOLE_TABLE: Final = 128
"""Tables of up to so many bytes are fetched whole: one gather instead of one for each field makes
references an eighth faster to read. Larger tables have fields that are not asked for."""
VTABLES_AT_ONCE: Final = 1 << 16
"""Vtables that are compared at a time: 9 MB at most."""
SEGMENT_ROWS: Final = 1 << 15
"""Rows that are written or read at a time, which fit into the processor's cache: a million native
references take 41 ms to write and 61 ms to read, all at once 53 ms and 72 ms."""
BLOCK_ROWS: Final = 1024
"""Rows of a block, in which equal fields lie side by side: the file of 160,000 virtual references
has 1.06 MB, as one block 1.30 MB."""
UPDATE_STRIDE: Final = 32
"""Bytes from one line of the operations log to the next: with equal distances 900 lines take 15 %
less in the file."""
MANY_TABLES: Final = 1 << 12
"""Lists of so many tables get room before them, where the rest of the file is written, so that the
tables are not copied once more: a manifest of a million references takes 82 MiB of memory instead
of 113 MiB, in the same time."""

# --- bodies of files ---

SMALL_BODY: Final = 1 << 20
"""Bodies of up to so many bytes share a compressor of the thread; larger ones get their own, whose
memory is given back. 4 MiB in bodies of 16 KiB take 24 ms, with own ones 29 ms; in bodies of 1 MiB
27 ms and 29 ms, of 4 MiB 32 ms and 33 ms."""
WHOLE_BODY: Final = 64 << 20
"""Larger bodies are compressed part by part: the log of 5 million changed chunks takes 120 MiB of
memory instead of 350 MiB. It costs a tenth of the time and makes files a twelfth larger, which
bodies of usual size, such as a manifest of a million references, need not pay."""
BODY_PART: Final = 4 << 20
"""Bytes of such a part, at least: the manifest of two million references takes 1.37 s, with an
eighth of it 1.47 s, with eight times as much 1.45 s, and as much memory."""
