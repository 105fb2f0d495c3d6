"""Getting files onto the disk itself, so that they survive a power cut."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, Final

from frazil.storage.pool import thread_pool
from frazil.storage.tuning import EARLY_KEPT, EARLY_SYNCS

# Directories cannot be synced on some network and FUSE mounts, which order names themselves.
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})


def sync_descriptor(descriptor: int) -> None:
    """Return once what was written to an open file is on the disk."""
    if sys.platform == "darwin":
        # fsync stops at the drive's cache there
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync(path: str) -> None:
    """Return once a file, or the names in a directory, are on the disk.

    A file lasts only with its name, so its directory must be synced too.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_descriptor(descriptor)
    except OSError as error:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if not is_folder or error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def can_sync_file_system() -> bool:
    """Whether this system has `sync_file_system`."""
    return _syncfs() is not None


def sync_file_system(path: str) -> None:
    """Put everything of the file system that holds `path` on the disk.

    One call for the journal instead of one per file: 2,048 new files of 16 KiB took 50 ms so,
    200 ms by fsync in 16 threads, 600 ms one by one.
    """
    call = _syncfs()
    assert call is not None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if call(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)


@cache
def _syncfs() -> Any | None:  # noqa: ANN401 - a C function has no Python type
    # Before Linux 5.8 it did not tell of failed writes.
    if sys.platform != "linux" or _kernel() < (5, 8):
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def _kernel() -> tuple[int, ...]:
    parts = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


class EarlySync:
    """Syncs large files in the background, before a commit has to wait for them.

    Written and synced one after the other, 64 files of 4 MiB took 0.27 s; synced in threads while
    the next are being written 0.14 s, which is what writing alone takes. Knows what was begun for
    which file; usable from many threads, and empty in a forked process.
    """

    def __init__(self, sync: Callable[[str], None]) -> None:
        self._sync: Final = sync
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._free = threading.Semaphore(EARLY_SYNCS)
        self._begun: dict[str, Future[None]] = {}

    def begin(self, path: str) -> None:
        """Sync a file in the background, if not too many are on their way."""
        if self._process != os.getpid():
            self._renew()  # the threads of our parent are not ours
        if not self._free.acquire(blocking=False):
            return
        try:
            self._begun[path] = thread_pool().submit(self._work, path)
        except RuntimeError:  # the interpreter is about to end
            self._free.release()
        if len(self._begun) > EARLY_KEPT:
            self._forget_done()

    def find(self, path: str) -> Future[None] | None:
        """What was begun for a file: its result is that of the sync. None for nothing.

        It is found again, for the system tells of a failure only once.
        """
        return self._begun.get(path) if self._process == os.getpid() else None

    def forget(self, path: str) -> None:
        """Know no more of a file, since it is written anew."""
        self._begun.pop(path, None)

    def _work(self, path: str) -> None:
        try:
            self._sync(path)
        finally:
            self._free.release()

    def _forget_done(self) -> None:
        for path, begun in list(self._begun.items()):
            if begun.done() and begun.exception() is None:
                self._begun.pop(path, None)
