"""Commands that run on Spark only: `sql`, `rechunk` and `prepare-spark`."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import Annotated, Final, TypeAlias

import typer

from frazil import texts
from frazil.cli.answers import Answer, Screen
from frazil.cli.arguments import Authorize, Message, Url
from frazil.cli.commands import Work, add_command
from frazil.cli.places import as_prefix, open_place
from frazil.cli.running import Group, Master, job_answer, running
from frazil.cli.text import counted, size

PANEL: Final = "Data"


ChunkLengths: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="CHUNKS",
        help="Length by dimension, time=100,lat=-1, or for all axes: 100,90,-1; -1 is all.",
        show_default=False,
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    works: dict[str, Work] = {"sql": sql, "rechunk": rechunk}
    for name, work in works.items():
        add_command(app, name, work, PANEL)
    add_command(app, "prepare-spark", prepare_spark, "Set up")


# --- sql ---


def sql(
    url: Url,
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="SELECT in Spark's SQL.", show_default=False),
    ] = None,
    group: Group = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Print at most so many rows; 0 prints all.")
    ] = 100,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Tell what would be read, and run nothing.")
    ] = False,
    authorize: Authorize = None,
    master: Master = None,
) -> Answer:
    """Query a repository with SQL on Spark.

    The view `data` has the cells of the group's variables; where these differ in their
    dimensions, and for coordinates, each variable is a view of its own name. The metadata
    tables are views too: snapshots, refs, history, nodes, arrays, manifests, chunks, ...
    Without a URL the query names its repositories itself: frazil.`URL`.
    """
    from frazil.spark.query.run_query import run_query

    place: str | None = url
    if query is None:
        place, query = None, url
    elif looks_like_sql(url) and not looks_like_sql(query):
        place, query = query, url
        print("the repository comes first: frazil sql URL QUERY", file=sys.stderr)
    with running("Running the query"):
        found = run_query(
            query,
            place,
            explain=explain,
            master=master,
            group=group,
            limit=limit,
            short_lived=True,
            authorize=map(as_prefix, authorize or ()),
        )
    if found.is_cut:
        print(f"showing {counted(limit, 'row')}; --limit 0 shows all", file=sys.stderr)
    data = {"columns": list(found.labels), "rows": found.plain(), "truncated": found.is_cut}

    def show(screen: Screen) -> None:
        if explain:
            for (line,) in found.rows:
                screen.line(line)
            return
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


# --- rechunk ---


def rechunk(
    url: Url,
    chunks: ChunkLengths,
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
    message: Message = None,
    authorize: Authorize = None,
    master: Master = None,
) -> Answer:
    """Write arrays anew in other chunks, in one commit."""
    from frazil.spark.jobs.rechunking import rechunk as run
    from frazil.spark.sessions import session

    wanted = texts.parse_as("the text of the chunks", texts.chunk_lengths, chunks)
    memory = texts.parse_as("--max-memory", texts.size, max_memory)
    require_place(url)
    with running("Rechunking") as tell:
        report = run(
            url,
            variables or None,
            wanted,
            spark=session(master),
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
    return job_answer(report, "Rechunked", to or url)


# --- all of them ---


def require_place(url: str) -> None:
    """Refuse a repository or a version that is not there, before Spark takes its time to start."""
    open_place(url.partition("#")[0]).snapshot_id()


def _authorized(prefixes: list[str] | None) -> dict[str, str]:
    given = ", ".join(map(as_prefix, prefixes or ()))
    return {"authorize-virtual-chunk-access": given} if given else {}


# --- prepare-spark ---


def prepare_spark(
    force: Annotated[bool, typer.Option("--force", help="Make the file anew.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Delete the file.")] = False,
) -> Answer:
    """Let Spark start some seconds sooner on this machine.

    Starts Spark once and keeps the classes that it has loaded in a file of about 160 MB among your
    caches. Another Java or Spark does not use it; run the command again after an upgrade.
    """
    from frazil.spark.jobs import preparing

    if remove:
        gone = preparing.forget_spark()
        return Answer(
            {"removed": gone},
            lambda screen: screen.line(f"removed: {', '.join(gone) or 'nothing'}"),
        )
    with running("Starting Spark"):
        made = preparing.prepare_spark(force=force)
    state = "made" if made.is_new else "there already; --force makes it anew"
    text = f"{made.path} ({size(made.size_bytes)}): {state}"
    return Answer(asdict(made), lambda screen: screen.line(text))
