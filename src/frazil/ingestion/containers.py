"""Virtual chunk containers for the places that references point to."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingestion.sources import parent, root_of
from frazil.model.config import (
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    VirtualChunkContainer,
)
from frazil.storage.credentials import MAKERS, AnyCredential, containers_credentials
from frazil.storage.locations import key_of

_S3_OPTIONS: Final = ("region", "endpoint_url", "allow_http", "anonymous", "force_path_style")


def prefixes_of(locations: Iterable[str]) -> list[str]:
    """The longest common folder of the locations of each bucket or host."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(map(parent, locations)):
        root = root_of(folder)
        found[root] = folder if root not in found else _common(found[root], folder)
    return sorted(found.values())


def _common(one: str, other: str) -> str:
    while not other.startswith(one):
        one = parent(one)
    return one


def missing_containers(
    config: RepositoryConfig, prefixes: Iterable[str], options: Mapping[str, Any]
) -> list[VirtualChunkContainer]:
    """Containers that a configuration needs for some prefixes and does not have."""
    known = [*(config.virtual_chunk_containers or {})]
    return [
        container_for(prefix, options)
        for prefix in prefixes
        if not any(prefix.startswith(_with_slash(each)) for each in known)
    ]


def add_missing(
    config: RepositoryConfig, prefixes: Iterable[str], options: Mapping[str, Any]
) -> list[str]:
    """Put them into a configuration, and tell their prefixes."""
    fresh = missing_containers(config, prefixes, options)
    for container in fresh:
        config.set_virtual_chunk_container(container)
    return [container.url_prefix for container in fresh]


def container_for(prefix: str, options: Mapping[str, Any]) -> VirtualChunkContainer:
    """A container for a prefix, with a store that the options of its files suit."""
    scheme = prefix.partition("://")[0]
    store: Any
    match scheme:
        case "file":
            store = ObjectStoreConfig.LocalFileSystem("/" + key_of(prefix))
        case "s3":
            given = {name: options[name] for name in _S3_OPTIONS if name in options}
            store = ObjectStoreConfig.S3(S3Options(**given))
        case "gs" | "gcs":
            store = ObjectStoreConfig.Gcs({})
        case "az" | "azure" | "abfs":
            store = ObjectStoreConfig.Azure({"account": str(options.get("account", ""))})
        case "http" | "https":
            store = ObjectStoreConfig.Http({})
        case _:
            raise InvalidInputError(
                f"virtual chunks cannot be read from {scheme}:// URLs",
                kind=ErrorKind.BAD_PREFIX,
                prefix=prefix,
            )
    made = VirtualChunkContainer(_with_slash(prefix), store)
    made.check()
    return made


def covering(config: RepositoryConfig, locations: Iterable[str]) -> list[str]:
    """The prefixes of the containers of a configuration that some locations are in."""
    known = sorted(map(_with_slash, config.virtual_chunk_containers or {}), key=len, reverse=True)
    found = (next((p for p in known if each.startswith(p)), None) for each in locations)
    return sorted({prefix for prefix in found if prefix is not None})


def access(prefixes: Iterable[str], options: Mapping[str, Any]) -> dict[str, AnyCredential | None]:
    """Credentials for containers whose files we were told how to reach."""
    made: dict[str, Any] = {}
    for prefix in prefixes:
        maker = MAKERS.get(prefix.partition("://")[0])
        if maker is not None:
            names = inspect.signature(maker).parameters
            given = {name: value for name, value in options.items() if name in names}
            made[prefix] = maker(**given)
    return containers_credentials(made)


def how_to_read(prefixes: Iterable[str]) -> str:
    """How readers get at virtual chunks in some containers, in one sentence."""
    named = ", ".join(prefixes)
    kinds = {prefix.partition("://")[0] for prefix in prefixes}
    simple = kinds <= {"file"}
    return (
        f"virtual chunks are read only by who allows it: --authorize {named} (command line),"
        f" authorize={named!r} (Spark), authorize_virtual_chunk_access (Python)"
        + ("" if simple else ", with the credentials of the reader")
    )


def _with_slash(prefix: str) -> str:
    return prefix if prefix.endswith("/") else f"{prefix}/"
