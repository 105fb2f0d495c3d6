"""Settings of `frazil serve`: address, token and hosts, and limits on each request."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass, field
from typing import Final

from frazil.errors import InvalidInputError

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds on the work of one request, so that no request takes the server from the others."""

    cells: int = 1 << 20
    """values that one picture may have"""
    decoded_bytes: int = 256 << 20
    """bytes of decoded chunks that one picture may need"""
    references: int = 8_000_000
    """chunk references that one map may need"""
    map_side: int = 192
    """cells of a chunk map along one side; larger grids are binned"""
    nodes: int = 500
    """nodes on one page of a tree"""
    rows: int = 400
    """rows of one table or one window of the history"""
    logs: int = 5_000
    """commits that are looked through for those that touched an array"""
    text: int = 40_000
    """characters of one document"""
    piece: int = 2 << 20
    """bytes of a chunk that are held at once while it is sent as it is stored"""
    seconds: float = 60.0
    """how long a request may wait for its answer"""
    threads: int = 4
    waiting: int = 64
    """requests that may wait for a thread"""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server listens, and which requests it answers."""

    host: str = LOOPBACK
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    """what a browser must know; None: nothing"""
    hosts: frozenset[str] = frozenset()
    """names of this machine, besides localhost and addresses, that requests may ask for"""
    zarr: bool = False
    """whether versions are also served as plain Zarr"""
    cors: frozenset[str] = frozenset()
    """origins whose pages may read the Zarr part; `*` for all"""
    sql: bool = False
    """whether queries may be run"""
    limits: RequestLimits = RequestLimits()

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise InvalidInputError(
                f"--no-token is possible on this machine only, and {self.host!r} can be reached "
                "from others; leave out --no-token, or leave out --host"
            )

    @property
    def cookie(self) -> str:
        """The name of the cookie: servers on several ports of one host have each their own."""
        return f"frazil-{self.port}"

    @property
    def url(self) -> str:
        """Where the server is, without its token."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}/"


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether a host is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
