"""The page on statistics of chunks: its example runs as printed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import program

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "statistics.md"


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(program(PAGE), str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.splitlines() == [
        "3 0",
        "3",
        "[0.0, 8.0, 16.0] [7.0, 15.0, 23.0]",
        "0",
    ]
