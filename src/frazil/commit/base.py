"""The interface of commit protocols, and the retry loop they share.

A commit writes its files first and then moves the branch with one conditional write. The
protocols differ only in what that write is.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.formats.generation import Generation
from frazil.ids import MAIN, ObjectId, SnapshotId
from frazil.model.config import StorageRetriesSettings
from frazil.model.history import (
    JSON,
    Metadata,
    Micros,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    to_datetime,
)
from frazil.model.outward import snapshot_info
from frazil.model.values import SnapshotInfo
from frazil.storage.base import Attributes, Fetched, LostRace, Storage, Written

OVERWRITTEN: Final = "overwritten/"
MINIMUM_AGE: Final = timedelta(days=1)
"""How old an object must be to be deleted; a younger one may belong to an open session."""
YEAR_3000_MS: Final = 32_503_680_000_000
"""Names of backups count down to this time, so that a listing gives the newest first."""
IMMEDIATE_RETRIES: Final = 5
"""The number of attempts after a lost race that follow without a pause."""
STAND_BACK_DOUBLINGS: Final = 4
"""The longest pause between attempts is the time of one attempt, doubled this many times."""
CLOCK_TOLERANCE_S: Final = 600
"""How much a writer's clock may differ from the store's, as in the official package."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A finished snapshot that is to become the tip of a branch."""

    branch: str
    base: SnapshotId
    """the tip the session started from"""
    entry: SnapshotEntry
    amends: bool = False
    requires: frozenset[SnapshotId] = frozenset()
    """snapshots whose chunks the new one refers to, which must not have been collected"""


