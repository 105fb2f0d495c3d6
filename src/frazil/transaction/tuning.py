"""Tuning of uncommitted changes and of commits.

Most times are medians of processor times on a busy machine with two cores (`scripts/tune`).
"""

from __future__ import annotations

from typing import Final

MAX_SEGMENTS: Final = 8
"""Tables of bulk changes of an array that are kept side by side; a lookup goes through all of them.
More are united. 200 writes of 100 chunks with 20 lookups each take 28 ms, with one table 40 ms,
with 64 35 ms."""
MANY_EDITS: Final = 8
"""Once one node in so many is changed, all nodes are read, and a commit writes all. Of 2,000 nodes
a commit of 50 takes 10 ms by edits and 21 ms by all, of 250 27 ms and 23 ms, of 1,000 75 ms and 32
ms."""
MANY_CHANGES: Final = 1_000
"""Commits of more chunks take turns with others only once they have lost a race, so that small ones
need not wait for them. A commit of one chunk takes 3.5 ms, of 1,000 4.7 ms, of 8,000 7.4 ms,
without a disk that syncs."""
MANY_REFS: Final = 50_000
"""Manifests with so many references in all are read or written in threads. On two busy cores
threads gain nothing: a commit of eight arrays with 48,000 takes 21 ms in threads and 19 ms without,
with 400,000 106 ms and 88 ms."""
REFS_AT_ONCE: Final = 2_000_000
"""References that are read from, or written to, an object store at once, unless there are more in
as many manifests as there are cores: 99 bytes of memory each while a manifest of native ones is
read, 190 MiB. On a disk there are only as many manifests as cores at once: five million references
are committed in 1.5 s on the clock instead of 1.9 s, and read in 0.59 s instead of 0.67 s."""
