"""Why a repo object takes no changes while the repository becomes another one.

Commits must be refused until that is done. During an upgrade from spec version 1 they would be
missed, because it copies the refs at its end; while an upgrade is undone they would be lost.
"""

from __future__ import annotations

from typing import Final

from frazil.errors import ErrorKind, ReadOnlyError
from frazil.model.history import RepoAvailability, RepoInfo

_BEGUN: Final = "an upgrade from spec version 1 is under way"
FINISH: Final = "finish it with `frazil upgrade URL --apply`"
UNDER_WAY: Final = f"{_BEGUN}; if it was interrupted, {FINISH}"
BEING_UNDONE: Final = (
    "the upgrade that made this repository is being undone; if that was interrupted, finish it "
    "with `frazil upgrade URL --undo`"
)


def is_under_way(info: RepoInfo) -> bool:
    """Whether a repo object is that of an upgrade which has begun and is not finished."""
    return _is_closed(info) and (info.status.reason or "").startswith(_BEGUN)


def is_being_undone(info: RepoInfo) -> bool:
    """Whether a repo object is about to go."""
    return _is_closed(info) and info.status.reason == BEING_UNDONE


def _is_closed(info: RepoInfo) -> bool:
    return info.status.availability == RepoAvailability.read_only


def require_own_status(info: RepoInfo) -> None:
    """Refuse to set the status of a repository that is becoming another one.

    Raises:
        ReadOnlyError: it is; the message says how that is finished.
    """
    if is_under_way(info) or is_being_undone(info):
        raise ReadOnlyError(
            f"the status cannot be changed: {info.status.reason}",
            kind=ErrorKind.READ_ONLY_REPOSITORY,
        )
