"""Which settings of a stored configuration are followed, and which count only from the caller.

Anyone who can write to a repository can store a configuration in it. It says where the files of a
container are, which is harmless as long as no secrets go there. So what would send the caller's
credentials to some address, or change who answers, counts only if the caller names it: by a
container of their own configuration, by the endpoint of the repository itself, or by the endpoint
in the environment. The rest of a stored container may only tell how to ask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.model.config import ObjectStoreConfig, RepositoryConfig, VirtualChunkContainer
from frazil.model.location import ParsedLocation
from frazil.model.stores import S3_LIKE
from frazil.storage.base import Storage
from frazil.storage.credentials import (
    AnyCredential,
    AzureCredentials,
    Credentials,
    GcsCredentials,
    S3Credentials,
)

_ENDPOINTS: Final = frozenset(
    {
        "base_url",
        "google_base_url",
        "endpoint",
        "azure_endpoint",
        "azure_storage_endpoint",
    }
)
_MANNERS: Final = re.compile(
    r"(?:(?:azure|google|aws)_)?(?:allow_http|(?:connect_|read_)?timeout|http1_only|http2_\w+"
    r"|pool_\w+|randomize_addresses|default_content_type|user_agent)"
)
"""Harmless options: they choose no address and no secret, and leave all checks on."""
_ACCOUNTS: Final = frozenset({"account", "account_name", "azure_storage_account_name"})
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_REGION: Final = re.compile(r"[A-Za-z0-9-]{1,40}")
_HEADERS: Final = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "upgrade", "proxy-authorization"}
)
"""Headers that say where a request goes or where it ends."""
_AMAZON: Final = re.compile(
    r"https://s3(?:-fips)?(?:\.dualstack)?(?:[.-][a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?"
)
_OWN: Final[Mapping[str, re.Pattern[str]]] = {
    "s3": _AMAZON,
    "tigris": re.compile(r"https://(?:t3\.storage\.dev|fly\.storage\.tigris\.dev)"),
    "gs": re.compile(r"https://storage\.googleapis\.com"),
    "gcs": re.compile(r"https://storage\.googleapis\.com"),
    **dict.fromkeys(
        ("az", "azure", "abfs"), re.compile(r"https://[a-z0-9]{3,24}\.blob\.core\.windows\.net")
    ),
}
"""By scheme, the addresses of the service that the scheme is named after."""
_FROM_ENVIRONMENT: Final = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_BASE_URL",
)
TIGRIS: Final = "https://t3.storage.dev"


@dataclass(frozen=True, slots=True)
class Trust:
    """What the caller has named; everything else was found in the repository."""

    containers: frozenset[str] = frozenset()
    """prefixes of the containers in the caller's own configuration"""
    endpoints: frozenset[str] = frozenset()
    """addresses that credentials may be sent to"""

    def and_endpoints(self, *urls: str) -> Trust:
        """The same, and some more addresses."""
        return Trust(self.containers, self.endpoints | frozenset(map(_plain, urls)))

    def names(self, endpoint: str, scheme: str) -> bool:
        """Whether an address was named, or belongs to the service that a scheme stands for."""
        found = _plain(endpoint)
        own = _OWN.get(scheme)
        return found in self.endpoints or (own is not None and own.fullmatch(found) is not None)


NOTHING: Final = Trust()


def own_containers(config: RepositoryConfig | None) -> frozenset[str]:
    """The prefixes of the containers that a configuration names."""
    found = (config.virtual_chunk_containers if config else None) or {}
    prefixes = (container.url_prefix for container in found.values())
    return frozenset(p if p.endswith("/") else f"{p}/" for p in prefixes)


def endpoints_of(storage: Storage) -> frozenset[str]:
    """The addresses that the caller has named for a repository, and in the environment."""
    found = [os.environ.get(name) for name in _FROM_ENVIRONMENT]
    found += [storage.connection.get(name) for name in _ENDPOINTS]
    return frozenset(_plain(url) for url in found if url)


ANONYMOUS: Final = "anonymous"


def split_word(text: str) -> tuple[str, str]:
    """A prefix and the word after it: `s3://bucket/=anonymous`, `s3://bucket/=https://host`.

    Other words are given back too, for the caller to refuse.
    """
    found = re.fullmatch(r"(.+?)=(https?://.+)", text)
    if found:
        return found[1], found[2]
    prefix, _, word = text.rpartition("=")
    return (prefix, word) if prefix and "/" not in word else (text, "")


def why_not_trusted(
    container: VirtualChunkContainer,
    root: ParsedLocation,
    credential: AnyCredential | None,
    trust: Trust,
) -> str | None:
    """Why a container that was found in a repository is not used as it is; None if it may be."""
    if container.url_prefix in trust.containers:
        return None
    for name, value, is_address in _doubtful(container.store, root.scheme):
        if not is_address:
            return f"it sets {name}"
        if carries_secrets(container.store, credential) and not trust.names(value, root.scheme):
            return f"it would send your credentials to {value}"
    return None


def _doubtful(store: object, scheme: str) -> Iterator[tuple[str, str, bool]]:
    """Options of a stored container that need the caller's word, and which are addresses."""
    match store:
        case ObjectStoreConfig.S3(options) | ObjectStoreConfig.S3Compatible(options):
            yield from _doubtful_s3(options.region, options.endpoint_url)
        case ObjectStoreConfig.Tigris(options):
            yield from _doubtful_s3(options.region, options.endpoint_url or TIGRIS)
        case ObjectStoreConfig.Gcs(opts) | ObjectStoreConfig.Azure(opts):
            for name, value in (opts or {}).items():
                plain = name.lower()
                is_account = plain in _ACCOUNTS and _ACCOUNT.fullmatch(value)
                if plain in _ENDPOINTS:
                    yield name, value, True
                elif not is_account and not _MANNERS.fullmatch(plain):
                    yield f"the option {name!r}", value, False
        case ObjectStoreConfig.Http(opts, headers):
            for name, value in (opts or {}).items():
                if not _MANNERS.fullmatch(name.lower()):
                    yield f"the option {name!r}", value, False
            for name, value in (headers or {}).items():
                if name.lower() in _HEADERS:
                    yield f"the header {name!r}", value, False
        case _:
            pass


def _doubtful_s3(region: str | None, endpoint: str | None) -> Iterator[tuple[str, str, bool]]:
    # The region becomes a part of the host's name, so it must not be able to end it.
    if region is not None and not _REGION.fullmatch(region):
        yield f"the region {region!r}", region, False
    if endpoint is not None:
        yield "endpoint_url", endpoint, True


def carries_secrets(store: object, credential: AnyCredential | None) -> bool:
    """Whether requests to a store are signed, or carry a token."""
    match credential:
        case Credentials.S3(inner):
            is_open = isinstance(inner, S3Credentials.Anonymous)
        case Credentials.Gcs(inner):
            is_open = isinstance(inner, GcsCredentials.Anonymous)
        case Credentials.Azure(inner):
            is_open = isinstance(inner, AzureCredentials.Anonymous)
        case None:  # the environment is asked for S3 only
            is_open = not isinstance(store, S3_LIKE)
        case _:
            is_open = True
    options = getattr(store, "options", None)
    return not (is_open or (options is not None and options.anonymous))


def _plain(endpoint: str) -> str:
    return endpoint.strip().rstrip("/").lower()
