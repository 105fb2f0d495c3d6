"""Fuzzers are programs of their own, `MODULE SEED COUNT`, whose last line of output is JSON.

It has at least `inputs` (how many were tried), `failures` (what was wrong with which) and `peak`
(bytes of memory). There are two: `tests.hostile.fuzzing` for files of repositories, which our own
decoders read, and `tests.ingestion.scan_fuzzing` for files of others, which are ingested.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
MOST_MEMORY: Final = 1 << 30
"""Bytes of any process of a fuzzer."""
KILLED_AFTER_S: Final = 1800


def tried(module: str, seed: int, count: int) -> dict[str, Any]:
    """Let a fuzzer try inputs, and tell what it found; it must have been clean."""
    done = subprocess.run(
        [sys.executable, "-m", module, str(seed), str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=KILLED_AFTER_S,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines, f"seed {seed}: it died of {done.returncode}: {done.stderr[-500:]}"
    told: dict[str, Any] = json.loads(lines[-1])
    assert not told["failures"], f"seed {seed}: {told['failures'][:5]}"
    assert told["peak"] < MOST_MEMORY, f"seed {seed}: {told['peak']} bytes"
    assert told["inputs"] == count, f"seed {seed}: {told['inputs']} inputs"
    return told
