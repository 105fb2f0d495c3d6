"""Files of every generation, changed at random, are refused by errors of ours or read right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.soaking import Soak

ROOT: Final = Path(__file__).resolve().parents[2]
MOST: Final = 1 << 30
"""Bytes of memory of a process."""
A_FEW: Final = 3000
MANY: Final = 50_000
"""Inputs of one case of the long run; a processor of its own tries some 4,000 in a second."""
KILLED_AFTER_S: Final = 1200


def tried(seed: int, count: int) -> dict[str, Any]:
    """Try inputs in a process with a limit on memory."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.fuzzing", str(seed), str(count)],
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


def require_clean(told: dict[str, Any]) -> None:
    """Fail with what went wrong."""
    assert told["failures"] == []
    assert told["peak"] < MOST


def test_a_sample_of_changed_files() -> None:
    told = tried(1, A_FEW)
    require_clean(told)
    assert told["inputs"] == A_FEW


@pytest.mark.soak
@pytest.mark.timeout(0)  # it keeps time itself
def test_changed_files(soak: Soak) -> None:
    def check(seed: str) -> None:
        told = tried(int(seed), MANY)
        soak.inputs += told["inputs"]
        require_clean(told)

    soak.run(soak.seeds(), check)
