"""How old something must be before it may be deleted, by the clock of the store.

What an open session has written is garbage until it is committed, and looks like any other
garbage. Only its age tells them apart, so there is one floor for every way to delete.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from frazil.commit.base import MINIMUM_AGE
from frazil.errors import ErrorKind, InvalidInputError, SessionStateError
from frazil.model.history import to_micros
from frazil.storage.base import Listed, Storage


def deletable_before(
    place: Storage, unsafe_minimum_age: timedelta | None, *, dry_run: bool = False
) -> datetime | None:
    """The time before which an object must have been written; None: whatever the caller says.

    A dry run, which writes nothing, goes by the clock of this machine.

    Raises:
        InvalidInputError: the age is negative.
    """
    if unsafe_minimum_age is not None and unsafe_minimum_age < timedelta(0):
        raise InvalidInputError("a minimum age cannot be negative", kind=ErrorKind.INVALID_OPTION)
    least = MINIMUM_AGE if unsafe_minimum_age is None else unsafe_minimum_age
    if not least:
        return None
    by_machine = dry_run or not place.can_write
    return (datetime.now(UTC) if by_machine else place.clock().astimezone(UTC)) - least


def safe_cutoff(
    place: Storage,
    older_than: datetime,
    unsafe_minimum_age: timedelta | None,
    *,
    dry_run: bool = False,
) -> datetime:
    """A caller's time, or the latest one that is safe if the caller's is later.

    Raises:
        InvalidInputError: the time has no zone, or the age is negative.
    """
    to_micros(older_than)  # refuses a time without zone even if nothing is there
    limit = deletable_before(place, unsafe_minimum_age, dry_run=dry_run)
    return older_than if limit is None else min(older_than, limit)


def require_old(items: list[Listed], limit: datetime | None, action: str) -> None:
    """Refuse to delete a set of files, which go together or not at all, if one is too young.

    Raises:
        SessionStateError: one is.
    """
    young = [item for item in items if limit is not None and item.created_at >= limit]
    if young:
        newest = max(young, key=lambda item: item.created_at)
        raise SessionStateError(
            f"cannot {action}: {len(young)} of its files are younger than files must be that are "
            "deleted; try again later, or lower unsafe_minimum_age if nobody else uses the "
            "repository",
            kind=ErrorKind.NOT_ALLOWED,
            key=newest.key,
            written=newest.created_at.isoformat(),
        )
