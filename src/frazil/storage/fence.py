"""Keeps obstore at the hosts that were named: it follows redirects and has no setting against it.

To another host obstore sends neither `Authorization` nor cookies. But it does send headers of the
caller, session tokens, encryption keys, and (as `Referer`) the old address with its query. So all
other hosts are put behind a proxy at port 0, where nothing can listen: a redirect elsewhere ends
before a byte is sent. Hosts are compared without their ports. If the caller uses a proxy, there is
no such fence.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib import request
from urllib.parse import urlsplit

from obstore import parse_scheme

from frazil import config
from frazil.errors import ErrorKind, StorageError
from frazil.masking import bare_url

ALLOWED: Final = "redirect_hosts"
"""The option and the switch that name other hosts to which redirects may lead."""
NOWHERE: Final = "127.0.0.1:0"
_AMAZON: Final = ("amazonaws.com",)
_GOOGLE: Final = ("googleapis.com",)
_AZURE: Final = ("core.windows.net", "fabric.microsoft.com")
_MACHINE: Final = ("169.254.169.254", "169.254.170.2")
"""Where virtual machines and containers ask for their credentials."""
_GOOGLE_LOGIN: Final = ("accounts.google.com", "metadata.google.internal")
_AZURE_LOGIN: Final = (
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.microsoftonline.de",
    "login.chinacloudapi.cn",
)
_ADDRESS: Final = re.compile(r"https?://[^\s\"',;<>]+", re.IGNORECASE)
_PLAIN_URL: Final = re.compile(
    r"(https?://[!$-.0-;=@-\[\]_a-z~]+)[!#-;=?-\[\]_a-z~]*", re.IGNORECASE
)
_KEY_FILES: Final = (
    "SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
_KEY_FILE_BYTES: Final = 1 << 16
_PROXIES: Final = ("AWS_PROXY_URL", "GOOGLE_PROXY_URL", "AZURE_PROXY_URL")


def require_address(url: str) -> None:
    """Refuse an address that obstore could not take apart: it would panic, not raise."""
    found = _PLAIN_URL.fullmatch(url)
    with suppress(ValueError):
        if found is not None:
            parse_scheme(found[1])
            return
    raise StorageError(
        "endpoint, region, account and name of the bucket make no address; names of hosts with"
        " other letters are written as xn--…",
        kind=ErrorKind.STORAGE_CONFIG,
        address=repr(bare_url(url)),
    )


def fenced(addresses: Iterable[str], options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Client options with which only these hosts, and those below their names, are asked.

    `addresses` are URLs or names of hosts; `options` are those of the client that the caller
    gave, among them `redirect_hosts`.
    """
    given = options or {}
    kept = {name: value for name, value in given.items() if name != ALLOWED}
    hosts = {plain_host(address) for address in addresses} - {""}
    if has_proxy(hosts, given):
        return kept
    hosts |= {plain_host(host) for host in allowed_hosts(given)}
    return {**kept, "proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join(sorted(hosts))}


def allowed_hosts(options: Mapping[str, str]) -> frozenset[str]:
    """Hosts, some with a port, that the caller lets redirects lead to."""
    words = f"{config.get(ALLOWED)},{options.get(ALLOWED, '')}".lower().split(",")
    return frozenset(word.strip() for word in words if word.strip() and "*" not in word)


def plain_host(address: str) -> str:
    """The host of a URL, of `host:port` or of a name, spelled as clients spell it."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host = parts.hostname or ""
    except ValueError:
        host = address.strip("[]").lower()
    if re.fullmatch(r"[0-9a-fx.]*[0-9a-f]\.?", host) and not is_ip(host):
        # 127.1 and 0x7f000001 are addresses, too.
        with suppress(OSError):
            return socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def is_ip(host: str) -> bool:
    """Whether a host is a number, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def has_proxy(hosts: Iterable[str], options: Mapping[str, str]) -> bool:
    """Whether requests to a host go through a proxy of the caller's."""
    if options.get("proxy_url") or any(os.environ.get(name) for name in _PROXIES):
        return True
    found = request.getproxies()
    if not any(found.get(scheme) for scheme in ("http", "https", "all")):
        return False
    return not all(request.proxy_bypass(host) for host in hosts)


# --- hosts that are asked: the store, and services that give obstore its credentials (`asks`) ---


def amazon_hosts(endpoint: str | None, asks: bool) -> Iterator[str]:
    """Hosts for a bucket of S3, or at another endpoint."""
    if endpoint is not None:
        yield endpoint
    if endpoint is None or asks:
        yield from _AMAZON
    yield from _in_environment("AWS_")
    if asks:
        yield from _MACHINE


def google_hosts(options: Mapping[str, object], asks: bool) -> Iterator[str]:
    """Hosts for a bucket of Google."""
    texts = [*map(str, options.values()), *map(os.environ.get, _KEY_FILES)]
    yield from _in_texts(map(_beginning, filter(None, texts)))
    yield from _in_texts(map(str, options.values()))
    if asks or not {"base_url", "google_base_url"} & options.keys():
        yield from _GOOGLE
    yield from _in_environment("GOOGLE_")
    if asks:
        yield from (*_GOOGLE_LOGIN, *_MACHINE)
        yield from _in_environment("GCE_METADATA_")


def azure_hosts(options: Mapping[str, object], asks: bool) -> Iterator[str]:
    """Hosts for a container of Azure."""
    yield from _in_texts(map(str, options.values()))
    yield from (str(value) for name, value in options.items() if name.endswith("_host"))
    if not any(name.endswith("endpoint") for name in options):
        yield from _AZURE
    if any(name.endswith("use_emulator") for name in options):
        yield "127.0.0.1"
    yield from _in_environment("AZURE_", "AZURITE_", "IDENTITY_ENDPOINT")
    if asks:
        yield from (*_AZURE_LOGIN, *_MACHINE)


def _in_texts(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from _ADDRESS.findall(value)


def _in_environment(*prefixes: str) -> Iterator[str]:
    """Addresses, and names of hosts, in environment variables that begin so."""
    for name, value in os.environ.items():
        if name.startswith(prefixes):
            yield from _in_texts([value])
            if name.endswith(("_HOST", "_ROOT", "_IP")) and value:
                yield value


def _beginning(path: str) -> str:
    """The text of a key file, which may name another address of the store; else nothing."""
    try:
        with Path(path).expanduser().open(encoding="utf-8", errors="replace") as file:
            return file.read(_KEY_FILE_BYTES)
    except (OSError, ValueError):
        return ""
