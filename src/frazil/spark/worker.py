"""What a Python worker keeps between tasks: open repositories and sessions.

Spark uses its Python workers again for many tasks and jobs, so that snapshots and manifests which
one task has read need not be read by the next. Only what cannot change is kept: a session at a
pinned snapshot. For the present state of a branch, open the location again.
"""

from __future__ import annotations

import gc
import os
from functools import cache, lru_cache
from typing import Final

from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.location import Pinned, RepositoryLocation, open_pinned

_IS_WORKER: Final = "SPARK_REUSE_WORKER"
"""Spark sets it for the processes that run Python for it."""


@lru_cache(maxsize=8)  # with its caches; a job has one or two
def repository(location: RepositoryLocation) -> Repository:
    """The repository at a place, opened once in this process; for its assets, not its refs."""
    return location.open()


@lru_cache(maxsize=16)  # jobs on several snapshots may alternate
def session_at(pinned: Pinned) -> Session:
    """A read-only session at a snapshot, opened once in this process."""
    return open_pinned(pinned, repository(pinned.location))


@cache
def freeze_imports() -> None:
    """Let a worker no longer look for garbage in what it has imported until now.

    Spark has its Python workers look after each task and each plan, which takes 20 to 50 ms of
    a processor when there are a thousand modules. In other processes this does nothing.
    """
    if _IS_WORKER in os.environ:
        gc.freeze()
