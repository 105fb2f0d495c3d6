"""Repositories in a browser: `serve`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from frazil.cli.answers import Answer
from frazil.cli.arguments import Authorize
from frazil.cli.commands import add_command
from frazil.errors import ErrorKind, InvalidInputError
from frazil.masking import clean

if TYPE_CHECKING:
    from frazil.web.library import Library
    from frazil.web.settings import ServerSettings

PORT = 8765
AllowHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="A name by which browsers may reach this server, besides localhost and addresses; "
        "may be repeated.",
        show_default=False,
    ),
]
CorsOrigins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cors",
        metavar="ORIGIN",
        help="With --zarr: pages of this origin may read it, * for all; may be repeated.",
        show_default=False,
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the command of this file."""
    add_command(app, "serve", serve, "Look at data")


def serve(
    urls: Annotated[
        list[str], typer.Argument(metavar="URL...", help="Repositories.", show_default=False)
    ],
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Address to listen on; others than this machine's own let other machines in.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = PORT,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Let every program of this machine in, without a token."),
    ] = False,
    allow_host: AllowHost = None,
    zarr: Annotated[
        bool,
        typer.Option("--zarr", help="Also serve every version as Zarr v3: /zarr/NAME@version/."),
    ] = False,
    cors: CorsOrigins = None,
    sql: Annotated[
        bool,
        typer.Option("--sql", help="Allow SELECT on Spark, which runs on this machine."),
    ] = False,
    authorize: Authorize = None,
) -> Answer:
    """Show repositories in a browser: history, arrays, values, differences, storage.

    Nothing is ever changed. The server listens on this machine only unless --host says otherwise,
    and the address that it prints holds a token: anyone who has the address can look.
    """
    web = _web()
    if cors and not zarr:
        raise InvalidInputError("--cors needs --zarr", kind=ErrorKind.INVALID_OPTION)
    settings = web.settings.ServerSettings(
        host,
        port,
        None if no_token else web.settings.new_token(),
        frozenset(allow_host or ()),
        zarr,
        frozenset(cors or ()),
        sql,
    )
    web.server.serve(urls, settings, tuple(authorize or ()), _tell)
    return Answer({"served": len(urls)}, lambda screen: screen.note("stopped"))


class _Web:
    """The modules of the explorer, once they are imported."""

    def __init__(self) -> None:
        from frazil.web import server, settings

        self.server = server
        self.settings = settings


def _web() -> _Web:
    """Import the explorer.

    Raises:
        InvalidInputError: it is not installed.
    """
    try:
        return _Web()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (
            "starlette",
            "uvicorn",
            "jinja2",
        ):
            raise
        raise InvalidInputError(
            f"the explorer needs {error.name}: pip install 'frazil[web]'",
            kind=ErrorKind.INVALID_OPTION,
        ) from error


def _tell(settings: ServerSettings, library: Library) -> None:
    from frazil.web.server import address

    for shown in library:
        print(clean(f"serving {shown.shown_url}"), file=sys.stderr)
    if settings.zarr:
        for shown in library:
            token = "" if settings.token is None else f"t/{settings.token}/"
            print(f"Zarr: {settings.url}{token}zarr/{shown.name}@main/", file=sys.stderr)
    print(f"open {address(settings)}", file=sys.stderr)
    print("Ctrl+C stops it", file=sys.stderr, flush=True)
