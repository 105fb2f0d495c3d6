"""Taking files of other formats into a repository."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from frazil.cli.answers import Answer, Exit, Screen, styled
from frazil.cli.arguments import Message
from frazil.cli.commands import add_command, declare
from frazil.cli.running import Engine, Master, running
from frazil.cli.text import axes, counted, short, size
from frazil.errors import InvalidInputError
from frazil.texts import lengths, parse_as

if TYPE_CHECKING:
    from frazil.ingestion.reports import IngestReport


def _option(kind: Any, default: object, help: str, *flags: str, **more: Any) -> tuple[Any, object]:  # noqa: ANN401 - typer's
    return Annotated[kind, typer.Option(*flags, help=help, **more)], default


def _flag(name: str, help: str) -> tuple[Any, object]:
    return _option(bool, False, help, name)


TEXT, TEXTS = str | None, list[str] | None
OPTIONS: Final = {
    "names": (
        Annotated[
            list[str],
            typer.Argument(
                metavar="FILES… URL@BRANCH",
                help="Files to take in, as paths, URLs or patterns in quotes, and last the "
                "repository.",
                show_default=False,
            ),
        ],
        inspect.Parameter.empty,
    ),
    "group": _option(str, "", "Group of the repository to put arrays into."),
    "mode": _option(str, "virtual", "virtual (refer to files), native (copy values) or auto."),
    "chunks": _option(TEXT, None, "Chunks of what is copied; implies native.", metavar="DIM=N,…"),
    "compressor": _option(TEXT, None, "Of what is copied: zstd:5, blosc:lz4, gzip, none."),
    "checksum": _flag("--checksum", "Let chunks that are copied end in a CRC-32C."),
    "statistics": _flag("--statistics", "Keep statistics of chunks that are copied."),
    "concat_dim": _option(
        TEXTS, None, "Join files along it; may be repeated.", metavar="DIM", show_default=False
    ),
    "append": _flag("--append", "Put files behind what is there."),
    "materialize": _flag("--materialize", "Copy what cannot be one array as it is stored."),
    "on_error": _option(str, "fail", "When a file cannot be read: fail, or skip it."),
    "gaps": _option(str, "tell", "Coordinates that jump: tell of them, or refuse them."),
    "grid_mapping": _option(
        str, "refuse", "Files that disagree about where values are: refuse them, or tell of it."
    ),
    "dry_run": _flag("--dry-run", "Only compare the files."),
    "message": (Message, None),
    "format": _option(TEXT, None, "Format of all files, instead of looking at them."),
    "load": _option(TEXTS, None, "Copy it as coordinates are.", metavar="VARIABLE"),
    "drop": _option(TEXTS, None, "Leave it out.", metavar="VARIABLE"),
    "source_group": _option(str, "", "Group to take from each file."),
    "source_option": _option(
        TEXTS, None, "How to reach the files: region, anonymous, …", metavar="NAME=VALUE"
    ),
    "container": _option(
        TEXT, None, "Virtual chunks may be read below this URL only.", metavar="PREFIX"
    ),
    "allow": _option(
        TEXTS, None, "Files may refer to others below it; may be repeated.", metavar="PREFIX"
    ),
    "files_from": _option(Path | None, None, "Further files, a name in each line.", metavar="FILE"),
    "engine": (Engine, "auto"),
    "master": (Master, None),
}
"""The arguments of the command, named as the options of `frazil.ingest` where these are meant."""


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "ingest", ingest, "Data")


def ingest(**given: Any) -> Answer:  # noqa: ANN401  (as in OPTIONS)
    """Take NetCDF, HDF5, GRIB, TIFF, Zarr and kerchunk files into a repository, in one commit.

    Files are joined in the order of their coordinates. Before anything is written they are
    compared, and what would give wrong values is refused. Files that are in already are skipped.
    """
    names, files_from = given.pop("names"), given.pop("files_from")
    if len(names) < (1 if files_from else 2):
        raise InvalidInputError("give the files first, and the repository last: FILES… URL")
    if given["chunks"] is not None:
        given["chunks"] = parse_as("--chunks", lengths, given["chunks"])
    given["source_options"] = _pairs(given.pop("source_option"))
    report, code = _run([*names[:-1], *_listed(files_from)], names[-1], **given)
    return Answer(report.as_dict(), lambda screen: _show(screen, report), code)


declare(ingest, OPTIONS)


def _run(
    files: list[str],
    url: str,
    engine: str,
    master: str | None,
    **asked: Any,  # noqa: ANN401  (the options of `frazil.ingest`)
) -> tuple[IngestReport, Exit]:
    from frazil.ingestion.isolation import start_ahead

    if engine != "spark" and master is None:
        start_ahead("frazil.ingestion.hdf")  # imports as long as what is needed here

    from frazil.ingestion.pipeline import ingest as run
    from frazil.ingestion.reports import IngestRefusedError
    from frazil.spark.engine import runner_for

    runner = runner_for(engine, master)
    with running("Ingesting") as tell:
        try:
            done = run(files, url, runner=runner, progress=tell, **asked)
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
        detail = f"{counted(report.virtual_chunks, 'chunk')}, {size(report.referenced_bytes)}"
        fields.append(("referred to", detail))
    if report.native_chunks or report.copied_bytes:
        detail = f"{counted(report.native_chunks, 'chunk')}, {size(report.copied_bytes)}"
        fields.append(("copied", detail))
    if report.skipped:
        fields.append(("skipped", f"{counted(len(report.skipped), 'file')} that are in already"))
    screen.fields(fields)
    if report.arrays:
        screen.table(
            ("array", "kind", "dimensions", "shape", "chunks"),
            [
                (a.name, str(a.kind), " ".join(a.dims), axes(a.shape), axes(a.chunks))
                for a in report.arrays
            ],
        )
    for line in report.lines():
        screen.line(line)
    if report.how_to_read:
        screen.note(report.how_to_read)
