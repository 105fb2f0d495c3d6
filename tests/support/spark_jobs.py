"""Spark jobs in processes of their own, to be killed at a chosen moment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

import frazil

PATIENCE_S = 420.0
HOSTS = ("127.0.0.1", "127.0.0.2")
DEPLOY = "org.apache.spark.deploy"

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
def job(
    place: Path, code: str, *arguments: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a job; it and all it started are killed at the end."""
    script = place / "job.py"
    script.write_text(COMMON + code)
    log = (place / "job.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, str(script), str(place), *arguments],
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


def run_job(place: Path, code: str, *arguments: str, **environment: str) -> int:
    """Run a job to its end, whatever that is; tell how it ended."""
    with job(place, code, *arguments, **environment) as process:
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


@contextmanager
def two_hosts(place: Path, hidden: Path | None = None) -> Iterator[str]:
    """A cluster on two addresses, as two attempts at one task need them; gives its URL.

    Workers do not see what is in a folder that is `hidden`, where the system allows that: it is
    then as if they were other machines.
    """
    with socket.socket() as probe:
        probe.bind((HOSTS[0], 0))
        port: int = probe.getsockname()[1]
    url = f"spark://{HOSTS[0]}:{port}"
    without = _without(hidden)
    with ExitStack() as running:
        master = ["--host", HOSTS[0], "--port", str(port), "--webui-port", "0"]
        running.enter_context(_daemon(place, f"{DEPLOY}.master.Master", master))
        for number, host in enumerate(HOSTS):
            size = ["--cores", "2", "--memory", "1g", "--webui-port", "0"]
            work = ["--work-dir", str(place / f"worker-{number}")]
            arguments = ["--host", host, *size, *work, url]
            running.enter_context(_daemon(place, f"{DEPLOY}.worker.Worker", arguments, without))
        yield url


def _without(hidden: Path | None) -> list[str]:
    """The beginning of a command line, for a program that finds a folder empty."""
    if hidden is None:
        return []
    hide = 'mount -t tmpfs none "$0" && exec "$@"'
    start = ["unshare", "--mount", "sh", "-c", hide, str(hidden)]
    try:
        allowed = subprocess.run([*start, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return []
    return start if allowed else []


@contextmanager
def _daemon(
    place: Path, name: str, arguments: list[str], before: list[str] | None = None
) -> Iterator[None]:
    start = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (place / "cluster.log").open("ab") as log:
        process = subprocess.Popen(
            [*(before or []), str(start), name, *arguments],
            env={**os.environ, "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
