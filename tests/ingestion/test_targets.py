"""Files on other machines that references point to are asked for their sizes and versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import xarray as xr

from frazil.ingestion.reports import IngestRefusedError
from frazil.repository import Repository
from frazil.storage.credential_functions import containers_credentials
from frazil.storage.credentials import HttpAccess
from frazil.storage.local import LocalStorage
from tests.support.archive import take
from tests.support.odd.kerchunk import VALUES, meta
from tests.support.servers import free_port
from tests.support.web import WebServer
from tests.support.web import web_server as served

BYTES = VALUES.tobytes()


@pytest.fixture
def web() -> Iterator[WebServer]:
    with served() as server:
        server.files = {"/d/a.bin": BYTES, "/d/b.bin": BYTES}
        yield server


def references(folder: Path, **chunks: list[object]) -> Path:
    """A local file of references to two chunks."""
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "v/.zarray": meta(4),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
        **{f"v/{key.lstrip('c')}": value for key, value in chunks.items()},
    }
    made = folder / "refs.json"
    made.write_text(json.dumps({"version": 1, "refs": refs}))
    return made


def read(repo: Path, url: str) -> list[int]:
    access = containers_credentials({f"{url}/d/": HttpAccess})
    opened = Repository.open(LocalStorage(repo), authorize_virtual_chunk_access=access)
    store = opened.readonly_session("main").store
    values: list[int] = xr.open_zarr(store, consolidated=False, chunks=None).v.values.tolist()
    return values


def test_a_file_that_was_replaced_is_not_read_as_the_old_one(
    tmp_path: Path, web: WebServer
) -> None:
    file = references(tmp_path, c0=[f"{web.url}/d/a.bin", 0, 16], c1=[f"{web.url}/d/b.bin", 16, 16])
    take(tmp_path / "repo", file, allow=(f"{web.url}/d/",))
    assert read(tmp_path / "repo", web.url) == VALUES.tolist()
    web.files["/d/b.bin"] = BYTES[::-1]
    web.modified += 100
    with pytest.raises(Exception, match="has changed"):
        read(tmp_path / "repo", web.url)


def test_a_range_behind_the_end_is_refused(tmp_path: Path, web: WebServer) -> None:
    file = references(tmp_path, c0=[f"{web.url}/d/a.bin", 0, 16], c1=[f"{web.url}/d/b.bin", 20, 16])
    with pytest.raises(IngestRefusedError, match=r"ends at byte 36 of .*/d/b.bin, which has 32"):
        take(tmp_path / "repo", file, allow=(f"{web.url}/d/",))


def test_a_file_that_is_missing_is_refused(tmp_path: Path, web: WebServer) -> None:
    file = references(tmp_path, c0=[f"{web.url}/d/a.bin", 0, 16], c1=[f"{web.url}/d/no.bin", 0, 16])
    with pytest.raises(IngestRefusedError, match=r"that references name is missing: .*/d/no.bin"):
        take(tmp_path / "repo", file, allow=(f"{web.url}/d/",))


def test_every_file_is_asked_for_once(tmp_path: Path, web: WebServer) -> None:
    a = f"{web.url}/d/a.bin"
    take(tmp_path / "repo", references(tmp_path, c0=[a, 0, 16], c1=[a, 16, 16]), allow=(web.url,))
    assert [path for method, path, _ in web.seen if method == "HEAD"] == ["/d/a.bin"]


@pytest.mark.parametrize("how", ["denied", "closed"])
def test_a_store_that_does_not_answer_is_told(tmp_path: Path, web: WebServer, how: str) -> None:
    """Those who read the references may be those who can."""
    url = web.url if how == "denied" else f"http://127.0.0.1:{free_port()}"
    web.answers["*"] = (403, "")
    file = references(tmp_path, c0=[f"{url}/d/a.bin", 0, 16], c1=[f"{url}/d/b.bin", 16, 16])
    report = take(tmp_path / "repo", file, allow=(f"{url}/d/",))
    [told] = [each for each in map(str, report.findings) if "not asked for their versions" in each]
    assert "/d/a.bin and 1 more" in told
    web.answers.clear()
    if how == "denied":
        assert read(tmp_path / "repo", url) == VALUES.tolist()
