"""What mkdocs asks while it builds the site: pages from files outside of `docs`, their links."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""pages of the site by the files of the source tree that they are made of"""
LINK = re.compile(r"(\]\(|<img src=\")([^)#:\"\s]+)")


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - mkdocs is not installed here
    """Add the pages that are made of files at the root of the source tree."""
    from mkdocs.structure.files import File

    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=moved_links(text, source, page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401 - as above
    """Let links that lead out of `docs` lead to the pages made of those files."""
    place = page.file.src_uri
    return markdown if place in PAGES else moved_links(markdown, f"docs/{place}", place)


def moved_links(text: str, source: str, page: str) -> str:
    """Links of a file in the source tree, as the page made of it must have them."""

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        known = {path: place for place, path in PAGES.items()}
        place = known.get(target, target.removeprefix("docs/"))
        if (ROOT / target).is_dir():
            place += "/README.md"
        return found[1] + posixpath.relpath(place, posixpath.dirname(page) or ".")

    return LINK.sub(moved, text)
