"""What local storage does to single files: the system calls, and their errors in our words."""
# System calls are the hot path of small chunks, and Path objects double its cost:
# ruff: noqa: PTH104, PTH108

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from frazil.errors import ErrorKind, FrazilError, ReadOnlyError, StorageError
from frazil.storage.base import Bytes, Deleted, Listed, Version
from frazil.storage.keys import byte_span

# A FIFO must not make us wait, so reads are non-blocking; regular files do not care.
READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE: Final = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL
# To delete in a folder one need not be allowed to list it.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_DIRECTORY
_STAGING: Final = re.compile(r"[^#]*#[0-9]*")
MAX_PARTS: Final = 1024
"""so many pieces of memory Linux and macOS write in one call"""
ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_REASONS: Final = {
    errno.EACCES: "permission denied",
    errno.EDQUOT: "disk quota exhausted",
    errno.EISDIR: "a directory is where an object should be",
    errno.ELOOP: "symbolic links inside a repository are not followed",
    errno.ENAMETOOLONG: "object key too long for this file system",
    errno.ENOSPC: "no space left on the disk",
    errno.ENOTDIR: "a file is where a directory should be",
}


class StagedFile:
    """A file with a temporary name in the folder of its target."""

    def __init__(self, target: str) -> None:
        self._target: Final = target
        self._name: str | None = f"{target}#{secrets.randbelow(10**18)}"
        self.descriptor: Final = os.open(self._name, _CREATE, 0o666)
        self.status: os.stat_result

    def date_after(self, previous: os.stat_result) -> None:
        """Make the time differ from that of the file we replace.

        Two files in one tick of the kernel's clock may get the same inode, size and time, and
        a reader would take the second for the first. Some disks only know whole seconds.
        """
        for step_us in (1, 2_000_000):
            if _mtime_us(os.fstat(self.descriptor)) > _mtime_us(previous):
                return
            time_ns = (_mtime_us(previous) + step_us) * 1000
            os.utime(self.descriptor, ns=(time_ns, time_ns))

    def rename(self) -> None:
        """Take the place of the target."""
        assert self._name is not None
        self.status = os.fstat(self.descriptor)
        try:
            os.rename(self._name, self._target)
        except FileNotFoundError:
            # A network disk may have done it and lost the reply to the first attempt.
            if not self._is_in_place():
                raise
        self._name = None

    def link(self) -> bool:
        """Become the target, unless there is one."""
        assert self._name is not None
        self.status = os.fstat(self.descriptor)
        try:
            os.link(self._name, self._target)
        except FileExistsError:
            return self._is_in_place()
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise StorageError(
                    "this file system has no hard links (link), so an object cannot be created "
                    "safely; use another disk or an object store",
                    kind=ErrorKind.STORAGE_CONFIG,
                    path=self._target,
                ) from error
            raise
        return True

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.lstat(self._target))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Remove the temporary name if it is still there."""
        os.close(self.descriptor)
        if self._name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._name)


def etag(status: os.stat_result) -> str:
    """The tag that the official package gives to a file: inode, time and size."""
    return f"{status.st_ino:x}-{_mtime_us(status):x}-{status.st_size:x}"


def version_of(status: os.stat_result, data: Bytes) -> Version:
    """A version that names the content as well, since inodes and clock ticks are reused."""
    return Version(etag(status), hashlib.sha256(data).hexdigest()[:32])


def is_staging(name: str) -> bool:
    """Tell whether a file name is a temporary one of ours or of the official package."""
    return "#" in name and _STAGING.fullmatch(name) is not None


def write_all(descriptor: int, data: Bytes) -> None:
    """Write everything; the kernel takes at most 2 GiB at a time."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_parts(descriptor: int, parts: Sequence[Bytes]) -> None:
    """Write everything, part after part, from where it is in memory."""
    for first in range(0, len(parts), MAX_PARTS):
        batch = parts[first : first + MAX_PARTS]
        written = os.writev(descriptor, batch)
        for part in batch:  # a full disk, a signal or 2 GiB end a write early
            if written < len(part):
                write_all(descriptor, memoryview(part).cast("B")[written:])
                written = 0
            else:
                written -= len(part)


def failure(error: OSError, path: str, *, writing: bool = False) -> FrazilError:
    """Say in our words what the system refused."""
    number = error.errno
    if number == errno.EROFS or (writing and number in (errno.EACCES, errno.EPERM)):
        return ReadOnlyError("cannot write here", kind=ErrorKind.READ_ONLY_STORAGE, path=path)
    if number == errno.ENOENT:
        return StorageError("file has vanished", kind=ErrorKind.OBJECT_NOT_FOUND, path=path)
    reason = _REASONS.get(number or 0) or error.strerror or str(error)
    return StorageError(reason, kind=ErrorKind.IO, path=path)


def is_same(found: Version, expected: Version) -> bool:
    """Compare versions by content, since inodes are not stable on every network disk."""
    if expected.generation is not None:
        return found.generation == expected.generation
    return found.etag == expected.etag


def _mtime_us(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1000


def listed_file(key: str, status: os.stat_result) -> Listed:
    """What a listing says of a file."""
    return Listed(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def read_span(descriptor: int, start: int | None, end: int | None) -> bytes | None:
    """Read an open file or a part of it; None for a directory, which is no object."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISDIR(status.st_mode):
            return None
        raise OSError(errno.EINVAL, "not a regular file")
    first, last = byte_span(status.st_size, start, end)
    data = os.pread(descriptor, last - first, first)
    if len(data) == last - first:
        return data
    parts = [data]
    while data:  # the kernel gives at most 2 GiB at a time
        first += len(data)
        data = os.pread(descriptor, last - first, first)
        parts.append(data)
    return b"".join(parts)


def create_file(path: str, parts: Sequence[Bytes]) -> None:
    """Write a new file under its own name."""
    descriptor = os.open(path, _CREATE, 0o666)
    try:
        write_parts(descriptor, parts)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened_folder(path: str, *, follow_symlinks: bool) -> Iterator[int]:
    """Keep a folder open: names in it are then found without walking the path each time."""
    flags = _FOLDER if follow_symlinks else _FOLDER | os.O_NOFOLLOW
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def delete_files(folder: int, path: str, keys: Sequence[str]) -> Deleted:
    """Delete files of an open folder by the last part of their keys; tell which would not go."""
    failed = []
    start = keys[0].rfind("/") + 1 if keys else 0
    for key in keys:
        try:
            os.unlink(key[start:], dir_fd=folder)
        except OSError as error:
            if error.errno not in ABSENT:
                reason = failure(error, f"{path}/{key[start:]}", writing=True)
                failed.append((key, str(reason)))
    return Deleted(len(keys) - len(failed), failed=tuple(failed))


def sizes_and_times(folder: int, names: Sequence[str]) -> list[tuple[int, int] | None]:
    """Size and time in microseconds of regular files in an open folder; None for others."""
    found: list[tuple[int, int] | None] = []
    for name in names:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in ABSENT:
                raise
            found.append(None)
        else:
            is_file = stat.S_ISREG(status.st_mode)
            found.append((status.st_size, _mtime_us(status)) if is_file else None)
    return found


def staging_files(folder: str) -> Iterator[str]:
    """Paths of the temporary files in a folder and below."""
    folders = [folder]
    while folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif "#" in entry.name and is_staging(entry.name):
                    yield entry.path


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn what the system refuses while writing into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise failure(error, path, writing=True) from error
