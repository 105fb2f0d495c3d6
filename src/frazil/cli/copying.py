"""Copies of repositories and Zarr stores: `clone`, `export` and `import`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from frazil.cli.answers import Answer
from frazil.cli.arguments import Authorize, Message, Url
from frazil.cli.commands import Work, add_command
from frazil.cli.places import open_place, storage_at
from frazil.cli.running import Engine, Group, Master, job_answer, running
from frazil.ids import SnapshotId
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from frazil.session import Session

PANEL: Final = "Data"
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="Directory or URL to copy to.", show_default=False),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    works: dict[str, Work] = {"export": export, "import": import_zarr, "clone": clone}
    for name, work in works.items():
        add_command(app, name, work, PANEL)


def export(
    url: Url,
    target: Target,
    group: Group = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write also where something is.")
    ] = False,
    authorize: Authorize = None,
    engine: Engine = "auto",
    master: Master = None,
) -> Answer:
    """Copy a version to a plain Zarr v3 store; nothing is decoded."""
    from frazil.spark.engine import runner_for
    from frazil.transfer.zarr_export import export as run

    base, _, node = url.partition("#/")
    session, runner = _session(base, authorize), runner_for(engine, master)
    with running("Exporting") as tell:
        report = run(
            session,
            storage_at(target),
            group=group or node or None,
            overwrite=overwrite,
            runner=runner,
            progress=tell,
        )
    return job_answer(report, "Exported", target)


def clone(
    url: Url,
    target: Target,
    everything: Annotated[
        bool, typer.Option("--all", help="All branches, tags and snapshots.")
    ] = False,
    message: Message = None,
    engine: Engine = "auto",
    master: Master = None,
) -> Answer:
    """Copy a version, or all of a repository, to another place; nothing is decoded."""
    from frazil.repository import Repository
    from frazil.spark.engine import runner_for
    from frazil.transfer.cloning import clone as run

    source = Repository.open(storage_at(url)) if everything else _session(url)
    runner = runner_for(engine, master)
    with running("Cloning") as tell:
        report = run(source, storage_at(target), message=message, runner=runner, progress=tell)
    return job_answer(report, "Cloned", target)


def import_zarr(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="Zarr store to copy: a directory or a URL.", show_default=False
        ),
    ],
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL@BRANCH",
            help="Repository, which is made when there is none, and a branch; main by default.",
            show_default=False,
        ),
    ],
    group: Group = None,
    message: Message = None,
    engine: Engine = "auto",
    master: Master = None,
) -> Answer:
    """Copy a plain Zarr store, version 3 or 2, into a repository, in one commit, not decoded."""
    from frazil.spark.engine import runner_for
    from frazil.storage.by_url import storage_from_url
    from frazil.transfer.zarr_import import import_zarr as run
    from frazil.urls import branch_in, parse_url

    place, runner = parse_url(url), runner_for(engine, master)
    with running("Importing") as tell:
        report = run(
            storage_from_url(store),
            storage_from_url(place.url),
            group=group,
            branch=branch_in(place) or "main",
            message=message,
            runner=runner,
            progress=tell,
        )
    return job_answer(report, "Imported", url)


def _session(url: str, authorize: list[str] | None = None) -> Session:
    """A session at the version that a URL means."""
    from frazil.session import Session

    place = open_place(url, authorize)
    return Session(context_of(place.repository), SnapshotId.parse(place.snapshot_id()))
