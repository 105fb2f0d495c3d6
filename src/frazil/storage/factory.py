"""Storages from options and credentials, one function for each kind of store.

`StorageFactory` carries them under the names that the official `Storage` class has; the
functions that users call are in `constructors`. Both take keyword arguments as
`**more: Unpack[...]`, each spelled once here; `spelled_out` shows them to `inspect` and `help`.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeAlias, TypedDict, TypeVar, Unpack, get_args
from urllib.parse import parse_qsl, urlsplit

from frazil.errors import ErrorKind, StorageError
from frazil.formats.ref_files import encode_segment
from frazil.masking import bare_url
from frazil.model.config import ChecksumAlgorithm, S3Options
from frazil.storage.base import Storage
from frazil.storage.credential_functions import (
    azure_from_env_credentials,
    gcs_anonymous_credentials,
    gcs_from_env_credentials,
    s3_anonymous_credentials,
    s3_from_env_credentials,
)
from frazil.storage.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AnyS3Credential,
    S3StaticCredentials,
)
from frazil.storage.faults import check_headers
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.object import ObjectStorage
from frazil.storage.places import AzurePlace, GcsPlace, HttpPlace
from frazil.storage.s3_place import S3Place
from frazil.storage.web import RedirectStorage, WebStorage
from frazil.urls import bad_url

Headers: TypeAlias = dict[str, str] | None
Function = TypeVar("Function", bound=Callable[..., Any])


class HeaderArguments(TypedDict, total=False):
    """HTTP headers of all requests, and of those that read or write."""

    read_headers: Headers
    write_headers: Headers
    headers: Headers


class AddressArguments(TypedDict, total=False):
    """Where an S3-like store is."""

    region: str | None
    endpoint_url: str | None
    allow_http: bool
    anonymous: bool | None


class KeyArguments(HeaderArguments, total=False):
    """Credentials for an S3-like store."""

    access_key_id: str | None
    secret_access_key: str | None
    session_token: str | None
    expires_after: datetime | None
    from_env: bool | None


class GatewayArguments(KeyArguments, total=False):
    """What storages with a fixed address take."""

    get_credentials: Callable[[], S3StaticCredentials] | None
    scatter_initial_credentials: bool
    network_stream_timeout_seconds: int
    legacy_rooted_keys: bool | None


class S3LikeArguments(AddressArguments, GatewayArguments, total=False):
    """What all S3-like storages take."""

    checksum_algorithm: ChecksumAlgorithm | None


class S3Arguments(S3LikeArguments, total=False):
    """What a storage in S3 takes."""

    force_path_style: bool
    requester_pays: bool


class S3ObjectStoreArguments(AddressArguments, KeyArguments, total=False):
    """What a storage in S3 takes whose names the generic backend spells."""

    force_path_style: bool


DEFAULTS: Final[dict[str, object]] = {
    "allow_http": False,
    "scatter_initial_credentials": False,
    "force_path_style": False,
    "network_stream_timeout_seconds": 60,
    "requester_pays": False,
}
"""of arguments whose default is not None"""


def spelled_out(function: Function) -> Function:
    """Replace `**more: Unpack[Arguments]` in the signature of a function by the arguments.

    The function always gets all of them, and is never called with others.
    """
    *named, more = inspect.signature(function, eval_str=True).parameters.values()
    (arguments,) = get_args(more.annotation)
    own = inspect.signature(function)
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS.get(name),
            annotation=kind.__forward_arg__,
        )
        for name, kind in arguments.__annotations__.items()
    ]
    shown = own.replace(parameters=[*[own.parameters[each.name] for each in named], *keywords])

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (those of the function)
        try:
            bound = shown.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    called.__signature__ = shown  # type: ignore[attr-defined]  # what `inspect` and editors read
    return called  # type: ignore[return-value]  # it is called as the function is


class StorageFactory:
    """The constructors of the official `Storage` class."""

    @classmethod
    def new_in_memory(cls) -> Storage:
        """Objects in the memory of this process."""
        return MemoryStorage()

    @classmethod
    def new_local_filesystem(cls, path: str) -> Storage:
        """Files below a directory."""
        return LocalStorage(path)

    @classmethod
    @spelled_out
    def new_s3(
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        credentials: AnyS3Credential | None = None,
        legacy_rooted_keys: bool | None = None,
        **more: Unpack[HeaderArguments],
    ) -> Storage:
        """S3, or a store that speaks its protocol."""
        place = _s3_place(config, bucket, prefix, credentials, merge_headers(**more))
        return ObjectStorage(place, legacy_rooted_keys=legacy_rooted_keys)

    @classmethod
    @spelled_out
    def new_s3_object_store(
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        credentials: AnyS3Credential | None = None,
        **more: Unpack[HeaderArguments],
    ) -> Storage:
        """S3 with names spelled as the official package's generic backend spells them."""
        place = _s3_place(config, bucket, _encoded(prefix), credentials, merge_headers(**more))
        return ObjectStorage(replace(place, keeps_keys=False), legacy_rooted_keys=False)

    @classmethod
    @spelled_out
    def new_tigris(
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        use_weak_consistency: bool,
        credentials: AnyS3Credential | None = None,
        legacy_rooted_keys: bool | None = None,
        **more: Unpack[HeaderArguments],
    ) -> Storage:
        """Tigris; weak consistency reads from the nearest region and never writes."""
        options = copy.deepcopy(config)
        options.endpoint_url = options.endpoint_url or "https://t3.storage.dev"
        reading, writing = merge_headers(**more)
        if not use_weak_consistency:
            if options.region is None:
                raise StorageError(
                    "Tigris needs the region of the bucket to be consistent; set region, or"
                    " read only with use_weak_consistency=True",
                    kind=ErrorKind.STORAGE_OTHER,
                )
            strict = {"X-Tigris-Regions": options.region, "X-Tigris-Consistent": "true"}
            reading = overlaid(reading, {**strict, "Cache-Control": "no-cache"})
            writing = overlaid(writing, strict)
        place = _s3_place(options, bucket, prefix, credentials, (reading, writing))
        place = replace(place, can_write=not use_weak_consistency)
        return ObjectStorage(place, legacy_rooted_keys=legacy_rooted_keys)

    @classmethod
    @spelled_out
    def new_r2(
        cls,
        config: S3Options,
        bucket: str | None = None,
        prefix: str | None = None,
        account_id: str | None = None,
        credentials: AnyS3Credential | None = None,
        legacy_rooted_keys: bool | None = None,
        **more: Unpack[HeaderArguments],
    ) -> Storage:
        """Cloudflare R2; without a bucket the first part of the prefix is the bucket."""
        options = copy.deepcopy(config)
        if bucket is None:
            if prefix is None:
                raise _misconfigured("give bucket or prefix")
            bucket, _, prefix = prefix.partition("/")
        if options.endpoint_url is None:
            if account_id is None:
                raise _misconfigured("give endpoint_url or account_id")
            options.endpoint_url = f"https://{account_id}.r2.cloudflarestorage.com"
        options.region = options.region or "auto"
        options.force_path_style = True
        return cls.new_s3(options, bucket, prefix, credentials, legacy_rooted_keys, **more)

    @classmethod
    @spelled_out
    def new_hf(
        cls,
        config: S3Options,
        bucket: str,
        prefix: str | None,
        namespace: str,
        credentials: AnyS3Credential | None = None,
        legacy_rooted_keys: bool | None = None,
        **more: Unpack[HeaderArguments],
    ) -> Storage:
        """A storage bucket of Hugging Face, which belongs to a user or organisation."""
        options = copy.deepcopy(config)
        options.endpoint_url = f"https://s3.hf.co/{namespace}"
        options.region = options.region or "us-east-1"
        options.force_path_style = True
        return cls.new_s3(options, bucket, prefix, credentials, legacy_rooted_keys, **more)

    @classmethod
    @spelled_out
    def new_gcs(
        cls,
        bucket: str,
        prefix: str | None,
        credentials: AnyGcsCredential | None = None,
        *,
        config: dict[str, str] | None = None,
        **more: Unpack[HeaderArguments],
    ) -> Storage:
        """Google Cloud Storage."""
        keys, headers = credentials or gcs_from_env_credentials(), merge_headers(**more)
        place = GcsPlace(_bucket(bucket), _encoded(prefix), keys, dict(config or {}), *headers)
        return ObjectStorage(place)

    @classmethod
    def new_azure_blob(
        cls,
        account: str,
        container: str,
        prefix: str,
        credentials: AnyAzureCredential | None = None,
        *,
        config: dict[str, str] | None = None,
    ) -> Storage:
        """Azure Blob Storage."""
        keys, options = credentials or azure_from_env_credentials(), dict(config or {})
        place = AzurePlace(account, _bucket(container), _encoded(prefix), keys, options)
        return ObjectStorage(place)

    @classmethod
    def new_http(
        cls, base_url: str, config: dict[str, str] | None = None, headers: Headers = None
    ) -> Storage:
        """A repository behind a web server, to be read."""
        try:
            parts = urlsplit(base_url)
            is_address = parts.scheme in ("http", "https") and parts.hostname
            parts.port  # noqa: B018  (which raises if it is none)
        except ValueError:
            is_address = None
        if not is_address:
            raise bad_url(base_url, "http://host/path or https://host/path")
        return WebStorage(HttpPlace(base_url, dict(config or {}), check_headers(headers)))

    @classmethod
    def new_redirect(cls, base_url: str) -> Storage:
        """A repository whose place a web address tells by redirecting."""
        parts = urlsplit(base_url)
        if not parts.scheme or not parts.netloc:
            raise bad_url(base_url, "http://host/path or https://host/path")
        return RedirectStorage(base_url, redirect_target)


