"""Damaged files of every format end in a failure with a name, or in what their library reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ingestion.scan_fuzzing import MOST_MEMORY
from tests.support.soaking import Soak

ROOT: Final = Path(__file__).resolve().parents[2]
A_FEW: Final = 400
MANY: Final = 5000
"""Files of one case of the long run; a processor of its own tries some 120 in a second."""
KILLED_AFTER_S: Final = 1800


def tried(seed: int, count: int) -> dict[str, Any]:
    """Try files in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.ingestion.scan_fuzzing", str(seed), str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=KILLED_AFTER_S,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines, f"seed {seed}: it died of {done.returncode}: {done.stderr[-500:]}"
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def require_clean(told: dict[str, Any], count: int) -> None:
    """Fail with what went wrong."""
    assert told["failures"] == []
    assert told["peak"] < MOST_MEMORY
    assert told["inputs"] == count


def test_damaged_files_are_told_or_read_right() -> None:
    told = tried(1, A_FEW)
    require_clean(told, A_FEW)
    assert told["compared"] > A_FEW // 10, "most files would not be worth trying"
    assert told["refused"] > A_FEW // 10


@pytest.mark.soak
@pytest.mark.timeout(0)  # it keeps time itself
def test_damaged_files_without_end(soak: Soak) -> None:
    def check(seed: str) -> None:
        told = tried(int(seed), MANY)
        soak.inputs += told["inputs"]
        require_clean(told, MANY)

    soak.run(soak.seeds(), check)
