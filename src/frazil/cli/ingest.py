"""Taking files of other formats into a repository."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.answers import Answer, Screen, styled
from frazil.cli.commands import add_command
from frazil.cli.exits import Exit
from frazil.cli.spark_jobs import telling
from frazil.cli.text import counted, short, size
from frazil.errors import InvalidInputError
from frazil.texts import lengths, read

if TYPE_CHECKING:
    from frazil.ingestion.reports import IngestReport, Progress

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES… URL@BRANCH",
        help="Files to take in, as paths, URLs or patterns in quotes, and last the repository.",
        show_default=False,
    ),
]
Group = Annotated[str, typer.Option(help="Group of the repository to put arrays into.")]
Mode = Annotated[str, typer.Option(help="virtual (refer to files), native (copy values) or auto.")]
Chunks = Annotated[
    str | None, typer.Option(metavar="DIM=N,…", help="Chunks of what is copied; implies native.")
]
Compressor = Annotated[
    str | None, typer.Option(help="Of what is copied: zstd:5, blosc:lz4, gzip, none.")
]
Checksum = Annotated[
    bool, typer.Option("--checksum", help="Let chunks that are copied end in a CRC-32C.")
]
ConcatDim = Annotated[
    list[str] | None,
    typer.Option(metavar="DIM", help="Join files along it; may be repeated.", show_default=False),
]
Append = Annotated[bool, typer.Option("--append", help="Put files behind what is there.")]
Materialize = Annotated[
    bool, typer.Option("--materialize", help="Copy what cannot be one array as it is stored.")
]
OnError = Annotated[str, typer.Option(help="When a file cannot be read: fail, or skip it.")]
Gaps = Annotated[str, typer.Option(help="Coordinates that jump: tell of them, or refuse them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only compare the files.")]
Message = Annotated[str | None, typer.Option("--message", "-m", show_default=False)]
Format = Annotated[
    str | None, typer.Option(help="Format of all files, instead of looking at them.")
]
Load = Annotated[
    list[str] | None, typer.Option(metavar="VARIABLE", help="Copy it as coordinates are.")
]
Drop = Annotated[list[str] | None, typer.Option(metavar="VARIABLE", help="Leave it out.")]
SourceGroup = Annotated[str, typer.Option(help="Group to take from each file.")]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="How to reach the files: region, anonymous, …"),
]
Container = Annotated[
    str | None,
    typer.Option(metavar="PREFIX", help="Virtual chunks may be read below this URL only."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="PREFIX", help="Files may refer to others below it; may be repeated."),
]
FilesFrom = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Further files, a name in each line.")
]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs: local[4], a cluster, sc://host.")
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "ingest", ingest, "Data")


def ingest(
    names: Names,
    group: Group = "",
    mode: Mode = "virtual",
    chunks: Chunks = None,
    compressor: Compressor = None,
    checksum: Checksum = False,
    concat_dim: ConcatDim = None,
    append: Append = False,
    materialize: Materialize = False,
    on_error: OnError = "fail",
    gaps: Gaps = "tell",
    dry_run: DryRun = False,
    message: Message = None,
    format: Format = None,
    load: Load = None,
    drop: Drop = None,
    source_group: SourceGroup = "",
    source_option: SourceOption = None,
    container: Container = None,
    allow: Allow = None,
    files_from: FilesFrom = None,
    master: Master = None,
) -> Answer:
    """Take NetCDF, HDF5, GRIB, TIFF, Zarr and kerchunk files into a repository, in one commit.

    Files are joined in the order of their coordinates. Before anything is written they are
    compared, and what would give wrong values is refused. Files that are in already are skipped.
    """
    report, code = _run(**_parsed(locals()))
    return Answer(report.as_dict(), lambda screen: _show(screen, report), code)


def _parsed(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the command as those of `frazil.spark.ingest`."""
    asked = dict(given)
    names, files_from = asked.pop("names"), asked.pop("files_from")
    if len(names) < (1 if files_from else 2):
        raise InvalidInputError("name the files, and then the repository")
    for name in ("load", "drop", "allow"):
        asked[name] = asked[name] or ()
    if asked["chunks"] is not None:
        asked["chunks"] = read("--chunks", lengths, asked["chunks"])
    asked["source_options"] = _pairs(asked.pop("source_option"))
    return {"files": [*names[:-1], *_listed(files_from)], "url": names[-1], **asked}


def _run(
    files: list[str],
    url: str,
    **asked: Any,  # noqa: ANN401  (the arguments of `ingest`)
) -> tuple[IngestReport, Exit]:
    from frazil.ingestion.reports import IngestRefusedError
    from frazil.spark.jobs.ingesting import ingest as run

    with _bar() as progress, telling():
        try:
            done = run(files, url, progress=progress, **asked)
        except IngestRefusedError as refusal:
            return refusal.report, Exit.REFUSED
    return done, Exit.OK


def _listed(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from None
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _pairs(options: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in options or ():
        name, equals, value = option.partition("=")
        if not equals:
            raise InvalidInputError(f"{option!r} is no option; write name=value")
        is_flag = value.lower() in ("true", "false")
        found[name.strip().replace("-", "_")] = value.lower() == "true" if is_flag else value
    return found


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal's stderr: files, chunks, bytes."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task("starting Spark", total=None, told="", count="")

        def tell(now: Progress) -> None:
            total = now.files or now.regions or None
            done = now.files_done or now.regions_done
            bar.update(
                job,
                description=now.step,
                total=total,
                completed=done,
                count="" if total is None else f"{done}/{total}",
                told=f"{counted(now.chunks, 'chunk')}, {size(now.nbytes)}" if now.chunks else "",
            )

        yield tell


def _show(screen: Screen, report: IngestReport) -> None:
    verbs = {
        "committed": f"Ingested {counted(len(report.files), 'file')}",
        "planned": f"Would ingest {counted(len(report.files), 'file')}",
        "unchanged": "Nothing to do: all files are in already",
        "refused": "Nothing was ingested",
    }
    where = f" in snapshot {short(report.snapshot_id)}" if report.snapshot_id else ""
    screen.line(styled(verbs[str(report.status)], "bold"), where)
    fields = [
        ("joined along", f"{name}: {length} from {counted(parts, 'part')}")
        for name, length, parts in report.axes
    ]
    if report.virtual_chunks:
        told = f"{counted(report.virtual_chunks, 'chunk')}, {size(report.referenced_bytes)}"
        fields.append(("referred to", told))
    if report.native_chunks or report.copied_bytes:
        told = f"{counted(report.native_chunks, 'chunk')}, {size(report.copied_bytes)}"
        fields.append(("copied", told))
    if report.skipped:
        fields.append(("skipped", f"{counted(len(report.skipped), 'file')} that are in already"))
    screen.fields(fields)
    if report.arrays:
        screen.table(
            ("array", "kind", "dimensions", "shape", "chunks"),
            [
                (a.name, str(a.kind), " ".join(a.dims), _shape(a.shape), _shape(a.chunks))
                for a in report.arrays
            ],
        )
    for line in report.lines():
        screen.line(line)
    if report.how_to_read:
        screen.note(report.how_to_read)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "scalar"
