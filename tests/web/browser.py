"""A real browser: Chromium, driven by Playwright; what it complains of and whom it asks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
INSTALL: Final = "no browser is installed: apt-get install chromium"


def find_browser() -> str:
    """The browser's program; where there is none the test is skipped, and fails in CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(INSTALL)
        pytest.skip(INSTALL)
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    program = find_browser()
    with sync_playwright() as playwright:
        # The sandbox needs rights that containers do not give.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(eq=False)
class Visit:
    """A page that is watched."""

    page: Page
    site: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(15_000)
        self.page.on("console", lambda told: self._note(told.type, told.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _asked(self, url: str) -> None:
        if urlsplit(url).scheme != "data" and not url.startswith(f"{self.site}/"):
            self.elsewhere.append(url)

    def open(self, address: str) -> Page:
        """Go to a page, and wait until all its parts have come."""
        self.page.goto(f"{self.site}{address}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until scripts have drawn what they draw."""
        self.page.wait_for_load_state("networkidle")
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('#view, .chunkmap, #history')]
                .every((each) => each.dataset.ready && each.dataset.ready !== '0')
                && !document.querySelector('.working')"""
        )

    def pixel(self, row: int, column: int, canvas: str = "canvas.plane") -> tuple[int, ...]:
        """Red, green, blue and opacity of a cell of a picture."""
        found = self.page.evaluate(
            """([canvas, row, column]) => {
                // Read from a copy: readers of pixels slow the canvas of the page down.
                const copy = document.createElement('canvas');
                copy.width = copy.height = 1;
                const pen = copy.getContext('2d', { willReadFrequently: true });
                pen.drawImage(document.querySelector(canvas), column, row, 1, 1, 0, 0, 1, 1);
                return [...pen.getImageData(0, 0, 1, 1).data];
            }""",
            [canvas, row, column],
        )
        return tuple(found)

    def size(self, canvas: str = "canvas.plane") -> tuple[int, int]:
        """Rows and columns of a picture."""
        found = self.page.evaluate(
            "(canvas) => { const c = document.querySelector(canvas); return [c.height, c.width]; }",
            canvas,
        )
        return tuple(found)

    def overflows(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1")
        )
