"""Copies of immutable objects in a folder, shared by all processes of one user on a machine.

Each entry is one file, named by a hash of what it is a copy of. It is written under a temporary
name first, so no reader sees half of it. It begins with a checksum of its name and bytes: what does
not fit, whatever the reason, is deleted and counts as absent. The time of a file is that of its
last use. A folder that has grown too large loses the entries used longest ago; one process at a
time sees to that, while others go on. Files are not synced to the disk, and if the folder cannot be
used, the original is read.
"""
# System calls are the hot path of small chunks, and Path objects double its cost:
# ruff: noqa: PTH103, PTH105, PTH108, PTH120

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from frazil.storage.base import Bytes
from frazil.storage.own_folder import own_folder
from frazil.storage.pool import thread_pool
from frazil.storage.posix import read_span, write_all
from frazil.storage.tuning import CACHE_SLACK

T = TypeVar("T")

DIGEST: Final = 16
"""bytes of a checksum"""
NAME: Final = 20
"""bytes of the hash that names an entry"""
TOUCH_AFTER_S: Final = 60
"""Uses that follow each other more closely are not all written down."""
LOST_AFTER_S: Final = 3600
"""A temporary file older than this has lost its writer."""
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_CREATE: Final = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL

_ENTRY: Final = re.compile(f"[0-9a-f]{{{2 * NAME - 2}}}")
_TEMPORARY: Final = re.compile(r"new-[0-9a-f]{16}")

log = logging.getLogger(__name__)


class DiskCache:
    """A folder of copies, limited in size; usable from many threads and processes."""

    def __init__(self, path: str | os.PathLike[str], limit_bytes: int) -> None:
        """Use a folder of our own in `path`, which is made, for our user only, if it is missing."""
        own = f"{os.fspath(path)}/frazil-{os.geteuid()}"
        self.path: Final = own_folder(own, "keep a disk cache")
        self.limit_bytes: Final = limit_bytes
        self._has_warned = False

    def get(self, source: str) -> bytes | None:
        """The copy of something, or None."""
        name = _name(source)
        return self._use(name, lambda descriptor: _whole(descriptor, name))

    def read_into(self, source: str, view: memoryview) -> bool:
        """Fill memory with the copy of something that is exactly as long, if there is one."""
        name = _name(source)
        return self._use(name, lambda descriptor: _filled(descriptor, name, view)) is not None

    def put(self, source: str, data: Bytes) -> None:
        """Keep a copy, unless it is too large or the disk will not have it."""
        size = len(data) + DIGEST
        if size > self.limit_bytes // 4:  # it would displace too much else
            return
        name = _name(source)
        path = self._path(name)
        temporary = f"{os.path.dirname(path)}/new-{secrets.token_hex(8)}"
        try:
            descriptor = self._create(temporary)
            try:
                write_all(descriptor, _checksum(name, data))
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except OSError as error:
            self._warn(error)
            _remove(temporary)
            return
        # By chance instead of by count: so it happens as often however many processes write,
        # and however short they live.
        if random.random() * self.limit_bytes < size * CACHE_SLACK:
            thread_pool().submit(self.trim)

    def trim(self) -> int:
        """Delete the entries used longest ago if there are too many; return the bytes left.

        Does nothing while another process does it.
        """
        try:
            with self._turn() as is_ours:
                return self._trim() if is_ours else 0
        except OSError as error:
            self._warn(error)
            return 0

    def clear(self) -> None:
        """Delete every entry."""
        for _, _, path in self._entries():
            _remove(path)

    # --- one entry ---

    def _path(self, name: bytes) -> str:
        text = name.hex()
        return f"{self.path}/{text[:2]}/{text[2:]}"

    def _create(self, path: str) -> int:
        try:
            return os.open(path, _CREATE, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            return os.open(path, _CREATE, 0o600)

    def _use(self, name: bytes, read: Callable[[int], T | None]) -> T | None:
        """Read an entry and note its use; one that is not whole is deleted."""
        path = self._path(name)
        try:
            descriptor = os.open(path, _READ)
            try:
                found = read(descriptor)
                if found is None:
                    log.warning("a damaged entry of the disk cache was dropped: %s", path)
                    _remove(path)
                elif time.time() - os.fstat(descriptor).st_mtime > TOUCH_AFTER_S:
                    with contextlib.suppress(OSError):
                        os.utime(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        return found

    # --- all entries ---

    def _trim(self) -> int:
        found = sorted(self._entries())
        total = sum(size for _, size, _ in found)
        if total <= self.limit_bytes - self.limit_bytes // CACHE_SLACK:
            return total
        # Some more than needed, or the next entry would be one too many again.
        wanted = self.limit_bytes - 2 * self.limit_bytes // CACHE_SLACK
        for _, size, path in found:
            if total <= wanted:
                break
            _remove(path)
            total -= size
        return total

    def _entries(self) -> Iterator[tuple[float, int, str]]:
        """Last use, size and path of each; temporary files without writer are removed."""
        lost = time.time() - LOST_AFTER_S
        for folder in _folders(self.path):
            for name, status in _files(folder):
                path = f"{folder}/{name}"
                if _ENTRY.fullmatch(name):
                    yield status.st_mtime, status.st_size, path
                elif _TEMPORARY.fullmatch(name) and status.st_mtime < lost:
                    _remove(path)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[bool]:
        descriptor = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                # Closing alone would leave it locked by a process forked meanwhile.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            reason = error.strerror or str(error)
            log.warning("the disk cache in %s cannot be used: %s", self.path, reason)


def _name(source: str) -> bytes:
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=NAME).digest()


def _checksum(name: bytes, data: Bytes) -> bytes:
    """Of the name too: an entry under another's name is damage."""
    made = hashlib.blake2b(name, digest_size=DIGEST)
    made.update(data)
    return made.digest()


def _whole(descriptor: int, name: bytes) -> bytes | None:
    """The bytes of an entry, if they are what was written."""
    checksum = os.pread(descriptor, DIGEST, 0)
    data = read_span(descriptor, len(checksum), None)
    return None if data is None or _checksum(name, data) != checksum else data


def _filled(descriptor: int, name: bytes, view: memoryview) -> bool | None:
    """Fill memory with an entry; True if it was as long and is what was written."""
    if os.fstat(descriptor).st_size != DIGEST + len(view):
        return None
    checksum = os.pread(descriptor, DIGEST, 0)
    done = 0
    while done < len(view):  # the kernel gives at most 2 GiB at a time
        count = os.preadv(descriptor, [view[done:]], DIGEST + done)
        if not count:
            return None
        done += count
    return True if _checksum(name, view) == checksum else None


def _folders(path: str) -> Sequence[str]:
    with os.scandir(path) as entries:
        return [
            each.path
            for each in entries
            if len(each.name) == 2 and each.is_dir(follow_symlinks=False)
        ]


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield entry.name, entry.stat(follow_symlinks=False)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
