"""A repository with thousands of commits in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import frazil
from frazil.storage.local import LocalStorage
from frazil.transaction.keyspace import KeySpace
from frazil.web.library import Library
from frazil.web.settings import ServerSettings
from tests.web.browser import Visit, launched
from tests.web.conftest import served

COMMITS = 5_000
GROUP = '{"zarr_format":3,"node_type":"group","attributes":{"n":%d}}'


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_five_thousand_commits_are_walked(tmp_path: Path) -> None:
    repo = frazil.Repository.create(LocalStorage(str(tmp_path / "long"), durability="none"))
    for number in range(COMMITS):
        session = repo.writable_session("main")
        KeySpace(session.state).set("zarr.json", (GROUP % number).encode())
        session.commit(f"commit {number}")
    library = Library([str(tmp_path / "long")])
    with served(library, ServerSettings(port=0)) as site, launched() as browser:
        visit = Visit(browser.new_page(), site)
        page = visit.open("/r/long/")
        expect(page.locator(".figures")).to_contain_text(f"{COMMITS + 1:,} commits")
        page = visit.open("/r/long/history")
        assert page.locator(".commit-row").count() < 200  # only what is seen is drawn
        page.locator("#history").evaluate("(each) => each.scrollTo(0, each.scrollHeight)")
        expect(page.locator(".commit-row", has_text="commit 0").first).to_be_visible()
        page.locator("#q").fill("commit 2500")
        expect(page.locator("#matches")).to_have_text("1 found")
        for address in ("commit?v=main", "diff", "operations", "tree", "storage"):
            visit.open(f"/r/long/{address}")
            assert not visit.overflows()
        assert visit.complaints == []
        assert visit.elsewhere == []
