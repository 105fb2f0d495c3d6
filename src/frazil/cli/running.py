"""Jobs on the command line: where they run, how far they are, and what they did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from frazil.cli.answers import Answer, Screen, styled
from frazil.cli.text import counted, short, size
from frazil.errors import InternalError

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
Tell: TypeAlias = Callable[..., None]
"""Called with what is being done, how much is done, how much there is, and a note."""


@contextmanager
def running(what: str) -> Iterator[Tell]:
    """Show on a terminal's stderr how far a job is; call the result to say it."""
    from frazil.spark.errors import in_one_sentence, spark_errors

    try:
        with _bar(what) as tell:
            yield tell
    except spark_errors() as error:
        raise InternalError(f"Spark failed: {in_one_sentence(error)}") from error


@contextmanager
def _bar(what: str) -> Iterator[Tell]:
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {what: bar.add_task(f"{what} …", total=None, count="", note="")}

        def tell(part: str, done: int, total: int, note: str = "") -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(part, total=total or None, count="", note="")
            count = f"{done}/{total}" if total else ""
            bar.update(tasks[part], completed=done, total=total or None, count=count, note=note)

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