def redirect_target(url: str) -> Storage:
    """The storage for the URL that a redirect ended at; read without credentials."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    bucket, prefix = parts.netloc, parts.path.lstrip("/")
    options = S3Options(anonymous=True, region=query.get("region"))
    anonymous = s3_anonymous_credentials()
    match parts.scheme:
        case "s3" if options.region:
            return StorageFactory.new_s3(options, bucket, prefix, anonymous)
        case "r2" if "account_id" in query:
            account = query["account_id"]
            return StorageFactory.new_r2(options, bucket, prefix, account, anonymous)
        case "tigris":
            return StorageFactory.new_tigris(options, bucket, prefix, True, anonymous)
        case "gs" | "gcs":
            return StorageFactory.new_gcs(bucket, prefix, gcs_anonymous_credentials())
        case "http+icechunk" | "http+ic" | "https+icechunk" | "https+ic":
            scheme = parts.scheme.partition("+")[0]
            return StorageFactory.new_http(parts._replace(scheme=scheme).geturl())
        case scheme:
            needs = {"s3": "a region parameter", "r2": "an account_id parameter"}
            raise StorageError(
                f"the redirect leads to a URL that needs {needs.get(scheme, 'another scheme')}",
                kind=ErrorKind.BAD_REDIRECT,
                url=bare_url(url),
            )


def merge_headers(
    read_headers: Headers = None, write_headers: Headers = None, headers: Headers = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Headers for reading and for writing: common ones under those of the role."""
    common, reading, writing = map(check_headers, (headers, read_headers, write_headers))
    return overlaid(common, reading), overlaid(common, writing)


def overlaid(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """Both sets of headers; names are the same in any case, and those above win."""
    taken = {name.lower() for name in above}
    return {k: v for k, v in below.items() if k.lower() not in taken} | dict(above)


def _misconfigured(message: str) -> StorageError:
    return StorageError(message, kind=ErrorKind.STORAGE_CONFIG)


def _bucket(name: str) -> str:
    if not name or "/" in name:
        raise _misconfigured(f"not the name of a bucket or container: {name!r}")
    return name


def _s3_place(
    config: S3Options,
    bucket: str,
    prefix: str | None,
    credentials: AnyS3Credential | None,
    headers: tuple[Mapping[str, str], Mapping[str, str]],
) -> S3Place:
    keys = credentials or s3_from_env_credentials()
    below = (prefix or "").removesuffix("/")
    return S3Place(_bucket(bucket), below, copy.deepcopy(config), keys, *headers)


def _encoded(prefix: str | None) -> str:
    """A prefix as the official package's generic backends spell it."""
    return "/".join(encode_segment(part) for part in (prefix or "").split("/") if part)
