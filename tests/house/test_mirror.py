"""Unit tests are found in one guess: the rules of a module are tested in the file of its name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2] / "scripts" / "house"
HEADINGS = ("core modules that no unit test is named after", "unit tests of no module")


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, object]]:
    """What `scripts/house` tells."""
    done = subprocess.run(
        [sys.executable, str(HOUSE), "--json", "--no-walks"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("heading", HEADINGS)
def test_tests_mirror_the_source(told: dict[str, dict[str, object]], heading: str) -> None:
    assert told[heading] == {}
