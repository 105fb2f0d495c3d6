"""Bringing versions together: `merge`, `cherry-pick`, `revert`, `squash` and `fast-forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from frazil.cli.answers import Answer, Screen, styled, working
from frazil.cli.arguments import Apply, Url
from frazil.cli.commands import add_command
from frazil.cli.exits import Exit
from frazil.cli.text import counted, short
from frazil.errors import MergeConflictError

if TYPE_CHECKING:
    from frazil.cli.places import Place
    from frazil.merging.policies import Policy
    from frazil.merging.records import MergeConflict, MergeReport
    from frazil.repository.branching import Branching

PANEL: Final = "Branches and tags"
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A branch, tag or snapshot to merge.", show_default=False
    ),
]
Snapshot = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOT", help="The commit: an id, its beginning, or a ref.", show_default=False
    ),
]
Target = Annotated[
    str, typer.Argument(metavar="TO", help="A version that descends from it.", show_default=False)
]
Message = Annotated[
    str | None, typer.Option("--message", "-m", help="Message of the commit.", show_default=False)
]
PolicyTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="[PATH=]CHOICE",
        help="What to do about conflicts: fail, ours (the branch that is changed) or theirs; for "
        "a group, an array or a pattern with PATH=. May be repeated, the first that fits counts.",
        show_default="fail",
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for name, work in (
        ("merge", merge),
        ("cherry-pick", cherry_pick),
        ("revert", revert),
        ("squash", squash),
        ("fast-forward", fast_forward),
    ):
        add_command(app, name, work, PANEL)


def merge(
    url: Url,
    source: Source,
    message: Message = None,
    policy: PolicyTexts = None,
    ff: Annotated[
        bool | None,
        typer.Option("--ff-only/--no-ff", help="Only move the branch, or always make a commit."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Compare both with this version, not with what history says.",
            show_default=False,
        ),
    ] = None,
    apply: Apply = True,
) -> Answer:
    """Merge a version into the branch of the URL: nodes, attributes and chunks.

    Where the branch only lags behind it is moved; else a commit is made. Conflicts are listed,
    and end with exit code 4 and nothing changed, unless a policy decides them.
    """
    place = _open(url)
    return _done(
        lambda: _branching(place).merge(
            place.named(source),
            place.branch(),
            message=message if message is not None else f"merge {source} into {place.branch()}",
            policy=_policy(policy),
            ff=True if ff is None else "only" if ff else False,
            base=None if base is None else place.named(base),
            dry_run=not apply,
        )
    )


def cherry_pick(
    url: Url,
    snapshot: Snapshot,
    message: Message = None,
    policy: PolicyTexts = None,
    apply: Apply = True,
) -> Answer:
    """Make the change of one commit on the branch of the URL too."""
    place = _open(url)
    return _done(
        lambda: _branching(place).cherry_pick(
            place.named(snapshot),
            place.branch(),
            message=message,
            policy=_policy(policy),
            dry_run=not apply,
        )
    )


def revert(
    url: Url,
    snapshot: Snapshot,
    message: Message = None,
    policy: PolicyTexts = None,
    apply: Apply = True,
) -> Answer:
    """Take the change of one commit back on the branch of the URL, in a new commit."""
    place = _open(url)
    return _done(
        lambda: _branching(place).revert(
            place.named(snapshot),
            place.branch(),
            message=message,
            policy=_policy(policy),
            dry_run=not apply,
        )
    )


def squash(
    url: Url,
    after: Annotated[
        str,
        typer.Argument(
            metavar="AFTER", help="The snapshot before the first of them.", show_default=False
        ),
    ],
    to: Annotated[
        str | None,
        typer.Argument(metavar="[TO]", help="The last of them.", show_default="the tip"),
    ] = None,
    message: Message = None,
    apply: Apply = False,
) -> Answer:
    """Make one commit of those that follow AFTER on the branch of the URL.

    The branch then has another history; other branches and tags stay where they are.
    """
    place = _open(url)
    return _done(
        lambda: _branching(place).squash(
            place.branch(),
            place.named(after),
            None if to is None else place.named(to),
            message=message,
            dry_run=not apply,
        )
    )


def fast_forward(url: Url, to: Target, apply: Apply = True) -> Answer:
    """Move the branch of the URL to a version that descends from it."""
    place = _open(url)
    return _done(
        lambda: _branching(place).fast_forward(place.branch(), place.named(to), dry_run=not apply)
    )


# --- doing it ---


def _policy(texts: list[str] | None) -> Policy:
    from frazil.merging.policies import parse_policy

    return parse_policy(texts or ())


def _open(url: str) -> Place:
    from frazil.cli.places import open_place

    return open_place(url)


def _branching(place: Place) -> Branching:
    from frazil.repository.branching import Branching

    return Branching(place.repository.context, place.repository.storage)


def _done(work: Callable[[], MergeReport]) -> Answer:
    """Do it and tell; conflicts are an answer too."""
    with working("Comparing versions"):
        try:
            report = work()
        except MergeConflictError as error:
            report = error.report
    code = Exit.CONFLICT if report.unresolved else Exit.OK
    return Answer(report.as_json(), lambda screen: _show(screen, report), code)


def _show(screen: Screen, report: MergeReport) -> None:
    screen.line(*_headline(report))
    changes = report.changes
    counts = {
        "new": changes.new_nodes,
        "deleted": changes.deleted_nodes,
        "changed": changes.updated_nodes,
        "moved": changes.moved_nodes,
    }
    told = [f"{counted(count, 'node')} {word}" for word, count in counts.items() if count]
    told += [f"{counted(n, 'chunk')} of {path}" for path, n in sorted(changes.chunks.items())[:8]]
    if len(changes.chunks) > 8:
        told.append(f"chunks of {counted(len(changes.chunks) - 8, 'more array')}")
    for text in told:
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
