"""Fixtures with servers, for the conftest of folders that need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import servers, web


@pytest.fixture(scope="session")
def s3_server() -> Iterator[servers.S3Server]:
    """An S3 server for the whole run."""
    with servers.s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[servers.AzureServer]:
    """An Azure server for the whole run."""
    with servers.azure_server(servers.azurite_or_skip()) as server:
        yield server


@pytest.fixture
def web_server() -> Iterator[web.WebServer]:
    """An empty web server for one test."""
    with web.web_server() as server:
        yield server
