"""Why a repository takes no changes while it is upgraded or its upgrade is undone.

Commits must be refused until that is done. During an upgrade from spec version 1 they would be
missed, because it copies the refs at its end; while an upgrade is undone they would be lost.
"""

from __future__ import annotations

from typing import Final

from frazil.errors import ConflictError, ErrorKind, ReadOnlyError
from frazil.formats.repo_info import REPO_KEY, decode_repo_info
from frazil.model.history import RepoAvailability, RepoInfo
from frazil.storage.base import Storage

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


def upgraded_meanwhile(storage: Storage) -> ConflictError:
    """The error for a handle that was opened before an upgrade to a newer generation."""
    blob = storage.get(REPO_KEY)
    message = "the repository was upgraded to a newer spec version meanwhile; open it again"
    if blob is not None and is_under_way(decode_repo_info(blob, key=REPO_KEY)):
        message = f"{UNDER_WAY}, and open it again"
    return ConflictError(message=message, kind=ErrorKind.REPO_INFO_UPDATED, url=storage.url)


def taken_over(storage: Storage, key: str) -> ConflictError:
    """The error for a ref that was replaced by a fence during an upgrade."""
    if storage.head(REPO_KEY) is not None:
        return upgraded_meanwhile(storage)
    return ConflictError(
        message="an upgrade from spec version 1 has taken this branch or tag over, but its repo "
        f"object is missing; if it was interrupted, {FINISH}",
        kind=ErrorKind.REPO_INFO_UPDATED,
        key=key,
        url=storage.url,
    )


def being_undone(storage: Storage) -> ConflictError:
    """The error for a repository whose upgrade is being undone."""
    return ConflictError(
        message=BEING_UNDONE,
        kind=ErrorKind.REPO_INFO_UPDATED,
        url=storage.url,
    )


def fenced_error(moved_to: str) -> ConflictError:
    """The error for a repository from before version 1 that an upgrade has begun to replace."""
    return ConflictError(
        message=f"the repository was upgraded to {moved_to}, or is about to be; finish the "
        "upgrade (`frazil upgrade URL --apply`) and open it again",
        kind=ErrorKind.REPO_INFO_UPDATED,
    )
