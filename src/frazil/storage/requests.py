"""Single requests to an object store, and many of them at once.

The core is synchronous: `run_all` hands coroutines to an event loop in a thread of its own and
waits. This allows hundreds of requests at a time, which would otherwise need as many threads.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import obstore
from obstore import exceptions as foreign

from frazil.errors import StorageError
from frazil.model.config import StorageSettings
from frazil.storage.base import Bytes, Listed, Version
from frazil.storage.client_settings import backoff_s, max_tries
from frazil.storage.clients import Clients
from frazil.storage.faults import (
    FOREIGN,
    fault,
    is_broken_reply,
    is_missing_bucket,
    status_of,
)
from frazil.storage.keys import byte_span
from frazil.storage.s3_place import S3Place

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")
R = TypeVar("R")
ByteSpan: TypeAlias = tuple[int | None, int | None]


class BeyondError(Exception):
    """The server says that the range is not in the object."""


def begin_get(clients: Clients, key: str, options: dict[str, object]) -> GetResult | None:
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
        return begin_get(clients, key, {"head": True})


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


async def delete_one(client: ObjectStore, full: str) -> Exception | None:
    """Delete one object and give the reason if that fails."""
    try:
        await obstore.delete_async(client, full)
    except FOREIGN as error:
        is_absent = isinstance(error, FileNotFoundError) and not is_missing_bucket(error)
        return None if is_absent else error
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


def exact(spans: Sequence[ByteSpan]) -> tuple[list[int], list[int]] | None:
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


def version_of_object(meta: ObjectMeta) -> Version:
    """The version that a store tells of an object."""
    return Version(meta["e_tag"], meta["version"])


def is_same_state(found: Version, expected: Version) -> bool:
    """Whether two versions are of the same state, however their ETags are quoted."""
    if expected.generation is not None and found.generation is not None:
        return found.generation == expected.generation
    return bare(found.etag or "") == bare(expected.etag or "")


def bare(etag: str) -> str:
    """An ETag without the quotes around it."""
    return etag[1:-1] if len(etag) > 1 and etag[0] == etag[-1] == '"' else etag


def listed_object(key: str, meta: ObjectMeta) -> Listed:
    """An object as listings show it."""
    return Listed(key, meta["size"], meta["last_modified"])


# --- reads that are made again ---
# obstore repeats requests that fail, but not those whose body ends too early. Nothing is lost by
# reading once more, so this is only for reads.


def whole(read: Callable[[], T], settings: StorageSettings) -> T:
    """Read until a reply is whole, as often as the settings allow."""
    for number in range(max_tries(settings) - 1):
        try:
            return read()
        except StorageError as error:
            if not is_broken_reply(error):
                raise
        time.sleep(backoff_s(settings, number))
    return read()


async def whole_async(read: Callable[[], Awaitable[T]], settings: StorageSettings) -> T:
    """The same for what is awaited."""
    for number in range(max_tries(settings) - 1):
        try:
            return await read()
        except StorageError as error:
            if not is_broken_reply(error):
                raise
        await asyncio.sleep(backoff_s(settings, number))
    return await read()


# --- many at once ---


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="frazil-io", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_loop.cache_clear)


def run_all(work: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T], limit: int) -> list[R]:
    """Await `work` on every item, at most `limit` at a time; the first failure is raised."""
    return asyncio.run_coroutine_threadsafe(_gather(work, items, limit), _loop()).result()


async def _gather(
    work: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T], limit: int
) -> list[R]:
    gate = asyncio.Semaphore(limit)

    async def one(item: T) -> R:
        async with gate:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
