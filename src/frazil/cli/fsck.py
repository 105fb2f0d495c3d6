"""Checking a repository against the rules of the format, and repairing it: `fsck` and `repair`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from frazil.cli.answers import Answer, Exit, Screen, styled, tell_dry_run
from frazil.cli.arguments import Apply, Authorize, WholeUrl
from frazil.cli.commands import Work, add_command
from frazil.cli.places import open_place, storage_at
from frazil.cli.running import Engine, Master, running
from frazil.cli.text import counted, size
from frazil.errors import FormatError, InvalidInputError, RepositoryNotFoundError

if TYPE_CHECKING:
    from frazil.fsck.files import FsckTarget as FsckPlace
    from frazil.fsck.findings import Finding, Report
    from frazil.fsck.plans import RepairPlan

PANEL: Final = "Maintain"
SHOWN: Final = 5
"""Kinds of bytes without a checksum that are shown."""
COLOURS: Final = {"error": "bold red", "warning": "yellow", "note": "dim"}
Checked = Annotated[
    str,
    typer.Argument(
        metavar="URL@REF",
        help="Repository, and with @ a branch, tag or snapshot id whose history is checked; "
        "without it, everything.",
        show_default=False,
    ),
]


class MissingChunk(StrEnum):
    """What becomes of references to chunks that are gone."""

    DROP = "drop"
    OLDER = "older"


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    works: dict[str, Work] = {"fsck": fsck, "repair": repair}
    for name, work in works.items():
        add_command(app, name, work, PANEL)


# --- fsck ---


def fsck(
    url: Checked,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every chunk.")] = False,
    virtual: Annotated[
        bool,
        typer.Option("--virtual", help="Also ask whether the sources of virtual chunks changed."),
    ] = False,
    tips: Annotated[
        bool, typer.Option("--tips", help="Only what refs point to, not what came before.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Warnings count as problems too.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Findings that are reported in full.")
    ] = 1000,
    authorize: Authorize = None,
    engine: Engine = "auto",
    master: Master = None,
) -> Answer:
    """Check every rule of the format: refs, snapshots, logs, manifests, chunk objects.

    A repository that is too damaged to be opened can be checked too. Ends with 6 if there are
    errors; warnings do not count, unless --strict.
    """
    from frazil.fsck import fsck as check
    from frazil.spark.engine import runner_for

    runner = runner_for(engine, master)
    place, refs = _place(url, authorize)
    with running("Checking") as tell:
        report = check(
            place,
            refs=refs,
            ancestors=not tips,
            deep=deep,
            virtual=virtual,
            max_findings=limit,
            runner=runner,
            progress=tell,
        )
    is_good = report.is_clean if strict else report.is_sound
    code = Exit.OK if is_good else Exit.FINDINGS
    return Answer(report.as_dict(), lambda screen: show_report(screen, report, deep=deep), code)


def _place(url: str, authorize: list[str] | None) -> tuple[FsckPlace, list[str] | None]:
    """What to check: an open repository if possible, else where it should be."""
    from frazil import urls
    from frazil.storage.by_url import storage_from_url

    parsed = urls.parse_url(url)
    try:
        place = open_place(url, authorize)
    except (FormatError, RepositoryNotFoundError):
        if parsed.ref is not None or authorize:
            raise  # neither refs nor containers are known
        return storage_from_url(parsed.url), None
    if parsed.ref is None:
        return place.repository, None
    return place.repository, [place.snapshot_id()]


def show_report(
    screen: Screen, report: Report, clean: str = "Every rule is kept.", *, deep: bool = False
) -> None:
    """Print what was checked and what was found; `clean` is said where nothing is wrong."""
    screen.fields(_counts(report, deep=deep))
    if report.findings:
        screen.table(("level", "code", "object", "what"), map(_row, report.findings))
    if report.more_findings:
        screen.note(f"and {report.more_findings:,} more")
    counts = [counted(count, str(level)) for level, count in report.counts.items() if count]
    if report.is_clean:
        screen.line(styled(clean, "green"))
    else:
        screen.line(styled(", ".join(counts), "yellow" if report.is_sound else "bold red"))


def _counts(report: Report, *, deep: bool) -> list[tuple[str, str]]:
    rows = [
        ("snapshots", f"{report.snapshots:,}"),
        *([("logs", f"{report.logs:,}")] if report.logs else []),
        ("manifests", f"{report.manifests:,}"),
        (
            "native",
            f"{counted(report.native_references, 'reference')} to "
            f"{counted(report.native_objects, 'object')}",
        ),
    ]
    if report.virtual_references:
        asked = counted(report.virtual_sources, "source")
        detail = f"{asked} asked" if report.virtual_sources else "not asked: --virtual does"
        rows.append(("virtual", f"{counted(report.virtual_references, 'reference')}, {detail}"))
    if deep:
        rows.append(("decoded", counted(report.decoded_chunks, "chunk")))
        without = [f"{size(count)} of {what}" for what, count in report.unchecked.items()]
        if without:
            more = f" and {len(without) - SHOWN} more" if len(without) > SHOWN else ""
            rows.append(("no checksum", ", ".join(without[:SHOWN]) + more))
    if report.unreferenced:
        count = sum(report.unreferenced.values())
        rows.append(
            ("unreferenced", f"{counted(count, 'object')}, {size(report.unreferenced_bytes)}")
        )
    return rows


def _row(finding: Finding) -> list[Any]:
    where = finding.target
    if finding.path:
        where += f" {finding.path}"
    what = finding.detail or finding.code.meaning
    if finding.chunks:
        first = " ".join(",".join(map(str, index)) for index in finding.chunks)
        what += f": {first}" + (" …" if finding.references > len(finding.chunks) else "")
    level = str(finding.level)
    return [styled(level, COLOURS[level]), str(finding.code), where, what]


# --- repair ---


def repair(
    url: WholeUrl,
    missing_chunks: Annotated[
        MissingChunk,
        typer.Option(
            help="What becomes of references to chunks that are gone: the fill value (drop), or "
            "the chunk of an older snapshot."
        ),
    ] = MissingChunk.DROP,
    tip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BRANCH=SNAPSHOT",
            help="Where a lost branch is known to have been; may be repeated.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan to a file.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Do nothing unless the plan is the one in this file."),
    ] = None,
    apply: Apply = False,
) -> Answer:
    """Bring back a damaged repository as far as backups and history allow.

    A damaged repo object or branch is made again, branches go back to what can be read, lost
    manifests are rebuilt from older ones, references to lost chunks are dropped. Damaged files
    are kept aside, and all changes of data are new commits.
    """
    from frazil.fsck import repair as mend
    from frazil.fsck.plans import RepairPlan

    expected = None if plan is None else RepairPlan.load(_existing(plan))
    with running("Planning") as tell:
        done = mend(
            storage_at(url),
            apply=apply,
            missing_chunks=missing_chunks.value,
            tips=dict(map(_tip, tip or ())),
            expected=expected,
            progress=tell,
        )
    if save is not None:
        done.save(save)
    return Answer(done.as_dict(), lambda screen: _show_plan(screen, done))


def _tip(text: str) -> tuple[str, str]:
    branch, is_given, snapshot = text.rpartition("=")
    if not is_given or not branch:
        raise InvalidInputError(f"--tip {text!r}: write BRANCH=SNAPSHOT")
    return branch, snapshot


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path.name!r}")
    return path


def _show_plan(screen: Screen, plan: RepairPlan) -> None:
    if plan.is_empty:
        screen.line(styled("Nothing to repair.", "green"))
    for number, step in enumerate(plan.steps, 1):
        screen.line(styled(f"{number}. {step.action} {step.target}", "bold"), f"  {step.detail}")
    for loss in plan.losses:
        screen.line(styled("lost  ", "yellow"), loss)
    if plan.snapshots:
        screen.line(f"Committed {', '.join(plan.snapshots)}")
    if not plan.is_empty:
        tell_dry_run(screen, applied=plan.applied)
