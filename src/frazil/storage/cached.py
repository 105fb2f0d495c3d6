"""A storage whose immutable objects are kept on a disk near by once they were read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, Self

from frazil.config import current
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Found, Piece, Storage, fan_out
from frazil.storage.disk_cache import DiskCache
from frazil.storage.wrapped import BulkReads, BulkWrites

IMMUTABLE: Final = (SNAPSHOTS, LOGS, MANIFESTS, CHUNKS)
"""Prefixes of objects that are written once under a random name."""
SNAPSHOTS_CHANGE: Final = (LOGS, MANIFESTS, CHUNKS)
"""The same where snapshots get new bytes when history is cut."""
SHARES: Final = 8
"""Threads that look for copies at once."""
_EVERYWHERE: Final = str(INITIAL_SNAPSHOT_ID)
"""The one name that all repositories share, also one made anew in the same place."""


class CachedStorage(BulkReads, BulkWrites):
    """Another storage, and copies of what was read from it."""

    def __init__(
        self, inner: Storage, cache: DiskCache, prefixes: tuple[str, ...] = IMMUTABLE
    ) -> None:
        super().__init__(inner)
        self.cache: Final = cache
        self._prefixes: Final = prefixes
        self._identity: Final = f"{inner.url}\n{inner}\n"

    # --- what is kept ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it; the same part is asked for only once."""
        if not self._is_kept(key) or (start is not None and (start < 0 or end is None)):
            return self.inner.get(key, start, end)
        source = self._source(key, start or 0, end)
        found = self.cache.get(source)
        if found is None:
            found = self.inner.get(key, start, end)
            if found is not None:
                self.cache.put(source, found)
        return found

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        return self.each(lambda item: self.get(*item), ranges)

    def read_into(self, pieces: Sequence[Piece]) -> None:
        """Fill memory with parts of objects; the storage is asked for what is not here."""
        missing = [piece for found in fan_out(self._missing, _shares(pieces)) for piece in found]
        if missing:
            self.inner.read_into(missing)
            fan_out(self._keep, _shares(missing))

    def _missing(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        return [
            piece
            for piece in pieces
            if not (self._is_kept(piece[0]) and self.cache.read_into(self._at(piece), piece[2]))
        ]

    def _keep(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if self._is_kept(piece[0]):
                self.cache.put(self._at(piece), piece[2])

    def _is_kept(self, key: str) -> bool:
        return key.startswith(self._prefixes) and not key.endswith(_EVERYWHERE)

    def _source(self, key: str, start: int, end: int | None) -> str:
        return f"{self._identity}{key}\n{start}-{'' if end is None else end}"

    def _at(self, piece: Piece) -> str:
        key, start, view = piece
        return self._source(key, start, start + len(view))

    def _around(self, inner: Storage) -> Self:
        return type(self)(inner, self.cache, self._prefixes)


def _shares(pieces: Sequence[Piece]) -> Sequence[Sequence[Piece]]:
    """Runs of neighbours for a few threads: a file each would be less work than a hand-over."""
    size = -(-len(pieces) // SHARES) or 1
    return [pieces[first : first + size] for first in range(0, len(pieces), size)]


def with_disk_cache(storage: Storage, *, prefixes: tuple[str, ...] = IMMUTABLE) -> Storage:
    """The storage with the disk cache that this process is set to use, if it is worth it.

    Objects below `prefixes` are kept: they must never get other bytes.
    """
    settings = current()
    if settings.disk_cache_path is None or not settings.disk_cache_bytes or storage.answers_inline:
        return storage
    folder = _disk_cache(settings.disk_cache_path, settings.disk_cache_bytes)
    return CachedStorage(storage, folder, prefixes)


@cache
def _disk_cache(path: str, limit_bytes: int) -> DiskCache:
    return DiskCache(path, limit_bytes)
