"""Files behind a web server and in an object store: read, referred to, found by pattern."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.ingestion.reports import IngestRefusedError
from frazil.ingestion.sources import expand
from frazil.repository import Repository
from frazil.storage.credential_functions import containers_credentials, s3_credentials
from frazil.storage.credentials import HttpAccess
from frazil.storage.local import LocalStorage
from tests.support.archive import archive, decoded, part, take
from tests.support.fixtures import s3_server as s3_server
from tests.support.servers import REGION, S3Server


class Ranged(http.server.SimpleHTTPRequestHandler):
    """Serves files, or parts of them."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer with the bytes that are asked for."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        asked = self.headers.get("Range")
        start, stop = 0, len(data)
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(len(data), int(last) + 1 if last else len(data))
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(data[start:stop])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a web server with an archive of files."""
    archive(tmp_path / "site")
    part(3).to_netcdf(tmp_path / "site" / "old.nc", format="NETCDF3_CLASSIC", engine="netcdf4")
    handler = functools.partial(Ranged, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_files_of_a_web_server(tmp_path: Path, site: str) -> None:
    files = [f"{site}/part-{number}.nc" for number in range(3)]
    report = take(tmp_path / "repo", *files)
    assert report.containers == (f"{site}/",)
    access = containers_credentials({f"{site}/": HttpAccess})
    repository = Repository.open(
        LocalStorage(tmp_path / "repo"), authorize_virtual_chunk_access=access
    )
    store = repository.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None).load()
    xr.testing.assert_equal(found, decoded(0, 1, 2))
    assert take(tmp_path / "repo", *files).skipped == report.files


def test_files_of_a_web_server_are_copied(tmp_path: Path, site: str) -> None:
    take(tmp_path / "repo", f"{site}/old.nc", wanted={"mode": "native"})
    store = Repository.open(LocalStorage(tmp_path / "repo")).readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None).load()
    xr.testing.assert_equal(found, decoded(3))


def test_a_missing_page_is_told(tmp_path: Path, site: str) -> None:
    with pytest.raises(IngestRefusedError, match="nothing-here"):
        take(tmp_path / "repo", f"{site}/nothing-here.nc")


@pytest.mark.slow
def test_files_of_an_object_store(tmp_path: Path, s3_server: S3Server) -> None:
    options = {
        "region": REGION,
        "endpoint_url": f"http://127.0.0.1:{s3_server.port}",
        "allow_http": True,
        "force_path_style": True,
        "access_key_id": s3_server.access_key_id,
        "secret_access_key": s3_server.secret_access_key,
    }
    bucket = s3_server.client()
    for file in archive(tmp_path / "files"):
        obstore.put(bucket, f"archive/2000/{file.name}", file)
    part(0).to_zarr(tmp_path / "z.zarr", zarr_format=3, consolidated=False)
    for path in (tmp_path / "z.zarr").rglob("*"):
        if path.is_file():
            obstore.put(bucket, f"archive/{path.relative_to(tmp_path)}", path)
    root = f"s3://{s3_server.bucket}/archive"
    assert len(expand(f"{root}/*/part-[01].nc", options)) == 2
    with pytest.raises(InvalidInputError, match="no file matches"):
        expand(f"{root}/*.nc", options)
    report = take(tmp_path / "repo", f"{root}/**/part-*.nc", source_options=options)
    take(tmp_path / "repo", f"{root}/z.zarr", source_options=options, group="zarr")
    assert report.containers == (f"{root}/2000/",)
    secrets = s3_credentials(
        access_key_id=s3_server.access_key_id, secret_access_key=s3_server.secret_access_key
    )
    config = Repository.open(LocalStorage(tmp_path / "repo")).config
    assert s3_server.secret_access_key not in repr(config)
    access = containers_credentials(dict.fromkeys(config.virtual_chunk_containers or {}, secrets))
    repository = Repository.open(
        LocalStorage(tmp_path / "repo"),
        authorize_virtual_chunk_access=access,
        endpoints=[str(options["endpoint_url"])],
    )
    store = repository.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None).load()
    xr.testing.assert_equal(found, decoded(0, 1, 2))
    inner = xr.open_zarr(store, group="zarr", consolidated=False, chunks=None).load()
    xr.testing.assert_equal(inner, decoded(0))
