"""The event loop stays free while a store looks for keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import zarr

from frazil.model.config import ManifestConfig, ManifestPreloadConfig, RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from frazil.transaction.opened import context_of
from tests.support.stepping import Step, SteppingStorage


def cold_store(step: Step) -> FrazilStore:
    """A store that has nothing in memory yet, over a storage that is not here."""
    storage = MemoryStorage()
    no_preload = ManifestConfig(preload=ManifestPreloadConfig(max_total_refs=0))
    repo = Repository.create(storage, RepositoryConfig(manifest=no_preload))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(40, 10), chunks=(1, 10), dtype="u1")[:] = 1
    session.commit("filled")
    remote = SteppingStorage(storage, step)
    remote.answers_inline = False
    repo = Repository.open(remote)
    store = repo.readonly_session("main").store
    context_of(repo).assets.forget()
    store.session.state.move_base(store.session.state.base_id)
    return store


async def collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


LOOKS: dict[str, Callable[[FrazilStore], Awaitable[Any]]] = {
    "list_dir": lambda store: collected(store.list_dir("a")),
    "list_prefix": lambda store: collected(store.list_prefix("")),
    "list": lambda store: collected(store.list()),
    "array_chunk_iterator": lambda store: collected(store.array_chunk_iterator("/a")),
    "chunk_coordinates": lambda store: collected(store.session.chunk_coordinates("/a")),
    "exists": lambda store: store.exists("a/c/0/0"),
    "get": lambda store: store.get("a/c/0/0"),
}


@pytest.mark.parametrize("look", LOOKS)
async def test_looking_for_keys_does_not_stop_the_loop(look: str) -> None:
    calls: list[tuple[int, str]] = []
    here = threading.get_ident()
    store = await asyncio.to_thread(
        cold_store, lambda operation, key: calls.append((threading.get_ident(), operation + key))
    )
    calls.clear()
    assert await LOOKS[look](store)
    assert calls, "there was nothing to wait for"
    assert [what for thread, what in calls if thread == here] == []


async def test_a_long_listing_in_memory_lets_others_run() -> None:
    repo = Repository.create(MemoryStorage())
    session = repo.writable_session("main")

    def fill() -> None:
        array = zarr.create_array(session.store, name="a", shape=(2000,), chunks=(1,), dtype="u1")
        array[:] = 1

    await asyncio.to_thread(fill)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    keys = await collected(session.store.list_prefix(""))
    running.cancel()
    assert len(keys) == 2002
    assert turns >= 5
