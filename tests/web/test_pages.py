"""Every page over HTTP: what it says, how it fails, and that foreign text stays text."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import numpy.typing as npt
import pytest
import zarr

import frazil
from frazil.web.library import Library
from frazil.web.settings import RequestLimits, ServerSettings
from tests.web.conftest import Places, served
from tests.web.samples import HOSTILE, ODD, temperature

PAGES = (
    "",
    "history",
    "commit?v=main",
    "commit?v=v1",
    "tree",
    "tree?v=v1",
    "tree?path=/ice",
    "array?path=/sst",
    "array?path=/depth&v=main",
    "data?path=/sst",
    "diff?a=v1&b=main",
    "diff?b=main",
    "diff/array?a=v1&b=main&path=/sst",
    "diff/array?a=v1&b=main&path=/ice/cover",
    "storage?by=array",
    "garbage?older=1d",
    "fsck?run=1",
    "operations",
)
PANELS = (
    "panel/growth",
    "panel/sizes",
    "panel/shares?by=array",
    "panel/shares?by=snapshot",
    "panel/shares?by=branch",
    "panel/garbage?older=1d",
    "panel/fsck",
    "panel/fsck?deep=1",
)


def get(url: str, **params: Any) -> httpx.Response:  # noqa: ANN401  (query values)
    return httpx.get(f"{url}?{urlencode(params)}" if params else url, timeout=60)


def ready(url: str) -> httpx.Response:
    """A part of a page, once it is made."""
    for _ in range(200):
        found = get(url)
        if found.status_code != 202:
            return found
    raise AssertionError(f"{url} is never ready")


def values(url: str, **params: Any) -> tuple[dict[str, Any], npt.NDArray[Any]]:  # noqa: ANN401
    """Header and numbers of `api/values`."""
    found = get(url, **params)
    assert found.status_code == 200, found.text
    (length,) = struct.unpack("<I", found.content[:4])
    header = json.loads(found.content[4 : 4 + length])
    kind = {"f4": "<f4", "f8": "<f8"}[header["type"]]
    return header, np.frombuffer(found.content[4 + length :], kind).reshape(header["shape"])


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", ["ocean"])
def test_pages_open(site: str, name: str, page: str) -> None:
    found = get(f"{site}/r/{name}/{page}")
    assert found.status_code == 200, found.text
    assert found.headers["content-type"].startswith("text/html")
    assert " style=" not in found.text  # the policy would ignore it
    assert "<script>" not in found.text


@pytest.mark.parametrize("panel", PANELS)
def test_parts_of_pages_open(site: str, panel: str) -> None:
    found = ready(f"{site}/r/ocean/{panel}")
    assert found.status_code == 200, found.text


def test_the_list_has_every_repository(site: str) -> None:
    found = get(f"{site}/").text
    assert 'href="/r/ocean/"' in found
    assert 'href="/r/odd-place/"' in found


@pytest.mark.parametrize(
    "page", ["", "history", "commit", "tree", "operations", "diff", "array?path=/known", "storage"]
)
def test_hostile_text_stays_text(site: str, page: str) -> None:
    found = get(f"{site}/r/odd-place/{page}")
    assert found.status_code == 200, found.text
    assert "<script>window" not in found.text
    assert "<img src=x" not in found.text


def test_odd_names_are_reached(site: str, places: Places) -> None:
    for name in (ODD, "t?ok#en=1&v=x"):
        assert get(f"{site}/r/odd-place/array", path=f"/{name}").status_code == 200
        found = get(f"{site}/r/odd-place/data", path=f"/{name}")
        assert found.status_code == 200
        assert HOSTILE not in found.text
        _, cells = values(f"{site}/r/odd-place/api/values", path=f"/{name}")
        assert cells.tolist() == np.arange(24.0).reshape(4, 6).tolist()


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/r/nope/", 404),
        ("/nowhere", 404),
        ("/r/ocean/tree?v=nope", 404),
        ("/r/ocean/array?path=/nope", 404),
        ("/r/ocean/api/values?path=/sst&x=9", 400),
        ("/r/ocean/api/values?path=/sst&x=a", 400),
        ("/r/ocean/api/values?path=/sst&x=1&y=1", 400),
        ("/r/ocean/api/value?path=/sst&index=1,2", 400),
        ("/r/ocean/api/value?path=/sst&index=99,0,0", 400),
        ("/r/ocean/api/chunk?path=/sst&index=99,0,0", 400),
        ("/r/ocean/api/chunks?path=/sst&y=7", 400),
        ("/r/ocean/garbage?older=7d&x=1", 200),
        ("/r/ocean/panel/garbage?older=soon", 400),
        ("/r/ocean/panel/shares?by=colour", 400),
        ("/r/ocean/array?path=/ice", 400),
    ],
)
def test_wrong_addresses_give_error_pages(site: str, address: str, status: int) -> None:
    found = get(site + address)
    assert found.status_code == status, found.text
    assert "Traceback" not in found.text


def test_values_are_those_of_the_array(site: str) -> None:
    header, cells = values(f"{site}/r/ocean/api/values", v="v1", path="/sst", i0=3)
    np.testing.assert_array_equal(cells, temperature(3))
    assert header["units"] == "degC"
    assert header["at"] == {"0": "2026-05-04"}
    down, across = header["axes"]
    assert (down["units"], down["upward"]) == ("degrees_north", True)
    assert (across["units"], across["upward"]) == ("degrees_east", False)
    assert across["values"][0] == pytest.approx(1.25)


def test_axes_may_be_swapped_cut_and_thinned(site: str) -> None:
    url = f"{site}/r/ocean/api/values"
    _, turned = values(url, v="v1", path="/sst", i0=3, y=2, x=1)
    np.testing.assert_array_equal(turned, temperature(3).T)
    header, part = values(url, v="v1", path="/sst", i0=3, s1=10, e1=20, s2=4, e2=8)
    np.testing.assert_array_equal(part, temperature(3)[10:20, 4:8])
    assert [axis["start"] for axis in header["axes"]] == [10, 4]
    header, thin = values(url, v="v1", path="/sst", i0=3, most=24)
    assert [axis["step"] for axis in header["axes"]] == [3, 6]
    np.testing.assert_array_equal(thin, temperature(3)[::3, ::6])
    header, line = values(url, v="v1", path="/sst", x=0, i1=30, i2=60)
    np.testing.assert_array_equal(line[:14], [temperature(day)[30, 60] for day in range(14)])
    assert header["axes"][0]["values"][1] == "2026-05-02"


def test_packed_numbers_are_unpacked_unless_asked_not_to(site: str) -> None:
    url = f"{site}/r/odd-place/api/values"
    _, cells = values(url, path="/packed")
    np.testing.assert_array_equal(cells, [[10, 11, 12], [np.nan, 14, 15]])
    _, stored = values(url, path="/packed", raw=1)
    assert stored.tolist() == [[0, 2, 4], [-1, 8, 10]]


def test_what_is_no_number_is_text(site: str) -> None:
    found = get(f"{site}/r/odd-place/api/values", path="/words").content
    assert b"<b>bold</b>" in found  # JSON: the script puts it into the page as text
    exact = get(f"{site}/r/odd-place/api/value", path="/big", index="0,0").json()
    assert exact == {"value": str(2**60 + 1)}


def test_empty_and_scalar_arrays_have_an_answer(site: str) -> None:
    header, cells = values(f"{site}/r/odd-place/api/values", path="/empty")
    assert (header["empty"], cells.shape) == (True, (0, 4))
    _, cells = values(f"{site}/r/odd-place/api/values", path="/scalar", all=1)
    assert cells.tolist() == 2.5


def test_virtual_chunks_are_read_where_that_is_authorised(site: str, places: Places) -> None:
    _, cells = values(f"{site}/r/ocean/api/values", path="/depth")
    assert cells[1, 1] == 145.0
    with served(Library([places.ocean]), ServerSettings(port=0)) as closed:
        found = get(f"{closed}/r/ocean/api/values", path="/depth")
        assert found.status_code == 403
        assert "authori" in found.json()["error"]


def test_a_snapshot_id_makes_answers_that_may_be_kept(site: str, places: Places) -> None:
    main = frazil.Repository.open(places.ocean).lookup_branch("main")
    fixed = get(f"{site}/r/ocean/api/values", v=main, path="/sst").headers["cache-control"]
    moving = get(f"{site}/r/ocean/api/values", v="main", path="/sst").headers["cache-control"]
    assert "immutable" in fixed
    assert moving == "no-cache"


def test_chunk_maps_tell_kind_size_and_writer(site: str, places: Places) -> None:
    found = get(f"{site}/r/ocean/api/chunks", path="/sst", by="commit").json()
    assert (found["y"], found["x"], found["rows"], found["columns"]) == (2, 0, 3, 12)
    kinds = np.array(found["kind"]).reshape(3, 12)
    assert (kinds[:, :10] == 2).all()
    assert (kinds[:, 10:] == 0).all()
    written = np.array(found["written"]).reshape(3, 12)
    messages = [found["commits"][number]["message"] for number in written[0, :10]]
    assert messages[0] == "Temperature of days 1 to 8"
    assert messages[2] == "Merge the calibration"
    assert messages[9] == "Temperature of days 19 and 20"
    one = get(f"{site}/r/ocean/api/chunks", path="/sst", c1=1).json()
    assert one["cell_chunks"] == 1
    assert sum(one["count"]) == 30
    virtual = get(f"{site}/r/ocean/api/chunks", path="/depth").json()
    assert virtual["kind"] == [3]
    place = get(f"{site}/r/ocean/api/chunk", path="/depth", index="0,0").json()
    assert place["type"] == "virtual"


def test_differences_name_nodes_fields_and_chunks(site: str) -> None:
    found = get(f"{site}/r/ocean/diff", a="v1", b="main").text
    for text in ("/ice/cover", "/depth", "attributes.comment", "30 chunks differ"):
        assert text in found
    changed = get(f"{site}/r/ocean/api/changed", a="v1", b="main", path="/sst").json()
    assert changed["total"] == 30
    same = get(f"{site}/r/ocean/diff", a="main", b="main").text
    assert "the same nodes" in same
    # Branches that went different ways are compared too.
    assert get(f"{site}/r/ocean/diff", a="forecast", b="main").status_code == 200


def test_the_commits_that_touched_an_array_are_listed(site: str) -> None:
    found = get(f"{site}/r/ocean/api/commits", v="v1", path="/sst").json()
    assert [each["what"] for each in found["commits"]] == ["chunks", "chunks", "created"]


def test_the_graph_has_merges_and_windows(site: str) -> None:
    found = get(f"{site}/r/ocean/api/graph").json()
    assert found["total"] == 11
    merge = next(row for row in found["rows"] if row["merge"])
    assert merge["message"] == "Merge the calibration"
    part = get(f"{site}/r/ocean/api/graph", start=3, count=2).json()
    assert part["rows"] == found["rows"][3:5]
    assert get(f"{site}/r/ocean/api/graph", v="v1").json()["total"] == 4
    assert len(get(f"{site}/r/ocean/api/graph", q="days").json()["matches"]) == 5


def test_new_commits_are_seen(tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "live"))
    with served(Library([str(tmp_path / "live")]), ServerSettings(port=0)) as at:
        assert get(f"{at}/r/live/api/graph").json()["total"] == 1
        session = repo.writable_session("main")
        zarr.group(session.store)
        session.commit("More")
        assert get(f"{at}/r/live/api/graph").json()["total"] == 2


def test_a_damaged_repository_gives_an_error_page(tmp_path: Path) -> None:
    frazil.Repository.create(str(tmp_path / "broken"))
    (tmp_path / "broken" / "repo").write_bytes(b"\x00" * 100)
    with served(Library([str(tmp_path / "broken")]), ServerSettings(port=0)) as at:
        assert get(f"{at}/").status_code == 200
        found = get(f"{at}/r/broken/")
        assert found.status_code == 500
        assert "Traceback" not in found.text


def test_limits_hold(places: Places) -> None:
    tight = RequestLimits(decoded_bytes=3 << 20, cells=500, references=3, nodes=2)
    with served(Library([places.odd, places.ocean]), ServerSettings(port=0, limits=tight)) as at:
        _, cells = values(f"{at}/r/odd-place/api/values", path="/large", most=4096)
        assert cells.size <= 500
        assert cells.min() == cells.max() == 9
        found = get(f"{at}/r/ocean/api/chunks", path="/sst")
        assert found.status_code == 400
        assert "references" in found.json()["error"]
        assert "of 7" in get(f"{at}/r/ocean/tree").text


def test_a_chunk_that_is_too_large_is_refused(places: Places) -> None:
    with served(
        Library([places.odd]), ServerSettings(port=0, limits=RequestLimits(decoded_bytes=1000))
    ) as at:
        found = get(f"{at}/r/odd-place/api/values", path="/large")
        assert found.status_code == 400
        assert "one chunk" in found.json()["error"]


def test_secrets_in_addresses_are_not_shown(tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "kept"))
    for source in ("https://user:hunter2@host/a?sig=hunter2", "https://user:hunter2@host/b"):
        session = repo.writable_session("main")
        zarr.open_group(session.store, mode="a").attrs["source"] = source
        session.commit("Say where it is from")
    with served(Library([str(tmp_path / "kept")]), ServerSettings(port=0)) as at:
        for page in ("tree", "diff", "commit", ""):
            assert "hunter2" not in get(f"{at}/r/kept/{page}").text
