"""What a program sees of an icechunk module, in words that two packages can be compared by.

Each function takes the module and a folder. Ids and times are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype


def _made(icechunk: Any, **options: Any) -> Any:
    repo = icechunk.Repository.create(icechunk.in_memory_storage(), **options)
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    root.create_array("a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    root.create_array("bare", shape=(4,), chunks=(2,), dtype="i4")
    session.commit("made")
    return repo


def _told(work: Callable[[], Any]) -> str:
    try:
        return str(work())
    except Exception as error:  # what it is called is what is compared
        return type(error).__name__


def mode_r(icechunk: Any, folder: Path) -> Any:
    """Write through what Zarr opened to read: over a writable and over a read-only session."""
    repo = _made(icechunk)
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r")["a"][0] = 7  # type: ignore[index]
    reader: Any = zarr.open_group(repo.readonly_session("main").store, mode="r")
    return [
        session.has_uncommitted_changes,
        _told(lambda: reader["a"].__setitem__(0, 7)),
    ]


def folders(icechunk: Any, folder: Path) -> Any:
    """Names below nodes, and parts of documents and chunks."""
    store = _made(icechunk).readonly_session("main").store

    async def look() -> Any:
        names = {p: sorted([n async for n in store.list_dir(p)]) for p in ("", "a", "bare")}
        sizes = []
        for key in ("bare/zarr.json", "a/c/0"):
            whole = await store.get(key, default_buffer_prototype())
            part = await store.get(key, default_buffer_prototype(), SuffixByteRequest(3))
            value = whole.to_bytes()
            sizes.append([value.startswith(part.to_bytes()), value.endswith(part.to_bytes())])
        return [names, sizes]

    return asyncio.run(look())


def storage_settings(icechunk: Any, folder: Path) -> Any:
    """What the configuration says of the storage: at hand, and once it is stored."""
    found = []
    for storage in (icechunk.in_memory_storage(), icechunk.local_filesystem_storage(str(folder))):
        repo = icechunk.Repository.create(storage)
        found.append(repr(repo.config.storage))
        repo.save_config()
        found.append(repr(icechunk.Repository.fetch_config(storage).storage))
        cold = icechunk.RepositoryConfig(storage=icechunk.StorageSettings(storage_class="COLD"))
        found.append(repr(icechunk.Repository.open(storage, cold).config.storage))
    return found


def displays(icechunk: Any, folder: Path) -> Any:
    """Names that objects show, and what is left of a handle after an upgrade."""
    repo = _made(icechunk, spec_version=1)
    session = repo.writable_session("main")
    store = session.store
    fork = session.fork()
    zarr.open_array(store, path="a")[0] = 4
    before = repr(store).splitlines()
    session.commit("more")
    after = repr(store).splitlines()
    newer = icechunk.upgrade_icechunk_repository(repo, dry_run=False)
    status = newer.get_status()
    return {
        "store": [[line for line in told if "snapshot_id" not in line] for told in (before, after)],
        "fork": [line for line in repr(fork).splitlines() if "snapshot_id" not in line],
        "classes": [type(thing).__name__ for thing in (newer, session, fork, store)],
        "bases": [issubclass(icechunk.ForkSession, icechunk.Session)],
        "error": [icechunk.IcechunkError.__name__, repr(icechunk.IcechunkError("x"))],
        "status": [str(status.availability), f"{icechunk.ChunkType.native}"],
        "ended": ["nvalidated" in repr(repo), _told(repo.list_branches)],
    }


def refusals(icechunk: Any, folder: Path) -> Any:
    """Which error, with which code, tells that something cannot be done."""
    repo = _made(icechunk)
    main = repo.lookup_branch("main")
    moving = repo.rearrange_session("main")
    reader = repo.readonly_session("main")
    writer = repo.writable_session("main")
    attempts: dict[str, Callable[[], Any]] = {
        "write while moving": lambda: zarr.open_group(moving.store).create_group("z"),
        "shift while moving": lambda: moving.shift_array("/a", (1,)),
        "merge while moving": lambda: writer.merge(moving),
        "move while writing": lambda: writer.move("/a", "/b"),
        "move while reading": lambda: reader.move("/a", "/b"),
        "clear while reading": lambda: asyncio.run(reader.store.delete_dir("a")),
        "fork while reading": reader.fork,
        "commit nothing": lambda: writer.commit("nothing"),
        "commit while reading": lambda: reader.commit("nothing"),
        "no branch": lambda: repo.lookup_branch("nope"),
        "no tag": lambda: repo.lookup_tag("nope"),
        "no branch to write": lambda: repo.writable_session("nope"),
        "no such snapshot": lambda: repo.create_branch("x", "0000000000000000000G"),
        "no snapshot id": lambda: repo.create_branch("x", "ABC"),
        "branch again": lambda: repo.create_branch("main", main),
        "delete main": lambda: repo.delete_branch("main"),
        "too early": lambda: repo.readonly_session("main", as_of=datetime(2000, 1, 1, tzinfo=UTC)),
        "nothing here": lambda: icechunk.Repository.open(icechunk.in_memory_storage()),
        "created again": lambda: icechunk.Repository.create(repo.storage),
        "no node": lambda: reader.get_node_id("/nope"),
        "no such flag": lambda: repo.set_feature_flag("nope", True),
    }
    found = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            found[name] = "done"
        except icechunk.IcechunkError as error:
            found[name] = f"{type(error).__name__} {getattr(error.kind, 'value', error.kind)}"
    return found


def conditions(icechunk: Any, folder: Path) -> Any:
    """Rules for splitting manifests."""
    condition, axis = icechunk.ManifestSplitCondition, icechunk.ManifestSplitDimCondition
    some = condition.Or([condition.NameMatches("a"), condition.PathMatches("b")])
    config = icechunk.ManifestSplittingConfig.from_dict({some: {axis.Axis(0): 3}})
    ((_, sizes),) = config.split_sizes
    return [
        isinstance(some, condition.Or),
        isinstance(some, condition.And),
        some == condition.name_matches("a") | condition.path_matches("b"),
        type(config.split_sizes).__name__,
        type(sizes).__name__,
        icechunk.VersionSelection.UseOurs == 1,
        int(icechunk.VersionSelection.UseOurs),
        str(icechunk.VersionSelection.UseOurs),
    ]


def history(icechunk: Any, folder: Path) -> Any:
    """History by `for` and by `async for`."""
    repo = _made(icechunk)

    async def look() -> list[str]:
        names = [info.message async for info in repo.ancestry(branch="main")]
        names += [info.message async for info in repo.async_ancestry(branch="main")]
        return [*names, *[type(update.kind).__name__ async for update in repo.ops_log()]]

    return [[info.message for info in repo.ancestry(branch="main")], asyncio.run(look())]


def scalar(icechunk: Any, folder: Path) -> Any:
    """The virtual chunk of a scalar, given as a grid with one dimension, is taken.

    What it reads as is not compared: the official package finds no chunk afterwards.
    """
    (folder / "data").write_bytes((7).to_bytes(4, "little"))
    place = f"{folder.as_uri()}/"
    config = icechunk.RepositoryConfig.default()
    store_of = icechunk.local_filesystem_store(str(folder))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(place, store_of))
    access = {place: icechunk.credentials.LocalFileSystemAccess}
    repo = icechunk.Repository.create(icechunk.in_memory_storage(), config, access)
    store = repo.writable_session("main").store
    zarr.create_array(store, name="s", shape=(), dtype="i4", compressors=None)
    columns = (np.array([0], "u8"), np.array([4], "u8"))
    return store.set_virtual_refs_arr("s", (1,), [f"{place}data"], *columns)


VIEWS: dict[str, Callable[[Any, Path], Any]] = {
    view.__name__: view
    for view in (mode_r, folders, storage_settings, displays, refusals, conditions, history, scalar)
}
