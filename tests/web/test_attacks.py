"""Hostile addresses, hostile repositories and storages that hang: an error, and no more."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
import zarr
import zstandard

import frazil
from frazil.model.lanes import lay_out
from frazil.storage.local import LocalStorage
from frazil.transaction.keyspace import KeySpace
from frazil.web import data, pages, reports
from frazil.web.library import Library
from frazil.web.settings import RequestLimits, ServerSettings
from tests.support.fixtures import web_server as web_server
from tests.support.nodes import write_keys
from tests.support.web import WebServer
from tests.unit.model.test_lanes import commit
from tests.web.conftest import TOKEN, Places, served
from tests.web.test_pages import get, ready, values

GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
ODD_TEXTS = ("\0", "../../etc/passwd", "'\"<script>", "²", "-1", "1" * 99)
NAMES = ("v", "path", "x", "i²", "c٣", "index", "from", "older", "by", "a", "b", "start", "q", "p")
ADDRESSES = [
    *(f"/r/odd-place/{page}" for page in (*pages.PAGES, *reports.PAGES)),
    *(f"/r/odd-place/api/{call}" for call in data.CALLS),
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over a repository that is made to hurt; nothing of it may be read at length."""
    place = tmp_path_factory.mktemp("hostile")
    repo = frazil.Repository.create(str(place / "hurt"))
    session = repo.writable_session("main")
    root = zarr.group(session.store, attributes={f"a{n}": "x" * 3_000 for n in range(600)})
    root.create_array(
        "wide", shape=(60_000, 60_000), chunks=(60_000, 60_000), dtype="f8", compressors=None
    )
    root.create_array("long", shape=(2**60 + 7,), chunks=(2**29,), dtype="u1", fill_value=3)
    root.create_array(
        "line", shape=(5,), chunks=(5,), dtype="f4", dimension_names=("far",), fill_value=1
    )
    root.create_array("far", shape=(5,), chunks=(2**31,), dtype="f8", dimension_names=("far",))
    root.create_array("bomb", shape=(64, 64), chunks=(64, 64), dtype="u1")
    keys = KeySpace(session.state)
    keys.set("bomb/c/0/0", zstandard.ZstdCompressor().compress(bytes(256 << 20)))
    for number in range(10):
        keys.set(f"g{number}/zarr.json", GROUP)
    for number in range(1200):
        keys.set(f"g{number % 10}/n{number:05}/zarr.json", GROUP)
    session.commit("Hurt whoever looks")
    with served(Library([str(place / "hurt")]), ServerSettings(port=0, zarr=True)) as at:
        yield at


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_parameters_never_break_a_page(site: str, text: str) -> None:
    odd = "&".join(f"{quote(name)}={quote(text)}" for name in NAMES)
    with httpx.Client(timeout=60) as client:
        for address in ADDRESSES:
            for known in ("path=/known&v=main", f"v=main&path={quote(text)}"):
                given = f"{odd}&{known}"  # the last of two counts
                found = client.get(f"{site}{address}?{given}")
                assert found.status_code in (200, 202, 400, 404), (given, found.text)
                assert "Traceback" not in found.text


def test_ages_and_times_beyond_the_calendar_are_refused(site: str) -> None:
    for older in ("99999999999999999d", "9999999w", "999999999999999999"):
        found = get(f"{site}/r/ocean/panel/garbage", older=older)
        assert found.status_code == 400, found.text


def test_a_chunk_that_is_too_large_is_never_read(hostile: str) -> None:
    for address in (
        "api/values?path=/wide",
        "api/value?path=/wide&index=0,0",
        "api/values?path=/long",
        "api/value?path=/long&index=0",
    ):
        found = get(f"{hostile}/r/hurt/{address}")
        assert found.status_code == 400, address
        assert "one chunk" in found.json()["error"]
    # Coordinates too large to read are left out, and the values shown without.
    header, cells = values(f"{hostile}/r/hurt/api/values", path="/line")
    assert cells.tolist() == [1.0] * 5
    assert "values" not in header["axes"][0]


def test_a_chunk_that_decodes_to_more_than_its_size_is_told(hostile: str) -> None:
    found = get(f"{hostile}/r/hurt/api/values", path="/bomb")
    assert found.status_code == 500
    assert "does not decode" in found.json()["error"]


