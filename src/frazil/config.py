"""Settings of this process, whatever the repository.

    frazil.config.get("fast_zarr")
    frazil.config.set(fast_zarr=False)              # from now on
    with frazil.config.set(pack_zarr_writes=True):  # for a while
        array[:] = values

Each key is also read, once, from an environment variable: `FRAZIL_` and the key in capitals.
Sizes may have units: `64M` and `64 MiB` are powers of 1024, `64 MB` is one of 1000.
Settings that belong to a repository are kept there, in its `RepositoryConfig`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from frazil.errors import ErrorKind, InvalidInputError
from frazil.logs import warn_once
from frazil.spelling import ALIKE, near, nearest
from frazil.texts import byte_count, flag

log: Final = logging.getLogger(__name__)
PREFIX: Final = "FRAZIL_"
MIB: Final = 1 << 20
GIB: Final = 1 << 30


def _switch(value: object) -> bool:
    """Parse a boolean."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        with suppress(ValueError):
            return flag(value) if value.strip() else False
    raise ValueError("true or false")


def _size(value: object) -> int:
    """Read a number of bytes, with or without a unit."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        with suppress(ValueError):
            return byte_count(value)
    raise ValueError('a number of bytes, or text like "64 MiB"')


def _some(value: object) -> int:
    """Parse a number of bytes above 0."""
    size = _size(value)
    if not size:
        raise ValueError("more than 0 bytes")
    return size


def _count(value: object) -> int:
    """Read a number of things."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError("a number from 0 on")


def _unless_empty(read: Callable[[object], Any]) -> Callable[[object], Any]:
    """Read an optional value: None and the empty text mean that it is not set."""
    return lambda value: None if value is None or value == "" else read(value)


def _folder(value: object) -> str:
    """Read a path."""
    if isinstance(value, str | os.PathLike):
        return str(Path(value).expanduser())
    raise ValueError("a path")


def _hosts(value: object) -> str:
    """Read names of hosts, with commas between them."""
    if isinstance(value, str) and "://" not in value and "*" not in value:
        return value
    raise ValueError("names of hosts with commas between them, such as 'a.example,b.example'")


def _key(default: object, read: Callable[[object], object]) -> Any:  # noqa: ANN401 - as `field`
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The value of every key at one moment."""

    fast_zarr: bool = _key(True, _switch)
    """arrays that zarr-python opens in Frazil stores read and write many chunks at once"""
    pack_bulk_writes: bool = _key(True, _switch)
    """bulk writes put small chunks together into shared objects"""
    pack_zarr_writes: bool = _key(False, _switch)
    """writes of several chunks through zarr-python put small chunks together too"""
    pack_object_bytes: int = _key(64 * MIB, _some)
    """objects of packed chunks grow to this size"""
    pack_chunk_bytes: int = _key(1 * MIB, _size)
    """only chunks below this size are packed"""
    skip_identical_chunks: bool = _key(False, _switch)
    """chunks that are written with the bytes they have, which are read first, stay as they are"""
    max_in_flight_bytes: int = _key(256 * MIB, _some)
    """bulk reads and writes hold about so many bytes of chunks at a time"""
    threads: int = _key(0, _count)
    """threads that encode and decode chunks; 0 for as many as there are processors"""
    chunk_cache_bytes: int | None = _key(None, _unless_empty(_size))
    """memory for chunks that were read; None for what the repository's configuration says"""
    disk_cache_path: str | None = _key(None, _unless_empty(_folder))
    """folder for copies of remote objects, shared by the processes of a machine; None for none"""
    disk_cache_bytes: int = _key(10 * GIB, _size)
    """copies on disk are dropped, the least recently used first, beyond this size"""
    spark_archive_path: str | None = _key(None, _unless_empty(_folder))
    """folder for the classes of Spark that `frazil prepare-spark` keeps; None for our folder among
    the user's caches"""
    scan_seconds: int = _key(300, _count)
    """an ingest gives up on a file, or a region of one, that takes more seconds of work to read,
    or ten times as many on the clock; 0 for never"""
    scan_memory_bytes: int = _key(768 * MIB, _size)
    """an ingest gives up on a file that takes more memory to scan, beside some 200 MB of libraries;
    0 for no limit"""
    foreign_codecs: bool = _key(False, _switch)
    """also decode chunks with installed third-party codecs, whose memory use has no limit"""
    max_expansion: int = _key(1024, _count)
    """a file that decompresses to over 64 MiB is refused if that is more than so many times its
    compressed size"""
    large_chunk_bytes: int = _key(GIB, _size)
    """the same limit holds for chunks that decode to more than this size; choose less for data
    that is not trusted"""
    verify_chunks: bool = _key(False, _switch)
    """repositories that are opened compare the chunks they read with the checksums that `analyze`
    has recorded for them"""
    redirect_hosts: str = _key("", _hosts)
    """other hosts, with commas between them, to which servers may redirect requests"""

    @property
    def workers(self) -> int:
        """Threads that encode and decode chunks."""
        return self.threads or os.cpu_count() or 1


