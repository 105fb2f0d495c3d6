"""The S3 server and the proxy before it, for as long as a run lasts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from bench.model import Place, Where

HOST = "127.0.0.1"
BUCKET = "bench"
DELAY_MS = 30
READY_S = 60.0
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Remote:
    """The server as contestants see it, through the proxy."""

    near: int
    far: int
    questions: IO[str]
    answers: IO[str]

    def place(self, where: Where, path: str) -> Place:
        """A prefix on the server, at a distance."""
        port = self.far if where is Where.SLOW_S3 else self.near
        return Place(path, f"http://{HOST}:{port}", BUCKET)

    def passed(self) -> dict[str, int]:
        """What went through the proxy since the last question."""
        self.questions.write("\n")
        self.questions.flush()
        counted: dict[str, int] = json.loads(self.answers.readline())
        return counted


@contextmanager
def remote() -> Iterator[Remote]:
    """Start both."""
    with TemporaryDirectory() as folder, _server(folder) as port, _proxy(port) as running:
        yield running


@contextmanager
def _server(folder: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    settings = {
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "ERROR",
        "S3_PERSIST": "0",
        "PERSIST_STATE": "0",
        "S3_DATA_DIR": f"{folder}/s3",
        "STATE_DIR": f"{folder}/state",
        "TMPDIR": folder,
    }
    with (Path(folder) / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | settings,
        )
        try:
            _create_bucket(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _create_bucket(port: int, process: subprocess.Popen[bytes]) -> None:
    request = urllib.request.Request(f"http://{HOST}:{port}/{BUCKET}", method="PUT")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with opener.open(request, timeout=10):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError("the S3 server did not start")


@contextmanager
def _proxy(port: int) -> Iterator[Remote]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.proxy", str(port), "0", str(DELAY_MS)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        near, far = json.loads(process.stdout.readline())
        yield Remote(near, far, process.stdin, process.stdout)
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(30)
