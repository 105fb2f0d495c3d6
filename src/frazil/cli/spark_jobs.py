"""Commands that run on Spark: `sql`, `export`, `clone` and `rechunk`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from frazil import texts
from frazil.cli.answers import Answer, Screen, styled
from frazil.cli.arguments import Authorize, Url
from frazil.cli.commands import Work, add_command
from frazil.cli.places import as_prefix, open_place
from frazil.cli.text import counted, short, size
from frazil.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.tasks import JobReport

Described = dict[str, Any]
PANEL: Final = "Data"
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:7077, sc://host; here by default.",
        show_default=False,
    ),
]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="Directory or URL to copy to.", show_default=False),
]
Group = Annotated[
    str | None,
    typer.Option("--group", metavar="PATH", help="Group; the root by default.", show_default=False),
]
Text = Annotated[
    str | None,
    typer.Option("--message", "-m", help="Message of the commit.", show_default=False),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    works: dict[str, Work] = {"sql": sql, "export": export, "clone": clone, "rechunk": rechunk}
    for name, work in works.items():
        add_command(app, name, work, PANEL)


# --- sql ---


def sql(
    url: Url,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="SELECT in Spark's SQL.", show_default=False)
    ],
    group: Group = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Print at most so many rows; 0 prints all.")
    ] = 100,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    authorize: Authorize = None,
    master: Master = None,
) -> Answer:
    """Query a repository with SQL on Spark.

    The view `data` has the cells of the group's variables; where these differ in their
    dimensions, and for coordinates, each variable is a view of its own name. The metadata
    tables are views too: snapshots, refs, history, nodes, arrays, manifests, chunks, ...
    """
    from frazil.spark.query.run_query import run_query

    if looks_like_sql(url) and not looks_like_sql(query):
        url, query = query, url
        print("the repository comes first: frazil sql URL QUERY", file=sys.stderr)
    with running("Running the query"):
        found = run_query(
            query,
            url,
            master=master,
            group=group,
            limit=limit,
            authorize=map(as_prefix, authorize or ()),
        )
    if found.is_cut:
        print(f"showing {counted(limit, 'row')}; --limit 0 shows all", file=sys.stderr)
    data = {"columns": list(found.labels), "rows": found.plain(), "truncated": found.is_cut}

    def show(screen: Screen) -> None:
        if as_csv:
            screen.csv(found.columns, found.texts(null=""))
            return
        marks = ("#" if is_number else "" for is_number in found.are_numbers)
        names = [name + mark for name, mark in zip(found.columns, marks, strict=True)]
        screen.table(names, found.texts(null="NULL"))

    return Answer(data, show)


_SQL: Final = re.compile(
    r"\s*\(?\s*(select|with|from|values|show|describe|desc|explain|table)\s", re.IGNORECASE
)


def looks_like_sql(text: str) -> bool:
    """Whether a text is more likely a query than the name of a repository."""
    return _SQL.match(text) is not None


# --- copies ---


def export(
    url: Url,
    target: Target,
    group: Group = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write also where something is.")
    ] = False,
    authorize: Authorize = None,
    master: Master = None,
) -> Answer:
    """Copy a version to a plain Zarr v3 store; nothing is decoded."""
    from frazil.spark.jobs.zarr_export import export as run

    require_place(url)
    with running("Exporting") as tell:
        report = run(
            url,
            target,
            spark=spark_at(master),
            group=group,
            overwrite=overwrite,
            options=_authorized(authorize),
            progress=tell,
        )
    return _answer(report, "Exported", target)


def clone(
    url: Url,
    target: Target,
    everything: Annotated[
        bool, typer.Option("--all", help="All branches, tags and snapshots.")
    ] = False,
    message: Text = None,
    master: Master = None,
) -> Answer:
    """Copy a version, or all of a repository, to another place; nothing is decoded."""
    from frazil.spark.jobs.cloning import clone as run

    require_place(url)
    with running("Cloning") as tell:
        report = run(
            url,
            target,
            spark=spark_at(master),
            all_history=everything,
            message=message,
            progress=tell,
        )
    return _answer(report, "Cloned", target)


# --- rechunk ---


def rechunk(
    url: Url,
    chunks: Annotated[
        str,
        typer.Argument(
            metavar="CHUNKS",
            help="Length by dimension, time=100,lat=-1, or for all axes: 100,90,-1; -1 is all.",
            show_default=False,
        ),
    ],
    variables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Arrays of the group; all with such a dimension by default.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help="Another repository.", show_default=False),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", help="Branch to commit to; that of the URL by default."),
    ] = None,
    group: Group = None,
    compressor: Annotated[
        str | None,
        typer.Option(help="zstd:5, gzip, blosc:lz4, none; as it is by default."),
    ] = None,
    checksum: Annotated[
        bool, typer.Option("--checksum", help="Let the new chunks end in a CRC-32C.")
    ] = False,
    max_memory: Annotated[str, typer.Option(help="Memory of a task.")] = "512m",
    message: Text = None,
    authorize: Authorize = None,
    master: Master = None,
) -> Answer:
    """Write arrays anew in other chunks, in one commit."""
    from frazil.spark.jobs.rechunking import rechunk as run

    wanted = texts.read("the text of the chunks", texts.chunk_lengths, chunks)
    memory = texts.read("--max-memory", texts.size, max_memory)
    require_place(url)
    with running("Rechunking") as tell:
        report = run(
            url,
            variables or None,
            wanted,
            spark=spark_at(master),
            target=to,
            branch=branch,
            group=group,
            compressor=compressor,
            checksum=checksum,
            message=message,
            max_memory=memory,
            options=_authorized(authorize),
            progress=tell,
        )
    return _answer(report, "Rechunked", to or url)


# --- all of them ---


def require_place(url: str) -> None:
    """Refuse a repository or a version that is not there, before Spark takes its time to start."""
    open_place(url.partition("#")[0]).snapshot_id()


def spark_at(master: str | None) -> SparkSession:
    """The Spark session of a command."""
    from frazil.spark.sessions import session

    return session(master)


@contextmanager
def running(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show on a terminal's stderr how far a job is; call the result to say it.

    Raises:
        InternalError: Spark failed with something that is no error of ours, told in a sentence.
    """
    with telling(), _bar(what) as tell:
        yield tell


@contextmanager
def telling() -> Iterator[None]:
    """Tell what Spark failed with in a sentence, where it is no error of ours.

    Raises:
        InternalError: it failed.
    """
    from frazil.spark.errors import in_one_sentence, spark_errors

    try:
        yield
    except spark_errors() as error:
        raise InternalError(f"Spark failed: {in_one_sentence(error)}") from error


@contextmanager
def _bar(what: str) -> Iterator[Callable[[str, int, int], None]]:
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        tasks = {what: bar.add_task(f"{what} …", total=None, count="")}

        def tell(part: str, done: int, total: int) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(part, total=total, count="")
            bar.update(tasks[part], completed=done, total=total, count=f"{done}/{total}")

        yield tell


def _authorized(prefixes: list[str] | None) -> dict[str, str]:
    given = ", ".join(map(as_prefix, prefixes or ()))
    return {"authorize-virtual-chunk-access": given} if given else {}


def _answer(report: JobReport, verb: str, place: str) -> Answer:
    data: Described = {
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
