"""Ranges of files and objects outside the repository are read where they are, if unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request
from uuid import uuid4

import pytest

from frazil.errors import ErrorKind, FrazilError, InvalidInputError, StorageError
from frazil.model.chunks import VirtualRef
from frazil.model.config import AnyObjectStoreConfig, StorageSettings, VirtualChunkContainer
from frazil.model.location import parse_location
from frazil.storage.constructors import (
    azure_store,
    gcs_store,
    http_store,
    local_filesystem_store,
    s3_storage,
    s3_store,
)
from frazil.storage.credential_functions import (
    containers_credentials,
    s3_credentials,
)
from frazil.storage.credentials import HttpAccess, LocalFileSystemAccess
from frazil.storage.posix import etag
from frazil.storage.virtual import Containers
from frazil.storage.virtual_source import FileSource, ObjectSource, WebSource, source_for
from tests.support.servers import REGION, S3Server, send
from tests.support.web import WebServer
from tests.support.web import web_server as other_server
from tests.unit.storage.test_virtual import containers

TEN = b"0123456789"


def kind_of(error: pytest.ExceptionInfo[FrazilError]) -> ErrorKind:
    return error.value.kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a b.nc").write_bytes(TEN)
    (tmp_path / "secret").write_bytes(b"private!!!")
    return folder


@pytest.fixture
def files(folder: Path) -> Containers:
    prefix = f"file://{folder}/"
    store = local_filesystem_store(str(folder))
    return containers((prefix, store, "files"), authorized={prefix: LocalFileSystemAccess})


def ref(folder: Path, name: str = "a b.nc", *range_and_checksum: int) -> VirtualRef:
    offset, length = range_and_checksum or (0, 10)
    return VirtualRef(f"file://{folder}/{name}".replace(" ", "%20"), offset, length)


class TestFiles:
    def test_ranges(self, files: Containers, folder: Path) -> None:
        assert files.fetch(ref(folder, "a b.nc", 2, 5)) == b"23456"
        assert files.fetch(ref(folder, "a b.nc", 2, 5), 1, 3) == b"34"
        assert files.fetch(VirtualRef("vcc://files/a%20b.nc", 8, 2)) == b"89"
        with pytest.raises(InvalidInputError) as caught:
            files.fetch(ref(folder, "a b.nc", 2, 5), 1, 6)
        assert kind_of(caught) is ErrorKind.INVALID_BYTE_RANGE

    def test_missing_and_short_files(self, files: Containers, folder: Path) -> None:
        with pytest.raises(StorageError, match="No such file") as caught:
            files.fetch(ref(folder, "none.nc"))
        assert kind_of(caught) is ErrorKind.VIRTUAL_CHUNK_FETCH
        with pytest.raises(StorageError, match="too short") as caught:
            files.fetch(ref(folder, "a b.nc", 5, 6))
        assert kind_of(caught) is ErrorKind.INVALID_OBJECT_SIZE

    @pytest.mark.parametrize("path", ["../secret", "sub/../../secret", "%2e%2e/secret", "link"])
    def test_nothing_outside_is_read(self, files: Containers, folder: Path, path: str) -> None:
        (folder / "link").symlink_to(folder.parent / "secret")
        for location in (f"file://{folder}/{path}", f"vcc://files/{path}"):
            with pytest.raises(InvalidInputError):
                files.fetch(VirtualRef(location, 0, 10))

    def test_links_inside_are_followed(self, files: Containers, folder: Path) -> None:
        (folder / "link").symlink_to(folder / "a b.nc")
        assert files.fetch(ref(folder, "link")) == TEN

    def test_neither_folders_nor_pipes_are_read(self, files: Containers, folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        (folder / "sub").mkdir()
        for name in ("pipe", "sub"):
            with pytest.raises(StorageError, match="regular file"):
                files.fetch(ref(folder, name))

    def test_a_changed_file_is_noticed(self, files: Containers, folder: Path) -> None:
        path, location = folder / "a b.nc", ref(folder).location
        os.utime(path, (1_700_000_000, 1_700_000_000))
        tag = etag(path.stat())
        for good in (1_700_000_000, 1_800_000_000, tag, f'"{tag}"'):
            assert files.fetch(VirtualRef(location, 0, 10, good)) == TEN
        for bad in (1_699_999_999, "another"):
            with pytest.raises(StorageError, match="chunk has changed") as caught:
                files.fetch(VirtualRef(location, 0, 10, bad))
            assert kind_of(caught) is ErrorKind.VIRTUAL_CHUNK_MODIFIED

    def test_many_chunks_of_many_files(self, files: Containers, folder: Path) -> None:
        for number in range(5):
            (folder / f"{number}.nc").write_bytes(bytes([number]) * 100_000)
        wanted = [(n, at) for at in (0, 4, 99_990) for n in (3, 0, 4, 1, 2)]
        refs = [ref(folder, f"{n}.nc", at, 10) for n, at in wanted]
        assert files.fetch_many(refs) == [bytes([n]) * 10 for n, _ in wanted]
        assert files.fetch_many([]) == []


class TestWeb:
    @pytest.fixture
    def web(self, web_server: WebServer) -> Containers:
        web_server.files = {"/d/x y.nc": TEN, "/secret": b"private!!!"}
        prefix = f"{web_server.url}/d/"
        store = http_store(headers={"x-token": "t"})
        return containers((prefix, store, None), authorized={prefix: HttpAccess})

    def test_ranges_with_headers(self, web: Containers, web_server: WebServer) -> None:
        url = f"{web_server.url}/d/x%20y.nc?query=not-part-of-the-key"
        assert web.fetch(VirtualRef(url, 2, 5)) == b"23456"
        assert web.fetch_many([VirtualRef(url, 0, 2), VirtualRef(url, 8, 2)]) == [b"01", b"89"]
        assert all(h["x-token"] == "t" for h in web_server.headers_of("GET"))
        assert len(web_server.headers_of("GET")) == 2  # near ranges share a request

    @pytest.mark.parametrize("honours_conditions", [True, False])
    def test_a_changed_file_is_noticed(
        self, web: Containers, web_server: WebServer, *, honours_conditions: bool
    ) -> None:
        web_server.honours_conditions = honours_conditions
        url = f"{web_server.url}/d/x%20y.nc"
        for good in ("10", '"10"', 1_700_000_000):
            assert web.fetch(VirtualRef(url, 0, 10, good)) == TEN
        for bad in ("11", 1_699_999_999):
            with pytest.raises(StorageError, match="chunk has changed"):
                web.fetch(VirtualRef(url, 0, 10, bad))
            with pytest.raises(StorageError, match="chunk has changed"):
                web.fetch_many([VirtualRef(url, 0, 10, bad)])

    def test_missing_and_short_files(self, web: Containers, web_server: WebServer) -> None:
        with pytest.raises(StorageError, match="does not exist") as caught:
            web.fetch(VirtualRef(f"{web_server.url}/d/none", 0, 1))
        assert kind_of(caught) is ErrorKind.VIRTUAL_CHUNK_FETCH
        for offset in (5, 50):
            with pytest.raises(StorageError, match="too short") as caught:
                web.fetch(VirtualRef(f"{web_server.url}/d/x%20y.nc", offset, 10))
            assert kind_of(caught) is ErrorKind.INVALID_OBJECT_SIZE

    @pytest.mark.parametrize("path", ["../secret", "%2e%2e/secret", "a/../../secret"])
    def test_nothing_outside_is_asked_for(
        self, web: Containers, web_server: WebServer, path: str
    ) -> None:
        with pytest.raises(InvalidInputError):
            web.fetch(VirtualRef(f"{web_server.url}/d/{path}", 0, 10))
        assert not web_server.seen

    def test_no_spelling_sends_its_headers_to_another_host(
        self, web_server: WebServer, web: Containers
    ) -> None:
        with other_server() as evil:
            evil.answers["*"] = (200, "0123456789")
            here = web_server.url.removeprefix("http://")
            there = evil.url.removeprefix("http://")
            for text in (f"http://{here}%2Fd%2F@{there}/x", f"http://{here}%2fd%2f@{there}/d/x"):
                with pytest.raises(InvalidInputError):
                    web.fetch(VirtualRef(text, 0, 10))
            assert not evil.seen
        assert not web_server.seen


class TestS3:
    @pytest.fixture
    def prefix(self, s3_server: S3Server) -> str:
        storage = s3_storage(
            bucket=s3_server.bucket,
            prefix=(name := uuid4().hex),
            region=REGION,
            endpoint_url=s3_server.endpoint,
            allow_http=True,
            access_key_id="a",
            secret_access_key="b",
        )
        storage.put("x", TEN)
        storage.put("large", bytes(range(250)) * 20_000)
        return f"s3://{s3_server.bucket}/{name}/"

    @pytest.fixture
    def s3(self, s3_server: S3Server) -> Containers:
        prefix = f"s3://{s3_server.bucket}/"
        store = s3_store(REGION, s3_server.endpoint, allow_http=True, s3_compatible=True)
        key = s3_credentials(access_key_id="a", secret_access_key="b")
        return containers(
            (prefix, store, "archive"), authorized=containers_credentials({prefix[:-1]: key})
        )

    def test_ranges_and_checksums(self, s3: Containers, prefix: str) -> None:
        tag = "781e5e245d69b566979b86e28d23f2c7"
        assert s3.fetch(VirtualRef(f"{prefix}x", 2, 5)) == b"23456"
        for good in (tag, f'"{tag}"', 4_000_000_000):
            assert s3.fetch(VirtualRef(f"{prefix}x", 0, 10, good)) == TEN
        for bad in ("0" * 32, 1_000_000_000):
            with pytest.raises(StorageError, match="chunk has changed"):
                s3.fetch(VirtualRef(f"{prefix}x", 0, 10, bad))

    def test_missing_and_short_objects(self, s3: Containers, prefix: str) -> None:
        with pytest.raises(StorageError) as caught:
            s3.fetch(VirtualRef(f"{prefix}none", 0, 1))
        assert kind_of(caught) is ErrorKind.VIRTUAL_CHUNK_FETCH
        with pytest.raises(StorageError) as caught:
            s3.fetch(VirtualRef(f"{prefix}x", 5, 10))
        assert kind_of(caught) is ErrorKind.INVALID_OBJECT_SIZE

    def test_large_chunks_and_many_chunks(self, s3: Containers, prefix: str) -> None:
        data = bytes(range(250)) * 20_000
        assert s3.fetch(VirtualRef(f"{prefix}large", 5, 4_000_000)) == data[5:4_000_005]
        refs = [VirtualRef(f"{prefix}large", at, 7) for at in range(0, 4_900_000, 300_000)]
        assert s3.fetch_many(refs) == [data[r.offset : r.offset + 7] for r in refs]

    @pytest.mark.parametrize("key", ["a//b", "/a", "a b//c#d/e"])
    def test_keys_with_empty_parts(self, s3: Containers, s3_server: S3Server, key: str) -> None:
        path = quote(f"odd/{key}") if not key.startswith("/") else quote(key)
        put = Request(f"{s3_server.endpoint}/{s3_server.bucket}/{path}", data=TEN, method="PUT")
        assert send(put) == 200
        assert s3.fetch(VirtualRef(f"s3://{s3_server.bucket}/{path}", 2, 3)) == b"234"

    def test_dot_parts_cannot_be_asked_for(self, s3: Containers, prefix: str) -> None:
        with pytest.raises(InvalidInputError, match=r"'\.' or '\.\.' parts"):
            s3.fetch(VirtualRef(f"{prefix}a/../b", 0, 1))


HEADERS = {"Authorization": "Bearer secret", "X-Api-Key": "secret"}


def test_virtual_chunks_are_not_redirected(web_server: WebServer, other: WebServer) -> None:
    web_server.redirects = {"/d/x": f"{other.url}/d/x"}
    prefix = f"{web_server.url}/d/"
    made = containers((prefix, http_store(headers=HEADERS), None), authorized={prefix: HttpAccess})
    with pytest.raises(StorageError, match="redirects to another address"):
        made.fetch(VirtualRef(f"{prefix}x", 0, 10))
    with pytest.raises(StorageError, match="redirects to another address"):
        made.fetch_many([VirtualRef(f"{prefix}x", 0, 10)])
    assert not other.seen


# --- which source reads a container ---


def opened(url: str, store: AnyObjectStoreConfig) -> object:
    """What reads a container without credentials."""
    container = VirtualChunkContainer(url, store)
    return source_for(container, parse_location(url), None, StorageSettings())


def test_each_kind_of_store_has_its_source(tmp_path: Path) -> None:
    assert isinstance(opened(f"file://{tmp_path}/", local_filesystem_store("/x")), FileSource)
    assert isinstance(opened("http://host.example/x/", http_store()), WebSource)
    for url, store in (
        ("s3://b/", s3_store()),
        ("gs://b/", gcs_store()),
        ("az://c/", azure_store(account="a")),
    ):
        assert isinstance(opened(url, store), ObjectSource)


def test_files_of_another_host_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="a file on another host") as caught:
        opened("file://host/data/", local_filesystem_store("/data"))
    assert kind_of(caught) is ErrorKind.INVALID_VIRTUAL_REF


def test_no_memory_is_taken_for_a_length_that_no_file_has(files: Containers, folder: Path) -> None:
    with pytest.raises(StorageError, match="too short"):
        files.fetch(VirtualRef(ref(folder).location, 0, 1 << 60))


@pytest.mark.parametrize("part", [0, 1, 999_999_999])
def test_a_file_is_the_one_of_its_reference_only_in_that_second(
    files: Containers, folder: Path, part: int
) -> None:
    """References keep whole seconds: that of a file changed within a second is its end."""
    when = 1_700_000_000 * 1_000_000_000 + part
    os.utime(folder / "a b.nc", ns=(when, when))
    location, end = ref(folder).location, 1_700_000_000 + (part > 0)
    assert files.fetch(VirtualRef(location, 0, 10, end)) == TEN
    for other in (end - 1, end + 1):  # it was put there just now, with a time of its own
        with pytest.raises(StorageError, match="chunk has changed"):
            files.fetch(VirtualRef(location, 0, 10, other))


def test_a_weak_tag_of_a_web_server_is_compared_without_its_mark(web_server: WebServer) -> None:
    web_server.files, web_server.honours_conditions = {"/d/x": TEN}, False
    prefix = f"{web_server.url}/d/"
    made = containers((prefix, http_store(), None), authorized={prefix: HttpAccess})
    assert made.fetch(VirtualRef(f"{prefix}x", 0, 10, 'W/"10"')) == TEN
