"""Tuning of uncommitted changes and of commits.

Times are processor times of a busy machine with two cores (`scripts/tune`). "Not measured" means
that the value is a guess.
"""

from __future__ import annotations

from typing import Final

MAX_SEGMENTS: Final = 8
"""Tables of bulk changes of an array that are kept side by side; a lookup goes through all of them.
More are united. Not measured."""
MANY_EDITS: Final = 8
"""Once one node in so many is changed, all nodes are read, and a commit writes all. Of 2,000
nodes a commit of 50 takes 17 ms by edits and 23 ms by all, of 250 46 ms and 35 ms, of 1,000 111 ms
and 37 ms."""
MANY_CHANGES: Final = 1_000
"""Commits of more chunks take turns with others only once they have lost a race. Not measured."""
MANY_REFS: Final = 50_000
"""Manifests with so many references in all are read or written in threads. Not measured."""
REFS_AT_ONCE: Final = 2_000_000
"""References that are read or written at once, unless there are more in as many manifests as there
are cores: about 20 bytes of memory each. Not measured."""
