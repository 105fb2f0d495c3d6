"""The claim: an object that says whether an upgrade, its undoing or its cleanup is running.

It is only replaced conditionally, in the version that was read. Two upgrades to the same target
write the same bytes, so the second joins the first. Everything else runs alone, because deletes are
not conditional: undoing deletes keys that an upgrade writes, and cleaning up deletes what undoing
needs. A claim with holders passes to others only if it has not been renewed for a day by the clock
of the store. Work that fails gives up its hold, so that others may take the claim at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from frazil.commit.base import attempts
from frazil.errors import ConflictError, ErrorKind, FrazilError, SessionStateError
from frazil.formats.generation import Generation
from frazil.ids import ObjectId
from frazil.maintenance.deleting import deletable_before
from frazil.model.config import StorageRetriesSettings
from frazil.model.documents import read_json
from frazil.storage.base import JSON_FILE, Fetched, LostRace, Storage, Unchanged, require_deleted
from frazil.upgrading.source import ChunkMode, cannot, marker

CLAIM_KEY: Final = "upgrade.json"
RENEWED_AFTER_S: Final = 600.0
"""How old a claim becomes before its holder renews it; a small part of a day."""


class Work(StrEnum):
    """What a claim is for."""

    UPGRADE = "upgrade"
    UNDO = "undo"
    CLEAN = "clean"


FINISH: Final = {
    Work.UNDO: "an upgrade is being undone: finish that first, with `frazil upgrade URL --undo`",
    Work.CLEAN: "what an upgrade left is being deleted: finish that first, with "
    "`frazil upgrade URL --clean`",
}
"""The error for other kinds of work, by the kind that is unfinished."""


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """What a claim says."""

    work: Work
    to: str = ""
    """the marker of the target of an upgrade"""
    chunks: str = ""
    id: str = field(default_factory=lambda: str(ObjectId.random()))
    """a new one after each undo, so that an old claim cannot continue what was deleted since"""
    holders: int = 1
    """processes that have neither finished nor failed, killed ones included"""
    is_ended: bool = False
    """whether the object is about to be deleted"""

    def is_same_work(self, other: ClaimRecord) -> bool:
        """Whether two do the same, so that one may help the other."""
        return (self.work, self.to, self.chunks) == (other.work, other.to, other.chunks)

    def encode(self) -> bytes:
        """The bytes of the object."""
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        if self.work is not Work.UPGRADE:
            return str(self.work)
        return f"another upgrade (to {self.to}, chunks: {self.chunks})"


def decode_claim(data: bytes) -> ClaimRecord:
    """What a claim says.

    Raises:
        SessionStateError: it cannot be understood.
    """
    unknown = cannot(
        f"an upgrade of this repository is under way, but {CLAIM_KEY} cannot be understood: finish "
        "or undo that with the version that wrote it"
    )
    try:
        said = read_json(data)
        record = ClaimRecord(**{**said, "work": Work(said["work"])})
    except (ValueError, TypeError, KeyError) as error:
        raise unknown from error
    kinds = [type(getattr(record, each.name)) for each in fields(record)]
    if kinds != [Work, str, str, str, int, bool] or record.holders < 0:
        raise unknown
    return record


def upgrading(target: Generation, mode: ChunkMode) -> ClaimRecord:
    """What an upgrade claims."""
    return ClaimRecord(Work.UPGRADE, marker(target), str(mode))


@dataclass(slots=True)
class Claim:
    """A claim that this process holds, alone or with others that do the same."""

    place: Storage
    record: ClaimRecord
    before: ClaimRecord | None = None
    """the interrupted claim that this one replaced; put back if this work is refused"""
    _renewed: float = field(default_factory=time.monotonic)
    _is_left: bool = False

    def hold(self) -> None:
        """Check that the claim is still ours; renew it when that is due.

        Raises:
            SessionStateError: another process has taken the claim, or has finished with it.
        """
        is_ours = self._replaced(lambda there: there) if self._is_due else self._there() is not None
        if not is_ours:
            raise cannot("another process has finished or undone this upgrade meanwhile")

    def keep(self) -> None:
        """`hold` when the claim is to be renewed, for work that consists of many small parts."""
        if self._is_due:
            self.hold()

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self._renewed > RENEWED_AFTER_S

    def release(self) -> None:
        """The work is done: end the claim, unless other processes still do the same work."""
        self._leave(is_ended=True)

    def leave(self) -> None:
        """The work was interrupted: keep the claim, so that only the same work can continue."""
        self._leave(is_ended=False)

    def give_back(self) -> None:
        """The work was refused, and nothing has changed: let the claim be what it was."""
        before = self.before
        if before is None:
            self.release()
        elif before.id == self.record.id:
            self.leave()
        else:
            self._replaced(lambda _: before)

    def _leave(self, *, is_ended: bool) -> None:
        if self._is_left:
            return  # it is counted once among the holders
        self._is_left = True
        left = self.record

        def change(there: ClaimRecord) -> ClaimRecord:
            nonlocal left
            # Other processes that clean up find nothing to delete any more.
            is_over = is_ended and there.work is Work.CLEAN
            holders = 0 if is_over else max(0, there.holders - 1)
            left = replace(there, holders=holders, is_ended=is_ended and holders == 0)
            return left

        if self._replaced(change) and left.is_ended and (found := _fetched(self.place)):
            # An ended claim is not taken over for a day, so this deletes no other claim.
            require_deleted(self.place.delete_once(CLAIM_KEY, found.version))

    def _replaced(self, change: Callable[[ClaimRecord], ClaimRecord]) -> bool:
        """Replace the claim; False if it has passed to another process."""
        for _ in attempts(StorageRetriesSettings()):
            found = self._there()
            if found is None:
                return False
            there = decode_claim(found.data)
            if not isinstance(_written(self.place, change(there), found), LostRace):
                self._renewed = time.monotonic()
                return True
        return False

    def _there(self) -> Fetched | None:
        """The object, if it is still our claim."""
        found = _fetched(self.place)
        there = None if found is None else decode_claim(found.data)
        is_ours = there is not None and there.id == self.record.id and not there.is_ended
        return found if is_ours else None


def _fetched(place: Storage) -> Fetched | None:
    found = place.fetch(CLAIM_KEY)
    assert not isinstance(found, Unchanged)
    return found


def _written(place: Storage, record: ClaimRecord, found: Fetched | None) -> object:
    version = None if found is None else found.version
    made = place.put_if(CLAIM_KEY, record.encode(), version, JSON_FILE)
    place.make_durable([CLAIM_KEY])
    return made


def take(place: Storage, wanted: ClaimRecord, unsafe_minimum_age: timedelta | None = None) -> Claim:
    """Take the claim for this process, before anything is written.

    Raises:
        SessionStateError: another process does other work, or may still do so.
        ConflictError: another process has just finished.
    """
    for _ in attempts(StorageRetriesSettings()):
        found = _fetched(place)
        there = None if found is None else decode_claim(found.data)
        record = wanted
        if there is not None:
            record = _successor(place, there, wanted, unsafe_minimum_age)
        if not isinstance(_written(place, record, found), LostRace):
            before = None if there is None or there.is_ended else replace(there, holders=0)
            return Claim(place, record, before)
    raise late()


def _successor(
    place: Storage, there: ClaimRecord, wanted: ClaimRecord, age: timedelta | None
) -> ClaimRecord:
    """The claim that may follow another one, if it may be taken over."""
    if there.is_same_work(wanted) and wanted.work is not Work.UNDO and not there.is_ended:
        return replace(there, holders=there.holders + 1)
    if not there.is_ended:
        if there.work in FINISH and there.work is not wanted.work:
            raise cannot(FINISH[there.work])
        if wanted.work is Work.UPGRADE:
            raise cannot(f"{there} has been begun; finish or undo it first")
    if there.holders or there.is_ended:
        _require_old(place, there, age)
    return wanted


def _require_old(place: Storage, there: ClaimRecord, age: timedelta | None) -> None:
    """Refuse to take over the claim of a process that may still be running."""
    limit, item = deletable_before(place, age), place.head(CLAIM_KEY)
    if limit is None or item is None or item.created_at < limit:
        return
    if there.is_ended:
        raise ConflictError(
            message="another process has just upgraded this repository, or undone that; open it "
            "again",
            kind=ErrorKind.REPO_INFO_UPDATED,
        )
    raise SessionStateError(
        f"another process is at work here ({there}), or was killed less than a day ago; wait for "
        "it, or do the same to finish it; if it was killed, lower unsafe_minimum_age",
        kind=ErrorKind.INVALID_REPOSITORY_MIGRATION,
        since=item.created_at.isoformat(),
    )


@contextmanager
def claimed(claim: Claim) -> Iterator[Claim]:
    """Work under a claim, which is released at its end and left if it fails."""
    try:
        yield claim
    except BaseException:
        # A storage that fails here too has failed before: the claim goes by its age then.
        with suppress(FrazilError):
            claim.leave()
        raise
    claim.release()


def too_late(claim: Claim) -> ConflictError:
    """The error for an upgrade that another process has finished; there is nothing left to do."""
    claim.release()
    return late()


def late() -> ConflictError:
    """The error for a repository that was upgraded meanwhile."""
    return ConflictError(
        message="another process has upgraded this repository; open it again",
        kind=ErrorKind.REPO_INFO_UPDATED,
    )
