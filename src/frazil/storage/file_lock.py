"""The advisory lock that makes replacing a file conditional.

The lock is `flock` on one file in the root of the storage, because only a file on the shared
disk can coordinate two machines. Its name ends in `#` and digits like a staging file: the
official package, which writes such names itself, leaves them out of its listings, and so do
we. The file is made by the first conditional replacement and never deleted: deleting it while
a process waits would let two in. The kernel drops the lock when its holder dies, however it
dies; what remains after a crash is an empty file without a holder.

Between machines this needs a mount whose `flock` reaches the server: NFS 3 with lockd and
NFS 4 (not `nolock`, not `local_lock`), CIFS (not `nobrl`), Lustre mounted with `flock` (not
`localflock`), GPFS, CephFS. A mount that says it has no locks is refused; one that lies to
this machine alone cannot be told from a good one.
"""
# Path objects would take longer than the system calls themselves:
# ruff: noqa: PTH116, PTH120

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import stat
import time
from collections.abc import Iterator
from typing import Final

from frazil.errors import ErrorKind, StorageError

LOCK_NAME: Final = ".frazil-lock#0"
_FIRST_PAUSE_S: Final = 0.0002
"""The first pause of a writer that waits for the lock, which is held for a short time only."""
LONGEST_PAUSE_S: Final = 0.005
"""Pauses double up to this one, where many may wait."""
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_NO_LOCKS: Final = frozenset(
    {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, errno.EBADF}
)


class RootLock:
    """A lock of a directory tree; usable from many threads and processes."""

    def __init__(
        self,
        root: str,
        *,
        timeout_s: float,
        name: str = LOCK_NAME,
        longest_pause_s: float = LONGEST_PAUSE_S,
    ) -> None:
        self._path: Final = f"{root}/{name}"
        self._timeout_s: Final = timeout_s
        self._longest_pause_s: Final = longest_pause_s
        self._is_proved = False

    @contextlib.contextmanager
    def hold(self, *, at_once: bool = False) -> Iterator[None]:
        """Hold the lock, for as short as possible; with `at_once` do not wait for it.

        Raises:
            StorageError: another process held the lock too long, or this file system has none.
        """
        descriptor = self._acquire(0.0 if at_once else self._timeout_s)
        try:
            if not self._is_proved:
                self._prove()
            yield
        finally:
            # Closing alone would leave it locked by a process forked meanwhile.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _acquire(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while True:
            descriptor = self._open()
            try:
                self._wait(descriptor, deadline)
                if self._is_current(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _wait(self, descriptor: int, deadline: float) -> None:
        """Lock an open file, trying again and again."""
        pause = _FIRST_PAUSE_S
        while not self._try(descriptor):
            if time.monotonic() > deadline:
                raise StorageError(
                    "timed out: another process holds the lock of this directory",
                    kind=ErrorKind.IO,
                    path=self._path,
                    waited_s=self._timeout_s,
                )
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, self._longest_pause_s)

    def _open(self) -> int:
        while True:
            try:
                return os.open(self._path, os.O_RDWR | _FLAGS)
            except PermissionError:
                # made by another user; enough on local disks
                return os.open(self._path, os.O_RDONLY | _FLAGS)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    return self._create()

    def _create(self) -> int:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
        # Every user that may write in the directory may lock it, whatever our umask is.
        allowed = stat.S_IMODE(os.stat(os.path.dirname(self._path)).st_mode) & 0o666
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, allowed | 0o600)
        return descriptor

    def _try(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise self._no_locks() from error
            raise
        return True

    def _is_current(self, descriptor: int) -> bool:
        """Tell whether the file we locked still has its name: the tree may have been remade."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), named)

    def _prove(self) -> None:
        """See that a second holder is refused; some file systems grant every lock."""
        second = self._open()
        try:
            if self._try(second):
                raise self._no_locks()
        finally:
            os.close(second)
        self._is_proved = True

    def _no_locks(self) -> StorageError:
        return StorageError(
            "this file system has no advisory locks (flock), so an object cannot be replaced "
            "safely; use another disk or an object store",
            kind=ErrorKind.STORAGE_CONFIG,
            path=self._path,
        )
