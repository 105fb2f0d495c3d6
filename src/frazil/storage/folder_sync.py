"""Makes files below one folder durable: their bytes, their names, and the folders they are in."""
# Path objects double the cost of system calls, which small files consist of:
# ruff: noqa: PTH120

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from frazil.storage.durable import EarlySync, can_sync_file_system, sync, sync_file_system
from frazil.storage.pool import start_in_pool
from frazil.storage.posix import naming
from frazil.storage.tuning import POOL_THREADS, SYNC_ALL_FROM


class FolderSync:
    """Syncs files below a root folder, and remembers which folders need no sync any more."""

    def __init__(self, root: str) -> None:
        self._root: Final = root
        self._early: Final = EarlySync(lambda path: sync_paths([path]))
        self._lasting_folders: frozenset[str] = frozenset()
        """folders whose directory entries were synced"""

    def begin(self, path: str) -> None:
        """Sync a file that was just written in the background, if there is a free thread."""
        self._early.begin(path)

    def forget(self, path: str) -> None:
        """Forget the sync of a file, which is about to be written again."""
        self._early.forget(path)

    def start(self, paths: Iterable[str]) -> Callable[[], None]:
        """Sync files and their names in threads; the returned function waits for the end."""
        begun: list[Future[None]] = []
        by_folder: dict[str, list[str]] = {}
        for path in sorted(paths):
            files = by_folder.setdefault(os.path.dirname(path), [])
            early = self._early.find(path)
            if early is None:
                files.append(path)
            else:
                begun.append(early)
        if sum(map(len, by_folder.values())) >= SYNC_ALL_FROM and can_sync_file_system():
            return partial(_wait, [*begun, start_in_pool(self._sync_all)])
        fresh = by_folder.keys() - self._lasting_folders
        above = {folder for path in fresh for folder in self._folders_above(path)}
        # All at once: the journal of the file system commits them together.
        shares = [*_shares(by_folder), *([folder] for folder in sorted(above))]
        begun += [start_in_pool(partial(sync_paths, share)) for share in shares]

        def wait() -> None:
            _wait(begun)
            self._lasting_folders |= fresh

        return wait

    def sync_names(self, folder: str) -> None:
        """Sync a folder and its parents, so that the names in it survive a power cut."""
        above = () if folder in self._lasting_folders else self._folders_above(folder)
        sync_paths([folder, *above])
        self._lasting_folders |= {folder}

    def _sync_all(self) -> None:
        root = self._root or "/"
        with naming(root):
            sync_file_system(root)

    def _folders_above(self, path: str) -> Iterator[str]:
        """The parent folders of a folder, up to that of the root.

        Another process may just have made one of them. That includes the root: its name is
        in the folder above, unless we may not look there.
        """
        while len(path) > len(self._root):
            path = path[: path.rindex("/")]
            yield path or "/"
        above = os.path.dirname(path)
        if os.access(above, os.R_OK):
            yield above


def sync_paths(paths: Sequence[str]) -> None:
    """Sync files and folders, one after the other."""
    for path in paths:
        with naming(path):
            sync(path)


def _shares(by_folder: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    """What each thread syncs: files of one folder; one thread also syncs the folder."""
    for folder, paths in by_folder.items():
        width = max(1, min(POOL_THREADS, len(paths)))
        yield from (paths[number::width] for number in range(1, width))
        yield [*paths[::width], folder]


def _wait(begun: Iterable[Future[None]]) -> None:
    for each in begun:
        each.result()
