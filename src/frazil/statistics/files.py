"""Files of statistics: written once under random names, merged when they are read.

They lie below `frazil/statistics/`, in a folder for each decoding, beside the repository's own
files; other clients ignore them. Like all bytes from storage they are untrusted: sizes are checked
before memory is allocated, and a damaged file counts as missing.

A file is created empty and filled by a conditional write. A purge deletes empty files too, so that
a slow writer cannot fill its file with statistics of data that were erased meanwhile.
"""

from __future__ import annotations

import logging
import re
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import numpy as np

from frazil.arrays import I64, ByteStrings, Mask, StructRows
from frazil.errors import ConflictError, ErrorKind, FormatError, StorageError
from frazil.formats.envelope import body_compressor, justified, unpack
from frazil.statistics.records import KEY_WIDTH, RANGE_WIDTH, ROW, blank_rows, found_in, row_keys
from frazil.storage.base import Listed, LostRace, Storage, Version

PREFIX: Final = "frazil/statistics/"
MAGIC: Final = b"FRZSTAT\x01"
HEADER: Final = struct.Struct("<8s16sQ")
"""Magic bytes, decoding, number of rows; the rows follow as a zstd frame with a checksum."""
FILE_ROWS: Final = 1 << 18
"""Rows of one file."""
INDEX_ROWS: Final = 1 << 22
"""At most so many rows are read; readers see no statistics of further chunks."""
COPIES: Final = 3 * ROW.itemsize
"""Bytes of memory that sorting needs for each row."""
FILE_BYTES: Final = FILE_ROWS * ROW.itemsize + (1 << 20)
TRIES: Final = 5
"""Attempts to write, or to delete rows, while other processes change the same files."""
_NAME: Final = re.compile(re.escape(PREFIX) + r"([0-9a-f]{32})/[0-9a-z]{1,64}")

KeepRows: TypeAlias = Callable[[StructRows], Mask]
"""Tells which rows stay."""

log = logging.getLogger(__name__)


# --- one file ---


def encode(decoding: bytes, rows: StructRows) -> bytes:
    """The file of some rows."""
    # Transposed to columns of bytes, which compress to half the size.
    plain = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), ROW.itemsize)
    body = body_compressor(3).compress(np.ascontiguousarray(plain.T).tobytes())
    return HEADER.pack(MAGIC, decoding, len(rows)) + body


def decode(blob: bytes, key: str) -> tuple[bytes, StructRows]:
    """The decoding and the rows of a file.

    Raises:
        FormatError: it is damaged, or no file of statistics.
    """
    if len(blob) < HEADER.size:
        raise FormatError("a file of statistics is shorter than its header", key=key)
    magic, decoding, count = HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise FormatError("not a file of statistics: wrong magic bytes", key=key)
    if count > FILE_ROWS:
        raise FormatError("a file of statistics has too many rows", key=key, rows=count)
    if key != (PREFIX + decoding.hex() + "/" + key.rpartition("/")[2]):
        raise FormatError("a file of statistics lies in the folder of another decoding", key=key)
    size = count * ROW.itemsize
    body = unpack(memoryview(blob)[HEADER.size :], limit=max(size, 1), key=key)
    if len(body) != size:
        raise FormatError("a file of statistics has another number of rows than it says", key=key)
    plain = np.frombuffer(body, np.uint8).reshape(ROW.itemsize, count)
    return decoding, np.ascontiguousarray(plain.T).view(ROW).ravel()


def list_files(place: Storage, decoding: bytes | None = None) -> list[Listed]:
    """The files there are, of one decoding or of all."""
    folder = PREFIX if decoding is None else f"{PREFIX}{decoding.hex()}/"
    return [item for item in place.list(folder) if _NAME.fullmatch(item.key)]


def decoding_in(key: str) -> bytes:
    """The decoding that a file's name tells."""
    return bytes.fromhex(key[len(PREFIX) :].partition("/")[0])


def load_file(place: Storage, item: Listed) -> StructRows | None:
    """The rows of a file; None when it has gone, or is not filled yet.

    Raises:
        FormatError: it is damaged.
        StorageError: it cannot be read.
    """
    if item.size_bytes > FILE_BYTES:
        raise FormatError("a file of statistics is too long", key=item.key, size=item.size_bytes)
    blob = place.get(item.key, 0, FILE_BYTES) if item.size_bytes else None
    return None if blob is None else decode(blob, item.key)[1]


