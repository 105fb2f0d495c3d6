"""Reads that are made again when their reply breaks off.

obstore repeats requests that fail, but not those whose body ends too early. Nothing is lost by
reading once more, so this is only for reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from frazil.errors import StorageError
from frazil.model.config import StorageSettings
from frazil.storage.faults import is_broken_reply
from frazil.storage.places import backoff_s, max_tries

T = TypeVar("T")


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
