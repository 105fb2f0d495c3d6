"""Making repositories and names for snapshots: `init`, `branch`, `tag` and `reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.answers import Answer, Screen, styled, tell_dry_run
from frazil.cli.arguments import Apply, Url, WholeUrl
from frazil.cli.commands import add_command
from frazil.cli.text import counted, moment, one_line, short

if TYPE_CHECKING:
    from frazil.cli import places

Described = dict[str, Any]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.", show_default=False)]
PANEL = "Branches and tags"


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "init", init, PANEL)
    branch = typer.Typer(no_args_is_help=True, help="List, create and delete branches.")
    for name, work in (
        ("list", list_branches),
        ("create", create_branch),
        ("delete", delete_branch),
    ):
        add_command(branch, name, work)
    app.add_typer(branch, name="branch", rich_help_panel=PANEL)
    tag = typer.Typer(no_args_is_help=True, help="List, create and delete tags.")
    for name, work in (("list", list_tags), ("create", create_tag), ("delete", delete_tag)):
        add_command(tag, name, work)
    app.add_typer(tag, name="tag", rich_help_panel=PANEL)
    add_command(app, "reset", reset, PANEL)


def init(
    url: WholeUrl,
    spec: Annotated[
        str, typer.Option(help="Version of the format: 1 or 2, or g1, g2, g3 from before them.")
    ] = "2",
) -> Answer:
    """Create a repository in an empty place."""
    from frazil.cli.places import storage_at
    from frazil.formats.generation import generation_named
    from frazil.opening import create_repository

    generation = generation_named(f"v{spec}" if spec.isdigit() else spec)
    if generation is None:
        raise typer.BadParameter(f"{spec!r} is no version of the format", param_hint="--spec")
    storage = storage_at(url)
    create_repository(storage, None, generation, check_clean_root=True)
    data = {"url": storage.url, "spec_version": generation.number, "created": True}
    return Answer(data, lambda s: s.line("Created a repository at ", styled(storage.url, "bold")))


# --- listing ---


def list_branches(url: WholeUrl) -> Answer:
    """List branches and where they point."""
    from frazil.cli.places import open_place

    place = open_place(url)
    return _listing(place, place.repository.context.refs.branches(), "branches")


def list_tags(url: WholeUrl) -> Answer:
    """List tags and where they point."""
    from frazil.cli.places import open_place

    place = open_place(url)
    return _listing(place, place.repository.context.refs.tags(), "tags")


def _listing(place: places.Place, refs: Any, kind: str) -> Answer:  # noqa: ANN401  (lazy import)
    from frazil.cli.history import described

    found = {
        name: place.repository.lookup_snapshot(str(target)) for name, target in sorted(refs.items())
    }
    data = {kind: [{"name": name, "snapshot": described(at)} for name, at in found.items()]}

    def show(screen: Screen) -> None:
        if not found:
            screen.note(f"no {kind}")
            return
        rows = [
            [
                styled(name, "bold"),
                styled(short(at.id), "yellow"),
                moment(at.written_at),
                one_line(at.message),
            ]
            for name, at in found.items()
        ]
        screen.table(("name", "snapshot", "written", "message"), rows)

    return Answer(data, show)


# --- creating ---


def create_branch(url: Url, name: Name) -> Answer:
    """Make a branch that points to the snapshot of the URL."""
    from frazil.cli.places import open_place

    place = open_place(url)
    target = place.snapshot_id()
    place.repository.create_branch(name, target)
    return _created("branch", name, target)


def create_tag(url: Url, name: Name) -> Answer:
    """Give the snapshot of the URL a name that never moves."""
    from frazil.cli.places import open_place

    place = open_place(url)
    target = place.snapshot_id()
    place.repository.create_tag(name, target)
    return _created("tag", name, target)


def _created(kind: str, name: str, target: str) -> Answer:
    data = {"type": kind, "name": name, "snapshot_id": target, "created": True}
    return Answer(
        data,
        lambda s: s.line(f"Created {kind} ", styled(name, "bold"), f" at {short(target)}"),
    )


# --- deleting and moving ---


def delete_branch(url: WholeUrl, name: Name, apply: Apply = False) -> Answer:
    """Delete a branch; its snapshots stay until garbage collection."""
    from frazil.cli.places import open_place
    from frazil.commit.base import refuse_main

    place = open_place(url)
    repository, tip = place.repository, place.repository.lookup_branch(name)
    refuse_main(name)
    lost = _only_here(place, {"branch": name}, tip)
    if apply:
        repository.delete_branch(name)
    return _deleted("branch", name, tip, lost, applied=apply)


def delete_tag(url: WholeUrl, name: Name, apply: Apply = False) -> Answer:
    """Delete a tag; its name cannot be used again."""
    from frazil.cli.places import open_place

    place = open_place(url)
    repository, target = place.repository, place.repository.lookup_tag(name)
    lost = _only_here(place, {"tag": name}, target)
    if apply:
        repository.delete_tag(name)
    return _deleted("tag", name, target, lost, applied=apply)


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
    place: places.Place, but: dict[str, str], tip: str, extra: tuple[str, ...] = ()
) -> list[str]:
    """The snapshots below a tip that no other branch or tag leads to, newest first."""
    refs = place.repository.context.refs
    tips = [str(at) for name, at in refs.branches().items() if name != but.get("branch")]
    tips += [str(at) for name, at in refs.tags().items() if name != but.get("tag")]
    reached: set[str] = set()
    for start in (*tips, *extra):
        for info in place.repository.ancestry(snapshot_id=start):
            if info.id in reached:
                break
            reached.add(info.id)
    found: list[str] = []
    for info in place.repository.ancestry(snapshot_id=tip):
        if info.id in reached:
            break
        found.append(info.id)
    return found


def reset(
    url: Annotated[str, typer.Argument(metavar="URL@BRANCH", help="Branch to move.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Version it shall point to.")],
    apply: Apply = False,
) -> Answer:
    """Point a branch to another snapshot."""
    from frazil.cli.places import open_place

    place = open_place(url)
    branch, to = place.branch(), place.named(target)
    before = place.repository.lookup_branch(branch)
    lost = _only_here(place, {"branch": branch}, before, (to,))
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