def store(
    place: Storage, decoding: bytes, rows: StructRows, is_allowed: Callable[[], bool] = lambda: True
) -> list[str] | None:
    """Write rows to new files and return their keys; None if that is not allowed any more.

    `is_allowed` is called once the files exist, empty. A purge first makes it return False and
    then deletes files, which cannot be filled any more. So rows of erased data are never written.
    """
    parts = [rows[first : first + FILE_ROWS] for first in range(0, len(rows), FILE_ROWS)]
    for _ in range(TRIES):
        empty = [_made_empty(place, decoding) for _ in parts]
        keys = [key for key, _ in empty]
        may_fill = is_allowed()
        if may_fill and not any(
            isinstance(place.put_if(key, encode(decoding, part), version), LostRace)
            for (key, version), part in zip(empty, parts, strict=True)
        ):
            return keys
        place.delete_many(keys)
        if not may_fill:
            return None
    return None


def _made_empty(place: Storage, decoding: bytes) -> tuple[str, Version]:
    """A new file without rows."""
    while True:
        key = f"{PREFIX}{decoding.hex()}/{secrets.token_hex(12)}"
        made = place.put_if(key, b"", None)
        if not isinstance(made, LostRace):
            return key, made.version


def loaded(
    place: Storage, items: Iterable[Listed], *, strict: bool = False
) -> Iterator[tuple[Listed, StructRows]]:
    """The rows of files; those that cannot be read are left out with a warning.

    Raises:
        FormatError: with `strict`, a file is damaged.
    """
    for item in items:
        try:
            rows = load_file(place, item)
        except (FormatError, StorageError) as error:
            if strict:
                raise
            log.warning("statistics in %s are not used: %s", item.key, error)
            continue
        if rows is not None:
            yield item, rows


# --- all files of a decoding ---


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsIndex:
    """Rows by their keys, ascending; keys that files disagree about are not in it."""

    keys: ByteStrings
    rows: StructRows
    files: int = 0
    disputed: int = 0
    """keys for which files differ"""

    def find(self, wanted: StructRows) -> I64:
        """The rows with the keys of others; -1 where there is none."""
        return found_in(self.keys, row_keys(wanted))


NOTHING: Final = StatisticsIndex(np.zeros(0, f"S{KEY_WIDTH}"), blank_rows(0))


def read_index(place: Storage, decoding: bytes, *, strict: bool = False) -> StatisticsIndex:
    """All that is known of chunks of one decoding.

    Raises:
        FormatError: with `strict`, a file is damaged.
    """
    parts = _used(loaded(place, list_files(place, decoding), strict=strict))
    return merged(parts) if parts else NOTHING


def _used(found: Iterable[tuple[Listed, StructRows]]) -> list[StructRows]:
    """The rows of files as long as there is room for them; a warning tells of the rest."""
    parts: list[StructRows] = []
    for item, rows in _bounded(found):
        if rows is None:
            log.warning("there are more statistics than are used, %s and others", item.key)
            break
        parts.append(rows)
    return parts


def _bounded(
    found: Iterable[tuple[Listed, StructRows]],
) -> Iterator[tuple[Listed, StructRows | None]]:
    """Files as long as there is room for their rows; then None, and no more are read.

    Many short files can unpack to much together, and putting rows in order takes copies.
    """
    packed = total = 0
    for item, rows in found:
        packed, total = packed + item.size_bytes, total + len(rows)
        room = justified(packed, INDEX_ROWS * COPIES, least=FILE_ROWS * COPIES)
        if total * COPIES > room:
            yield item, None
            return
        yield item, rows


def merged(parts: list[StructRows]) -> StatisticsIndex:
    """Rows of several files by their keys."""
    rows = np.concatenate(parts) if parts else blank_rows(0)
    order = np.argsort(row_keys(rows), kind="stable")
    rows = rows[order]
    keys, whole = row_keys(rows), rows.view(f"S{ROW.itemsize}")
    again = np.zeros(len(rows), np.bool_)  # of the key of the row before
    again[1:] = keys[1:] == keys[:-1]
    differs = again.copy()
    differs[1:] &= whole[1:] != whole[:-1]
    first = np.flatnonzero(~again)
    if len(first) == len(rows):
        return StatisticsIndex(keys, rows, len(parts))
    agreed = ~np.logical_or.reduceat(differs, first)
    kept = first[agreed]
    return StatisticsIndex(keys[kept], rows[kept], len(parts), int((~agreed).sum()))


