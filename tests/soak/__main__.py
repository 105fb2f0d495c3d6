"""Run all long suites within a time, two at once, and tell what came of it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from tests.soak.sharing import (
    GRACE_S,
    Failure,
    Result,
    as_time,
    goal,
    patience,
    seconds_of,
    share,
    table,
)
from tests.soak.suites import Suite, all_suites
from tests.support.soaking import BEGUN, GOAL, REPORT, SEED, UNTIL

FOLDER: Final = Path(".cache") / "soak"
NOTHING_RAN: Final = 5
"""pytest's answer when a selection has no tests"""


class Soak:
    """Suites that wait, those that run and those that have ended."""

    def __init__(self, suites: Sequence[Suite], seconds: float, workers: int, seed: int) -> None:
        self.waiting = [*suites]
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.workers = workers
        self.seed = seed
        self._ends: dict[str, float] = {}
        self._lock = threading.Lock()

    def run(self) -> list[Result]:
        """Run them all."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self.workers) as pool:
            parts = [pool.submit(self._work) for _ in range(self.workers)]
            return [result for part in parts for result in part.result()]

    def _work(self) -> list[Result]:
        done = []
        while (begun := self._begin()) is not None:
            done.append(self._run(*begun))
        return done

    def _begin(self) -> tuple[Suite, float] | None:
        with self._lock:
            if not self.waiting:
                return None
            suite, now = self.waiting.pop(0), time.monotonic()
            busy = sum(max(0.0, end - now) for end in self._ends.values())
            left = max(0.0, self.end - now)
            seconds = share(suite, self.waiting, left_s=left, workers=self.workers, busy_s=busy)
            self._ends[suite.name] = now + seconds
            print(f"{suite.name}: begins, {as_time(seconds)}", flush=True)
            return suite, seconds

    def _run(self, suite: Suite, seconds: float) -> Result:
        file = suite.name.replace(" ", "-")
        report, log = FOLDER / f"{file}.json", FOLDER / f"{file}.log"
        report.unlink(missing_ok=True)
        begun = time.monotonic()
        seed = random.Random(f"{self.seed} {suite.name}").randrange(1 << 32)
        if seconds < suite.least_s:
            note = f"no time was left for it: it needs {as_time(suite.least_s)}"
            result = Result(suite.name, 0, 0, 0, 0, (), note=note)
        else:
            trouble = self._process(suite, seconds, seed, report, log)
            result = read(suite, time.monotonic() - begun, report, trouble, seed)
            result = replace(result, goal=goal(suite, self.seconds))
        with self._lock:
            del self._ends[suite.name]
            print(f"{suite.name}: {'ended' if result.is_good else 'FAILED'}, {log}", flush=True)
        return result

    def _process(self, suite: Suite, seconds: float, seed: int, report: Path, log: Path) -> str:
        environment = {
            **os.environ,
            UNTIL: str(time.time() + seconds),
            SEED: str(seed),
            GOAL: str(goal(suite, self.seconds)),
            REPORT: str(report.resolve()),
        }
        command = [sys.executable, "-m", "pytest", "-m", "soak", *suite.paths]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"],
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            left = self.end - time.monotonic()
            limit = patience(seconds, left_s=left, whole_s=self.seconds)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                kill(process)
                return "hangs, or heeds no time" if limit >= seconds + GRACE_S else ""
        if code in (0, 1):
            return ""
        return "has no tests" if code == NOTHING_RAN else f"pytest ended with {code}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a suite and all that it has started: Spark's processes have sessions of their own."""
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for one in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def read(suite: Suite, seconds: float, report: Path, trouble: str, seed: int) -> Result:
    """What the tests of a suite have noted; see tests/support/soaking.py."""
    lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
    notes = [json.loads(line) for line in lines]
    ended = {note["test"]: note for note in notes if note["outcome"] != BEGUN}
    ran = [note for note in ended.values() if note["outcome"] != "skipped"]
    failures = tuple(
        Failure(note["test"], case, why, seed) for note in ran for case, why in note["failures"]
    )
    cases = sum(note["cases"] for note in ran)
    inputs = sum(note.get("inputs", 0) for note in ran)
    cut_off = [note["test"] for note in notes if note["test"] not in ended]
    note = f"cut off in {cut_off[-1]}" if cut_off else ""
    skipped = len(ended) - len(ran)
    return Result(suite.name, seconds, len(ran), skipped, cases, failures, trouble, note, inputs)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("time", type=seconds_of, help="for all suites together, as 30m")
    parser.add_argument("--workers", type=int, default=2, help="suites at once")
    parser.add_argument("--seed", type=int, default=None, help="of everything that is random")
    parser.add_argument("--only", action="append", metavar="SUITE", help="instead of all")
    asked = parser.parse_args()
    suites = all_suites(Path.cwd())
    chosen = [suite for suite in suites if not asked.only or suite.name in asked.only]
    if asked.only and len(chosen) < len(set(asked.only)):
        parser.error(f"suites are {', '.join(suite.name for suite in suites)}")
    seed = random.SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    print(f"{as_time(asked.time)} for {len(chosen)} suites, seed {seed}", flush=True)
    results = Soak(chosen, asked.time, asked.workers, seed).run()
    print(f"\n{table(results)}\n\nseed {seed}")
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
