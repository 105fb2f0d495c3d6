"""The page about safety names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_is_named_is_there() -> None:
    text = (ROOT / "docs/safety.md").read_text()
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
