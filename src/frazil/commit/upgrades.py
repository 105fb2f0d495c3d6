"""What is told of an upgrade from version 1 to 2 to those who meet it: whether it has ended."""

from __future__ import annotations

from typing import Final

from frazil.commit.base import REPO_KEY
from frazil.errors import ConflictError, ErrorKind
from frazil.formats.repo_info import decode_repo_info
from frazil.model.history import RepoAvailability, RepoInfo
from frazil.storage.base import Storage

_BEGUN: Final = "an upgrade from spec version 1 is under way"
FINISH: Final = "finish it with `frazil upgrade URL --apply`"
UNDER_WAY: Final = f"{_BEGUN}; if it was interrupted, {FINISH}"
"""The reason for which a repo object takes no changes meanwhile."""


def is_under_way(info: RepoInfo) -> bool:
    """Whether a repo object is that of an upgrade which has begun and is not finished."""
    status = info.status
    reason = status.reason or ""
    return status.availability == RepoAvailability.read_only and reason.startswith(_BEGUN)


def upgraded_meanwhile(storage: Storage) -> ConflictError:
    """The error for a handle of a generation that the repository no longer is, or soon not."""
    blob = storage.get(REPO_KEY)
    message = "the repository was upgraded to a newer spec version meanwhile; open it again"
    if blob is not None and is_under_way(decode_repo_info(blob, key=REPO_KEY)):
        message = f"{UNDER_WAY}, and open it again"
    return ConflictError(message=message, kind=ErrorKind.REPO_INFO_UPDATED, url=storage.url)


def taken_over(storage: Storage, key: str) -> ConflictError:
    """The error for a ref that an upgrade has taken over, so that it leads nowhere."""
    if storage.head(REPO_KEY) is not None:
        return upgraded_meanwhile(storage)
    return ConflictError(
        message="an upgrade from spec version 1 has taken this branch or tag over, but its repo "
        f"object is missing; if it was interrupted, {FINISH}",
        kind=ErrorKind.REPO_INFO_UPDATED,
        key=key,
        url=storage.url,
    )


def fenced(moved_to: str) -> ConflictError:
    """The error for a repository from before version 1 that an upgrade has begun to replace."""
    return ConflictError(
        message=f"the repository was upgraded to {moved_to}, or is about to be; finish the "
        "upgrade (`frazil upgrade URL --apply`) and open it again",
        kind=ErrorKind.REPO_INFO_UPDATED,
    )
