"""Work in processes of their own, which are asked for it: one JSON text per line.

So contestants that cannot share a process still work in turn, and what the machine does meanwhile
befalls them all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.disk import settle

ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Process:
    """One that answers, where there is an environment for it."""

    process: subprocess.Popen[str] | None

    @classmethod
    def start(cls, python: str | None, *words: object, path: tuple[Path, ...] = ()) -> Process:
        """Start a module with its arguments, if there is a Python for it."""
        if not python:
            return cls(None)
        process = subprocess.Popen(
            [python, "-m", *map(str, words)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        return cls(process if process.stdout.readline() else None)

    def run(self, case: str, who: str) -> tuple[float, Any]:
        """The time of one piece of work, and its result."""
        if self.process is None:
            raise RuntimeError("it did not start; peers need an environment: FRAZIL_BENCH_PEER")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"case": case, "who": who}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"failure": "it died"}')
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        return answer["seconds"], answer["result"]

    def stop(self) -> None:
        """End it."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait(60)


def serve(prepare: Callable[[], tuple[Callable[[str, str], Any], Callable[[], object]]]) -> None:
    """Prepare, do what is asked for until the input ends, and end; the output has answers only.

    `prepare` returns what does a piece of work, and what ends it all.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    run, end = prepare()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        settle()
        begin = time.perf_counter()
        try:
            result = run(request["case"], request["who"])
            answer = {"seconds": time.perf_counter() - begin, "result": result}
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)
    end()
