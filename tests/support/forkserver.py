"""Processes from a fork server: one that has loaded everything and started no thread.

A test run that has talked to an object store has threads that a fork would lose; and a new
interpreter for each process would take longer than most races.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess

LOADED = ["tests.support.committers", "tests.support.killing"]
"""Modules with work for such processes."""


def start(work: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Start a process; it ends with 0 if the work went well."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process
