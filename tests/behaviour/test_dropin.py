"""What `frazil.icechunk` does as the official package does it, and `frazil` in its own way."""

from __future__ import annotations

import asyncio
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.abc.store
from zarr.abc.store import SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

import frazil
from frazil import icechunk
from frazil.icechunk.credentials import LocalFileSystemAccess
from frazil.naming import OFFICIAL, name_process

PROTOTYPE = default_buffer_prototype()


@pytest.fixture
def official_names(_our_names: None) -> None:
    """Records show the official names, as in a program that imports the facade."""
    name_process(OFFICIAL)


@pytest.fixture(params=[frazil, icechunk], ids=["frazil", "icechunk"])
def package(request: pytest.FixtureRequest) -> Any:
    """Ours and the facade."""
    return request.param


def made(package: Any, **options: Any) -> Any:
    """A repository with a group, an array and an array without chunks."""
    repo = package.Repository.create(package.in_memory_storage(), **options)
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    root.create_array("a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    root.create_array("bare", shape=(4,), chunks=(2,), dtype="i4")
    session.commit("made")
    return repo


# --- writing through a store that Zarr opened to read ---


def test_mode_r_writes_to_a_writable_session_in_the_facade_only() -> None:
    session = made(icechunk).writable_session("main")
    group = zarr.open_group(session.store, mode="r")
    assert group.store.read_only
    group["a"][0] = 7  # type: ignore[index]
    assert session.has_uncommitted_changes
    session = made(frazil).writable_session("main")
    with pytest.raises(frazil.ReadOnlyError, match="read-only store"):
        zarr.open_group(session.store, mode="r")["a"][0] = 7  # type: ignore[index]
    assert not session.has_uncommitted_changes


def test_a_readonly_session_refuses_in_both(package: Any) -> None:
    store = made(package).readonly_session("main").store
    with pytest.raises((frazil.ReadOnlyError, ValueError), match="read"):
        zarr.open_group(store, mode="r+")["a"][0] = 7  # type: ignore[index]
    value = PROTOTYPE.buffer.from_bytes(b"\0" * 8)
    with pytest.raises(frazil.ReadOnlyError):
        asyncio.run(store.with_read_only(False).set("a/c/0", value))


# --- keys and values ---


def listed(store: Any, prefix: str) -> list[str]:
    async def collect() -> list[str]:
        return sorted([name async for name in store.list_dir(prefix)])

    return asyncio.run(collect())


def test_an_array_without_chunks_lists_c_in_the_facade_only() -> None:
    assert listed(made(icechunk).readonly_session("main").store, "bare") == ["c", "zarr.json"]
    assert listed(made(frazil).readonly_session("main").store, "bare") == ["zarr.json"]


def test_the_facade_reads_by_coroutines_only() -> None:
    ours, facade = (made(each).readonly_session("main").store for each in (frazil, icechunk))
    for name in ("get_sync", "set_sync", "delete_sync"):
        assert getattr(facade, name) is None
        assert callable(getattr(ours, name))
    protocol = getattr(zarr.abc.store, "SupportsGetSync", None)  # of newer releases
    assert protocol is None or not isinstance(facade, protocol)


def test_the_last_bytes_of_a_document(package: Any) -> None:
    store = made(package).readonly_session("main").store
    whole = asyncio.run(store.get("zarr.json", PROTOTYPE)).to_bytes()
    end = asyncio.run(store.get("zarr.json", PROTOTYPE, SuffixByteRequest(5))).to_bytes()
    assert end == (whole[:-5] if package is icechunk else whole[-5:])
    chunk = asyncio.run(store.get("a/c/0", PROTOTYPE)).to_bytes()
    end = asyncio.run(store.get("a/c/0", PROTOTYPE, SuffixByteRequest(3))).to_bytes()
    assert end == chunk[-3:]


def test_a_scalar_takes_its_virtual_chunk_as_a_grid_of_ones(package: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(np.int32(7).tobytes())
    config = package.RepositoryConfig.default()
    place = f"{tmp_path.as_uri()}/"
    container = package.VirtualChunkContainer(place, package.local_filesystem_store(str(tmp_path)))
    config.set_virtual_chunk_container(container)
    repo = package.Repository.create(
        package.in_memory_storage(),
        config,
        authorize_virtual_chunk_access={place: LocalFileSystemAccess},
    )
    store = repo.writable_session("main").store
    scalar = zarr.create_array(store, name="s", shape=(), dtype="i4", compressors=None)
    store.set_virtual_refs_arr("s", (1,), [f"{place}data"], [0], [4])
    assert scalar[()] == 7
    with pytest.raises(ValueError, match="dimensions"):
        store.set_virtual_refs_arr("s", (2,), [f"{place}data"] * 2, [0, 0], [4, 4])


def test_a_damaged_manifest_says_what_was_being_read(package: Any, tmp_path: Path) -> None:
    storage = package.local_filesystem_storage(str(tmp_path))
    session = package.Repository.create(storage).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(100,), chunks=(10,), dtype="i4")[:] = 42
    session.commit("made")
    for manifest in (tmp_path / "manifests").iterdir():
        manifest.write_bytes(b"no manifest at all")
    store = package.Repository.open(storage).readonly_session("main").store
    array: Any = zarr.open_array(store, path="a", mode="r")
    with pytest.raises(frazil.FormatError, match=r"fetch_manifest < get /a"):
        array[:]


# --- configuration ---


def test_the_configuration_tells_the_storage_settings_in_force(tmp_path: Path) -> None:
    storage = icechunk.local_filesystem_storage(str(tmp_path))
    repo = icechunk.Repository.create(storage)
    assert repo.config.storage == storage.default_settings()
    assert repo.writable_session("main").config.storage == storage.default_settings()
    assert icechunk.Repository.fetch_config(storage) is None
    repo.save_config()
    stored = icechunk.Repository.fetch_config(storage)
    assert stored is not None
    assert stored.storage == storage.default_settings()
    mine = icechunk.RepositoryConfig(storage=icechunk.StorageSettings(storage_class="COLD"))
    reopened = icechunk.Repository.open(storage, mine)
    for found in (reopened.config, reopened.reopen().config):
        assert found.storage is not None
        assert found.storage.storage_class == "COLD"
        assert found.storage.retries == icechunk.StorageRetriesSettings(1, 0, 0)


def test_conditions_have_their_official_class_names() -> None:
    condition = icechunk.ManifestSplitCondition
    some = condition.Or([condition.NameMatches("a"), condition.PathMatches("b")])
    assert some == condition.name_matches("a") | condition.path_matches("b")
    assert isinstance(some, condition.Or)
    assert not isinstance(some, condition.And)
    assert isinstance(condition.AnyArray(), condition.AnyArray)
    assert isinstance(
        icechunk.ManifestPreloadCondition.NumRefs(1, 2), icechunk.ManifestPreloadCondition
    )


def test_split_sizes_are_lists() -> None:
    whole, axis = icechunk.ManifestSplitCondition.AnyArray(), icechunk.ManifestSplitDimCondition
    config = icechunk.ManifestSplittingConfig.from_dict({whole: {axis.Axis(0): 3}})
    assert config.split_sizes == [(whole, [(axis.Axis(0), 3)])]


def test_whose_chunk_stays_is_no_number() -> None:
    chosen: Any = icechunk.VersionSelection.UseOurs
    assert chosen != 1
    assert int(chosen) == 1
    assert str(chosen) == "VersionSelection.UseOurs"
    assert pickle.loads(pickle.dumps(chosen)) is chosen


# --- history ---


async def test_history_is_iterated_both_ways(package: Any) -> None:
    repo = await asyncio.to_thread(made, package)
    ids = [info.id for info in repo.ancestry(branch="main")]
    assert len(ids) == 2
    assert [info.id async for info in repo.ancestry(branch="main")] == ids
    assert [info.id async for info in repo.async_ancestry(branch="main")] == ids
    assert next(repo.ancestry(branch="main")).id == ids[0]
    updates = [update.updated_at for update in repo.ops_log()]
    assert [update.updated_at async for update in repo.ops_log()] == updates


# --- names ---


def test_availability_shows_its_name(package: Any) -> None:
    assert str(made(package).get_status().availability) == "RepoAvailability.online"
    assert f"{package.ChunkType.native}" == "ChunkType.native"


def test_a_store_shows_that_its_session_has_ended(package: Any) -> None:
    session = made(package).writable_session("main")
    store = session.store
    zarr.open_array(store, path="a")[0] = 3
    assert "read_only: False" in repr(store)
    session.commit("more")
    assert "read_only: True" in repr(store)


def test_a_handle_that_an_upgrade_ended_still_shows_itself(package: Any) -> None:
    repo = made(package, spec_version=1)
    newer = icechunk.upgrade_icechunk_repository(repo, dry_run=False)
    assert type(newer) is package.Repository
    assert "invalidated" in repr(repo)
    with pytest.raises(RuntimeError, match="invalidated"):
        repo.list_branches()


def test_classes_of_the_facade_have_the_official_names() -> None:
    repo = made(icechunk)
    session = repo.writable_session("main")
    things = {
        "Repository": (repo, "repository"),
        "Session": (session, "session"),
        "ForkSession": (session.fork(), "session"),
        "IcechunkStore": (session.store, "store"),
    }
    for name, (thing, module) in things.items():
        assert type(thing).__name__ == type(thing).__qualname__ == name
        assert type(thing).__module__ == f"frazil.icechunk.{module}"
        assert isinstance(thing, getattr(icechunk, name))
        assert repr(thing).startswith("<icechunk.")
    assert icechunk.IcechunkError.__name__ == "IcechunkError"
    assert isinstance(session.fork(), icechunk.Session)


def test_pickles_stay_in_the_facade() -> None:
    repo = made(icechunk)
    reader = repo.readonly_session("main")
    fork = repo.writable_session("main").fork()
    for thing in (repo, reader, reader.store, fork, fork.store):
        assert type(pickle.loads(pickle.dumps(thing))) is type(thing)
    assert type(pickle.loads(pickle.dumps(fork)).store) is icechunk.IcechunkStore


def test_each_package_catches_what_the_other_raises(package: Any) -> None:
    repo = made(package)
    for error in (icechunk.IcechunkError, icechunk.RefNotFoundError, frazil.FrazilError):
        with pytest.raises(error):
            repo.lookup_branch("nope")
    again = pickle.loads(pickle.dumps(icechunk.IcechunkError("mine", kind="io")))
    assert (type(again), str(again), again.kind) == (icechunk.IcechunkError, "mine", "io")


def everything_shown(repo: Any) -> list[str]:
    """How all that a program meets shows itself."""
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[0] = 3
    with pytest.raises(frazil.FrazilError) as missing:
        repo.lookup_branch("nope")
    main = repo.lookup_branch("main")
    things = [
        *(repo, repo.storage, repo.config, session, session.store, session.fork()),
        *(session.status(), *repo.ancestry(branch="main"), *repo.ops_log(), repo.get_status()),
        *(repo.list_manifest_files(main), repo.chunk_storage_stats(), *repo.feature_flags()),
        *(missing.value, repo.attribution, frazil.s3_credentials(anonymous=True)),
        frazil.ManifestSplitCondition.AnyArray(),
    ]
    markup = [thing._repr_html_() for thing in things if hasattr(thing, "_repr_html_")]
    return [*map(repr, things), *map(str, things), *markup]


@pytest.mark.usefixtures("official_names")
def test_everything_of_the_facade_shows_official_names() -> None:
    for text in everything_shown(made(icechunk)):
        assert "frazil" not in text.lower()


def test_nothing_of_frazil_shows_official_names() -> None:
    for text in everything_shown(made(frazil)):
        assert not re.search(r"\bicechunk", text.lower())
    rebuilt = eval(repr(made(frazil).config), {"frazil": frazil})
    assert rebuilt == made(frazil).config


@pytest.mark.usefixtures("official_names")
def test_handles_of_frazil_keep_their_names_beside_the_facade() -> None:
    repo = made(frazil)
    for thing in (repo, repo.writable_session("main"), repo.readonly_session("main").store):
        assert "icechunk" not in repr(thing)


def test_a_program_that_imports_the_facade_sees_official_names() -> None:
    program = (
        "import frazil.icechunk as icechunk\n"
        "print(repr(icechunk.RepositoryConfig()).partition('(')[0],"
        " repr(icechunk.RefNotFoundError('x')).partition('(')[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["icechunk.config.RepositoryConfig", "icechunk.RefNotFoundError"]