_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    each.name: each.metadata["read"] for each in fields(ProcessSettings)
}
KEYS: Final = tuple(_READERS)
_lock: Final = threading.Lock()
_current: ProcessSettings | None = None


class SettingsChange:
    """What `set` did; as a context manager it puts the old values back in the end."""

    __slots__ = ("_before",)

    def __init__(self, before: Mapping[str, object]) -> None:
        self._before = before

    def __enter__(self) -> ProcessSettings:
        return current()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set(**self._before)


def current() -> ProcessSettings:
    """All values now; quick."""
    found = _current
    return found if found is not None else reset()


def get(key: str) -> Any:  # noqa: ANN401 - each key has its own type
    """The value of a key.

    Raises:
        InvalidInputError: there is no such key.
    """
    _check(key)
    return getattr(current(), key)


def set(values: Mapping[str, object] | None = None, /, **more: object) -> SettingsChange:
    """Change keys for the whole process, or with `with` until the block ends.

    Raises:
        InvalidInputError: there is no such key, or the value is not one for it; nothing was
            changed then.
    """
    global _current
    changes = {**(values or {}), **more}
    parsed = {key: _parse(key, value) for key, value in changes.items()}
    current()
    with _lock:
        before = {key: getattr(_current, key) for key in parsed}
        _current = replace(_current or ProcessSettings(), **parsed)
    return SettingsChange(before)


def reset() -> ProcessSettings:
    """Go back to the defaults and to what the environment says now.

    Raises:
        InvalidInputError: an environment variable has a value that makes no sense.
    """
    global _current
    found = {
        key: _parse(key, os.environ[variable(key)], f"environment variable {variable(key)}")
        for key in KEYS
        if variable(key) in os.environ
    }
    for name in os.environ.keys() - map(variable, KEYS):
        key = name.removeprefix(PREFIX).lower() if name.startswith(PREFIX) else ""
        if key and (meant := near(key, KEYS, ALIKE)) is not None:
            detail = "environment variable %s has no meaning; did you mean %s?"
            warn_once(log, (name,), detail, name, variable(meant))
    with _lock:
        _current = ProcessSettings(**found)
        return _current


def values() -> dict[str, object]:
    """Every key with its value."""
    return asdict(current())


def variable(key: str) -> str:
    """The environment variable a key is read from."""
    return PREFIX + key.upper()


def _check(key: str) -> None:
    if key not in _READERS:
        raise InvalidInputError(
            f"frazil.config has no key {key!r}{nearest(key, KEYS)} (there are {', '.join(KEYS)})",
            kind=ErrorKind.INVALID_SETTING,
        )


def _parse(key: str, value: object, name: str = "") -> Any:  # noqa: ANN401 - each has its own
    _check(key)
    try:
        return _READERS[key](value)
    except ValueError as error:
        raise InvalidInputError(
            f"{name or key} must be {error}, got {value!r}", kind=ErrorKind.INVALID_SETTING
        ) from None
