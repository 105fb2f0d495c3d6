"""One repository of up to 100 million virtual references: made through Spark, then used.

    make benchscale ARGS="--references 100000000"

The sources are made up: files of zeros that take no space, and descriptions of them instead of
scans. So the figures tell what bookkeeping costs, not what parsers do. One commit cannot hold 10^8
changed chunks (docs/scale.md says why), so the references come in parts, on a branch of their own,
which `main` goes over to at the end. Prints a table, and everything as JSON with `--json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.spark.alone import CHUNKS_PER_FILE, Synthetic

CHUNK_BYTES = 4096
MODIFIED = 1_700_000_000
"""when all sources were last changed, as their descriptions say"""
DRIVER_MEMORY = "1g"
INGEST = "ingest"
"""the branch that grows while `main` shows nothing yet"""
ADDED = 100
"""files of the append at the end: a million references"""

WARMING = 6
"""commits of as much to another repository, before anything is measured"""


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of work: how long it took, and the most memory that the driver had meanwhile."""

    name: str
    seconds: float
    peak_bytes: int
    references: int = 0
    """that it wrote; 0 where that is not what it is about"""

    @property
    def per_million(self) -> float:
        """Seconds for each million references."""
        return self.seconds / self.references * 1e6 if self.references else float("nan")


@dataclass
class Record:
    """What was measured so far."""

    steps: list[Step] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, references: int = 0) -> Iterator[None]:
        """Measure a piece of work, and tell of it."""
        forget_peak()
        begin = time.perf_counter()
        yield
        done = Step(name, time.perf_counter() - begin, peak_memory(), references)
        self.steps.append(done)
        rate = f", {done.per_million:.2f} s a million" if references else ""
        text = f"{name}: {done.seconds:.2f} s{rate}, driver {done.peak_bytes / 2**20:.0f} MiB"
        print(text, file=sys.stderr, flush=True)


def forget_peak() -> None:
    """Let the kernel count the peak of memory anew, where it can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """The most memory that this process has had since."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def make_sources(folder: Path, first: int, count: int) -> list[str]:
    """Files of zeros that take no space, one for each day."""
    folder.mkdir(exist_ok=True)
    names = []
    for number in range(first, first + count):
        path = folder / f"{number}.nc"
        path.touch()
        os.truncate(path, CHUNK_BYTES * CHUNKS_PER_FILE)
        os.utime(path, (MODIFIED, MODIFIED))
        names.append(str(path))
    return names


