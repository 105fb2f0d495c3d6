"""Single requests to an object store, and the pieces they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import obstore
from obstore import exceptions as foreign

from frazil.storage.base import Bytes, Listed, Version, byte_span
from frazil.storage.clients import Clients
from frazil.storage.faults import FOREIGN, cleaned, fault, is_missing_bucket, status_of
from frazil.storage.places import S3Place

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

Span: TypeAlias = tuple[int | None, int | None]


class BeyondError(Exception):
    """The server says that the range is not in the object."""


def begin(clients: Clients, key: str, options: dict[str, object]) -> GetResult | None:
    """Begin to read an object; None when it does not exist.

    What the store says about conditions and abilities is raised as obstore says it.
    """
    given: Any = options
    try:
        return obstore.get(clients.reader, clients.full(key), options=given)
    except (foreign.NotModifiedError, foreign.PreconditionError, foreign.NotSupportedError):
        raise
    except FOREIGN as error:
        if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
            return None
        if status_of(error) == 416:
            raise BeyondError from None
        raise fault(error, "read", key, clients.place.url) from None


def ask_head(clients: Clients, key: str) -> GetResult | None:
    """Size, time, version and attributes of an object; None when it does not exist."""
    with clients.gate:
        return begin(clients, key, {"head": True})


def tag_for(clients: Clients, version: Version | None) -> str | None:
    """An ETag to compare with; some S3 servers only know it without its quotes."""
    if version is None or version.etag is None:
        return None
    return bare(version.etag) if isinstance(clients.place, S3Place) else version.etag


async def get_span(client: ObjectStore, full: str, start: int | None, end: int | None) -> bytes:
    """One range of an object, also where the store knows only some kinds of ranges, or none."""
    if start is None or start != end:
        try:
            return await _ask(client, full, range_option(start, end))
        except foreign.NotSupportedError:
            pass
        except foreign.GenericError as error:
            if status_of(error) != 416:
                raise
    first, last = byte_span((await obstore.head_async(client, full))["size"], start, end)
    if first >= last:
        return b""
    try:
        return await _ask(client, full, {"range": (first, last)})
    except foreign.NotSupportedError:
        return (await _ask(client, full, {}))[first:last]


async def _ask(client: ObjectStore, full: str, options: dict[str, object]) -> bytes:
    given: Any = options
    found = await obstore.get_async(client, full, options=given)
    return bytes(await found.bytes_async())


async def delete_one(client: ObjectStore, full: str) -> str | None:
    """Delete one object and give the reason if that fails."""
    try:
        await obstore.delete_async(client, full)
    except FOREIGN as error:
        if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
            return None
        return cleaned(error)
    return None


def range_option(start: int | None, end: int | None) -> dict[str, object]:
    """A range in obstore's terms; nothing for the whole object."""
    if start is None and end is None:
        return {}
    if end is not None:
        return {"range": (start or 0, end)}
    if start is not None and start < 0:
        return {"range": {"suffix": -start}}
    return {"range": {"offset": start}}


def exact(spans: Sequence[Span]) -> tuple[list[int], list[int]] | None:
    """Starts and ends, when all spans have both and none is empty."""
    starts = [start for start, end in spans if start is not None and end is not None]
    ends = [end for start, end in spans if start is not None and end is not None]
    if len(starts) < len(spans) or any(a >= b for a, b in zip(starts, ends, strict=True)):
        return None
    return starts, ends


def flat(data: Bytes) -> bytes | memoryview:
    """The bytes in the form obstore takes."""
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 and view.c_contiguous else bytes(view)


def version_of(meta: ObjectMeta) -> Version:
    """The version that a store tells of an object."""
    return Version(meta["e_tag"], meta["version"])


def is_same(found: Version, expected: Version) -> bool:
    """Whether two versions are of the same state, however their ETags are quoted."""
    if expected.generation is not None and found.generation is not None:
        return found.generation == expected.generation
    return bare(found.etag or "") == bare(expected.etag or "")


def bare(etag: str) -> str:
    """An ETag without the quotes around it."""
    return etag[1:-1] if len(etag) > 1 and etag[0] == etag[-1] == '"' else etag


def listed(key: str, meta: ObjectMeta) -> Listed:
    """An object as listings show it."""
    return Listed(key, meta["size"], meta["last_modified"])
