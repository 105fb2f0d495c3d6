"""Methods that are made while the program runs are declared as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_stubs_are_as_they_would_be_written() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/stubs", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
