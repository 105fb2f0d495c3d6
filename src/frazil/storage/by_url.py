"""The storage at a URL or a path.

Places on this machine need none of what object stores do, so that small programs start soon.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from frazil.errors import ErrorKind, InvalidInputError
from frazil.spelling import nearest
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.urls import bad_url

EXPECTED: Final = (
    "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, https://host/path,"
    " file:///path, memory://name or a path"
)
_FLAGS: Final = frozenset(
    {"allow_http", "anonymous", "force_path_style", "requester_pays", "use_weak_consistency"}
)
_PLAIN: Final = frozenset({"region", "endpoint_url", "account_id", "account", "namespace"})


def storage_at(place: Storage | str | os.PathLike[str]) -> Storage:
    """The storage of a place that a user named: a storage, a URL or a path.

    Raises:
        InvalidInputError: it is none of these, such as None. Its text would be a path too.
        StorageError: the URL is of no known form.
    """
    if isinstance(place, Storage):
        return place
    if not isinstance(place, str | os.PathLike):
        raise InvalidInputError(
            f"a place is a storage of Frazil, a URL or a path, not a {type(place).__qualname__}",
            kind=ErrorKind.CANNOT_PARSE_URL,
        )
    return storage_from_url(os.fsdecode(place))


def storage_from_url(url: str, **options: Any) -> Storage:  # noqa: ANN401  (those of the function)
    """The storage at a URL or a path.

    Args:
        url: as in `EXPECTED`; simple options may follow as a query, `?region=eu-west-1`.
        options: arguments of the function that makes this kind of storage.

    Raises:
        StorageError: the URL is of no known form.
        InvalidInputError: an option does not belong to this kind of storage.
    """
    if "://" not in url:
        if not url or (":" in url.partition("/")[0]):
            raise bad_url(url, EXPECTED)
        return _call(_local, {"path": url}, options)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise bad_url(url, EXPECTED) from None
    if parts.scheme in ("http", "https"):
        return _remote("http_storage", {"base_url": url}, options)
    given = _query(parts.query) | options
    bucket, prefix = parts.netloc, unquote(parts.path.lstrip("/"))
    match parts.scheme:
        case "file" if parts.netloc in ("", "localhost") and parts.path:
            return _call(_local, {"path": unquote(parts.path)}, given)
        case "memory":
            return MemoryStorage(bucket + parts.path or None)
        case "az" | "azure" | "abfs" | "abfss" if bucket and ":" not in bucket:
            container, _, host = bucket.rpartition("@") if "@" in bucket else (bucket, "", "")
            place = {"container": container, "prefix": prefix, "account": host.partition(".")[0]}
            return _remote("azure_storage", place, given)
        case "r2" if bucket:
            return _remote("r2_storage", {"bucket": bucket, "prefix": prefix}, given)
        case scheme if scheme in _BY_SCHEME and bucket and "@" not in bucket:
            return _remote(_BY_SCHEME[scheme], {"bucket": bucket, "prefix": prefix}, given)
        case _:
            raise bad_url(url, EXPECTED)


_BY_SCHEME: Final = {
    "s3": "s3_storage",
    "s3a": "s3_storage",
    "gs": "gcs_storage",
    "gcs": "gcs_storage",
    "tigris": "tigris_storage",
    "hf": "hf_storage",
}
"""Functions of `constructors`, which needs the clients of object stores."""


def _local(path: str) -> Storage:
    return LocalStorage(path)


def _remote(function: str, place: dict[str, str], options: dict[str, Any]) -> Storage:
    from frazil.storage import constructors

    return _call(getattr(constructors, function), place, options)


def _query(query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _FLAGS:
            found[name] = value.lower() in ("", "1", "true", "yes")
        elif name in _PLAIN:
            found[name] = value
        else:
            raise InvalidInputError(
                f"this option cannot be given in a URL{nearest(name, _FLAGS | _PLAIN)}",
                kind=ErrorKind.STORAGE_CONFIG,
                option=name,
                known=", ".join(sorted(_FLAGS | _PLAIN)),
            )
    return found


def _call(
    function: Callable[..., Storage], place: dict[str, str], options: dict[str, Any]
) -> Storage:
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"unknown option for this kind of storage{nearest(name, known)}",
                kind=ErrorKind.STORAGE_CONFIG,
                option=name,
                known=", ".join(sorted(set(known) - set(place))),
            )
    return function(**{**place, **options})
