"""The process that Spark forks its Python workers from, made for many small tasks.

Spark starts workers anew for each plan, and a worker that begins by importing numpy, Arrow and
zarr spends more time on that than on planning. Forked from here it finds them in its memory.

Spark sends a task in two small pieces. TCP holds the second back until the first is confirmed,
and the system of the worker confirms only after 40 ms, in the hope of an answer that could carry
it. So workers confirm at once what they have read, and do not hold back what they write.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import BinaryIO, Final, TypeAlias

import pyspark.worker
from pyspark.daemon import manager

from frazil.spark.worker import freeze_imports

LOADED: Final = (
    "pyspark.sql.datasource",
    "zarr.core.metadata.v3",
    "frazil.spark.source",
    "frazil.spark.tables.metadata",
    "frazil.spark.reading.cells",
    "frazil.spark.reading.chunk_rows",
)

Main: TypeAlias = Callable[[BinaryIO, BinaryIO], None]
"""Reads one task, or several, from the first file and answers in the second."""


def load() -> None:
    """Import what most workers need."""
    # Spark reads a port from the standard output, where no library may print.
    with contextlib.redirect_stdout(sys.stderr):
        for name in LOADED:
            import_module(name)
    freeze_imports()


class PromptReader(io.RawIOBase):
    """What comes through a TCP connection, confirmed as soon as it is read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        """Return True, as files that can be read do."""
        return True

    def fileno(self) -> int:
        """The number that the system has for it."""
        return self._connection.fileno()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # Buffer is of 3.12
        """Read what is there; 0 says that it has ended."""
        count = self._connection.recv_into(buffer)
        # The system forgets this with what it sends next.
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return count


def promptly(main: Main) -> Main:
    """The same work, on a connection that does not wait for company."""

    def work(infile: BinaryIO, outfile: BinaryIO) -> None:
        with socket.socket(fileno=os.dup(infile.fileno())) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                main(infile, outfile)
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # As much at a time as PySpark's own reader takes.
            main(io.BufferedReader(PromptReader(connection), 64 << 10), outfile)

    return work


if __name__ == "__main__":
    # Elsewhere the libraries of the system may not be used on the other side of a fork.
    if sys.platform == "linux":
        load()
        pyspark.worker.main = promptly(pyspark.worker.main)
    manager()
