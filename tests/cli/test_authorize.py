"""`--authorize` says what may be read, with or without credentials, and where these may go."""

from __future__ import annotations

from pathlib import Path

import pytest
import zarr

import frazil
from frazil.model.config import StorageRetriesSettings, StorageSettings, VirtualChunkContainer
from frazil.storage.constructors import s3_store
from tests.cli.conftest import Frazil
from tests.support.fixtures import web_server
from tests.support.web import WebServer

__all__ = ["web_server"]

ONCE = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))


@pytest.fixture
def url(tmp_path: Path, web_server: WebServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A repository that names an address for the files of its virtual chunks."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    web_server.files["/public/x"] = bytes(range(4))
    store = s3_store("us-east-1", web_server.url, allow_http=True, force_path_style=True)
    config = frazil.RepositoryConfig(storage=ONCE)
    config.set_virtual_chunk_container(VirtualChunkContainer("s3://public/", store))
    session = frazil.Repository.create(str(tmp_path / "repo"), config).writable_session("main")
    group = zarr.group(session.store)
    group.create_array("v", shape=(4,), chunks=(4,), dtype="u1", compressors=None)
    session.store.set_virtual_ref("v/c/0", "s3://public/x", offset=0, length=4)
    session.commit("by reference")
    return str(tmp_path / "repo")


def read(command: Frazil, url: str, word: str) -> object:
    return command("cat", url, "v", "--authorize", f"s3://public/{word}", "--json").data["values"]


def test_credentials_do_not_go_to_an_address_that_only_the_repository_names(
    frazil_command: Frazil, url: str, web_server: WebServer
) -> None:
    said = frazil_command("cat", url, "v", "--authorize", "s3://public/")
    assert said.code == 5
    assert f"would send your credentials to {web_server.url}" in said.err
    assert "--authorize s3://public/=https://" in said.err
    assert not web_server.seen


def test_an_address_that_is_named_gets_them(
    frazil_command: Frazil, url: str, web_server: WebServer
) -> None:
    assert read(frazil_command, url, f"={web_server.url}") == [0, 1, 2, 3]
    assert all("authorization" in headers for headers in web_server.headers_of("GET"))


def test_so_does_the_address_in_the_environment(
    frazil_command: Frazil, url: str, web_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", web_server.url)
    assert read(frazil_command, url, "") == [0, 1, 2, 3]


def test_without_credentials_no_word_is_needed(
    frazil_command: Frazil, url: str, web_server: WebServer
) -> None:
    assert read(frazil_command, url, "=anonymous") == [0, 1, 2, 3]
    assert all("authorization" not in headers for headers in web_server.headers_of("GET"))


def test_other_words_are_refused(frazil_command: Frazil, url: str) -> None:
    said = frazil_command("cat", url, "v", "--authorize", "s3://public/=everybody")
    assert said.code == 2
    assert "anonymous" in said.err
