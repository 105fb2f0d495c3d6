"""Text that would break a page, and pages as a browser reads them."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import zarr

import frazil

SECRET = "hush"
EVIL = f"<script>alert(1)</script><b onclick=x> https://u:{SECRET}@h/x?sig={SECRET} \x1b[31m\u202e"


class Page(HTMLParser):
    """What a browser would make of a view."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(view)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


ALLOWED = {
    *("div", "span", "table", "tbody", "tr", "th", "td", "details", "summary", "style"),
    *("svg", "path", "circle", "rect", "text", "tspan"),
}


def page_of(thing: object) -> Page:
    """The view of an object, which asks for nothing and runs nothing."""
    view: str = thing._repr_html_()  # type: ignore[attr-defined]
    page = Page(view)
    assert {*page.tags} <= ALLOWED
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("href", "src")
        assert "url(" not in value
        assert name == "xmlns" or "://" not in value
    assert SECRET not in view
    assert not {"\x1b", "\u202e"} & set(view)
    return page


@pytest.fixture(params=[1, 2], ids=["v1", "v2"], scope="module")
def repo(request: pytest.FixtureRequest) -> frazil.Repository:
    """A repository with names, attributes and messages that would break a page."""
    made = frazil.Repository.create(frazil.in_memory_storage(), spec_version=request.param)
    session = made.writable_session("main")
    group = zarr.create_group(session.store, attributes={"title": EVIL})
    group.create_group("g<script>alert(1)<b onclick=x>\x1b[31m")
    heat = group.create_array(
        "sst", shape=(8, 40), chunks=(2, 10), dtype="f4", dimension_names=("time", "<lat>")
    )
    heat.attrs["units"] = EVIL
    heat[:4] = 1.0
    first = session.commit(f"first {EVIL}", {"author": EVIL})
    made.create_branch("dev", first)
    for branch, row in (("dev", 6), ("main", 0)):
        session = made.writable_session(branch)
        zarr.open_array(session.store, path="sst", mode="r+")[row] = 3.0
        session.commit(f"on {branch}")
    made.versions.merge("dev", into="main")
    made.create_tag("v1", first)
    return made
