"""Text that would break a page, and pages as a browser reads them."""

from __future__ import annotations

from html.parser import HTMLParser

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
