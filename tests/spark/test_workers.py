"""The processes that run Python for Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from typing import BinaryIO

import pytest

from frazil.spark.daemon import promptly

TASK = bytes(range(256)) * 5_000


def answered(spark: socket.socket, worker: socket.socket) -> bytes:
    """Send a task in two pieces and return what comes back: the same bytes, turned round."""

    def main(infile: BinaryIO, outfile: BinaryIO) -> None:
        size = int.from_bytes(infile.read(4), "big")
        outfile.write(infile.read(size)[::-1])
        outfile.flush()

    def work() -> None:
        with (
            worker,
            os.fdopen(os.dup(worker.fileno()), "rb") as infile,
            os.fdopen(os.dup(worker.fileno()), "wb") as outfile,
        ):
            promptly(main)(infile, outfile)
            assert not infile.closed

    thread = threading.Thread(target=work)
    thread.start()
    with spark:
        spark.sendall(len(TASK).to_bytes(4, "big"))
        spark.sendall(TASK)
        found = b""
        while part := spark.recv(65536):
            found += part
    thread.join()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="TCP is told to be prompt on Linux only")
def test_tasks_come_whole_over_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        spark = socket.create_connection(server.getsockname())
        worker, _ = server.accept()
        assert answered(spark, worker) == TASK[::-1]


def test_tasks_come_whole_over_other_connections() -> None:
    assert answered(*socket.socketpair()) == TASK[::-1]


@pytest.mark.parametrize(("variable", "keeps"), [("SPARK_REUSE_WORKER", True), ("OTHER", False)])
def test_only_workers_exempt_modules_from_garbage_collection(variable: str, keeps: bool) -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import gc; from frazil.spark import worker; worker.freeze_imports(); "
            "print(gc.get_freeze_count())",
        ],
        env={name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
        | {variable: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (int(told.stdout) > 1000) is keeps
