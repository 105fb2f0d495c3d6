"""Run the workloads, ours and the peer's in turn, and print the ratios of their medians.

    make bench
    make bench ARGS="--only read --rounds 5 --json results.json"

Every workload is measured in rounds; in each round both sides run once, in alternating order,
so that a busy machine hurts both alike. A ratio above 1 means that Frazil is faster.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import icechunk
import numpy
import zarr

import frazil
import frazil.icechunk as ours
from bench.workloads import WORKLOADS, Side, Workload


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one workload, in seconds."""

    name: str
    frazil: float
    peer: float
    rounds: int
    extra: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster Frazil is."""
        return self.peer / self.frazil


def sides() -> tuple[Side, Side]:
    """Us and the official package, behind the same names."""
    return (
        Side("frazil", ours, ours.local_filesystem_storage),
        Side("peer", icechunk, icechunk.local_filesystem_storage),
    )


def measure(workload: Workload, rounds: int, folder: Path) -> Row:
    """Run both sides in turn and keep the medians."""
    us, peer = sides()
    times: dict[str, list[float]] = {us.name: [], peer.name: []}
    prepared = {side.name: _prepare(workload, side, folder) for side in (us, peer)}
    for turn in range(rounds + 1):
        for side in (us, peer) if turn % 2 == 0 else (peer, us):
            seconds = _once(workload, side, prepared[side.name], folder)
            if turn:  # the first round warms caches and imports
                times[side.name].append(seconds)
    extra = workload.remark(prepared[us.name], prepared[peer.name]) if workload.remark else ""
    return Row(
        workload.name,
        statistics.median(times[us.name]),
        statistics.median(times[peer.name]),
        rounds,
        extra,
    )


def _prepare(workload: Workload, side: Side, folder: Path) -> Path:
    place = Path(tempfile.mkdtemp(prefix=f"{side.name}-", dir=folder))
    if workload.prepare is not None:
        workload.prepare(side, place)
    return place


def _once(workload: Workload, side: Side, prepared: Path, folder: Path) -> float:
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=folder))
    work: Callable[[], object] = workload.make(side, prepared, scratch)
    gc.collect()
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    shutil.rmtree(scratch)
    return seconds


def show(rows: list[Row]) -> None:
    """Print a table."""
    width = max(len(row.name) for row in rows)
    print(f"{'workload'.ljust(width)}    frazil      peer   ratio")
    for row in rows:
        print(
            f"{row.name.ljust(width)} {row.frazil * 1e3:8.1f}ms {row.peer * 1e3:8.1f}ms "
            f"{row.ratio:6.2f}x  {row.extra}"
        )


def main() -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose name contains this text")
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up (3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, help="where to put the repositories")
    options = parser.parse_args()
    chosen = [workload for workload in WORKLOADS if options.only in workload.name]
    if not chosen:
        print(f"no workload contains {options.only!r}; there are:", file=sys.stderr)
        for workload in WORKLOADS:
            print(f"  {workload.name}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    icechunk.set_logs_filter("error")
    versions = {
        "frazil": frazil.__version__,
        "icechunk": icechunk.__version__,
        "zarr": zarr.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    folder = Path(tempfile.mkdtemp(prefix="frazil-bench-", dir=options.folder))
    rows: list[Row] = []
    try:
        for workload in chosen:
            rows.append(measure(workload, options.rounds, folder))
            row = rows[-1]
            print(f"  {row.name}: {row.ratio:.2f}x", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print()
    show(rows)
    if options.json:
        figures = [{**asdict(row), "ratio": row.ratio} for row in rows]
        options.json.write_text(json.dumps({"versions": versions, "rows": figures}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