class RefStore(ABC):
    """Branches, tags and history of one repository."""

    generation: Generation

    # --- reading ---

    @abstractmethod
    def branches(self) -> Mapping[str, SnapshotId]:
        """All branches and their tips."""

    @abstractmethod
    def tags(self) -> Mapping[str, SnapshotId]:
        """All tags and their snapshots."""

    @abstractmethod
    def branch_tip(self, name: str) -> SnapshotId:
        """Tip of a branch.

        Raises:
            RefNotFoundError: there is no such branch.
        """

    @abstractmethod
    def tag_target(self, name: str) -> SnapshotId:
        """Snapshot of a tag.

        Raises:
            RefNotFoundError: there is no such tag.
        """

    @abstractmethod
    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        """What history knows of a snapshot.

        Raises:
            SnapshotNotFoundError: history does not know it.
        """

    def entry_as_known(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        """Like `entry`, but may return a cached entry."""
        return self.entry(snapshot_id)

    def tip_as_known(self, branch: str) -> SnapshotId | None:
        """Where a branch was when it was read last; None if that is not remembered.

        Remembered only where snapshots never change, so that it is safe to read from an old tip.
        """
        return None

    @abstractmethod
    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        """A snapshot and its ancestors, newest first."""

    def is_there(self, snapshot_id: SnapshotId) -> bool:
        """Whether a snapshot exists, by asking the storage, not a cache."""
        try:
            self.entry(snapshot_id)
        except SnapshotNotFoundError:
            return False
        return True

    def require_known(self, snapshot_id: SnapshotId) -> None:
        """Raise unless history contains the snapshot."""
        self.entry(snapshot_id)

    def snapshot_id(self, text: str) -> SnapshotId:
        """The id that a user's text means; before spec 1 also as the files spell it."""
        return SnapshotId.parse(text)

    def heads(self) -> set[SnapshotId]:
        """Snapshots whose histories contain all others."""
        return {*self.branches().values(), *self.tags().values()}

    def history(self, snapshot_id: SnapshotId) -> Iterator[SnapshotInfo]:
        """The same as users see it."""
        return map(snapshot_info, self.ancestry(snapshot_id))

    def last_before(self, snapshot_id: SnapshotId, limit: Micros) -> SnapshotId | None:
        """The newest of a snapshot and its ancestors that was not written after a time."""
        found = (entry.id for entry in self.ancestry(snapshot_id) if entry.flushed_at <= limit)
        return next(found, None)

    @abstractmethod
    def stored_config(self) -> JSON | None:
        """The stored configuration as a plain map."""

    # --- changing ---

    @abstractmethod
    def require_online(self) -> None:
        """Refuse when the repository does not take changes.

        Raises:
            ReadOnlyError: it does not.
        """

    def writable_tip(self, branch: str) -> SnapshotId:
        """Tip of a branch that is about to be changed.

        Raises:
            ReadOnlyError: the repository does not take changes.
            RefNotFoundError: there is no such branch.
        """
        self.require_online()
        return self.branch_tip(branch)

    @abstractmethod
    def publish(self, publication: Publication, ready: Callable[[], None] = lambda: None) -> None:
        """Make a snapshot the tip of a branch, once `ready` has returned.

        Raises:
            ConflictError: the branch has moved since the session began.
            SnapshotNotFoundError: a snapshot that the publication requires is gone.
        """

    @abstractmethod
    def register_detached(
        self, entry: SnapshotEntry, requires: frozenset[SnapshotId] = frozenset()
    ) -> None:
        """Make a snapshot known that no branch points to.

        Raises:
            SnapshotNotFoundError: its parent, or a snapshot that it `requires`, is gone.
        """

    @abstractmethod
    def create_branch(self, name: str, target: SnapshotId) -> None:
        """Make a branch."""

    @abstractmethod
    def reset_branch(
        self,
        name: str,
        target: SnapshotId,
        expected: SnapshotId | None,
        requires: frozenset[SnapshotId] = frozenset(),
    ) -> None:
        """Point a branch to another snapshot, if it still is at `expected`.

        Raises:
            ConflictError: it is somewhere else.
            SnapshotNotFoundError: the target, or a snapshot that it `requires`, is gone.
        """

    @abstractmethod
    def delete_branch(self, name: str, expected: SnapshotId | None = None) -> None:
        """Delete a branch, if it still is at `expected`.

        Raises:
            ConflictError: it is somewhere else.
        """

    @abstractmethod
    def create_tag(self, name: str, target: SnapshotId) -> None:
        """Make a tag."""

    @abstractmethod
    def delete_tag(self, name: str) -> None:
        """Delete a tag; its name cannot be used again."""

    @abstractmethod
    def edit_config(self, change: Callable[[JSON | None], JSON]) -> None:
        """Replace the stored configuration by what a pure function makes of it.

        It is written only if it still is what the function has seen, else the function gets
        the newer one.

        Raises:
            FormatError: this generation keeps no configuration.
        """

    # --- abilities of the repo object; others refuse ---

    def status(self) -> StoredStatus:
        """Availability of the repository."""
        raise self._unsupported("repository status")

    def set_status(self, status: StoredStatus) -> None:
        """Change the availability."""
        raise self._unsupported("repository status")

    def metadata(self) -> Metadata:
        """Attributes of the repository."""
        raise self._unsupported("repository metadata")

    def set_metadata(self, metadata: Metadata, *, merge: bool) -> Metadata:
        """Replace or overlay the attributes, and return the result."""
        raise self._unsupported("repository metadata")

    def flags(self) -> tuple[frozenset[int], frozenset[int]]:
        """Feature flags set on and set off."""
        raise self._unsupported("feature flags")

    def set_flag(self, flag: int, value: bool | None) -> None:
        """Set a feature flag; None returns it to its default."""
        raise self._unsupported("feature flags")

    def updates(self) -> Iterator[UpdateEntry]:
        """The operations log, newest first."""
        raise self._unsupported("the operations log")

    def _unsupported(self, what: str) -> FormatError:
        return self.generation.lacks(what)


def attempts(settings: StorageRetriesSettings) -> Iterator[int]:
    """Count attempts, sleeping between them: the first few at once, then longer and longer.

    Raises:
        ConflictError: none of the attempts was the last one needed.
    """
    tries = settings.max_tries or 100
    initial = (50 if settings.initial_backoff_ms is None else settings.initial_backoff_ms) / 1000
    longest = (30_000 if settings.max_backoff_ms is None else settings.max_backoff_ms) / 1000
    for attempt in range(tries):
        if attempt > IMMEDIATE_RETRIES:
            pause = min(longest, initial * 2 ** min(attempt - IMMEDIATE_RETRIES - 1, 30))
            time.sleep(pause * random.uniform(0.5, 1.0))
        yield attempt
    raise ConflictError(
        message="the repository kept changing; every attempt to update it lost the race",
        kind=ErrorKind.UPDATE_ATTEMPTS_EXHAUSTED,
        attempts=tries,
    )


def stand_back(lost: int, attempt_s: float) -> None:
    """Wait before the next attempt, after `lost` lost races; one attempt takes `attempt_s`.

    Of many racing writers only one wins. Where no lock makes them take turns, each waits for a
    random time that grows with every lost race, so that fewer collide.
    """
    if lost > 1:
        time.sleep(random.uniform(0, attempt_s * 2 ** min(lost - 1, STAND_BACK_DOUBLINGS)))


def has_landed(refs: RefStore, branch: str, wanted: SnapshotId, base: SnapshotId) -> bool:
    """Tell whether a snapshot is in the history of a branch since `base`.

    For a commit whose reply was lost: others may have built upon it meanwhile.
    """
    for entry in refs.ancestry(refs.branch_tip(branch)):
        if entry.id == wanted:
            return True
        if entry.id == base:
            return False
    return False


def certain(outcome: Written | LostRace) -> Written | LostRace:
    """Return the outcome of a conditional write, if it is known.

    Raises:
        StorageError: a reply was lost and others have written since, so that it is unknown.
    """
    if isinstance(outcome, LostRace) and outcome.in_doubt:
        raise StorageError(
            "the reply of the store was lost and another writer has written since, so the outcome "
            "is unknown; check whether the change took effect before you try again",
            kind=ErrorKind.OBJECT_STORE,
            key=outcome.key,
        )
    return outcome


def create_object(
    storage: Storage, key: str, data: bytes, attributes: Attributes
) -> Written | LostRace:
    """Create an object; if the storage fails, check whether the object was created all the same."""
    try:
        return storage.put_if(key, data, None, attributes)
    except StorageError as error:
        try:
            found = storage.fetch(key)
            storage.make_durable([key] if found else [])
        except StorageError:
            raise error from None
        if isinstance(found, Fetched) and found.data == data:
            return Written(found.version)
        raise


def later_than(previous: Micros) -> Micros:
    """The present time or, if `previous` is later than that, the next microsecond after it.

    Times of snapshots and updates must increase strictly. If the clock of an earlier writer was
    ahead, nothing waits for it: `check_clock` refuses writers whose clock differs from the store's.
    """
    return max(now_micros(), previous + 1)


def check_clock(seen: datetime, now: Micros) -> None:
    """Refuse to write if the clock of this machine, `now`, differs much from the store's.

    A wrong time in the repository would stop writers that wait for time to pass it, the
    official ones among them.
    """
    drift = abs(seen.timestamp() - now / 1_000_000)
    if drift > CLOCK_TOLERANCE_S:
        raise FormatError(
            "the clock of this machine differs too much from that of the store; correct it",
            kind=ErrorKind.SNAPSHOT_TIMESTAMP,
            drift_s=round(drift),
            now=to_datetime(now).isoformat(),
        )


def now_micros() -> Micros:
    """The present time."""
    return time.time_ns() // 1000


def backup_name(key: str, now: Micros) -> str:
    """Name of a backup of a mutable object, below `overwritten/`; newer ones sort first."""
    return f"{key}.{YEAR_3000_MS - now // 1000:014d}.{ObjectId.random()}"


def refuse_main(name: str) -> None:
    """Refuse to delete the main branch."""
    if name == MAIN:
        raise SessionStateError(
            "the main branch cannot be deleted", kind=ErrorKind.CANNOT_DELETE_MAIN
        )
