"""Binds the socket of the server before anything is printed, so that the address is known."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

import uvicorn

from frazil.errors import InvalidInputError
from frazil.web.app import make_app
from frazil.web.library import Library
from frazil.web.settings import ServerSettings


def bind(settings: ServerSettings) -> tuple[socket.socket, ServerSettings]:
    """A socket that listens, and the settings with the port it got.

    Raises:
        InvalidInputError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise InvalidInputError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            "--port 0 takes a free one"
        ) from error
    return made, replace(settings, port=made.getsockname()[1])


def address(settings: ServerSettings, path: str = "") -> str:
    """The address to open, with the token."""
    token = "" if settings.token is None else f"?token={settings.token}"
    return f"{settings.url}{path}{token}"


def serve(
    urls: Sequence[str],
    settings: ServerSettings,
    authorize: Sequence[str] = (),
    ready: Callable[[ServerSettings, Library], None] | None = None,
) -> None:
    """Serve repositories until interrupted.

    Raises:
        FrazilError: the only repository cannot be opened, or the address cannot be used.
    """
    library = Library(urls, authorize)
    library.check()
    listening, settings = bind(settings)
    with listening:
        if ready is not None:
            ready(settings, library)
        config = uvicorn.Config(
            make_app(library, settings),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
            limit_concurrency=256,
        )
        uvicorn.Server(config).run(sockets=[listening])
