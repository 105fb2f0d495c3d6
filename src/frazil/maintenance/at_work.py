"""Kinds of work that exclude each other: each says that it is at work, and then looks around.

Moving garbage to the trash or back copies bytes, and a purge that runs meanwhile would miss the
copies. Snapshots that come back from the trash may get new refs, and a collection that has read the
refs before would miss these. So each job first writes an object and then looks for those of the
other kinds: at least one of two jobs sees the other, and stops. The object of a job that was killed
counts for a day.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from frazil.commit.base import MINIMUM_AGE
from frazil.errors import ConflictError, ErrorKind
from frazil.ids import ObjectId
from frazil.storage.base import Storage

AT_WORK: Final = "trash/at-work/"

log = logging.getLogger(__name__)


class TrashWork(StrEnum):
    """What may not happen at the same time."""

    MOVING = "moving garbage to the trash"
    RESTORING = "restoring garbage"
    ERASING = "erasing data"

    @property
    def folder(self) -> str:
        """Where those are who do it."""
        return f"{AT_WORK}{self.name.lower()}/"


@contextmanager
def at_work(place: Storage, work: TrashWork) -> Iterator[None]:
    """Keep the other kind of work away.

    Raises:
        ConflictError: somebody is at it.
    """
    key = f"{work.folder}{ObjectId.random()}"
    place.put(key, b"")
    try:
        for other in TrashWork:
            if other is not work:
                _require_none(place, other)
        yield
    finally:
        for _, why in place.delete_many([key]).failed:
            log.warning("%s could not be deleted, and counts for a day: %s", key, why)


def _require_none(place: Storage, work: TrashWork) -> None:
    found = [*place.list(work.folder)]
    limit = place.clock() - MINIMUM_AGE if found else None
    for item in found:
        if limit is None or item.created_at >= limit:
            raise ConflictError(
                message=f"somebody is {work} at the same time; try again later, or delete "
                f"{item.key!r} if that process is dead",
                kind=ErrorKind.REPO_INFO_UPDATED,
            )
