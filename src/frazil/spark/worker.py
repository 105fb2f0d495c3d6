"""What a Python worker keeps between tasks: open repositories and sessions.

Spark uses its Python workers again for many tasks and jobs, so that snapshots and manifests
which one task has read need not be read by the next. Only what cannot change is kept: a session
at a pinned snapshot. Whoever needs the present state of a branch opens the location anew.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from frazil.repository import Repository
from frazil.session.session import Session
from frazil.spark.location import Location, Pinned, open_pinned

REPOSITORIES: Final = 8
SESSIONS: Final = 16


@lru_cache(maxsize=REPOSITORIES)
def repository(location: Location) -> Repository:
    """The repository at a place, opened once in this process; for its assets, not its refs."""
    return location.open()


@lru_cache(maxsize=SESSIONS)
def session(pinned: Pinned) -> Session:
    """A read-only session at a snapshot, opened once in this process."""
    return open_pinned(pinned, repository(pinned.location))


def forget() -> None:
    """Close what is kept; for tests and for long-lived drivers."""
    session.cache_clear()
    repository.cache_clear()
