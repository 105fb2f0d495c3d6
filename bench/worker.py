"""Contestants that live in another process: another environment, or a fresh one for memory.

`python -m bench.worker` answers requests, one JSON text per line, until its input ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from bench.execution import Measured, execute
from bench.model import SIZES, Case, Contestant, Place, Size

ROOT = Path(__file__).resolve().parents[1]


class WorkerError(Exception):
    """What went wrong in a worker, in its own words."""


@dataclass(slots=True)
class Worker:
    """A running worker, started at its first use."""

    python: Path
    path: tuple[Path, ...] = (ROOT,)
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def prepare(self, size: Size, case: Case, contestant: Contestant, data: Place) -> None:
        """Make the dataset of a contestant."""
        self.ask(_request("prepare", size, case, contestant) | {"data": data.plain()})

    def run(
        self,
        size: Size,
        case: Case,
        contestant: Contestant,
        data: Place,
        scratch: Place,
        *,
        check: bool,
    ) -> Measured:
        """Run a contestant once."""
        places = {"data": data.plain(), "scratch": scratch.plain(), "check": check}
        return Measured(**self.ask(_request("run", size, case, contestant) | places))

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request and wait for the answer."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            raise WorkerError(f"the worker died in {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer["result"]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
            found = os.pathsep.join(map(str, self.path))
            self._process = subprocess.Popen(
                [self.python, "-m", "bench.worker"],
                cwd=ROOT,
                env=inherited | {"PYTHONPATH": found},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process = None


def _request(do: str, size: Size, case: Case, contestant: Contestant) -> dict[str, Any]:
    return {"do": do, "size": size.name, "case": case.key, "contestant": contestant.name}


def _answer(request: dict[str, Any]) -> Any:
    """Do what was asked."""
    from bench import cases

    if request["do"] == "versions":
        return versions(request["names"])
    if request["do"] == "commits":
        from bench.writers import commit_all

        return commit_all(request)
    case, contestant = cases.find(SIZES[request["size"]], request["case"], request["contestant"])
    data = Place(**request["data"])
    if request["do"] == "prepare":
        assert contestant.data is not None
        contestant.data.prepare(data)
        return None
    scratch = Place(**request["scratch"])
    return asdict(execute(case, contestant, data, scratch, check=request["check"]))


def versions(names: list[str]) -> dict[str, str]:
    """Which releases are installed here."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def serve(questions: IO[str], answers: IO[str]) -> None:
    """Answer until there are no more questions."""
    from bench.parties import quiet

    quiet()
    for line in questions:
        try:
            answer = {"result": _answer(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Whatever a library prints must not get between the answers.
    with os.fdopen(os.dup(1), "w") as real_output:
        os.dup2(2, 1)
        serve(sys.stdin, real_output)
