"""Writing a repository anew without changing its data: manifests and packs of chunks."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import typer

from frazil.cli.answers import Answer, Screen, styled, tell_dry_run
from frazil.cli.text import counted, short, size
from frazil.cli.verbs import Command, Given, add_verbs

if TYPE_CHECKING:
    from frazil.maintenance.compaction import Compaction
    from frazil.repository.reports import ManifestsReport

Described = dict[str, Any]


def _rewritten(report: ManifestsReport, given: Given) -> Answer:
    made, old, new = report.snapshot_id, report.before, report.after
    data: Described = {
        "branch": report.branch,
        "from_snapshot_id": report.previous_snapshot_id,
        "snapshot_id": made,
        "manifests_before": len(old),
        "manifests_after": None if made is None else len(new),
        "bytes_before": sum(file.size_bytes for file in old),
        "bytes_after": None if made is None else sum(file.size_bytes for file in new),
        "applied": given["applied"],
    }

    def show(screen: Screen) -> None:
        was = f"{counted(len(old), 'manifest')}, {size(data['bytes_before'])}"
        if made is None:
            screen.line("Would rewrite branch ", styled(report.branch, "bold"), f": {was}")
            tell_dry_run(screen, applied=False)
            return
        now = f"{counted(len(new), 'manifest')}, {size(data['bytes_after'])}"
        screen.line("Rewrote branch ", styled(report.branch, "bold"), f" in snapshot {short(made)}")
        screen.fields([("before", was), ("now", now)])

    return Answer(data, show)


def _compacted(done: Compaction, given: Given) -> Answer:
    branch, applied = given["branch"], given["applied"]
    data: Described = {"branch": branch, **dataclasses.asdict(done), "applied": applied}

    def show(screen: Screen) -> None:
        if not done.chunks:
            screen.line("Nothing to do: there are no small or half-empty objects.")
            return
        verb = "Compacted" if applied else "Would compact"
        where = f" in snapshot {short(done.snapshot_id)}" if done.snapshot_id else ""
        screen.line(f"{verb} branch ", styled(branch, "bold"), where)
        screen.fields(
            [
                ("arrays", f"{done.arrays:,}"),
                ("chunks", f"{done.chunks:,}, {size(done.bytes_rewritten)}"),
                ("objects", f"{done.objects_before:,} before, {done.objects_after:,} after"),
                ("unused", size(done.dead_bytes)),
            ]
        )
        tell_dry_run(screen, applied=applied)

    return Answer(data, show)


COMMANDS: Final = (
    Command(
        "rewrite-manifests",
        "space.rewrite_manifests(branch)",
        _rewritten,
        "message",
        defaults={"message": "Rewrite manifests"},
    ),
    Command(
        "compact",
        "space.compact(branch)",
        _compacted,
        "path min_dead_share message",
        """Put small chunks together into larger objects, in a commit; nothing is decoded.

        Old snapshots keep the old objects: expire and gc free their space.
        """,
        defaults={"message": "Compact chunks"},
        engine=True,
    ),
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_verbs(app, COMMANDS, "Maintain")
