"""Writing a repository anew without changing its data: manifests and packs of chunks."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from frazil.cli.answers import Answer, Screen, styled, tell_dry_run, working
from frazil.cli.arguments import Apply, Message, NodePath
from frazil.cli.commands import Work, add_command
from frazil.cli.text import counted, short, size

Described = dict[str, Any]
BranchUrl = Annotated[
    str, typer.Argument(metavar="URL@BRANCH", help="Branch to rewrite.", show_default=False)
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    works: dict[str, Work] = {
        "rewrite-manifests": rewrite_manifests,
        "compact": compact,
    }
    for name, work in works.items():
        add_command(app, name, work, "Maintain")


def rewrite_manifests(
    url: BranchUrl,
    message: Message = "Rewrite manifests",
    apply: Apply = True,
) -> Answer:
    """Build the manifests of a branch anew by the present configuration, in a commit."""
    from frazil.cli.places import open_place
    from frazil.repository import Repository

    place = open_place(url)
    repository, branch = place.repository, place.branch()
    before = repository.lookup_branch(branch)
    old = repository.list_manifest_files(before)
    made: str | None = None
    if apply:
        whole = Repository(repository.context, repository.storage)
        with working("Rewriting manifests"):
            made = whole.rewrite_manifests(message, branch=branch)
    new = old if made is None else repository.list_manifest_files(made)
    data: Described = {
        "branch": branch,
        "from_snapshot_id": before,
        "snapshot_id": made,
        "manifests_before": len(old),
        "manifests_after": None if made is None else len(new),
        "bytes_before": sum(file.size_bytes for file in old),
        "bytes_after": None if made is None else sum(file.size_bytes for file in new),
        "applied": apply,
    }

    def show(screen: Screen) -> None:
        was = f"{counted(len(old), 'manifest')}, {size(data['bytes_before'])}"
        if made is None:
            screen.line("Would rewrite branch ", styled(branch, "bold"), f": {was}")
            tell_dry_run(screen, applied=False)
            return
        now = f"{counted(len(new), 'manifest')}, {size(data['bytes_after'])}"
        screen.line("Rewrote branch ", styled(branch, "bold"), f" in snapshot {short(made)}")
        screen.fields([("before", was), ("now", now)])

    return Answer(data, show)


def compact(
    url: BranchUrl,
    path: NodePath = "/",
    min_dead_share: Annotated[
        float,
        typer.Option(help="Write packs anew of which at least this share is unused."),
    ] = 0.3,
    message: Message = "Compact chunks",
    apply: Apply = True,
) -> Answer:
    """Put small chunks together into larger objects, in a commit; nothing is decoded.

    Old snapshots keep the old objects: expire and gc free their space.
    """
    from frazil.cli.places import open_place
    from frazil.repository import Repository

    place = open_place(url)
    branch = place.branch()
    repository = Repository(place.repository.context, place.repository.storage)
    with working("Compacting chunks"):
        done = repository.compact_chunks(
            branch,
            path,
            min_dead_share=min_dead_share,
            message=message,
            dry_run=not apply,
        )
    data: Described = {"branch": branch, **dataclasses.asdict(done), "applied": apply}

    def show(screen: Screen) -> None:
        if not done.chunks:
            screen.line("Nothing to do: there are no small or half-empty objects.")
            return
        verb = "Compacted" if apply else "Would compact"
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
        tell_dry_run(screen, applied=apply)

    return Answer(data, show)
