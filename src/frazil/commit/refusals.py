"""Errors of commit protocols: refs that moved, exist or are missing, and lost snapshots."""

from __future__ import annotations

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    RefNotFoundError,
    SnapshotNotFoundError,
)
from frazil.ids import SnapshotId


def moved(base: SnapshotId, found: SnapshotId | None, branch: str) -> ConflictError:
    """The error for a branch that has moved since the session began."""
    return ConflictError(
        message=f"failed to commit: branch {branch!r} has moved since the session began, "
        f"expected parent {base}, actual parent {found}; rebase the session and commit again",
        expected_parent=str(base),
        actual_parent=str(found) if found is not None else None,
    )


def branch_exists(name: str, tip: SnapshotId) -> ConflictError:
    """The error for a branch that cannot be made, because there is one."""
    return ConflictError(
        message=f"branch update conflict: branch {name!r} already exists",
        kind=ErrorKind.BRANCH_UPDATE_CONFLICT,
        actual_parent=str(tip),
    )


def elsewhere(name: str, expected: SnapshotId, found: SnapshotId) -> ConflictError:
    """The error for a reset of a branch that is not at the expected snapshot."""
    return ConflictError(
        message=f"branch update conflict: expected {name!r} at {expected}, found {found}",
        kind=ErrorKind.BRANCH_UPDATE_CONFLICT,
        expected_parent=str(expected),
        actual_parent=str(found),
    )


def tag_exists(name: str) -> AlreadyExistsError:
    """The error for a tag that cannot be made, because there is or was one."""
    return AlreadyExistsError(
        f"tag {name!r} already exists, or was deleted: tag names cannot be used again",
        kind=ErrorKind.TAG_ALREADY_EXISTS,
    )


def no_ref(kind: str, name: str) -> RefNotFoundError:
    """The error for a branch or tag that is not there."""
    return RefNotFoundError(f"no {kind} {name!r}: ref not found")


def no_snapshot(snapshot_id: SnapshotId | str) -> SnapshotNotFoundError:
    """The error for a snapshot that history does not know."""
    return SnapshotNotFoundError("snapshot not found in this repository", snapshot=snapshot_id)


def gone(snapshot_id: SnapshotId) -> SnapshotNotFoundError:
    """The error for a snapshot that was collected while something was built upon its chunks."""
    return SnapshotNotFoundError(
        "a snapshot that this change refers to was expired or deleted meanwhile; "
        "nothing was published",
        snapshot=snapshot_id,
    )
