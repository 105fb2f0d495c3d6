"""A folder that only our user can write to, so that no other user chooses what is read from it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from frazil.errors import ErrorKind, StorageError


def own_folder(path: str | os.PathLike[str], purpose: str) -> str:
    """Make a folder for our user only, if it is missing, and return its absolute path.

    Args:
        path: the folder.
        purpose: what it is for, for errors: `keep a disk cache`.

    Raises:
        StorageError: it cannot be made, is a link, or others may write to it.
    """
    folder = Path(path).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise _unusable(error.strerror or str(error), folder, purpose) from error
    if not stat.S_ISDIR(status.st_mode):
        raise _unusable("it is a link: others could choose what we read", folder, purpose)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _unusable("it is not ours alone: others could change what we read", folder, purpose)
    return str(folder)


def _unusable(reason: str, folder: Path, purpose: str) -> StorageError:
    return StorageError(
        f"cannot {purpose} here: {reason}", kind=ErrorKind.STORAGE_CONFIG, path=str(folder)
    )
