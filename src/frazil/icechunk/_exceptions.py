"""The errors under their official names."""

from __future__ import annotations

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    IcechunkError,
    InternalError,
    InvalidInputError,
    NodeNotFoundError,
    NotFoundError,
    ReadOnlyError,
    RebaseFailedError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)

__all__ = [
    "AlreadyExistsError",
    "ConflictError",
    "ErrorKind",
    "FormatError",
    "IcechunkError",
    "InternalError",
    "InvalidInputError",
    "NodeNotFoundError",
    "NotFoundError",
    "ReadOnlyError",
    "RebaseFailedError",
    "RefNotFoundError",
    "RepositoryNotFoundError",
    "SessionStateError",
    "SnapshotNotFoundError",
    "StorageError",
]
