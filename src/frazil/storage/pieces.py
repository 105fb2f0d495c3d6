"""Reads ranges of many local files into memory with few system calls."""
# System calls are the hot path of small chunks, and Path objects double its cost:
# ruff: noqa: PTH120

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from typing import Final

from frazil.storage.base import Piece, absent, too_short
from frazil.storage.posix import ABSENT, failure

_PLAIN_NAME: Final = re.compile(r"[0-9A-Z]{20}")
"""Names of objects with random ids, which need no further look."""
_PLAIN_KEYS: Final = re.compile(r"([^/]+/)[0-9A-Z]{20}(?:\1[0-9A-Z]{20})*")
"""Keys of such objects in one folder, one after the other."""
_MANY: Final = 512
"""Places that one read may go to; systems allow 1024."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


def read_pieces(pieces: Sequence[Piece], path_of: Callable[[str], str], flags: int) -> None:
    """Fill memory with parts of files; `path_of` checks a key and gives its path.

    Raises:
        StorageError: a file is missing or too short, or the system refuses it.
    """
    keys = [key for key, _, _ in pieces]
    if len(set(keys)) == len(keys) and _are_plain(keys):
        _read_each(pieces, path_of, flags)
    else:
        _read_ranges(pieces, path_of, flags)


def _are_plain(keys: Sequence[str]) -> bool:
    """Whether keys are those of objects with random ids, all in one folder."""
    together = set(map(len, keys)) == {len(keys[0])} if keys else False
    return together and _PLAIN_KEYS.fullmatch("".join(keys)) is not None


def _read_each(pieces: Sequence[Piece], path_of: Callable[[str], str], flags: int) -> None:
    """Read one range of each of many files of a folder, with as little as possible between."""
    key = pieces[0][0]
    start_of_name = key.rindex("/") + 1
    folder = descriptor = -1
    try:
        folder = os.open(os.path.dirname(path_of(key)), _FOLDER)
        for key, start, view in pieces:
            descriptor = os.open(key[start_of_name:], flags, dir_fd=folder)
            if os.preadv(descriptor, (view,), start) != len(view):
                _read_all(descriptor, key, start, view)
            # What fails to close is not closed again: its number may be another file's by then.
            done, descriptor = descriptor, -1
            os.close(done)
    except OSError as error:
        raise _refused(error, key, path_of) from error
    finally:
        for opened in (descriptor, folder):
            if opened >= 0:
                os.close(opened)


def _read_ranges(pieces: Sequence[Piece], path_of: Callable[[str], str], flags: int) -> None:
    """Read ranges of files; those that follow each other in a file are one read."""
    folders: dict[str, int] = {}
    descriptor = -1
    at, count = 0, len(pieces)
    try:
        while at < count:
            key, start, view = pieces[at]
            if descriptor < 0:
                descriptor = _open(key, path_of, flags, folders)
            views, end = [view], start + len(view)
            at += 1
            # Neighbours in the file are one read, wherever they go.
            while at < count and len(views) < _MANY:
                next_key, next_start, view = pieces[at]
                if next_start != end or next_key != key:
                    break
                views.append(view)
                end += len(view)
                at += 1
            try:
                if os.preadv(descriptor, views, start) != end - start:
                    for view in views:
                        _read_all(descriptor, key, start, view)
                        start += len(view)
            except OSError as error:
                raise _refused(error, key, path_of) from error
            if at == count or pieces[at][0] != key:
                done, descriptor = descriptor, -1
                os.close(done)
    finally:
        for opened in (descriptor, *folders.values()):
            if opened >= 0:
                os.close(opened)


def _open(key: str, path_of: Callable[[str], str], flags: int, folders: dict[str, int]) -> int:
    """Open a file, through the descriptor of its folder where the name is an id."""
    folder, _, name = key.rpartition("/")
    try:
        if _PLAIN_NAME.fullmatch(name) is None:
            return os.open(path_of(key), flags)
        place = folders.get(folder)
        if place is None:
            place = folders[folder] = os.open(os.path.dirname(path_of(key)), _FOLDER)
        return os.open(name, flags, dir_fd=place)
    except OSError as error:
        raise _refused(error, key, path_of) from error


def _refused(error: OSError, key: str, path_of: Callable[[str], str]) -> Exception:
    # A directory is no object, wherever it is.
    if error.errno in ABSENT or error.errno == errno.EISDIR:
        return absent(key)
    return failure(error, path_of(key))


def _read_all(descriptor: int, key: str, start: int, view: memoryview) -> None:
    """Read until memory is full: the kernel gives at most 2 GiB at a time."""
    count = 0
    while count < len(view):
        more = os.preadv(descriptor, (view[count:],), start + count)
        if not more:
            raise too_short(key, start + len(view))
        count += more
