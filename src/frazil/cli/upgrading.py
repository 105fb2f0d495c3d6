"""From one generation of the format to a newer one, and back while the old files are there."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from frazil.cli.answers import Answer, Screen, tell_dry_run
from frazil.cli.arguments import Apply, UnsafeAge, WholeUrl, parse_unsafe_age
from frazil.cli.commands import add_command
from frazil.cli.places import open_whole
from frazil.cli.running import Engine, Master, running
from frazil.cli.text import counted, size
from frazil.errors import ErrorKind, InvalidInputError
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from datetime import timedelta

    from frazil.transaction.context import Context
    from frazil.upgrading.source import TidyReport, UpgradeReport


StoreRoot: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the files of a G1 repository are, if its state file names a place outside"
        " of its own folder; it must be the same place, and is read without credentials.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "upgrade", upgrade, "Maintain")


def upgrade(
    url: WholeUrl,
    to: Annotated[int, typer.Option(metavar="SPEC", help="Spec version to upgrade to: 1, 2.")] = 2,
    chunks: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Chunk objects of G1 and G2: link, copy, or virtual to leave them alone.",
        ),
    ] = "link",
    undo: Annotated[
        bool, typer.Option("--undo", help="Go back to the generation before version 1.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Delete what is left of that generation.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Undo, though there were changes since.")
    ] = False,
    store_root: StoreRoot = None,
    unsafe_minimum_age: UnsafeAge = None,
    engine: Engine = "auto",
    master: Master = None,
    apply: Apply = False,
) -> Answer:
    """Make a repository one of a newer version; history, branches and tags are kept.

    From version 1 to 2 no chunk is copied, commits of others meanwhile are taken over or refused,
    and the files that only version 1 uses are deleted. Repositories from before version 1 keep
    their files until they are cleaned up, and old writers are locked out.
    """
    from frazil.spark.engine import runner_for
    from frazil.upgrade import upgrade_older

    runner = runner_for(engine, master)
    if undo and clean:
        raise InvalidInputError("choose one of --undo and --clean", kind=ErrorKind.NOT_ALLOWED)
    if undo or clean:
        age = parse_unsafe_age(unsafe_minimum_age)
        if undo:
            return _undo(url, store_root, age, force=force, dry_run=not apply)
        return _clean(url, store_root, age, dry_run=not apply)
    repository = open_whole(url, store_root)
    context = context_of(repository)
    if not context.generation.is_legacy:
        return _from_v1(context, to, apply=apply)
    with running("Upgrading" if apply else "Reading the history") as tell:
        return _upgraded(
            upgrade_older(
                repository, to=to, mode=chunks, dry_run=not apply, runner=runner, progress=tell
            )
        )


def _undo(
    url: str, store_root: str | None, age: timedelta | None, *, force: bool, dry_run: bool
) -> Answer:
    from frazil.upgrading.undoing import undo

    storage = open_whole(url).storage
    with running("Tidying up"):
        found = undo(
            storage, dry_run=dry_run, force=force, unsafe_minimum_age=age, store_root=store_root
        )
    return _tidied(found, undo=True)


def _clean(url: str, store_root: str | None, age: timedelta | None, *, dry_run: bool) -> Answer:
    from frazil.upgrading.cleaning import delete_old_files

    storage = open_whole(url).storage
    with running("Tidying up"):
        found = delete_old_files(
            storage, dry_run=dry_run, unsafe_minimum_age=age, store_root=store_root
        )
    return _tidied(found, undo=False)


def _from_v1(context: Context, to: int, *, apply: bool) -> Answer:
    from frazil.maintenance.upgrade import upgrade_v1_to_v2
    from frazil.upgrading.source import cannot, target_generation

    generation = context.generation
    if not target_generation(to).repo_object:
        raise cannot(f"this repository has {generation.title} already")
    with running("Reading the history"):
        upgrade_v1_to_v2(context, dry_run=not apply)
    data = {"url": context.place.url, "from_spec": generation.spec, "to_spec": 2, "applied": apply}

    def show(screen: Screen) -> None:
        if generation.repo_object:
            screen.line("Only files of an interrupted upgrade are left to delete.")
        else:
            verb = "Upgraded" if apply else "Can be upgraded"
            screen.line(f"{verb} from version 1 to version 2.")
        tell_dry_run(screen, applied=apply)

    return Answer(data, show)


def _upgraded(done: UpgradeReport) -> Answer:
    facts = dataclasses.asdict(done)
    data = {"url": facts.pop("url"), "from_spec": facts.pop("from_generation"), **facts}

    def show(screen: Screen) -> None:
        verb = "Upgraded" if done.applied else "Can be upgraded"
        name = done.from_generation.upper()
        screen.line(f"{verb} from {name} ({done.dialect}) to version {done.to_spec}.")
        branches = f"{done.branches} branch{'' if done.branches == 1 else 'es'}"
        refs = f"{branches}, {counted(done.tags, 'tag')}"
        gone = f", {done.deleted_tags} deleted" if done.deleted_tags else ""
        rows = [
            ("refs", refs + gone),
            ("snapshots", f"{done.snapshots:,}, {done.renamed_snapshots:,} with other ids"),
            ("manifests", f"{done.manifests:,} with {counted(done.references, 'reference')}"),
            ("logs", f"{done.logs_made:,} made by comparing snapshots"),
            ("chunks", f"{done.chunks:,} to {done.mode}, {size(done.chunk_bytes)}"),
        ]
        if done.from_generation == "g3":
            rows[-1] = ("chunks", "stay where they are")
        elif done.mode == "virtual":
            rows[-1] = ("chunks", "stay where they are, read as virtual chunks")
        if done.dropped_references:
            rows.append(("dropped", f"{counted(done.dropped_references, 'reference')} of others"))
        if done.missing_chunks:
            rows.append(("missing", counted(done.missing_chunks, "chunk object")))
        screen.fields(rows)
        tell_dry_run(screen, applied=done.applied)

    return Answer(data, show)


def _tidied(done: TidyReport, *, undo: bool) -> Answer:
    action = "undo" if undo else "clean"

    def show(screen: Screen) -> None:
        name = done.generation.upper()
        rows = [("deleted", f"{counted(done.deleted, 'file')}, {size(done.deleted_bytes)}")]
        if undo:
            screen.line(f"{'Went' if done.applied else 'Would go'} back to {name}.")
            rows.insert(0, ("restored", counted(done.restored, "file")))
        else:
            screen.line(f"{'Deleted' if done.applied else 'Would delete'} what is left of {name}.")
        screen.fields(rows)
        tell_dry_run(screen, applied=done.applied)

    return Answer({"action": action, **dataclasses.asdict(done)}, show)
