"""What an environment is made from is known to the last byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
PINNED = re.compile(r"[A-Za-z0-9._-]+==[^\s\\]+( \\\n    --hash=sha256:[0-9a-f]{64})+")


def test_there_are_lock_files() -> None:
    assert len(LOCKS) >= 4


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_version_has_its_hashes(lock: Path) -> None:
    comment, _, rest = lock.read_text().partition("\n")
    assert comment.startswith("#")
    assert re.sub(PINNED, "", rest).strip() == ""
    assert "://" not in rest


def test_environments_are_made_of_nothing_else() -> None:
    made = (ROOT / "scripts" / "venv").read_text()
    assert 'install --require-hashes --requirement "$lock"' in made
    assert "scripts/hashes" in (ROOT / "scripts" / "lock").read_text()
