"""Finds files to ingest: names to URLs, clients to read them, and their version (ETag, size, time).

A file can name others: external raw storage, external links and virtual datasets of HDF5, and
every kerchunk reference. They are opened only below prefixes that the caller allowed, and what is
not allowed is refused before anybody looks whether it is there.
"""

from __future__ import annotations

import fnmatch
import glob
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import obstore
from obstore import exceptions as foreign
from obstore.store import LocalStore

from frazil import config
from frazil.errors import ErrorKind, InvalidInputError, StorageError, invalid_option, unsuitable
from frazil.ingestion.records import Identity
from frazil.masking import shown_url
from frazil.model.config import StorageRetriesSettings, StorageSettings, StorageTimeoutSettings
from frazil.model.location import parse_location
from frazil.storage.by_url import storage_from_url
from frazil.storage.clients import Clients
from frazil.storage.faults import FOREIGN, cleaned, fault
from frazil.storage.fence import ALLOWED
from frazil.storage.locations import key_of, normalised
from frazil.storage.object import ObjectStorage
from frazil.storage.posix import etag as file_etag

if TYPE_CHECKING:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import ObjectStore


FILE: Final = "file://"
WEB: Final = ("http://", "https://")
ABSENT: Final = (FileNotFoundError, foreign.NotFoundError)
_WILD: Final = re.compile(r"[*?\[]")


def as_url(text: str | os.PathLike[str]) -> str:
    """The URL of a file given as URL or as path."""
    name = os.fspath(text)
    if not name:
        raise invalid_option("the name of a file is empty")
    if "://" in name:
        return normalised(name)
    return FILE + quote(os.path.abspath(name))  # noqa: PTH100  (links are to stay as they are)


def local_path(url: str) -> str | None:
    """The path of a local file; None for files elsewhere."""
    return "/" + key_of(url) if url.startswith(FILE) else None


def display_url(url: str) -> str:
    """A URL as people want to read it: without secrets, local ones as paths."""
    return local_path(url) or shown_url(url)


def bad_file(message: str, url: str) -> InvalidInputError:
    """The error for a file that is not what it should be."""
    return unsuitable(message, file=display_url(url))


def parent(url: str) -> str:
    """The URL of the folder that a file is in, with a slash at the end."""
    return url.rstrip("/").rpartition("/")[0] + "/"


def root_of(url: str) -> str:
    """Scheme and bucket or host of a URL."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


# --- clients ---


def client_for(
    url: str, options: Mapping[str, Any] | None = None, *, is_brief: bool = False
) -> ObjectStore:
    """What reads the objects that share a bucket or host with a URL; kept in this process.

    `options` are those of `storage_from_url`, such as region, endpoint_url and anonymous, and
    `redirect_hosts` of web servers. A brief client gives up soon.
    """
    if url.startswith(FILE):
        return _LOCAL_CLIENT
    given = tuple(sorted((options or {}).items()))
    return _client(root_of(url), given, config.get(ALLOWED), is_brief)


_LOCAL_CLIENT: Final = LocalStore()
_BRIEF: Final = StorageSettings(
    retries=StorageRetriesSettings(3, 100, 1000),
    timeouts=StorageTimeoutSettings(connect_timeout_ms=3000, operation_attempt_timeout_ms=10_000),
)


@lru_cache(maxsize=32)
def _client(root: str, options: tuple[tuple[str, Any], ...], _: str, is_brief: bool) -> ObjectStore:
    """A client; the third argument, a process setting, is part of the cache key."""
    given = dict(options)
    if ALLOWED in given and root.startswith(WEB):
        given["opts"] = {ALLOWED: given.pop(ALLOWED)}
    storage = storage_from_url(f"{root}/", **given)
    if not isinstance(storage, ObjectStorage):
        raise StorageError(
            "files cannot be read from this kind of store", kind=ErrorKind.STORAGE_CONFIG, url=root
        )
    settings = _BRIEF if is_brief else StorageSettings()
    return Clients(storage.place, settings, legacy_rooted_keys=False).reader


def registry_for(url: str, options: Mapping[str, Any]) -> ObjectStoreRegistry[Any]:
    """The client for a URL, as VirtualiZarr's parsers take it."""
    from obspec_utils.registry import ObjectStoreRegistry

    root = FILE if url.startswith(FILE) else root_of(url)
    return ObjectStoreRegistry({root: client_for(root, options)})


# --- looking ---


def look(
    url: str, options: Mapping[str, Any] | None = None, *, is_brief: bool = False
) -> Identity | None:
    """Size, ETag and time of a file; None if there is no such file, or it is a folder."""
    path = local_path(url)
    if path is not None:
        return _look_local(path)
    with reading(url):
        try:
            client = client_for(url, options, is_brief=is_brief)
            found = obstore.head(client, key_of(url))
        except ABSENT:
            return None
    modified = found["last_modified"].timestamp()
    # Plain web servers often have no ETag, or one per node; the time is what they agree on.
    etag = None if url.startswith(WEB) else found["e_tag"]
    return Identity(found["size"], etag, math.ceil(modified))


