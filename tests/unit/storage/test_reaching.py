"""A port at which nothing listens is told within seconds; a server that starts is waited for."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage import reaching
from frazil.storage.base import Storage
from frazil.storage.constructors import http_storage, s3_storage
from tests.support.servers import free_port
from tests.support.web import web_server

SOON_S = 8.0


def _s3(url: str) -> Storage:
    return s3_storage(
        bucket="bkt",
        prefix="pre",
        endpoint_url=url,
        region="us-east-1",
        allow_http=True,
        force_path_style=True,
        access_key_id="k",
        secret_access_key="s",
    )


@pytest.fixture(autouse=True)
def _unknown_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports that other tests have used may be free again."""
    monkeypatch.setattr(reaching, "_reached", set())


PLACES: list[Callable[[str], Storage]] = [_s3, http_storage]


@pytest.mark.parametrize("place", PLACES, ids=["s3", "http"])
@pytest.mark.slow
def test_a_closed_port_is_told_within_seconds(place: Callable[[str], Storage]) -> None:
    storage = place(f"http://127.0.0.1:{free_port()}")
    begun = time.monotonic()
    with pytest.raises(StorageError, match=r"cannot reach the store: check endpoint.*refused") as e:
        storage.get("repo")
    assert time.monotonic() - begun < SOON_S
    assert e.value.kind is ErrorKind.IO


@contextmanager
def late_server(after_s: float, port: int = 0) -> Iterator[str]:
    """A server that begins to listen later; its address."""
    end, held = threading.Event(), socket.socket()
    # Until then the port belongs to a socket that does not listen, so that nobody else gets it.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    port = held.getsockname()[1]

    def serve() -> None:
        time.sleep(after_s)
        held.close()
        with web_server(port) as web:
            web.files = {"/repo": b"here", "/bkt/pre/repo": b"here"}
            end.wait()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize("place", PLACES, ids=["s3", "http"])
def test_a_server_that_starts_a_little_late_is_waited_for(place: Callable[[str], Storage]) -> None:
    with late_server(0.5) as url:
        assert place(url).get("repo") == b"here"


@pytest.mark.parametrize("place", PLACES, ids=["s3", "http"])
@pytest.mark.slow
def test_settings_that_choose_the_tries_are_obeyed(place: Callable[[str], Storage]) -> None:
    patient = StorageSettings(retries=StorageRetriesSettings(100, 100, 200))
    with late_server(4.0) as url:
        assert place(url).with_settings(patient).get("repo") == b"here"


@pytest.mark.slow
def test_a_server_that_has_been_there_is_waited_for_longer() -> None:
    with late_server(0.0) as url:
        assert http_storage(url).get("repo") == b"here"
    with late_server(3.5, int(url.rpartition(":")[2])):
        assert http_storage(url).get("repo") == b"here"
