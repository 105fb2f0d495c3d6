"""Spark jobs in processes of their own, to be killed at a chosen moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import frazil

PATIENCE_S = 420.0

COMMON = """
import os, signal, sys, time
from pathlib import Path
import frazil.spark as fs
from frazil.spark.sessions import session

place = Path(sys.argv[1])

def hang(name):
    # Nobody goes on from here: whoever waits for the mark kills us.
    (place / name).touch()
    time.sleep(600)

def once(name):
    # True the first time only, whichever process asks.
    try:
        os.close(os.open(place / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
"""
"""What every job begins with."""


@contextmanager
def job(place: Path, code: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a job; it and all it started are killed at the end."""
    script = place / "job.py"
    script.write_text(COMMON + code)
    log = (place / "job.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, str(script), str(place)],
        env={**os.environ, "PYTHONPATH": str(Path(frazil.__file__).parents[1]), **environment},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        log.close()
        with suppress(ProcessLookupError):  # all of it may have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_job(place: Path, code: str, **environment: str) -> int:
    """Run a job to its end, whatever that is; tell how it ended."""
    with job(place, code, **environment) as process:
        return process.wait(PATIENCE_S)


def kill_at(place: Path, code: str, mark: str) -> None:
    """Run a job until it has made a mark, and kill it there."""
    with job(place, code) as process:
        wait_for(lambda: (place / mark).exists(), process, place)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], place: Path) -> None:
    """Wait until something holds; the job must still be running."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, (place / "job.log").read_text()[-4000:]
        assert time.monotonic() < end, "the job takes too long"
        time.sleep(0.1)
