"""Versions as plain Zarr over HTTP: ranges, ETags, CORS; read by zarr-python and zarrita."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import numpy as np
import pytest
import zarr
from obstore.store import HTTPStore
from zarr.storage import ObjectStore

import frazil
from frazil.web.library import Library
from frazil.web.settings import ServerSettings
from tests.support.servers import CACHE
from tests.web.conftest import Places, served
from tests.web.samples import temperature

SCRIPT = Path(__file__).with_name("zarrita.mjs")
PACKAGE = "zarrita@0.7.5"


def get(url: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(url, headers=named, timeout=30)


def opened(site: str, version: str) -> zarr.Group:
    store = HTTPStore.from_url(f"{site}/zarr/ocean@{version}", client_options={"allow_http": True})
    return zarr.open_group(ObjectStore(store, read_only=True), mode="r")


@pytest.mark.parametrize("version", ["v1", "main"])
def test_zarr_reads_every_version(site: str, version: str) -> None:
    group = opened(site, version)
    array = group["sst"]
    assert isinstance(array, zarr.Array)
    np.testing.assert_array_equal(np.asarray(array[3]), temperature(3))
    assert array.attrs["units"] == "degC"
    if version == "v1":
        assert np.isnan(np.asarray(array[20])).all()


def test_documents_and_chunks_are_the_bytes_of_the_store(site: str, places: Places) -> None:
    store = frazil.Repository.open(places.ocean).readonly_session("main").store
    for key in ("zarr.json", "sst/zarr.json", "sst/c/0/0/0", "lat/c/0"):
        wanted = zarr.core.sync.sync(store.get(key, zarr.core.buffer.default_buffer_prototype()))
        found = get(f"{site}/zarr/ocean@main/{key}")
        assert wanted is not None
        assert found.content == wanted.to_bytes()
        assert int(found.headers["content-length"]) == len(found.content)


def test_what_is_not_there_is_404(site: str) -> None:
    for path in (
        "ocean@main/nope/zarr.json",
        "ocean@main/sst/c/11/0/0",
        "ocean@main/.zgroup",
        "ocean@nope/zarr.json",
        "nope@main/zarr.json",
        "ocean/zarr.json",
        "ocean@main/x/y",
    ):
        assert get(f"{site}/zarr/{path}").status_code == 404, path


def test_a_chunk_whose_version_is_not_there_is_not_taken_for_fill_values(tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "kept"))
    session = repo.writable_session("main")
    zarr.group(session.store).create_array("a", shape=(4,), chunks=(4,), dtype="u1")[:] = 7
    repo.create_branch("trial", session.commit("Four sevens"))
    with served(Library([str(tmp_path / "kept")]), ServerSettings(port=0, zarr=True)) as at:
        url = f"{at}/zarr/kept@trial"
        client = HTTPStore.from_url(url, client_options={"allow_http": True})
        array = zarr.open_array(ObjectStore(client, read_only=True), path="a", mode="r")
        assert np.asarray(array[:]).tolist() == [7] * 4
        repo.delete_branch("trial")
        assert get(f"{url}/a/c/0").status_code == 410
        assert get(f"{url}/a/zarr.json").status_code == 404
        with pytest.raises(Exception, match="410"):
            array[:]


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=5-", slice(5, None)),
        ("bytes=-7", slice(-7, None)),
        ("bytes=3-999999999", slice(3, None)),
    ],
)
def test_ranges(site: str, asked: str, part: slice) -> None:
    url = f"{site}/zarr/ocean@main/sst/c/0/0/0"
    whole = get(url).content
    found = get(url, range=asked)
    assert found.status_code == 206
    assert found.content == whole[part]
    first = range(len(whole))[part][0]
    assert (
        found.headers["content-range"]
        == f"bytes {first}-{first + len(found.content) - 1}/{len(whole)}"
    )


def test_ranges_that_cannot_be_met(site: str) -> None:
    url = f"{site}/zarr/ocean@main/sst/c/0/0/0"
    found = get(url, range="bytes=99999999-")
    assert found.status_code == 416
    assert found.headers["content-range"].startswith("bytes */")
    for odd in ("bytes=9-3", "lines=1-2", "bytes=0-1,4-5"):
        assert get(url, range=odd).status_code == 200


def test_etags_name_the_state_and_snapshots_are_for_ever(site: str, places: Places) -> None:
    url = f"{site}/zarr/ocean@main/sst/zarr.json"
    first = get(url)
    assert first.headers["cache-control"] == "no-cache"
    again = get(url, if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    main = frazil.Repository.open(places.ocean).lookup_branch("main")
    fixed = get(f"{site}/zarr/ocean@{main}/sst/zarr.json")
    assert "immutable" in fixed.headers["cache-control"]
    assert fixed.headers["etag"] == first.headers["etag"]
    head = httpx.head(url, timeout=30)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(first.content)


def test_pages_of_chosen_origins_may_read_it(site: str) -> None:
    url = f"{site}/zarr/ocean@main/zarr.json"
    allowed = get(url, origin="http://map.example")
    assert allowed.headers["access-control-allow-origin"] == "http://map.example"
    assert "content-range" in allowed.headers["access-control-expose-headers"]
    assert get(url, origin="http://evil.example").status_code == 403
    asked = httpx.options(
        url,
        headers={"origin": "http://map.example", "access-control-request-method": "GET"},
        timeout=30,
    )
    assert asked.status_code == 204


def zarrita_or_skip() -> Path:
    """The script in a folder that has zarrita, which npm installs on first use."""
    home = CACHE / PACKAGE.replace("@", "-")
    script = home / SCRIPT.name
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed: apt-get install nodejs npm")
    if not (home / "node_modules" / "zarrita").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text("{}\n")
        flags = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts"]
        command = [npm, "install", "--prefix", str(home), *flags, PACKAGE]
        try:
            done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("npm takes too long")
        if done.returncode:
            pytest.skip(f"npm could not install {PACKAGE}: {done.stderr[-300:]!r}")
    shutil.copyfile(SCRIPT, script)
    return script


@pytest.mark.slow
def test_zarrita_reads_it(site: str) -> None:
    script = zarrita_or_skip()
    done = subprocess.run(
        ["node", str(script), f"{site}/zarr/ocean@v1/sst"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["shape"] == [24, 72, 144]
    wanted = temperature(3)[30]
    found = np.array([np.nan if each is None else each for each in told["values"]], "f4")
    np.testing.assert_array_equal(found, wanted)
