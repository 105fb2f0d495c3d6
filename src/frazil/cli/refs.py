"""Making repositories and names for snapshots: `init`, `branch`, `tag` and `reset`."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated

import typer

from frazil.cli.answers import Answer, Screen, styled, tell_dry_run
from frazil.cli.arguments import Apply, Url, WholeUrl
from frazil.cli.commands import Work, add_command, make_group
from frazil.cli.history import KINDS, Kind, snapshot_data, targets
from frazil.cli.places import OpenedUrl, open_place, storage_at
from frazil.cli.text import counted, one_line, second_text, short
from frazil.commit.base import refuse_main

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.", show_default=False)]
PANEL = "Branches and tags"


def init(
    url: WholeUrl,
    spec: Annotated[
        str, typer.Option(help="Version of the format: 1 or 2, or g1, g2, g3 from before them.")
    ] = "2",
) -> Answer:
    """Create a repository in an empty place."""
    from frazil.formats.generation import generation_named
    from frazil.opening import create_repository

    generation = generation_named(f"v{spec}" if spec.isdigit() else spec)
    if generation is None:
        raise typer.BadParameter(f"{spec!r} is no version of the format", param_hint="--spec")
    storage = storage_at(url)
    create_repository(storage, None, generation, check_clean_root=True)
    data = {"url": storage.url, "spec_version": generation.number, "created": True}
    return Answer(data, lambda s: s.line("Created a repository at ", styled(storage.url, "bold")))


# --- branches and tags ---


def _group(kind: Kind, plural: str, creating: str, deleting: str) -> typer.Typer:
    """The commands of branches, or of tags."""
    group = make_group(f"List, create and delete {plural}.")

    def list_(url: WholeUrl) -> Answer:
        return _listing(open_place(url), kind, plural)

    def create(url: Url, name: Name) -> Answer:
        place = open_place(url)
        target, repository = place.snapshot_id(), place.repository
        make = repository.create_branch if kind == "branch" else repository.create_tag
        make(name, target)
        data = {"type": kind, "name": name, "snapshot_id": target, "created": True}
        line = (f"Created {kind} ", styled(name, "bold"), f" at {short(target)}")
        return Answer(data, lambda screen: screen.line(*line))

    def delete(url: WholeUrl, name: Name, apply: Apply = False) -> Answer:
        place = open_place(url)
        repository, is_branch = place.repository, kind == "branch"
        target = (repository.lookup_branch if is_branch else repository.lookup_tag)(name)
        if is_branch:
            refuse_main(name)
        lost = _only_here(place, (kind, name), target)
        if apply:
            (repository.delete_branch if is_branch else repository.delete_tag)(name)
        return _deleted(kind, name, target, lost, applied=apply)

    list_.__doc__, create.__doc__ = f"List {plural} and where they point.", creating
    delete.__doc__ = deleting
    works: dict[str, Work] = {"list": list_, "create": create, "delete": delete}
    for name, work in works.items():
        add_command(group, name, work)
    return group


def _listing(place: OpenedUrl, kind: Kind, plural: str) -> Answer:
    lookup = place.repository.lookup_snapshot
    found = {name: lookup(target) for name, target in targets(place.repository, kind).items()}
    data = {plural: [{"name": name, "snapshot": snapshot_data(at)} for name, at in found.items()]}

    def show(screen: Screen) -> None:
        if not found:
            screen.note(f"no {plural}")
            return
        rows = [
            [
                styled(name, "bold"),
                styled(short(at.id), "yellow"),
                second_text(at.written_at),
                one_line(at.message),
            ]
            for name, at in found.items()
        ]
        screen.table(("name", "snapshot", "written", "message"), rows)

    return Answer(data, show)


def _deleted(kind: str, name: str, target: str, lost: list[str], *, applied: bool) -> Answer:
    data = {
        "type": kind,
        "name": name,
        "snapshot_id": target,
        "unreachable_snapshots": lost,
        "applied": applied,
    }
    verb = "Deleted" if applied else "Would delete"

    def show(screen: Screen) -> None:
        screen.line(f"{verb} {kind} ", styled(name, "bold"), f", which is at {short(target)}")
        tell_lost(screen, lost, applied=applied)

    return Answer(data, show)


def tell_lost(screen: Screen, lost: list[str], *, applied: bool) -> None:
    """Say which snapshots no ref reaches any more, and how to go on."""
    if lost:
        shown = " ".join(map(short, lost[:5])) + (" …" if len(lost) > 5 else "")
        verb = "has" if len(lost) == 1 else "have"
        screen.note(f"{counted(len(lost), 'snapshot')} {verb} no other ref: {shown}")
    tell_dry_run(screen, applied=applied)


def _only_here(
    place: OpenedUrl, but: tuple[str, str], tip: str, extra: tuple[str, ...] = ()
) -> list[str]:
    """The snapshots below a tip that no other branch or tag leads to, newest first."""
    tips = [
        at
        for kind in KINDS
        for name, at in targets(place.repository, kind).items()
        if (kind, name) != but
    ]
    reached: set[str] = set()
    for start in (*tips, *extra):
        for info in place.repository.ancestry(snapshot_id=start):
            if info.id in reached:
                break
            reached.add(info.id)
    below = (info.id for info in place.repository.ancestry(snapshot_id=tip))
    return [*takewhile(lambda each: each not in reached, below)]


# --- moving ---


def reset(
    url: Annotated[str, typer.Argument(metavar="URL@BRANCH", help="Branch to move.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Version it shall point to.")],
    apply: Apply = False,
) -> Answer:
    """Point a branch to another snapshot."""

    place = open_place(url)
    branch, to = place.branch(), place.named(target)
    before = place.repository.lookup_branch(branch)
    lost = _only_here(place, ("branch", branch), before, (to,))
    if apply:
        place.repository.reset_branch(branch, to, from_snapshot_id=before)
    data = {
        "branch": branch,
        "from_snapshot_id": before,
        "to_snapshot_id": to,
        "unreachable_snapshots": lost,
        "applied": apply,
    }

    def show(screen: Screen) -> None:
        verb = "Moved" if apply else "Would move"
        screen.line(
            f"{verb} branch ", styled(branch, "bold"), f" from {short(before)} to {short(to)}"
        )
        tell_lost(screen, lost, applied=apply)

    return Answer(data, show)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "init", init, PANEL)
    branch = _group(
        "branch",
        "branches",
        "Make a branch that points to the snapshot of the URL.",
        "Delete a branch; its snapshots stay until garbage collection.",
    )
    app.add_typer(branch, name="branch", rich_help_panel=PANEL)
    tag = _group(
        "tag",
        "tags",
        "Give the snapshot of the URL a name that never moves.",
        "Delete a tag; its name cannot be used again.",
    )
    app.add_typer(tag, name="tag", rich_help_panel=PANEL)
    add_command(app, "reset", reset, PANEL)
