"""Jobs on the command line: where they run, how far they are, and what they did."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from frazil.cli.answers import Answer, Screen, styled
from frazil.cli.text import counted, short, size
from frazil.errors import InternalError
from frazil.masking import safe
from frazil.progress import Progress, Tell, silent

if TYPE_CHECKING:
    from frazil.run import JobReport

Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="auto (this process for small work, Spark for more), local (this process) or spark.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:7077, sc://host; here by default.",
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option("--group", metavar="PATH", help="Group; the root by default.", show_default=False),
]
MOST_BARS: Final = 8


@contextmanager
def running(what: str) -> Iterator[Tell]:
    """Show on a terminal's stderr how far some work is; call the result to say it."""
    try:
        with _bar(what) as tell:
            yield tell
    except _spark_errors() as error:
        from frazil.spark.errors import in_one_sentence

        raise InternalError(f"Spark failed: {in_one_sentence(error)}") from error


def _spark_errors() -> tuple[type[Exception], ...]:
    """The errors of PySpark, which is only imported once an error was raised."""
    from frazil.spark.errors import spark_errors

    return spark_errors()


@contextmanager
def _bar(what: str) -> Iterator[Tell]:
    if not sys.stderr.isatty():
        yield silent
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[count]}"),
        rich.TextColumn("{task.fields[note]}"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {what: bar.add_task(f"{what} …", total=None, count="", note="")}

        def tell(now: Progress) -> None:
            total = now.total or None
            if now.what not in tasks:
                if len(tasks) == MOST_BARS:
                    bar.remove_task(tasks.pop(next(iter(tasks))))
                tasks[now.what] = bar.add_task(safe(now.what), total=total, count="", note="")
            count = f"{now.done}/{total}" if total else ""
            note = f"{counted(now.chunks, 'chunk')}, {size(now.nbytes)}" if now.chunks else ""
            bar.update(tasks[now.what], completed=now.done, total=total, count=count, note=note)

        yield tell


def job_answer(report: JobReport, verb: str, place: str) -> Answer:
    """What a job did, as data and as text."""
    data: dict[str, Any] = {
        "snapshot_id": report.snapshot_id,
        "target": place,
        "arrays": list(report.arrays),
        "chunks": report.chunks,
        "bytes": report.bytes,
    }

    def show(screen: Screen) -> None:
        what = f"{counted(report.chunks, 'chunk')}, {size(report.bytes)}"
        screen.line(f"{verb} ", styled(what, "bold"), f" to {place}")
        if report.snapshot_id is not None:
            screen.fields([("snapshot", short(report.snapshot_id))])
        for path in report.arrays:
            screen.note(path)

    return Answer(data, show)
