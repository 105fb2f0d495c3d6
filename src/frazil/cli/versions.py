"""Bringing versions together: `merge`, `cherry-pick`, `revert`, `squash` and `fast-forward`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from frazil.cli.answers import Answer, Exit, Screen, styled
from frazil.cli.text import counted, short
from frazil.cli.verbs import Command, Given, add_verbs

if TYPE_CHECKING:
    from frazil.merging.records import MergeConflict, MergeReport


def answer(report: MergeReport, _: Given) -> Answer:
    """What became of it; conflicts are listed."""
    code = Exit.CONFLICT if report.unresolved else Exit.OK
    return Answer(report.as_json(), lambda screen: _show(screen, report), code)


COMMANDS: Final = (
    Command(
        "merge",
        "versions.merge(into)",
        answer,
        "source message policy ff base",
        """Merge a version into the branch of the URL: nodes, attributes and chunks.

        Where the branch only lags behind it is moved; else a commit is made. Conflicts are listed,
        and end with exit code 4 and nothing changed, unless a policy decides them.
        """,
    ),
    Command("cherry-pick", "versions.cherry_pick(onto)", answer, "snapshot message policy"),
    Command("revert", "versions.revert(on)", answer, "snapshot message policy"),
    Command("squash", "versions.squash(branch)", answer, "after to message", applies=False),
    Command("fast-forward", "versions.fast_forward(branch)", answer, "to"),
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_verbs(app, COMMANDS, "Branches and tags")


# --- showing ---


def _show(screen: Screen, report: MergeReport) -> None:
    screen.line(*_headline(report))
    changes = report.changes
    counts = {
        "new": changes.new_nodes,
        "deleted": changes.deleted_nodes,
        "changed": changes.updated_nodes,
        "moved": changes.moved_nodes,
    }
    lines = [f"{counted(count, 'node')} {word}" for word, count in counts.items() if count]
    lines += [f"{counted(n, 'chunk')} of {path}" for path, n in sorted(changes.chunks.items())[:8]]
    if len(changes.chunks) > 8:
        lines.append(f"chunks of {counted(len(changes.chunks) - 8, 'more array')}")
    for text in lines:
        screen.line(f"  {text}")
    if report.conflicts:
        rows = [_row(conflict) for conflict in report.conflicts]
        screen.table(("conflict", "path", "what", "ours", "theirs", "taken"), rows)
    if report.dry_run:
        screen.note("Nothing was changed; --apply does it.")
    elif report.unresolved:
        screen.note("Nothing was changed; --policy ours or theirs decides conflicts.")


def _headline(report: MergeReport) -> tuple[str, ...]:
    would = "Would " if report.dry_run else ""
    verb = {
        "up-to-date": "Nothing to do",
        "fast-forward": f"{would}{'move' if would else 'Moved'} the branch",
        "committed": f"{would}{'commit' if would else 'Committed'}",
        "conflicts": f"{counted(len(report.unresolved), 'conflict')}",
    }[str(report.status)]
    now = f", now at {short(report.snapshot_id)}" if report.snapshot_id else ""
    return (f"{report.operation}: {verb} (branch {report.branch}{now})",)


def _row(conflict: MergeConflict) -> list[object]:
    what = conflict.name or ""
    if conflict.chunk_count:
        first = " ".join(",".join(map(str, each)) for each in conflict.chunks[:4])
        more = " …" if conflict.chunk_count > 4 else ""
        what = f"{counted(conflict.chunk_count, 'chunk')}: {first}{more}"
    taken = conflict.resolution or "-"
    sides = [
        "" if conflict.chunk_count else _text(each) for each in (conflict.ours, conflict.theirs)
    ]
    return [styled(str(conflict.kind), "yellow"), conflict.path, what, *sides, taken]


def _text(value: object) -> str:
    text = "-" if value is None else value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
