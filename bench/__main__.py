"""Measure Frazil beside its peers, and write the report.

    make bench
    make bench ARGS="--size small --only read --rounds 1 --no-report"
    python -m bench --report results.json      # only writes docs/benchmarks.md again

Every case runs in rounds; in each round all contestants run once, in alternating order.
The medians are compared; a ratio above 1 means that Frazil is faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from bench.cases import all_cases
from bench.growth import GROWTH, Field
from bench.model import SIZES, Party, Where
from bench.parties import quiet
from bench.report import write_report
from bench.results import (
    PACKAGES,
    case_result,
    circumstances,
    curve_result,
    load,
    merge,
    save,
)
from bench.runner import Runner
from bench.servers import remote
from bench.worker import ROOT, Worker
from bench.writers import by_writers

WRITERS = "growth-writers"
DOCS = ROOT / "docs"
RESULTS = DOCS / "benchmarks" / "results.json"


def arguments() -> argparse.Namespace:
    """What the user asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="full", help="how much (full)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="cases and curves whose key contains this text; may be repeated",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up (3)")
    parser.add_argument("--json", type=Path, help=f"where to write the figures ({RESULTS.name})")
    parser.add_argument("--folder", type=Path, help="where to put the repositories")
    parser.add_argument("--no-memory", action="store_true", help="leave out the runs for memory")
    parser.add_argument("--no-report", action="store_true", help="leave the documents alone")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the documents go (docs)")
    parser.add_argument("--report", type=Path, metavar="JSON", help="only write the documents")
    parser.add_argument("--list", action="store_true", help="only list cases and curves")
    return parser.parse_args()


def older_worker() -> Worker | None:
    """The environment of the older official package, where there is one."""
    python = Path(os.environ.get("FRAZIL_PEER1") or ROOT / ".venv-peer1" / "bin" / "python")
    return Worker(python) if python.exists() else None


def show(result: dict[str, Any], seconds: float) -> None:
    """Print one case."""
    print(f"{result['title']} [{result['where']}] ({seconds:.0f} s)")
    for each in result["contestants"]:
        if "median" in each:
            print(f"    {each['name']:<42} {_figure(each['median'], result['unit'])}")
    for each in result["targets"]:
        if each["ratio"] is not None:
            verdict = "" if each.get("holds", True) else "   MISSED"
            must = "" if each["must"] is None else f" (must {each['must']}, goal {each['goal']})"
            print(
                f"    {each['contestant']} / {each['against']}: {each['ratio']:.2f} "
                f"[{each['low']:.2f} - {each['high']:.2f}]{must}{verdict}"
            )
    sys.stdout.flush()


def _figure(value: float, unit: str) -> str:
    return f"{value * 1e3:10.2f} ms" if unit == "s" else f"{value:12,.0f} {unit}"


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run everything that was chosen."""
    size = SIZES[options.size]

    def chosen(key: str) -> bool:
        return not options.only or any(text in key for text in options.only)

    older = older_worker()
    absent = () if older else (Party.ICECHUNK1,)
    cases = [case.without(absent) for case in all_cases(size) if chosen(case.key)]
    growth = [key for key in (*GROWTH, WRITERS) if chosen(key)]
    with ExitStack() as stack:
        workers = {Party.ICECHUNK1: older} if older else {}
        found = {}
        if older:
            stack.callback(older.close)
            found = older.ask({"do": "versions", "names": PACKAGES})
        results = circumstances(size, options.rounds, found) | {"cases": [], "curves": []}
        far = any(case.where is not Where.LOCAL for case in cases) or WRITERS in growth
        server = stack.enter_context(remote()) if far else None
        runner = Runner(
            size, options.rounds, folder, server, workers, with_memory=not options.no_memory
        )
        for number, case in enumerate(cases):
            begin = time.perf_counter()
            results["cases"].append(case_result(case, runner.run(case)))
            show(results["cases"][-1], time.perf_counter() - begin)
            keep(results, options)
            runner.release(cases[number + 1 :])
        field = Field(size, options.rounds, folder, count())
        for key in growth:
            begin = time.perf_counter()
            curves = (
                by_writers(size, options.rounds, folder, server)
                if key == WRITERS
                else GROWTH[key](field)
            )
            results["curves"] += [curve_result(curve) for curve in curves]
            keep(results, options)
            print(f"{key} ({time.perf_counter() - begin:.0f} s)", flush=True)
    return results


def main() -> int:
    """Parse arguments, measure, report."""
    options = arguments()
    if options.report:
        write_report(load(options.report), options.docs)
        return 0
    if options.list:
        for case in all_cases(SIZES[options.size]):
            print(f"{case.key:<24} {case.title} [{case.where.value}]")
        print(*GROWTH, WRITERS, sep="\n")
        return 0
    quiet()
    begin = time.perf_counter()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="frazil-bench-", dir=options.folder))
    try:
        results = measure(options, folder)
        if not results["cases"] and not results["curves"]:
            print(f"nothing is called {options.only}; see --list", file=sys.stderr)
            return 2
        keep(results, options)
        print(f"{time.perf_counter() - begin:.0f} s in all; now the temporary files are removed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def keep(results: dict[str, Any], options: argparse.Namespace) -> None:
    """Store and report what was found."""
    target = options.json or (None if options.no_report else RESULTS)
    if target:
        # A case keeps its figures until it is measured again; Spark's have a run of their own.
        if target.exists():
            results = merge(load(target), results)
        save(target, results)
    if not options.no_report:
        write_report(results, options.docs)


if __name__ == "__main__":
    sys.exit(main())
