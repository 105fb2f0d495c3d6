"""What takes long to make and is only looked at is made once for all workers of a test run."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]
) -> tuple[Path, Any]:
    """A folder, and what `make` said of it in JSON; a second worker waits for the first.

    If it fails for one worker, the next one tries again, so that its tests tell why, too.
    """
    base = factory.getbasetemp()
    # Each worker has a folder of its own in that of the run.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    answer = run / f"{name}.json"
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            place = factory.mktemp(name)
            said = json.dumps([str(place), make(place)])
            answer.write_text(said)
    found, told = json.loads(answer.read_text())
    return Path(found), told
