"""Chunks larger than one would hold in memory, as they come over HTTP."""

from __future__ import annotations

import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import zarr

import frazil
from frazil.model.config import RepositoryConfig, VirtualChunkContainer
from frazil.storage.constructors import local_filesystem_store
from frazil.web.library import Library
from frazil.web.settings import RequestLimits, ServerSettings
from tests.web.conftest import served

SIZE = 48 << 20
PIECE = 1 << 20
READERS = 6
LIMITS = RequestLimits(piece=PIECE)
NATIVE, VIRTUAL = "zarr/large@main/native/c/0", "zarr/large@main/virtual/c/0"


def content() -> bytes:
    """Bytes that differ from place to place."""
    return np.arange(SIZE // 4, dtype="<u4").tobytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a large chunk of its own, and one in a file beside it."""
    folder = tmp_path_factory.mktemp("large")
    archive = folder / "archive"
    archive.mkdir()
    (archive / "all.bin").write_bytes(content())
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        VirtualChunkContainer(f"file://{archive}/", local_filesystem_store(str(archive)))
    )
    repo = frazil.Repository.create(str(folder / "large"), config)
    repo.save_config()
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    for name in ("native", "virtual"):
        root.create_array(
            name, shape=(SIZE // 4,), chunks=(SIZE // 4,), dtype="u4", compressors=None
        )
    zarr.open_array(session.store, path="native", mode="r+")[:] = np.arange(SIZE // 4, dtype="u4")
    session.store.set_virtual_ref("virtual/c/0", f"file://{archive}/all.bin", offset=0, length=SIZE)
    session.commit("One chunk each")
    return folder


@pytest.fixture(scope="module")
def large(place: Path) -> Iterator[str]:
    """A server over it that holds a piece of a chunk at a time."""
    library = Library([str(place / "large")], [str(place / "archive")])
    with served(library, ServerSettings(port=0, zarr=True, limits=LIMITS)) as at:
        yield at


@pytest.mark.parametrize("key", [NATIVE, VIRTUAL])
def test_all_bytes_come_in_order(large: str, key: str) -> None:
    found = httpx.get(f"{large}/{key}", timeout=60)
    assert found.status_code == 200
    assert int(found.headers["content-length"]) == SIZE
    assert found.content == content()


@pytest.mark.parametrize("key", [NATIVE, VIRTUAL])
@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=5-8", slice(5, 9)),
        (f"bytes={PIECE - 3}-{3 * PIECE + 5}", slice(PIECE - 3, 3 * PIECE + 6)),
        (f"bytes=-{2 * PIECE + 1}", slice(-(2 * PIECE + 1), None)),
        (f"bytes=0-{PIECE - 1}", slice(0, PIECE)),
    ],
)
def test_ranges_across_pieces(large: str, key: str, asked: str, part: slice) -> None:
    found = httpx.get(f"{large}/{key}", headers={"range": asked}, timeout=60)
    assert found.status_code == 206
    assert found.content == content()[part]
    assert int(found.headers["content-length"]) == len(found.content)


def begun(site: str, key: str) -> socket.socket:
    """A client that asks for a chunk, takes its head, and then takes no more."""
    parts = urlsplit(site)
    made = socket.create_connection((parts.hostname or "", parts.port or 0), 30)
    made.sendall(f"GET /{key} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    assert made.recv(4096).startswith(b"HTTP/1.1 200")
    return made


@pytest.mark.parametrize("key", [NATIVE, VIRTUAL])
def test_clients_that_take_their_time_hold_a_piece_each_and_no_thread(large: str, key: str) -> None:
    tracemalloc.start()
    try:
        waiting = [begun(large, key) for _ in range(READERS)]
        # More than there are threads, and yet another client gets its answer.
        part = httpx.get(f"{large}/{key}", headers={"range": "bytes=9-12"}, timeout=30)
        assert len(part.content) == 4
        _, most = tracemalloc.get_traced_memory()
        for each in waiting:
            each.close()
    finally:
        tracemalloc.stop()
    # Without pieces it would be six times the chunk, or once if they shared it.
    assert most < SIZE // 2, most
    assert httpx.get(f"{large}/zarr/large@main/zarr.json", timeout=30).status_code == 200


def test_a_chunk_that_is_gone_is_an_error_and_one_that_ends_early_is_cut(tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "large"))
    session = repo.writable_session("main")
    array = zarr.group(session.store).create_array(
        "native", shape=(5 * PIECE,), chunks=(5 * PIECE,), dtype="u1", compressors=None
    )
    array[:] = 7
    session.commit("One chunk")
    (file,) = (tmp_path / "large" / "chunks").iterdir()
    with served(
        Library([str(tmp_path / "large")]), ServerSettings(port=0, zarr=True, limits=LIMITS)
    ) as at:
        with file.open("r+b") as stored:
            stored.truncate(2 * PIECE + 5)
        with pytest.raises(httpx.RemoteProtocolError):  # never a short answer that looks whole
            httpx.get(f"{at}/{NATIVE}", timeout=30)
        file.unlink()
        found = httpx.get(f"{at}/{NATIVE}", timeout=30)
        assert found.status_code == 500
        assert "missing" in found.text
