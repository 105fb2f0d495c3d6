"""Any version as plain Zarr v3 over HTTP: `/zarr/NAME@version/path/zarr.json`, `…/c/0/1`.

A version that is a whole snapshot id never changes, so its answers may be kept for ever; others
are asked again, and their ETags name the snapshot, so that asking again costs no bytes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from frazil.errors import InvalidInputError, NotFoundError
from frazil.transaction.keys import MetadataKey
from frazil.transaction.keyspace import From, KeySpace, Last, Pending, Range, Span
from frazil.web.library import Library

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,18})-(\d{1,18})?|-(\d{1,18}))")
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"


@dataclass(frozen=True, slots=True)
class Served:
    """An answer: status, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


def split_path(text: str) -> tuple[str, str, str]:
    """The name of a repository, the version and the key of a path below `/zarr/`.

    A version with a slash in it is written with `%2F`, as everywhere.

    Raises:
        NotFoundError: it is no such path.
    """
    head, _, key = text.partition("/")
    name, at, version = head.partition("@")
    if not at or not version:
        raise NotFoundError("write /zarr/NAME@version/KEY: the version is missing")
    return unquote(name), unquote(version), unquote(key)


def serve_key(
    library: Library, text: str, asked_range: str | None, known: str | None, *, head: bool
) -> Served:
    """Answer a request for a key.

    Raises:
        FrazilError: there is no such repository or version, or it cannot be read.
    """
    name, version, key = split_path(text)
    shown = library.find(name)
    snapshot_id = shown.repository.resolve(version)
    keys = KeySpace(shown.session(snapshot_id).state)
    headers = {
        "accept-ranges": "bytes",
        "cache-control": _FOREVER if version == snapshot_id else _ASK_AGAIN,
    }
    try:
        parsed = keys.parse(key)
    except InvalidInputError:
        return Served(404, headers)
    found = keys.find(key)
    if found is None:
        return Served(404, headers)
    size = found.ref.length if isinstance(found, Pending) else len(found)
    mark = hashlib.blake2b(f"{snapshot_id}/{key}".encode(), digest_size=12).hexdigest()
    headers["etag"] = f'"{mark}"'
    is_document = isinstance(parsed, MetadataKey)
    headers["content-type"] = "application/json" if is_document else "application/octet-stream"
    if known is not None and (known == "*" or f'"{mark}"' in known):
        return Served(304, headers)
    status, span = 200, None
    if asked_range is not None:
        try:
            span = _span(asked_range, size)
        except InvalidInputError:
            return Served(416, {**headers, "content-range": f"bytes */{size}"})
    if span is None:
        headers["content-length"] = str(size)
    else:
        first, last = _ends(span, size)
        status = 206
        headers["content-range"] = f"bytes {first}-{last - 1}/{size}"
        headers["content-length"] = str(last - first)
    return Served(status, headers, b"" if head else keys.get(key, span) or b"")


def _span(text: str, size: int) -> Span | None:
    """The bytes that a `Range` header means; None to send all.

    Raises:
        InvalidInputError: the value has no such bytes.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None  # several ranges, or another unit: all bytes are a right answer
    first, last, suffix = found.groups()
    if suffix is not None:
        if not int(suffix) or not size:
            raise InvalidInputError("no bytes are asked for")
        return Last(min(int(suffix), size))
    if int(first) >= size:
        raise InvalidInputError("the range begins behind the end")
    if last is None:
        return From(int(first))
    if int(last) < int(first):
        return None
    return Range(int(first), min(int(last) + 1, size))


def _ends(span: Span, size: int) -> tuple[int, int]:
    match span:
        case Range(start, end):
            return start, end
        case From(offset):
            return offset, size
        case Last(count):
            return size - count, size
