"""Kinds of work that exclude each other: each writes a note and then looks for those of others.

Moving garbage to the trash or back copies bytes, and a purge that runs meanwhile would miss the
copies. Snapshots that come back from the trash may get new refs, and a collection that has read the
refs before would miss these. So each job first writes an object and then looks for those of the
other kinds: at least one of two jobs sees the other, and stops. The object of a job that was killed
counts for a day. A job that takes longer renews its object, and stops if that came too
late.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from frazil.commit.base import MINIMUM_AGE
from frazil.errors import ConflictError, ErrorKind, FrazilError
from frazil.ids import ObjectId
from frazil.storage.base import Storage

AT_WORK: Final = "trash/at-work/"
RENEWED_AFTER_S: Final = 1800.0
"""How old a note becomes before it is renewed; a small part of a day."""

log = logging.getLogger(__name__)


class TrashWork(StrEnum):
    """What may not happen at the same time."""

    MOVING = "moving garbage to the trash"
    RESTORING = "restoring garbage"
    ERASING = "erasing data"

    @property
    def folder(self) -> str:
        """The prefix of the notes of running jobs of this kind."""
        return f"{AT_WORK}{self.name.lower()}/"


@dataclass(slots=True)
class WorkNote:
    """Keeps others away as long as it is renewed, which a thread does while the work lasts."""

    place: Storage
    key: str
    _renewed: float = field(default_factory=time.time)
    """wall-clock time: the monotonic clock stands still while the machine sleeps"""
    _is_lost: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hold(self) -> None:
        """Refuse to go on if other jobs may count this one as dead; renew the note if that is due.

        Raises:
            ConflictError: it was not renewed for a day, so that others may have begun.
        """
        with self._lock:
            if abs(time.time() - self._renewed) >= RENEWED_AFTER_S:
                self._renew()
            if self._is_lost:
                raise ConflictError(
                    message="this work has stood still for a day, so that others may have taken "
                    "it for dead and begun with something else; do it again",
                    kind=ErrorKind.REPO_INFO_UPDATED,
                    key=self.key,
                )

    def _renew(self) -> None:
        before = self.place.head(self.key)
        if before is None:
            self._is_lost = True
            return
        self.place.put(self.key, b"")
        now = self.place.head(self.key)
        self._is_lost |= now is None or now.created_at - before.created_at >= MINIMUM_AGE
        self._renewed = time.time()

    def keep(self, ended: threading.Event) -> None:
        """Renew the note until the work has ended."""
        while not ended.wait(RENEWED_AFTER_S):
            with suppress(FrazilError):  # the next renewal, or the work itself, will raise it
                self.hold()


@contextmanager
def at_work(place: Storage, work: TrashWork) -> Iterator[WorkNote]:
    """Keep the other kinds of work away; the work asks the note again before each step.

    Raises:
        ConflictError: another process does such work.
    """
    key = f"{work.folder}{ObjectId.random()}"
    place.put(key, b"")
    note, ended = WorkNote(place, key), threading.Event()
    keeper = threading.Thread(target=note.keep, args=(ended,), name=key, daemon=True)
    try:
        for other in TrashWork:
            if other is not work:
                _require_none(place, other)
        keeper.start()
        yield note
    finally:
        ended.set()
        if keeper.ident is not None:
            keeper.join()  # or it would write the note again
        for _, why in place.delete_many([key]).failed:
            log.warning("%s could not be deleted, and counts for a day: %s", key, why)


def _require_none(place: Storage, work: TrashWork) -> None:
    found = [*place.list(work.folder)]
    limit = place.clock() - MINIMUM_AGE if found else None
    for item in found:
        if limit is None or item.created_at >= limit:
            raise ConflictError(
                message=f"another process is {work} at the same time; try again later, or delete "
                f"{item.key!r} if that process is dead",
                kind=ErrorKind.REPO_INFO_UPDATED,
            )
