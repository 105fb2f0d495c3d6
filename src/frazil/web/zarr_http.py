"""Any version as plain Zarr v3 over HTTP: `/zarr/NAME@version/path/zarr.json`, `…/c/0/1`.

A version that is a whole snapshot id never changes, so its answers may be kept for ever; others
are asked again, and their ETags name the snapshot, so that asking again costs no bytes.

A chunk may be larger than the memory: it is read piece by piece, as the client takes it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import unquote

from frazil.errors import InvalidInputError, NotFoundError
from frazil.masking import MaskedRecord
from frazil.transaction.keys import MetadataKey
from frazil.transaction.keyspace import (
    ByteRange,
    ByteSelection,
    BytesFrom,
    KeySpace,
    LastBytes,
    PendingChunk,
    byte_offsets,
)
from frazil.web.library import Library

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,18})-(\d{1,18})?|-(\d{1,18}))")
_FOREVER: Final = "max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"


BodyPiece: TypeAlias = Callable[[], bytes]
"""Reads one piece of a body."""


@dataclass(frozen=True, slots=True, repr=False)
class HttpAnswer(MaskedRecord):
    """An answer: status, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    """all of it, or its first piece"""
    rest: Iterator[BodyPiece] | None = None


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


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """What the headers of a request say."""

    span: str | None = None
    """`Range`"""
    if_range: str | None = None
    """`If-Range`: the range counts only if this is still the value's ETag"""
    known: str | None = None
    """`If-None-Match`"""
    is_head: bool = False
    is_private: bool = True
    """whether a token is asked for: caches that others use must not keep the answer"""


def serve_key(library: Library, text: str, asked: RequestHeaders, piece: int) -> HttpAnswer:
    """Answer a request for a key, with bodies in pieces of so many bytes.

    Raises:
        FrazilError: there is no such repository or version, or it cannot be read.
    """
    name, version, key = split_path(text)
    shown = library.find(name)
    snapshot_id = shown.repository.resolve(version)
    keys = KeySpace(shown.session(snapshot_id).state)
    headers = {
        "accept-ranges": "bytes",
        "cache-control": _kept(asked) if version == snapshot_id else _ASK_AGAIN,
    }
    try:
        parsed, found = keys.parse(key), keys.find(key)
    except InvalidInputError:  # no key of Zarr, or a chunk of what is no array
        return HttpAnswer(404, headers)
    if found is None:
        return HttpAnswer(404, headers)
    size = found.ref.length if isinstance(found, PendingChunk) else len(found)
    mark = hashlib.blake2b(f"{snapshot_id}/{key}".encode(), digest_size=12).hexdigest()
    headers["etag"] = f'"{mark}"'
    is_document = isinstance(parsed, MetadataKey)
    headers["content-type"] = "application/json" if is_document else "application/octet-stream"
    if asked.known is not None and (asked.known == "*" or headers["etag"] in asked.known):
        return HttpAnswer(304, headers)
    status, span = 200, None
    if asked.span is not None and asked.if_range in (None, headers["etag"]):
        try:
            span = _span(asked.span, size)
        except InvalidInputError:
            return HttpAnswer(416, {**headers, "content-range": f"bytes */{size}"})
    first, last = byte_offsets(span, size)
    if span is not None:
        status = 206
        headers["content-range"] = f"bytes {first}-{last - 1}/{size}"
    headers["content-length"] = str(last - first)
    if asked.is_head:
        return HttpAnswer(status, headers)
    if isinstance(found, bytes):
        return HttpAnswer(status, headers, found[first:last])
    context = keys.state.context
    pieces = (
        partial(replace(found, start=at, end=min(at + piece, last)).read, context)
        for at in range(first, last, piece)
    )
    # The first one before anything is sent: what is missing or refused has an answer of its own.
    begin = next(pieces, None)
    body = b"" if begin is None else begin()
    return HttpAnswer(status, headers, body, pieces if last - first > piece else None)


def _kept(asked: RequestHeaders) -> str:
    return f"{'private' if asked.is_private else 'public'}, {_FOREVER}"


def _span(text: str, size: int) -> ByteSelection | None:
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
        return LastBytes(min(int(suffix), size))
    if int(first) >= size:
        raise InvalidInputError("the range begins behind the end")
    if last is None:
        return BytesFrom(int(first))
    if int(last) < int(first):
        return None
    return ByteRange(int(first), min(int(last) + 1, size))
