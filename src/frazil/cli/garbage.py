"""Freeing space: `gc`, the `trash` that it may fill, and `purge`, which erases for good."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from frazil.cli.answers import Answer, Exit, Screen, styled, tell_dry_run
from frazil.cli.commands import make_group
from frazil.cli.text import counted, exact, second_text, size
from frazil.cli.verbs import Command, Given, add_verbs
from frazil.errors import InvalidInputError, SessionStateError

if TYPE_CHECKING:
    from frazil.maintenance.trash import TrashBatch
    from frazil.model.values import GCSummary
    from frazil.purging.records import PurgeReport
    from frazil.repository.reports import CollectionReport

Described = dict[str, Any]
PANEL: Final = "Maintain"
KINDS: Final = ("snapshots", "transaction_logs", "manifests", "chunks")


# --- gc ---


def _careful(given: Given) -> None:
    """Refuse impossible arguments, and to delete what an open session may still commit."""
    from frazil.commit.base import MINIMUM_AGE

    plan = given["plan"]
    if plan is not None and (given["incremental"] or given["save_plan"] is not None):
        raise InvalidInputError("--plan is a plan already: leave out --incremental and --save-plan")
    cutoff = given["older_than"] if plan is None else plan.older_than
    is_young = datetime.now(UTC) - cutoff < MINIMUM_AGE
    if given["applied"] and given["unsafe_minimum_age"] is None and is_young:
        raise SessionStateError(
            "files younger than a day may belong to an open session; choose another "
            "--older-than, or --unsafe-minimum-age 0h if you know that no session is open",
        )


def _collected(report: CollectionReport, given: Given) -> Answer:
    summary, applied = report.summary, given["applied"]
    data = {
        "older_than": exact(report.older_than),
        "how": report.how,
        **gc_data(summary),
        "trash": report.trash,
        "applied": applied,
    }
    code = Exit.FAILURE if summary.objects_failed_to_delete else Exit.OK
    return Answer(data, lambda screen: _show_gc(screen, report, applied=applied), code)


def gc_data(summary: GCSummary) -> Described:
    """What a collection did, as JSON shows it everywhere."""
    return {
        "bytes": summary.bytes_deleted,
        **{kind: getattr(summary, f"{kind}_deleted") for kind in KINDS},
        "failed": summary.objects_failed_to_delete,
        "errors": summary.delete_errors,
        "skipped": summary.skipped_phases,
    }


def _show_gc(screen: Screen, report: CollectionReport, *, applied: bool) -> None:
    summary, cutoff, batch = report.summary, report.older_than, report.trash
    verb = "Would delete" if not applied else "Deleted" if batch is None else "Put aside"
    screen.line(f"{verb} {size(summary.bytes_deleted)} written before {second_text(cutoff)}")
    data = gc_data(summary)
    screen.fields((kind.replace("_", " "), f"{data[kind]:,}") for kind in KINDS)
    if batch is not None:
        screen.note(f"trash restore brings it back, trash empty deletes it: {batch}")
    if summary.objects_failed_to_delete:
        screen.line(
            styled(f"{counted(summary.objects_failed_to_delete, 'object')} would not go", "red")
        )
        for message in summary.delete_errors:
            screen.note(message)
    tell_dry_run(screen, applied=applied)


# --- trash ---


def _listed(found: list[TrashBatch], _: Given) -> Answer:
    data = {
        "batches": [
            {
                "batch": each.name,
                "moved_at": exact(each.moved_at),
                "objects": each.objects,
                "bytes": each.size_bytes,
            }
            for each in found
        ]
    }

    def show(screen: Screen) -> None:
        rows = [
            [each.name, second_text(each.moved_at), f"{each.objects:,}", size(each.size_bytes)]
            for each in found
        ]
        screen.table(("batch", "put aside", "objects#", "size#"), rows)

    return Answer(data, show)


def _moved(done: TrashBatch, given: Given) -> Answer:
    """What was restored or, where a time was given, deleted."""
    applied, cutoff = given["applied"], given.get("older_than")
    data: Described = {
        "batch": given["batch"],
        **({} if cutoff is None else {"older_than": exact(cutoff)}),
        "objects": done.objects,
        "bytes": done.size_bytes,
        "applied": applied,
    }
    what = f"{counted(done.objects, 'object')}, {size(done.size_bytes)}"

    def show(screen: Screen) -> None:
        if cutoff is None:
            screen.line(f"{'Restored' if applied else 'Would restore'} {what}")
            return
        verb = "Deleted" if applied else "Would delete"
        screen.line(f"{verb} {what} put aside before {second_text(cutoff)}")
        tell_dry_run(screen, applied=applied)

    return Answer(data, show)


# --- purge ---


def _purged(report: PurgeReport, given: Given) -> Answer:
    code = Exit.OK if not given["applied"] or report.is_proved else Exit.FINDINGS
    return Answer(purge_data(report), lambda screen: _show_purge(screen, report), code)


def purge_data(report: PurgeReport) -> Described:
    """What an erasure did, as JSON shows it."""
    return {
        **{
            each.name: getattr(report, each.name)
            for each in dataclasses.fields(report)
            if each.name not in ("region", "verification", "snapshots")
        },
        "region": None if report.region is None else [list(part) for part in report.region],
        "snapshots": dict(report.snapshots),
        "verification": None
        if report.verification is None
        else dataclasses.asdict(report.verification),
        "proved": report.is_proved,
    }


def _show_purge(screen: Screen, report: PurgeReport) -> None:
    done = report.applied
    screen.line(
        "Purged " if done else "Would purge ",
        styled(report.path, "bold"),
        f" from {counted(len(report.snapshots), 'snapshot')}",
    )
    rows = [
        ("was called", ", ".join(report.paths)),
        ("erased", size(report.bytes_erased)),
        ("references", f"{report.chunks_dropped:,} dropped, {report.chunks_blanked:,} blanked"),
        (
            "objects",
            f"{report.objects_deleted:,} deleted, {report.objects_overwritten:,} overwritten",
        ),
        ("manifests", f"{report.manifests_deleted:,} deleted"),
    ]
    if report.virtual_sources:
        sources = counted(len(report.virtual_sources), "source")
        rows.append(("virtual", f"{sources} outside the repository, left as they are"))
    if report.still_referenced:
        rows.append(("shared", f"also the bytes of {', '.join(report.still_referenced)}: kept"))
    if report.backups and not report.backups_deleted:
        rows.append(("backups", f"{report.backups:,} of the repo object name old snapshots"))
    screen.fields(rows)
    checked = report.verification
    if checked is not None:
        if checked.is_clean:
            detail = f"Nothing is left in {counted(checked.snapshots, 'snapshot')}."
            screen.line(styled(detail, "green"))
        for each in checked.leftovers:
            screen.line(styled(each, "red"))
        if checked.unnamed_objects:
            loose = counted(checked.unnamed_objects, "object")
            screen.note(f"{loose} without any reference may hold anything: gc deletes them")
    if not done:
        screen.note(f"Nothing was changed; --apply --confirm {report.path} does it.")


# --- the commands ---

GC: Final = Command(
    "gc",
    "space.collect_garbage",
    _collected,
    "older_than unsafe_minimum_age incremental quarantine save_plan plan",
    defaults={"older_than": "7d"},
    check=_careful,
    engine=True,
)
TRASH: Final = (
    Command("list", "space.list_trash", _listed),
    Command("restore", "space.restore_trash", _moved, "batch"),
    Command(
        "empty",
        "space.empty_trash",
        _moved,
        "batch older_than unsafe_minimum_age",
        "Delete for good what was put aside long enough ago.",
        defaults={"older_than": "7d"},
    ),
)
PURGE: Final = Command(
    "purge",
    "space.purge",
    _purged,
    "path region confirm delete_backups unsafe_minimum_age",
    """Erase an array, a group or a region from all of history; it cannot be undone.

    Snapshots that hold it are written anew under other ids, which branches and tags then name.
    Its bytes are deleted, or overwritten where others share a file. Everything is looked through
    again in the end; exit code 6 means that something is left.
    """,
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_verbs(app, [GC], PANEL)
    trash = make_group("What gc --quarantine put aside.")
    add_verbs(trash, TRASH)
    app.add_typer(trash, name="trash", rich_help_panel=PANEL)
    add_verbs(app, [PURGE], PANEL)
