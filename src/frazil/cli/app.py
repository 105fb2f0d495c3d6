"""The command line put together: one module for each group of commands."""

from __future__ import annotations

from typing import Annotated, Final

import typer

import frazil
from frazil.cli import (
    copying,
    doctor,
    fsck,
    garbage,
    history,
    ingest,
    nodes,
    refs,
    rewriting,
    serve,
    settings,
    spark_jobs,
    upgrading,
    upkeep,
    versions,
)
from frazil.cli.answers import MEANING
from frazil.cli.commands import help_of

GROUPS: Final = (
    nodes,
    serve,
    history,
    refs,
    versions,
    upkeep,
    fsck,
    garbage,
    rewriting,
    upgrading,
    ingest,
    copying,
    spark_jobs,
    settings,
    doctor,
)
"""Modules with `add_commands(app)`, in the order of the help."""

EPILOG: Final = "Exit codes: " + "; ".join(f"{int(code)} {text}" for code, text in MEANING.items())

app = typer.Typer(
    name="frazil",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"frazil {frazil.__version__}")
        raise typer.Exit


def frazil_command(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Versioned storage for Zarr arrays, in the Icechunk format.

    A repository is a URL or a path; a version of it follows an @: data/ocean@main,
    s3://bucket/ocean@v1, data/ocean@4QF7 (the beginning of a snapshot id),
    'data/ocean@{2024-05-01}'.
    """


app.callback(help=help_of(frazil_command))(frazil_command)
for group in GROUPS:
    group.add_commands(app)