def test_pages_of_many_nodes_and_attributes_stay_small(hostile: str) -> None:
    page = get(f"{hostile}/r/hurt/tree")
    assert len(page.content) < 3 << 20
    assert "of 1,215" in page.text
    below = get(f"{hostile}/r/hurt/tree", path="/g3", **{"from": 110}).text
    assert "n01193" in below
    assert "n01194" not in below
    changed = get(f"{hostile}/r/hurt/commit")
    assert len(changed.content) < 1 << 20
    assert "more changes" in changed.text
    assert get(f"{hostile}/r/hurt/array", path="/g3").status_code == 400


def test_five_thousand_branches_are_laid_out_in_bounded_memory() -> None:
    history = [commit(0), *(commit(n, 0) for n in range(1, 5000))]
    begin = time.perf_counter()
    rows = lay_out(history)
    assert time.perf_counter() - begin < 20
    assert max(row.lane for row in rows) == 4998
    assert max(len(row.lines) for row in rows) <= 65


def test_a_repository_that_hangs_stops_no_other(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, gate = Library([places.ocean, places.odd]), threading.Event()
    stuck = library.find("odd-place")
    monkeypatch.setattr(stuck, "session", lambda _: gate.wait(60))
    monkeypatch.setattr("frazil.web.app.LISTED_S", 0.2)
    limits = RequestLimits(threads=2, waiting=2, seconds=0.3)
    with served(library, ServerSettings(port=0, limits=limits)) as at:
        try:
            for _ in range(2):
                assert get(f"{at}/r/odd-place/tree").status_code == 503
            busy = get(f"{at}/r/odd-place/tree")
            assert busy.status_code == 503
            assert "busy" in busy.text
            assert get(f"{at}/r/ocean/history").status_code == 200
            listed = get(f"{at}/")
            assert listed.status_code == 200
            assert "the server is busy" in listed.text
            assert "2 tags" in listed.text
        finally:
            gate.set()


def test_an_unexpected_failure_of_one_repository_is_a_line_of_the_list(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library([places.ocean, places.odd])

    def fail(_: str) -> None:
        raise ValueError("a secret of the inside")

    monkeypatch.setattr(library.find("odd-place"), "info", fail)
    with served(library, ServerSettings(port=0)) as at:
        found = get(f"{at}/")
        assert found.status_code == 200
        assert "a secret" not in found.text
        assert "something unexpected" in found.text


def test_other_ports_of_this_machine_may_not_use_it(site: str) -> None:
    headers = {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}
    assert httpx.get(f"{site}/r/ocean/", headers=headers, timeout=30).status_code == 403


def test_what_a_token_guards_is_kept_by_no_shared_cache(places: Places, site: str) -> None:
    main = frazil.Repository.open(places.ocean).lookup_branch("main")
    path = f"/zarr/ocean@{main}/zarr.json"
    assert "public" in get(site + path).headers["cache-control"]
    assert get(site + path).headers["vary"] == "Origin"  # --cors is given: answers differ by it
    with served(Library([places.ocean]), ServerSettings(port=0, zarr=True, token=TOKEN)) as at:
        found = httpx.get(at + path, headers={"authorization": f"Bearer {TOKEN}"}, timeout=30)
        assert "private" in found.headers["cache-control"]
        assert "public" not in found.headers["cache-control"]
        for refused in ("/", "/zarr/ocean@main/zarr.json", "/r/ocean/", "/nowhere"):
            answer = httpx.get(at + refused, timeout=30)
            assert answer.status_code == 403
            assert "ocean" not in answer.text


def test_a_range_of_a_value_that_has_changed_is_not_mixed(site: str) -> None:
    url = f"{site}/zarr/ocean@main/sst/zarr.json"
    whole = get(url)
    ranged = {"range": "bytes=5-9"}
    same = httpx.get(url, headers={**ranged, "if-range": whole.headers["etag"]}, timeout=30)
    assert (same.status_code, same.content) == (206, whole.content[5:10])
    other = httpx.get(url, headers={**ranged, "if-range": '"older"'}, timeout=30)
    assert (other.status_code, other.content) == (200, whole.content)


def test_keys_lead_nowhere_but_to_nodes(site: str) -> None:
    for key in ("..%2f..%2frepo", "%2e%2e/repo", "%00", "%ff", "/etc/passwd", "c/0", "repo"):
        assert get(f"{site}/zarr/ocean@main/{key}").status_code == 404
    for name in ("nope@main", "@", "@main", "ocean", "..@..", f"{'x' * 3000}@main"):
        assert get(f"{site}/zarr/{name}/zarr.json").status_code == 404


def test_infinite_values_and_calendars_have_an_answer(tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "odd"))
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    cells = np.array([[1, np.inf, 2], [-np.inf, np.nan, 3]], "f4")
    root.create_array("inf", shape=(2, 3), chunks=(2, 3), dtype="f4")[:] = cells
    times: dict[str, Any] = {"units": "days since 1850-01-01", "calendar": "noleap"}
    root.create_array("day", shape=(2,), chunks=(2,), dtype="i4", attributes=times)[:] = [0, 60]
    hours: dict[str, Any] = {"units": "hours since 2026-05-01 06:00"}
    root.create_array(
        "hour", shape=(2,), chunks=(2,), dtype="i4", dimension_names=("hour",), attributes=hours
    )[:] = [0, 6]
    root.create_array("at", shape=(2,), chunks=(2,), dtype="f4", dimension_names=("hour",))[:] = 1
    session.commit("Odd values")
    with served(Library([str(tmp_path / "odd")]), ServerSettings(port=0)) as at:
        _, found = values(f"{at}/r/odd/api/values", path="/inf")
        np.testing.assert_array_equal(found, cells)
        text = get(f"{at}/r/odd/api/values", path="/day").text
        assert "1850-03-02" in text  # no leap day between
        header, _ = values(f"{at}/r/odd/api/values", path="/at")
        assert header["axes"][0]["values"] == ["2026-05-01 06:00", "2026-05-01 12:00"]


def test_reports_are_seen_although_commits_never_stop(tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "live"))
    with served(Library([str(tmp_path / "live")]), ServerSettings(port=0)) as at:
        for number in range(4):
            session = repo.writable_session("main")
            zarr.open_group(session.store, mode="a").attrs["n"] = number
            session.commit(f"commit {number}")
            assert ready(f"{at}/r/live/panel/sizes").status_code == 200