class Scale:
    """The repository, and what is done with it."""

    def __init__(self, folder: Path, spark: Any, record: Record) -> None:
        self.sources, self.target = folder / "sources", folder / "repository"
        self.spark, self.record = spark, record
        self.files = 0

    def ingest(self, name: str, files: int, branch: str) -> None:
        """Add so many files to a branch, in one commit."""
        from frazil.ingestion.pipeline import run_request
        from frazil.ingestion.request import IngestRequest
        from frazil.spark.runner import SparkRunner
        from frazil.storage.by_url import storage_from_url

        sources = make_sources(self.sources, self.files, files)
        request = IngestRequest(files=sources, branch=branch, append=self.files > 0)
        with self.record.step(name, files * CHUNKS_PER_FILE):
            runner = Synthetic(SparkRunner(self.spark))
            done = run_request(storage_from_url(str(self.target)), request, runner)
        assert done.virtual_chunks == files * CHUNKS_PER_FILE, done.status
        self.files += files

    def open(self) -> Any:
        """The repository, opened anew; its sources may be read."""
        import frazil

        here = f"file://{self.sources}/"
        return frazil.Repository.open(
            frazil.local_filesystem_storage(str(self.target)),
            authorize_virtual_chunk_access={here: None},
        )

    def make(self, references: int, part: int) -> None:
        """All references, in parts of so many, and then `main` shows them."""
        files, of_part = references // CHUNKS_PER_FILE, part // CHUNKS_PER_FILE
        number = 0
        while self.files < files:
            number += 1
            self.ingest(f"ingest, part {number}", min(of_part, files - self.files), INGEST)
        with self.record.step("fast_forward main"):
            self.open().versions.fast_forward("main", INGEST)

    def use(self) -> None:
        """What users do with it, each once."""
        import numpy as np

        import frazil

        last = self.files - 1
        self.step("open, look one reference up", lambda: self._look_up(last))
        self.ingest("append 1,000,000", ADDED, "main")

        def commit() -> None:
            session = self.open().writable_session("main")
            session.array("a")[last, :1024] = np.ones(1024, "f4")
            session.commit("one chunk")

        self.step("open, commit one chunk", commit)
        self.step("open, look one reference up again", lambda: self._look_up(last))
        self.step("SQL, one chunk of one day", lambda: self._query(last))
        self.step("the same again", lambda: self._query(last))
        horizon = datetime.now(UTC) - timedelta(days=2)
        self.step("plan of a garbage collection", lambda: self.open().space.plan_garbage(horizon))
        self.step("fsck", self._fsck)
        copy = self.target.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        self.step("clone", lambda: frazil.clone(self.open(), copy))
        shutil.rmtree(copy)
        self.note_sizes()

    def step(self, name: str, work: Callable[[], object]) -> None:
        """Measure one piece of work."""
        with self.record.step(name):
            work()

    def _look_up(self, day: int) -> None:
        assert self.open().readonly_session("main").chunk_type("/a", [day, 7]).name == "virtual"

    def _query(self, day: int) -> None:
        from frazil.spark import sql

        query = (
            f"SELECT count(*) AS n, avg(a) AS mean FROM frazil.`{self.target}` "
            f"WHERE time = {day} AND x < 1024"
        )
        found = sql(query, self.spark, authorize=f"file://{self.sources}/").collect()[0]
        assert (found.n, found.mean) == (1024, 1.0), found

    def _fsck(self) -> None:
        report = self.open().audit.fsck()
        assert not report.findings, report.findings[:3]

    def note_sizes(self) -> None:
        """How many bytes and files the repository has, by kind."""
        for kind in ("manifests", "snapshots", "transactions"):
            files = [each.stat().st_size for each in (self.target / kind).iterdir()]
            self.record.facts |= {f"{kind} bytes": sum(files), f"{kind} files": len(files)}
        newest = max((self.target / "snapshots").iterdir(), key=lambda each: each.stat().st_mtime)
        self.record.facts["newest snapshot bytes"] = newest.stat().st_size
        self.record.facts["references"] = self.files * CHUNKS_PER_FILE


def measure(folder: Path, references: int, part: int) -> Record:
    """Make and use a repository of so many references in an empty folder."""
    from frazil.spark import session

    record = Record()
    spark = session("local[2]", config={"spark.driver.memory": DRIVER_MEMORY})
    try:
        # Workers are running, and have imported what they need, before the clock is.
        (folder / "warm").mkdir()
        warm = Scale(folder / "warm", spark, Record())
        for number in range(WARMING):
            warm.ingest(f"warming up {number + 1}", ADDED, INGEST)
        forget_peak()
        record.facts["driver bytes before"] = peak_memory()
        scale = Scale(folder, spark, record)
        scale.make(references, part)
        scale.use()
    finally:
        spark.stop()
    return record


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--references", type=int, default=10_000_000)
    parser.add_argument("--part", type=int, default=5_000_000, help="references in one commit")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        record = measure(Path(folder), options.references, options.part)
    if options.json:
        print(json.dumps(asdict(record)), file=answers)
        return
    print("| step | seconds | s per million | driver's memory |\n|---|---|---|---|", file=answers)
    for step in record.steps:
        rate = f"{step.per_million:.2f}" if step.references else ""
        memory = f"{step.peak_bytes / 2**20:.0f} MiB"
        print(f"| {step.name} | {step.seconds:.2f} | {rate} | {memory} |", file=answers)
    for name, value in record.facts.items():
        print(f"{name}: {value:,}", file=answers)


if __name__ == "__main__":
    main()
