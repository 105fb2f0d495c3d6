"""Measure Frazil on Spark, and add the rows to docs/benchmarks.md.

    make benchspark
    make benchspark ARGS="--size small --only where --no-report"

Needs the extras `spark`, `virtual` and `xarray`, and for the peers an environment with the official
package, virtualizarr, dask and xarray-sql, whose Python FRAZIL_BENCH_PEER names.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from bench.__main__ import DOCS, RESULTS, show
from bench.disk import settle
from bench.execution import typical
from bench.model import SIZES, Case, Figures, Party, Target
from bench.report import write_report
from bench.results import case_result, circumstances, load, merge, save
from bench.spark.alone import COUNT
from bench.spark.data import (
    EXTENTS,
    Extent,
    make_files,
    make_known,
    make_parquet,
    make_repository,
)
from bench.spark.ours import Spark
from bench.spark.questions import QUESTIONS, SELECT_1, Question
from bench.spark.serving import ROOT, Process

THEME = "Spark"
SMALL = "frazil, a small repository"
SMALL_DAYS = 10
LINES = "frazil, lines"
WARM_UP_S = 20.0
"""A JVM compiles what it has run often: all contestants run untimed for so long, or"""
WARM_UP_TURNS = 6
SCAN_TARGETS = (
    Target("frazil", Party.PARQUET.value),
    Target("frazil", Party.XARRAY_SQL.value),
    Target("frazil", Party.DASK.value),
)
WHERE_TARGETS = (
    Target("frazil", Party.PARQUET.value, 5, 20),
    Target("frazil", Party.XARRAY_SQL.value),
    Target("frazil", Party.DASK.value),
)
VIRTUALIZARR = "VirtualiZarr + icechunk on dask"
FULL_TARGETS = (Target("frazil", Party.PARQUET.value, 0.4, 0.5),)
LINE_TARGETS = (*SCAN_TARGETS, Target(LINES, Party.PARQUET.value, None, 0.6))
OURS = ("frazil", LINES, SELECT_1, Party.PARQUET.value)


def plan(extent: Extent) -> list[tuple[Case, dict[str, Party]]]:
    """The cases, with the contestants of each."""
    rows, size = extent.rows / 1e6, extent.rows * 4 / 1e6
    sizes = f"{rows:.1f} million rows, {size:.0f} MB of values"
    scan = {
        "frazil": Party.FRAZIL,
        Party.PARQUET.value: Party.PARQUET,
        Party.XARRAY_SQL.value: Party.XARRAY_SQL,
        Party.DASK.value: Party.DASK,
    }
    every = scan | {LINES: Party.FRAZIL}
    alike = {name: scan[name] for name in ("frazil", Party.PARQUET.value)}
    ingest = {"frazil": Party.FRAZIL, VIRTUALIZARR: Party.DASK}
    against = (Target("frazil", VIRTUALIZARR, 1, 2),)
    amounts = (("million rows", rows), ("MB", size))
    return [
        (
            Case("spark-scan", f"all columns of {sizes}", THEME, (), FULL_TARGETS, amounts=amounts),
            alike,
        ),
        (
            Case("spark-mean", f"mean of {sizes}", THEME, (), LINE_TARGETS, amounts=amounts),
            every,
        ),
        (
            Case(
                "spark-month", f"mean by month of {sizes}", THEME, (), SCAN_TARGETS, amounts=amounts
            ),
            scan,
        ),
        (
            Case("spark-where", f"mean of a band of a day, of {sizes}", THEME, (), WHERE_TARGETS),
            scan,
        ),
        (
            Case(
                "spark-ingest",
                f"ingest {extent.files} files by reference",
                THEME,
                (),
                against,
                amounts=(("files", extent.files),),
            ),
            ingest,
        ),
        *(question_case(key, question, sizes, scan) for key, question in QUESTIONS.items()),
    ]


def question_case(
    key: str, question: Question, sizes: str, parties: dict[str, Party]
) -> tuple[Case, dict[str, Party]]:
    """A question in SQL as a case."""
    own = {name: p for name, p in parties.items() if question.for_dask or p is not Party.DASK}
    targets = [Target("frazil", Party.PARQUET.value, question.must, question.goal)]
    targets += [
        Target("frazil", name, *(limits if question.must else ()))
        for name, limits in ((Party.XARRAY_SQL.value, (2, 4)), (Party.DASK.value, (1.2, 2)))
        if name in own
    ]
    if question.is_free:
        own[SELECT_1] = Party.LIMIT
        targets.append(Target("frazil", SELECT_1, 0.5, 1))
    return Case(key, f"SQL: {question.title}, of {sizes}", THEME, (), tuple(targets)), own


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    settle()
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def require_same(result: float, expected: float) -> None:
    """Refuse a figure that was got by a wrong answer."""
    if abs(result - expected) > 1e-4 * abs(expected):
        raise ValueError(f"gave {result}, another {expected}")


def measure_case(
    case: Case, parties: dict[str, Party], spark: Spark, other: Process, rounds: int
) -> list[Figures]:
    """All contestants in turn, round after round; results must agree."""
    figures = {name: Figures(name, party) for name, party in parties.items()}
    expected: Any = None
    begin, warm = time.perf_counter(), 0
    for turn in count():
        if not warm and (turn == WARM_UP_TURNS or time.perf_counter() - begin > WARM_UP_S):
            warm = turn
        if warm and turn == warm + rounds:
            break
        order = list(figures) if turn % 2 else list(figures)[::-1]
        for name in order:
            if figures[name].failure:
                continue
            try:
                if name in OURS:
                    seconds, result = timed(partial(spark.run, case.key, name))
                else:
                    seconds, result = other.run(case.key, name)
                expected = result if expected is None else expected
                if result is not None:
                    require_same(result, expected)
            except Exception as error:
                figures[name].failure = f"{type(error).__name__}: {error}"[:300]
                print(f"    {name} failed: {figures[name].failure}", file=sys.stderr, flush=True)
                continue
            if warm:
                figures[name].values.append(seconds)
    return list(figures.values())


def run_alone(*words: object, **environment: str) -> str:
    """What a module prints that is run in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=ROOT,
        env={
            **os.environ,
            **environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        raise RuntimeError(told.stderr[-2000:])
    return told.stdout


def alone(folder: Path, *words: object) -> dict[str, Any]:
    """Work in a Spark of its own."""
    found: dict[str, Any] = json.loads(
        run_alone("bench.spark.alone", folder, *words).splitlines()[-1]
    )
    return found


SCALED = {
    "spark-month": "mean by month of all rows",
    "spark-sql-month": "SQL: mean by month",
    "spark-ingest": "ingest by reference",
    "spark-rechunk": "rechunk",
}
"""what is done on one and on two cores"""
TURNS_PER_ROUND = 3
"""times that each works in a round, as a host which others use too has not always a second core"""


def scaling(folder: Path, rounds: int, key: str) -> dict[str, Any]:
    """The same on one and on two cores."""
    names = {cores: f"frazil, {cores} core{'s' * (cores > 1)}" for cores in (2, 1)}
    case = Case(
        f"spark-cores-{key.removeprefix('spark-')}",
        f"{SCALED[key]}, on one and two cores",
        THEME,
        (),
        (Target(names[2], names[1], 1.6, 1.9),),
    )
    sources = (ROOT / "src",)
    at_work = {
        name: Process.start(sys.executable, "bench.spark.cores", folder, cores, path=sources)
        for cores, name in names.items()
    }
    figures = {name: Figures(name, Party.FRAZIL) for name in at_work}
    begin, timed_turns = time.perf_counter(), 0
    try:
        for turn in count():
            is_warm = turn >= WARM_UP_TURNS and time.perf_counter() - begin > WARM_UP_S
            for name in list(at_work)[:: 1 if turn % 2 else -1]:
                run = partial(_seconds, at_work[name], key)
                if is_warm:
                    figures[name].values.append(typical(run))
                else:
                    run()
            timed_turns += is_warm
            if timed_turns == TURNS_PER_ROUND * rounds:
                break
    finally:
        for process in at_work.values():
            process.stop()
    return case_result(case, list(figures.values()))


def _seconds(at_work: Process, key: str) -> float:
    return at_work.run(key, "frazil")[0]


def cold(folder: Path, rounds: int) -> dict[str, Any]:
    """A query from the shell, with all that is to be started for it."""
    large, small = (
        partial(run_alone, "frazil.cli", "sql", folder / name, COUNT, "--json")
        for name in ("repository", "small")
    )
    with tempfile.TemporaryDirectory(dir=folder) as archive:
        kept = {"FRAZIL_SPARK_ARCHIVE_PATH": archive}
        run_alone("frazil.cli", "prepare-spark", **kept)
        ways: dict[str, Callable[[], Any]] = {
            "frazil": large,
            SMALL: small,
            f"{SMALL}, after prepare-spark": partial(small, **kept),
            Party.PARQUET.value: partial(alone, folder, "parquet"),
        }
        targets = tuple(Target(name, Party.PARQUET.value) for name in [*ways][:-1])
        title = "`frazil sql` from the shell, and Spark on Parquet likewise"
        return from_shell(Case("spark-cold", title, THEME, (), targets), ways, rounds)


def shell_ingest(folder: Path, rounds: int) -> dict[str, Any]:
    """Three files from the shell, which need no Spark."""
    numbers = count()
    files = sorted((folder / "files").iterdir())[:3]

    def ingest() -> None:
        target = folder / f"from-shell-{next(numbers)}"
        run_alone("frazil.cli", "ingest", *files, target, "--json")

    case = Case("shell-ingest", "`frazil ingest` of three files from the shell", THEME, ())
    return from_shell(case, {"frazil": ingest}, rounds)


def shell_log(folder: Path, rounds: int) -> dict[str, Any]:
    """The processor time of a command that does next to nothing."""
    log = partial(run_alone, "frazil.cli", "log", folder / "small", "--json")
    case = Case("shell-log", "`frazil log` from the shell, processor time", THEME, ())
    return from_shell(case, {"frazil": log}, rounds, clock=processor_time)


def processor_time() -> float:
    """Seconds that processes which we have started, and which have ended, have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def from_shell(
    case: Case,
    ways: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Commands in turns; the first ones, which make bytecode, do not count."""
    figures = {
        name: Figures(name, Party.PARQUET if name == Party.PARQUET.value else Party.FRAZIL)
        for name in ways
    }
    for turn in range(rounds + 1):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            settle()
            begin = clock()
            ways[name]()
            if turn:
                figures[name].values.append(clock() - begin)
    return case_result(case, list(figures.values()))


def references(folder: Path, extent: Extent) -> dict[str, Any]:
    """Bookkeeping of many references with a driver of 1 GiB, per million of them."""
    found = alone(folder, "references", extent.references)
    count = found["references"]
    title = f"a million references of an ingest, of {count:,}, driver of 1 GiB"
    per_million = found["seconds"] / count * 1e6
    figures = Figures("frazil", Party.FRAZIL, [per_million])
    figures.base_bytes, figures.peak_bytes = found["base_bytes"], found["peak_bytes"]
    case = Case("spark-references", title, THEME, (), amounts=(("million references", 1.0),))
    return case_result(case, [figures])


def measure(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Everything that was chosen."""
    from frazil.spark import session

    extent = EXTENTS[options.size]
    make_repository(folder / "repository", extent.days)
    make_repository(folder / "small", SMALL_DAYS)
    make_known(folder / "known", extent.days)
    make_files(folder / "files", extent.files)
    found: list[dict[str, Any]] = []

    def note(result: dict[str, Any], seconds: float) -> None:
        found.append(result)
        show(result, seconds)
        for name, amount in result["amounts"].items():
            rates = [
                f"{each['name']} {amount / each['median']:.1f}"
                for each in result["contestants"]
                if "median" in each
            ]
            print(f"    {name}/s: {', '.join(rates)}")

    chosen = [(c, p) for c, p in plan(extent) if any(t in c.key for t in options.only or [""])]
    is_cold = any(text in "spark-cold" for text in options.only or [""])
    if chosen or is_cold:
        spark = session("local[2]")
        make_parquet(spark, folder / "repository", folder / "parquet")
        other = Process.start(
            os.environ.get("FRAZIL_BENCH_PEER") if chosen else None, "bench.spark.peers", folder
        )
        for case, parties in chosen:
            at_work = Spark(spark, folder)
            seconds, figures = timed(
                partial(measure_case, case, parties, at_work, other, options.rounds)
            )
            note(case_result(case, figures), seconds)
        other.stop()
        spark.stop()
    for key, work in (
        ("spark-cold", partial(cold, folder, options.rounds)),
        ("shell-ingest", partial(shell_ingest, folder, options.rounds)),
        ("shell-log", partial(shell_log, folder, options.rounds)),
        *((f"spark-cores-{key}", partial(scaling, folder, options.rounds, key)) for key in SCALED),
        ("spark-references", partial(references, folder, extent)),
    ):
        if not options.only or any(text in key for text in options.only):
            seconds, result = timed(work)
            note(result, seconds)
    return found


def main() -> int:
    """Parse arguments, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--size", choices=sorted(EXTENTS), default="full")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--no-report", action="store_true", help="leave the documents alone")
    parser.add_argument("--folder", type=Path, help="where to put the data")
    options = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="frazil-bench-", dir=options.folder) as name:
        cases = measure(Path(name).resolve(), options)
    print(f"{time.perf_counter() - begin:.0f} s in all")
    if not options.no_report:
        fresh = circumstances(SIZES[options.size], options.rounds, {})
        results = fresh | {"cases": cases, "curves": []}
        if RESULTS.exists():
            # The page is about the other cases too: theirs are the circumstances that it tells.
            results = merge(load(RESULTS), results) | {
                key: value for key, value in load(RESULTS).items() if key not in ("cases", "curves")
            }
        save(RESULTS, results)
        write_report(results, DOCS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
