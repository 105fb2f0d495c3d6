"""Twenty million references: made in parts, used, and never held by the driver all at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCES = 20_000_000
PART = 5_000_000


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_memory_follows_the_largest_commit_and_not_the_repository(tmp_path: Path) -> None:
    told = subprocess.run(
        [
            *(sys.executable, "-m", "bench.scale", "--json", "--folder", str(tmp_path)),
            *("--references", str(REFERENCES), "--part", str(PART)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]  # it checks counts, a query and fsck itself
    record = json.loads(told.stdout.splitlines()[-1])
    parts = [step for step in record["steps"] if step["name"].startswith("ingest")]
    assert [step["references"] for step in parts] == [PART] * (REFERENCES // PART)
    appended = [step["peak_bytes"] for step in parts[1:]]
    assert max(appended) < 1.6 * min(appended)
    assert max(step["peak_bytes"] for step in record["steps"]) < 3 << 30
    assert record["facts"]["newest snapshot bytes"] < 1 << 16
