"""Servers that hold the storages under test, and a bad line to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage.object import ObjectStorage
from tests.support.fixtures import azure_server, s3_server, web_server
from tests.support.s3_places import place_on
from tests.support.servers import CuttingProxy, S3Server
from tests.support.web import WebServer
from tests.support.web import web_server as another

__all__ = ["azure_server", "s3_server", "web_server"]


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[CuttingProxy]:
    """A bad line to the S3 server."""
    proxy = CuttingProxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def behind(proxy: CuttingProxy, s3_server: S3Server) -> ObjectStorage:
    """A place on the server, through the bad line."""
    settings = StorageSettings(retries=StorageRetriesSettings(4, 1, 5))
    place = place_on(s3_server, f"lost/{uuid4().hex}", proxy.endpoint)
    return ObjectStorage(place, settings=settings)


@pytest.fixture
def other() -> Iterator[WebServer]:
    """A web server that nobody has named, with files that a redirect may lead to."""
    with another() as server:
        server.files = {"/x/repo": b"0123456789", "/d/x": b"0123456789"}
        yield server