def put_together(place: Storage, decoding: bytes) -> int:
    """Make few files of many of one decoding; tell how many have gone."""
    sources: list[str] = []
    parts: list[StructRows] = []
    for item, rows in _bounded(loaded(place, list_files(place, decoding))):
        if rows is None:
            return 0
        sources.append(item.key)
        parts.append(rows)
    if len(parts) < 2:
        return 0

    def are_there() -> bool:
        """An erasure deletes files that have such rows before it looks for new files."""
        return {item.key for item in list_files(place, decoding)}.issuperset(sources)

    made = store(place, decoding, merged(parts).rows, are_there)
    if made is None:
        return 0
    place.delete_many(sources)
    return len(sources) - len(made)


# --- forgetting ---


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """What has gone."""

    rows: int = 0
    files: int = 0


def drop_rows(place: Storage, keep: KeepRows, before: datetime | None = None) -> DroppedRows:
    """Drop rows from all files, or from those written before a time; damaged files go as a whole.

    Without `before` it repeats this until nothing is left, also while others write.

    Raises:
        StorageError: a file cannot be read, written or deleted.
        ConflictError: others kept writing.
    """
    rows = files = 0
    for _ in range(TRIES if before is None else 1):
        is_done = True
        for item in list_files(place):
            if before is not None and item.created_at >= before:
                continue
            dropped = _forget(place, item, keep)
            rows, files = rows + (dropped or 0), files + bool(dropped)
            is_done &= dropped == 0
        if is_done or before is not None:
            return DroppedRows(rows, files)
    raise ConflictError(
        message="files of statistics kept changing while rows were deleted from them; try again",
        kind=ErrorKind.UPDATE_ATTEMPTS_EXHAUSTED,
    )


def _forget(place: Storage, item: Listed, keep: KeepRows) -> int | None:
    """Drop rows of one file and tell how many; None if others were there first."""
    if not item.size_bytes:
        _delete(place, item.key)  # its writer cannot fill it any more
        return 0
    try:
        found = load_file(place, item)
    except FormatError:
        found, stays = blank_rows(1), np.zeros(1, np.bool_)
    else:
        if found is None:
            return None  # its rows may be in another one by now
        stays = keep(found)
    if stays.all() and len(found):
        return 0
    kept = store(
        place, decoding_in(item.key), found[stays], lambda: place.head(item.key) is not None
    )
    if kept is None:
        return None
    try:
        _delete(place, item.key)
    except StorageError:
        place.delete_many(kept)
        raise
    return max(1, int((~stays).sum()))


def _delete(place: Storage, key: str) -> None:
    failed = place.delete_many([key]).failed
    if failed:
        raise StorageError(f"a file of statistics would not go: {failed[0][1]}", key=key)


# --- checksums ---


@dataclass(frozen=True, slots=True, eq=False)
class Checksums:
    """The crc32c of stored bytes, by where these are."""

    ranges: ByteStrings
    crc32c: I64
    damaged: tuple[FormatError, ...] = ()
    """of files that could not be read"""

    def of(self, rows: StructRows) -> list[set[int]]:
        """For each row that has a key what is known of its bytes; an empty set is nothing."""
        wanted = row_keys(rows, RANGE_WIDTH)
        first = np.searchsorted(self.ranges, wanted, "left").tolist()
        last = np.searchsorted(self.ranges, wanted, "right").tolist()
        return [set(self.crc32c[a:b].tolist()) for a, b in zip(first, last, strict=True)]


def read_checksums(place: Storage) -> Checksums:
    """The checksums in all files."""
    damaged: list[FormatError] = []

    def sound() -> Iterator[tuple[Listed, StructRows]]:
        for item in list_files(place):
            try:
                rows = load_file(place, item)
            except FormatError as error:
                damaged.append(error)
                continue
            if rows is not None:
                yield item, rows

    parts = _used(sound())
    rows = np.concatenate(parts) if parts else blank_rows(0)
    ranges = row_keys(rows, RANGE_WIDTH)
    order = np.argsort(ranges, kind="stable")
    return Checksums(ranges[order], rows["crc32c"][order].astype(np.int64), tuple(damaged))