def test_versions_with_many_arrays_are_compared_in_bounded_work(tmp_path: Path) -> None:
    repo = frazil.Repository.create(LocalStorage(str(tmp_path / "many"), durability="none"))
    document = (
        b'{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8",'
        b'"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},'
        b'"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"bytes"}]}'
    )

    def write(session: frazil.Session, value: bytes, document: bytes | None = None) -> str:
        keys = KeySpace(session.state)
        for number in range(450):
            if document is not None:
                keys.set(f"a{number:04}/zarr.json", document)
            keys.set(f"a{number:04}/c/0", value * 8)
        return session.commit("many")

    first = write(repo.writable_session("main"), b"x", document)
    write(repo.writable_session("main"), b"y")
    url = str(tmp_path / "many")
    with served(Library([url]), ServerSettings(port=0)) as at:
        made = ready(f"{at}/r/many/diff?b={first}").text
        assert made.count(">added</span>") == 400
        assert "1 chunk</span>" in made
        assert "more nodes" in made
        assert ">changed</span>" in ready(f"{at}/r/many/diff").text
    tight = RequestLimits(references=3)
    with served(Library([url]), ServerSettings(port=0, limits=tight)) as at:
        assert "chunks not counted" in ready(f"{at}/r/many/diff").text
        assert "chunks not counted" in ready(f"{at}/r/many/diff?b={first}").text


def test_very_many_branches_and_tags_make_no_long_page(tmp_path: Path) -> None:
    repo = frazil.Repository.create(LocalStorage(str(tmp_path / "named"), durability="none"))
    main = repo.lookup_branch("main")
    for number in range(9):
        repo.create_tag(f"tag-{number}", main)
        repo.create_branch(f"branch-{number}", main)
    limits = RequestLimits(rows=4)
    with served(Library([str(tmp_path / "named")]), ServerSettings(port=0, limits=limits)) as at:
        for page in ("", "history", "tree", "diff"):
            found = get(f"{at}/r/named/{page}").text
            assert "tag-3" in found
            assert "tag-4" not in found
        overview = get(f"{at}/r/named/").text
        assert "<b>9</b> tags" in overview
        assert "6 more" in overview
        chosen = get(f"{at}/r/named/history", v="tag-8").text
        assert '<option value="tag-8" selected>' in chosen


def array_document(**changes: object) -> bytes:
    """The metadata of an array of four numbers, with some things otherwise."""
    found = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": {},
    }
    return json.dumps({**found, **changes}).encode()


def regular(*shape: int) -> dict[str, Any]:
    """Changes for an array of one chunk of some shape."""
    grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
    return {"shape": shape, "chunk_grid": grid}


