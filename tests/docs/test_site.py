"""The documentation site: every page is in its navigation, every link and name leads somewhere.

`make docs` builds it, in an environment of its own; these rules need nothing but the files.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
SITE: Final = runpy.run_path(str(ROOT / "scripts" / "site.py"))
PAGES: Final[dict[str, str]] = SITE["PAGES"]
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def settings() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    return found


def entries(nav: Any) -> Iterator[str]:  # noqa: ANN401 - as deep as YAML nests it
    """The pages of a navigation, in order."""
    for each in nav.values() if isinstance(nav, dict) else nav:
        if isinstance(each, str):
            yield each
        else:
            yield from entries(each)


def source_of(page: str) -> Path:
    """The file that a page of the site is made of."""
    return ROOT / PAGES[page] if page in PAGES else DOCS / page


@cache
def anchors(document: Path) -> frozenset[str]:
    """The names of its headings, as GitHub and the site make them."""
    text = FENCE.sub("", document.read_text())
    titles = re.findall(r"^#+ (.+?) *$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", title).lower() for title in titles)
    return frozenset(re.sub(r"[^\w -]", "", title).strip().replace(" ", "-") for title in plain)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(entries(settings()["nav"]))
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert len(listed) == len({*listed})
    assert {*listed} == written | {*PAGES}


@pytest.mark.parametrize("page", sorted(entries(settings()["nav"])))
def test_every_link_leads_to_a_page_and_a_heading(page: str) -> None:
    source = source_of(page)
    for link in LINK.findall(FENCE.sub("", source.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (source.parent / path).resolve() if path else source
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", sorted(PAGES))
def test_pages_from_outside_link_to_pages_of_the_site(page: str) -> None:
    text = SITE["moved_links"](source_of(page).read_text(), PAGES[page], page)
    known = {*entries(settings()["nav"])}
    for link in LINK.findall(FENCE.sub("", text)):
        path = link.partition("#")[0]
        if path and "://" not in link:
            assert path in known or (DOCS / path).is_file(), link


def test_links_out_of_the_folder_lead_to_the_page_made_of_the_file() -> None:
    moved = SITE["moved_links"]
    assert moved("[x](../README.md#tour)", "docs/python.md", "python.md") == "[x](index.md#tour)"
    assert moved("[x](../../ARCHITECTURE.md)", "docs/api/a.md", "api/a.md").endswith(
        "(../architecture.md)"
    )
    assert moved("[x](docs/decisions)", "README.md", "index.md") == "[x](decisions/README.md)"
    assert moved("[x](https://a/b)", "README.md", "index.md") == "[x](https://a/b)"


def test_every_name_of_the_api_reference_exists() -> None:
    named = [
        name
        for page in sorted((DOCS / "api").glob("*.md"))
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    ]
    assert len(named) > 50
    assert len(named) == len({*named})
    for name in named:
        found(name)


def found(name: str) -> object:
    """The module, or the thing in a module, that a dotted name means."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(import_module(module), last)


def test_public_names_are_all_in_the_reference() -> None:
    import frazil

    named = " ".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    pages = {*re.findall(r"^::: ([\w.]+)$", named, re.MULTILINE)}
    missing = [
        name
        for name in vars(frazil)["__all__"]
        if (home := getattr(getattr(frazil, name), "__module__", None)) is not None
        and home.startswith("frazil.")
        and home not in pages
        and f"{home}.{name}" not in pages
    ]
    assert missing == []


def test_the_site_asks_nobody() -> None:
    theme = settings()["theme"]
    assert theme["font"] is False
    assert "extra_javascript" not in settings()
    assert "analytics" not in (settings().get("extra") or {})
