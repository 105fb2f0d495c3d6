"""The map of the code names files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
PAGE = (HOME / "ARCHITECTURE.md").read_text()
MAP = PAGE.split("```")[1]
FILES = {path.name for part in ("src", "tests", "scripts") for path in (HOME / part).rglob("*.py")}
SOURCE = HOME / "src" / "frazil"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\b[a-z0-9_]+\.py\b", PAGE))))
def test_every_file_on_the_map_exists(name: str) -> None:
    assert name in FILES


def test_every_folder_and_module_of_the_package_is_on_the_map() -> None:
    lines = [line.partition("  ")[0] for line in MAP.splitlines() if line[:1].strip()]
    named = {word.rstrip("/") for line in lines for word in line.split()}
    there = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert there == named


def test_every_folder_below_is_on_the_map() -> None:
    below = {path.parent for path in SOURCE.glob("*/*/__init__.py")}
    assert below
    unnamed = [path.name for path in sorted(below) if f"{path.name}/" not in MAP]
    assert not unnamed
