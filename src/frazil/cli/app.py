"""The command line put together: one module for each group of commands.

A call imports the module of its command only: all of them take longer than most commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

import frazil
from frazil.cli.answers import MEANING
from frazil.cli.commands import QuickGroup, help_of

COMMANDS: Final = {
    "nodes": ("ls", "tree", "stat", "cat", "du"),
    "serve": ("serve",),
    "history": ("log", "show", "diff"),
    "status": ("status", "reflog"),
    "refs": ("init", "reset", "branch", "tag"),
    "versions": ("merge", "cherry-pick", "revert", "squash", "fast-forward"),
    "upkeep": ("expire", "analyze", "verify", "inspect"),
    "fsck": ("fsck", "repair"),
    "garbage": ("gc", "purge", "trash"),
    "rewriting": ("rewrite-manifests", "compact"),
    "upgrading": ("upgrade",),
    "ingest": ("ingest",),
    "copying": ("export", "import", "clone"),
    "spark_jobs": ("sql", "rechunk", "prepare-spark"),
    "settings": ("config",),
    "doctor": ("doctor",),
}
"""Modules with `add_commands(app)`, in the order of the help, and the commands of each. `verbs.py`
says which commands are rows of the table of verbs, and why others are not."""

EPILOG: Final = "Exit codes: " + "; ".join(f"{int(code)} {text}" for code, text in MEANING.items())


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


def make_app(modules: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with the commands of some modules."""
    app = typer.Typer(
        name="frazil",
        cls=QuickGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EPILOG,
    )
    app.callback(help=help_of(frazil_command))(frazil_command)
    for module in modules:
        import_module(f"frazil.cli.{module}").add_commands(app)
    return app


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line for one call; without a known command it has all of them, for the help."""
    called = arguments[0] if arguments else None
    return make_app([module for module, names in COMMANDS.items() if called in names] or COMMANDS)