def _look_local(path: str) -> Identity | None:
    try:
        status = os.stat(path)  # noqa: PTH116  (a hot path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(error, path) from None
    if os.path.isdir(path):  # noqa: PTH112 - a path as the user wrote it
        return None
    if not stat.S_ISREG(status.st_mode):  # who opens a pipe waits for its writer
        raise bad_file("this is no file, but a pipe or a device", FILE + quote(path))
    # Readers other than we spell the tags of files differently; on times all agree.
    when = -(-status.st_mtime_ns // 1_000_000_000)
    return Identity(status.st_size, None, when, file_etag(status))


def read_head(url: str, size: int, options: Mapping[str, Any] | None = None) -> bytes:
    """The first bytes of a file, fewer when it is shorter."""
    path = local_path(url)
    if path is not None:
        try:
            with Path(path).open("rb") as file:
                return file.read(size)
        except OSError as error:
            raise _unreadable(error, path) from None
    return read_range(url, 0, size, options)


def _unreadable(error: OSError, path: str) -> StorageError:
    detail = f"the file cannot be read: {error.strerror}"
    return StorageError(detail, kind=ErrorKind.IO, file=path)


def read_range(
    url: str, start: int, length: int, options: Mapping[str, Any] | None = None
) -> bytes:
    """Some bytes of a file."""
    client = client_for(url, options)
    with reading(url):
        return bytes(obstore.get_range(client, key_of(url), start=start, length=length))


def read_whole(url: str, options: Mapping[str, Any] | None = None) -> bytes | None:
    """A whole small file; None when there is none."""
    with reading(url):
        try:
            return bytes(obstore.get(client_for(url, options), key_of(url)).bytes())
        except ABSENT:
            return None


@contextmanager
def reading(url: str, prefix: str = "") -> Iterator[None]:
    """Turn errors of a store into a `StorageError` that names the file, with a prefix."""
    try:
        yield
    except FOREIGN as error:
        if prefix:
            found = f"{prefix}: {cleaned(error)}"
            raise StorageError(found, kind=ErrorKind.IO, file=display_url(url)) from None
        known = fault(error, "read", key_of(url), root_of(url))
        found = f"{known.args[0]} ({cleaned(error)})"
        raise StorageError(found, kind=known.kind, file=shown_url(url)) from None


# --- many files ---


def expand(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """URLs of files given as paths, URLs and patterns with `*`, `?` and `**`; each once."""
    given = [files] if isinstance(files, str | os.PathLike) else [*files]
    found: dict[str, None] = {}
    for each in given:
        name = os.fspath(each)
        is_pattern = _WILD.search(name) is not None and not name.startswith(WEB)
        # A shell has filled in its patterns, and files may be called as one.
        if is_pattern and not os.path.exists(name):  # noqa: PTH110  (a path as it is)
            matches = [*_matches(name, options)]
            if not matches:
                raise invalid_option("no file matches", pattern=name)
            found.update(dict.fromkeys(matches))
        else:
            found[as_url(name)] = None
    if not found:
        raise invalid_option("no files are given")
    return [*found]


def _matches(pattern: str, options: Mapping[str, Any] | None) -> Iterator[str]:
    if "://" not in pattern or pattern.startswith(FILE):
        local = unquote(pattern.removeprefix(FILE)) if pattern.startswith(FILE) else pattern
        yield from map(as_url, sorted(glob.glob(local, recursive=True)))  # noqa: PTH207 - patterns of users may be absolute
        return
    root = root_of(pattern)
    wanted = pattern.removeprefix(root).lstrip("/")
    fixed = _WILD.split(wanted, maxsplit=1)[0].rpartition("/")[0]
    shape = re.compile(_as_regex(wanted))
    with reading(pattern):
        batches = [*obstore.list(client_for(pattern, options), prefix=fixed or None)]
    listed = [item["path"] for batch in batches for item in batch]
    yield from (f"{root}/{key}" for key in sorted(listed) if shape.fullmatch(key))


def _as_regex(pattern: str) -> str:
    """A pattern in which `*` stays within a folder and `**` does not."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]*\])", pattern)
    known = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    made = [
        known.get(part, fnmatch.translate(part)[4:-3] if part.startswith("[") else re.escape(part))
        for part in parts
    ]
    return "".join(made)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Prefixes of files that other files may name."""

    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Iterable[str | os.PathLike[str]]) -> Allowed:
        """Prefixes given as URLs or as paths."""
        return cls(tuple(f"{as_url(each).rstrip('/')}/" for each in given))

    def require(self, named: str, by: str) -> str:
        """The URL of a file that another file names; relative names are relative to the latter."""
        url = _resolved(named, by)
        if any(_is_below(url, prefix) for prefix in self.prefixes):
            return url
        raise unsuitable(
            f"it refers to {display_url(url)}, which was not allowed; if it is to be read, name a"
            f" prefix of it with allow (--allow), such as {display_url(parent(url))}",
            file=display_url(by),
        )


def _resolved(named: str, by: str) -> str:
    if "://" in named or named.startswith("/"):
        return as_url(named)
    path = local_path(by)
    if path is not None:
        return FILE + quote(os.path.normpath(Path(path).parent / named))
    return as_url(f"{parent(by)}{named}")


def _is_below(url: str, prefix: str) -> bool:
    """Whether a file is below a prefix, also when links in its path are followed."""
    try:
        found, root = parse_location(url), parse_location(prefix)
    except InvalidInputError:  # it can be read in two ways, and one may lead elsewhere
        return False
    # The text decides first: paths that are not below it by name are not opened at all.
    if not found.is_in(root) or found.scheme != "file":
        return found.is_in(root)
    real = os.path.realpath(f"/{root.key}").rstrip("/")
    return os.path.realpath(f"/{found.key}").startswith(f"{real}/")