ODD_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "codec": ({"codecs": [{"name": "<b>no such</b>"}]}, "cannot be read here"),
    "type": ({"data_type": "<b>no such</b>"}, "cannot be read here"),
    "axes": (regular(*[1] * 400), "400 axes"),
    "scale": ({"data_type": "int16", "attributes": {"scale_factor": 1e308, "add_offset": "x"}}, ""),
    "units": ({"attributes": {"units": {"a": 1}, "_FillValue": [1], "valid_range": [5, 1]}}, ""),
    "epoch": ({"attributes": {"units": "days since 99999999999-01-01", "calendar": "no"}}, ""),
    "dots": ({**regular(2, 2), "dimension_names": ["..", "a/b"]}, ""),
    "itself": ({"dimension_names": ["itself"], "data_type": "float64", "fill_value": "NaN"}, ""),
    "turned \u202e": ({**regular(2, 2), "dimension_names": ["\u202e\u0300", None]}, ""),
}
"""Arrays that are hard to show, and what is said of those that cannot be."""


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over arrays whose metadata nobody would write in good faith."""
    place = str(tmp_path_factory.mktemp("awkward") / "odd")
    repo = frazil.Repository.create(LocalStorage(place, durability="none"))
    session = repo.writable_session("main")
    for name, (changes, _) in ODD_ARRAYS.items():
        KeySpace(session.state).set(f"{name}/zarr.json", array_document(**changes))
    session.commit("Odd arrays")
    with served(Library([place]), ServerSettings(port=0)) as at:
        yield at


@pytest.mark.parametrize("name", ODD_ARRAYS)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_odd_arrays_have_pages_and_their_values_an_answer(awkward: str, name: str) -> None:
    for page in ("tree", "array", "data", "api/chunks"):
        assert get(f"{awkward}/r/odd/{page}", path=f"/{name}").status_code == 200
    found = get(f"{awkward}/r/odd/api/values", path=f"/{name}")
    said = ODD_ARRAYS[name][1]
    if said:
        assert found.status_code == 400
        assert said in found.json()["error"]
    else:
        assert found.status_code == 200, found.text


def test_a_store_that_stops_answering_holds_up_only_itself(
    places: Places, web_server: WebServer
) -> None:
    root = Path(places.ocean)
    for file in root.rglob("*"):
        if file.is_file():
            web_server.files[f"/far/{file.relative_to(root)}"] = file.read_bytes()
    far = f"{web_server.url}/far"
    limits = RequestLimits(seconds=1.5, threads=2, waiting=8)
    with served(Library([far, places.odd]), ServerSettings(port=0, zarr=True, limits=limits)) as at:
        wanted = get(f"{at}/zarr/far@v1/sst/c/0/0/0").content
        assert wanted
        web_server.gate = threading.Event()
        try:
            for address in ("r/far/api/values?path=/sst&v=v1", "zarr/far@v1/sst/c/0/0/1", "r/far/"):
                assert get(f"{at}/{address}").status_code == 503
            for address in ("r/odd-place/", "r/odd-place/api/graph", "r/odd-place/panel/fsck"):
                assert ready(f"{at}/{address}").status_code == 200
        finally:
            web_server.gate.set()
        for _ in range(100):  # what was begun ends first
            found = get(f"{at}/zarr/far@v1/sst/c/0/0/0")
            if found.status_code == 200:
                break
        assert found.content == wanted


def test_controls_and_halves_of_characters_are_spelled_out(tmp_path: Path) -> None:
    odd = "\x1b]0;x\x07\u202e"
    repository = frazil.Repository.create(str(tmp_path / "odd"))
    session = repository.writable_session("main")
    attributes = {"lone": "\ud800", "nan": math.nan, "units": odd, "k\udfff": odd}
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    array = json.loads(array_document(attributes=attributes, dimension_names=[odd]))
    documents = {"zarr.json": group, "a/zarr.json": array}
    write_keys(session, {key: json.dumps(each).encode() for key, each in documents.items()})
    session.commit(f"m {odd}", {"x": odd})
    repository.create_tag(f"t{odd}", repository.lookup_branch("main"))
    with served(Library([str(tmp_path / "odd")]), ServerSettings(port=0)) as at:
        for page in (*pages.PAGES, *reports.PAGES):
            for path in ("/", "/a"):
                found = get(f"{at}/r/odd/{page}", path=path)
                assert found.status_code < 500, (page, path, found.text)
                assert not set(odd) & set(found.text) - set("]0;x"), (page, path)
