"""Repositories made once, and a server over them for each test that wants one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from frazil.web.app import make_app
from frazil.web.library import Library
from frazil.web.server import bind
from frazil.web.settings import ServerSettings
from tests.spark.conftest import spark as spark
from tests.web.samples import make_ocean, make_odd

TOKEN = "a-token-of-the-tests"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the sample repositories are."""

    ocean: str
    odd: str
    archive: str


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Both repositories; nobody changes them."""
    root: Path = tmp_path_factory.mktemp("web")
    return Places(make_ocean(root), make_odd(root), str(root / "archive"))


@contextmanager
def served(library: Library, settings: ServerSettings) -> Iterator[str]:
    """A server in a thread of its own; its address without the slash at the end."""
    listening, settings = bind(settings)
    server = uvicorn.Server(
        uvicorn.Config(make_app(library, settings), log_level="warning", access_log=False)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < until, "the server did not start"
        time.sleep(0.01)
    try:
        yield settings.url.rstrip("/")
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


@pytest.fixture(scope="session")
def library(places: Places) -> Library:
    """Both repositories, the archive of one authorised."""
    return Library([places.ocean, places.odd], [places.archive])


@pytest.fixture(scope="session")
def site(library: Library) -> Iterator[str]:
    """A server that asks for no token, with the Zarr part."""
    with served(
        library, ServerSettings(port=0, zarr=True, cors=frozenset({"http://map.example"}))
    ) as at:
        yield at
