"""Whether anything listens at an address that has never answered.

Clients repeat a refused connection like any request that fails, for most of a minute. That is
right for a server that starts anew, and wrong for a mistyped port. So before the first request to
an address, a connection is made and nothing sent. If it is refused for some seconds, that is told.
Settings that say how often to try are obeyed instead.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from frazil.masking import bare_url
from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage.faults import unreachable
from frazil.storage.fence import has_proxy, plain_host

REFUSED_S: Final = 2.0
"""For so long may an address refuse connections."""
_PAUSE_S: Final = 0.2
_CONNECT_S: Final = 2.0
"""A slow address is left to the client, which has its own limits."""
_reached: Final[set[tuple[str, int]]] = set()


def are_tries_chosen(settings: StorageSettings) -> bool:
    """Whether somebody has said how often requests are tried."""
    return (settings.retries or StorageRetriesSettings()).max_tries is not None


def require_listener(url: str, settings: StorageSettings, options: Mapping[str, str]) -> None:
    """Refuse an address at which nothing listens; `options` are those of the client.

    Raises:
        StorageError: connections are refused.
    """
    parts = urlsplit(url)
    usual = 443 if parts.scheme == "https" else 80
    place = plain_host(url), usual if parts.port is None else parts.port
    if place in _reached or are_tries_chosen(settings) or has_proxy([place[0]], options):
        return
    end = time.monotonic() + REFUSED_S
    while True:
        try:
            socket.create_connection(place, _CONNECT_S).close()
            break
        except ConnectionRefusedError as error:
            if time.monotonic() >= end:
                raise unreachable(error, "", bare_url(url)) from None
        except (OSError, UnicodeError):
            break  # the client tells it better
        time.sleep(_PAUSE_S)
    _reached.add(place)
