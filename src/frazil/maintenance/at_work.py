"""Two kinds of work that exclude each other: each says that it is at work, and then looks around.

Whoever puts garbage back and whoever erases data would undo each other's work unseen. Each writes
an object before it looks for those of the other kind: so at least one of two sees the other, and
is refused. Who was killed leaves the object, which counts for a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from frazil.commit.base import MINIMUM_AGE
from frazil.errors import ConflictError, ErrorKind
from frazil.ids import ObjectId
from frazil.storage.base import Storage, require_deleted

AT_WORK: Final = "trash/at-work/"


class TrashWork(StrEnum):
    """What may not happen at the same time."""

    RESTORING = "restoring"
    ERASING = "erasing"


@contextmanager
def at_work(place: Storage, work: TrashWork) -> Iterator[None]:
    """Keep the other kind of work away.

    Raises:
        ConflictError: somebody is at it.
    """
    key = f"{AT_WORK}{work}/{ObjectId.random()}"
    place.put(key, b"")
    try:
        for other in TrashWork:
            if other is not work:
                _require_none(place, other)
        yield
    finally:
        require_deleted(place.delete_many([key]))


def _require_none(place: Storage, work: TrashWork) -> None:
    found = [*place.list(f"{AT_WORK}{work}/")]
    limit = place.clock() - MINIMUM_AGE if found else None
    for item in found:
        if limit is None or item.created_at >= limit:
            raise ConflictError(
                message=f"somebody is {work} at the same time; try again later, or delete "
                f"{item.key!r} if that process is dead",
                kind=ErrorKind.REPO_INFO_UPDATED,
            )
