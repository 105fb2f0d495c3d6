"""A process that stays small and forks a child for each case, which tells what it took.

    python -m tests.hostile.server < cases > answers

A case is a line of JSON, a name of `tests.hostile.bombs.CASES`. The child has a limit on memory and
on time, so that nothing but the answer suffers from a bomb that goes off.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

GIB: Final = 1 << 30
MOST: Final = 4 * GIB
"""Address space of a child: libraries and threads reserve much that they never use."""
SECONDS: Final = 60
"""After this a child is killed."""


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


def forget_peak() -> int:
    """Let the most memory that this process has had be what it has now, and tell that."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free must not be taken again unseen
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most memory that this process has had since."""
    return _status("VmHWM")


def in_child(work: Callable[[], Any]) -> dict[str, Any]:
    """Do something in a child, and tell how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(work, writing)
    os.close(writing)
    told, end = b"", time.monotonic() + SECONDS
    while select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
        piece = os.read(reading, 1 << 16)
        if not piece:
            break
        told += piece
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if not told:
        return {"outcome": f"killed after {SECONDS} s" if status == 9 else f"died of {status}"}
    found: dict[str, Any] = json.loads(told)
    return found


def _answer(work: Callable[[], Any], writing: int) -> None:
    from frazil.errors import FrazilError

    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    before, begin = forget_peak(), time.process_time()
    told: dict[str, Any] = {"outcome": "done", "text": ""}
    try:
        told["text"] = str(work())[:200]
    except FrazilError as error:
        told |= {"outcome": type(error).__name__, "text": str(error)}
    except BaseException as error:
        told |= {"outcome": f"foreign {type(error).__name__}", "text": str(error)[:500]}
    told |= {"grown": peak() - before, "seconds": time.process_time() - begin}
    os.write(writing, json.dumps(told).encode())
    os._exit(0)


def main() -> None:
    """Answer case by case."""
    warnings.simplefilter("ignore")
    from tests.hostile import bombs

    for line in sys.stdin:
        print(json.dumps(in_child(bombs.CASES[json.loads(line)].make())), flush=True)


if __name__ == "__main__":
    main()
