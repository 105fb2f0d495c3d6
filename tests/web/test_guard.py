"""Who may ask: host, origin, method and token; and what every answer carries."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from frazil.errors import InvalidInputError
from frazil.web.library import Library
from frazil.web.settings import ServerSettings
from tests.web.conftest import TOKEN, served

PAGE = "/r/ocean/"


@pytest.fixture(scope="module")
def guarded(library: Library) -> Iterator[str]:
    """A server with a token."""
    settings = ServerSettings(port=0, token=TOKEN, zarr=True, hosts=frozenset({"lab.example"}))
    with served(library, settings) as at:
        yield at


def get(url: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(url, headers=named, timeout=30)


def test_without_the_token_nothing_is_shown(guarded: str) -> None:
    for path in (
        "/",
        PAGE,
        "/r/ocean/api/graph",
        "/static/style.css",
        "/zarr/ocean@main/zarr.json",
    ):
        found = get(guarded + path)
        assert found.status_code == 403
        assert "token" in found.text
        assert TOKEN not in found.text


def test_a_wrong_token_is_refused(guarded: str) -> None:
    assert get(f"{guarded}{PAGE}?token=wrong").status_code == 403
    assert get(guarded + PAGE, authorization="Bearer wrong").status_code == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded: str) -> None:
    with httpx.Client(timeout=30) as client:
        first = client.get(f"{guarded}/r/ocean/tree?v=main&token={TOKEN}")
        assert first.status_code == 303
        assert first.headers["location"] == "/r/ocean/tree?v=main"
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert client.get(f"{guarded}/r/ocean/tree?v=main").status_code == 200


def test_a_redirect_leads_nowhere_else(guarded: str) -> None:
    found = get(f"{guarded}//other.example/?token={TOKEN}")
    assert found.headers["location"].startswith("/")
    assert not found.headers["location"].startswith("//")


def test_programs_send_the_token_in_a_header_or_in_the_path(guarded: str) -> None:
    assert get(guarded + PAGE, authorization=f"Bearer {TOKEN}").status_code == 200
    assert get(f"{guarded}/t/{TOKEN}/zarr/ocean@main/zarr.json").status_code == 200
    assert get(f"{guarded}/t/wrong/zarr/ocean@main/zarr.json").status_code == 403
    # Only the Zarr part is reached so: a page would leak the token by its links.
    assert get(f"{guarded}/t/{TOKEN}/r/ocean/").status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_other_names_are_not_answered(guarded: str, host: str) -> None:
    found = get(guarded + PAGE, host=host, authorization=f"Bearer {TOKEN}")
    assert found.status_code in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:9", "lab.example:8765"])
def test_our_names_are(guarded: str, host: str) -> None:
    assert get(guarded + PAGE, host=host, authorization=f"Bearer {TOKEN}").status_code == 200


def test_pages_of_other_sites_are_refused(site: str) -> None:
    assert get(site + PAGE, origin="http://evil.example").status_code == 403
    assert get(site + PAGE, origin="null").status_code == 403
    assert get(site + PAGE, origin=site).status_code == 200
    foreign = {"sec_fetch_site": "cross-site"}
    assert get(site + PAGE, **foreign, sec_fetch_mode="no-cors").status_code == 403
    visit = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert get(site + PAGE, **foreign, **visit).status_code == 200


def test_only_reading_is_possible(site: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert httpx.request(method, site + PAGE, timeout=30).status_code == 405


def test_every_answer_forbids_scripts_and_frames_from_elsewhere(site: str) -> None:
    for path in (PAGE, "/nowhere", "/r/nope/", "/r/ocean/api/graph", "/static/style.css"):
        headers = get(site + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_static_files_do_not_lead_out(site: str) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert get(site + path).status_code == 404


def test_without_a_token_only_this_machine_is_served() -> None:
    with pytest.raises(InvalidInputError, match="no-token"):
        ServerSettings(host="0.0.0.0")
    assert ServerSettings(host="::1").url == "http://[::1]:8765/"
