"""Settings of storage, and the stores that virtual chunks are read from."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.masking import MaskedRecord, shown_data, shown_headers
from frazil.model.display import Field, HasRepr, source
from frazil.model.location import parse_location
from frazil.model.settings import (
    NamedInt,
    SettingsRecord,
    always_set,
    boolean,
    instance,
    nonzero_u16,
    nonzero_u64,
    record,
    required,
    setting,
    string,
    u32,
    u64,
)
from frazil.naming import dotted


@record
class StorageConcurrencySettings(SettingsRecord):
    """How a large object is split into concurrent requests."""

    _shown_name = "storage.StorageConcurrencySettings"
    max_concurrent_requests_for_object: int | None = setting(nonzero_u16, 18)
    ideal_concurrent_request_size: int | None = setting(nonzero_u64, 12 * 1024 * 1024)


@record
class StorageRetriesSettings(SettingsRecord):
    """How failed requests are tried again; `max_tries` counts the first one."""

    _shown_name = "storage.StorageRetriesSettings"
    max_tries: int | None = setting(nonzero_u16, 10)
    initial_backoff_ms: int | None = setting(u32, 100)
    max_backoff_ms: int | None = setting(u32, 180_000)


@record
class StorageTimeoutSettings(SettingsRecord):
    """How long a client waits; unset leaves it to the client.

    `operation_timeout_ms` counts for a request and its retries together: none begins after it.
    """

    _shown_name = "storage.StorageTimeoutSettings"
    connect_timeout_ms: int | None = setting(u32)
    read_timeout_ms: int | None = setting(u32)
    operation_timeout_ms: int | None = setting(u32)
    operation_attempt_timeout_ms: int | None = setting(u32)


@record
class StorageSettings(SettingsRecord):
    """How a repository uses its storage."""

    _shown_name = "storage.StorageSettings"
    shown_order = (
        "unsafe_use_conditional_create",
        "unsafe_use_conditional_update",
        "unsafe_use_metadata",
        "storage_class",
        "metadata_storage_class",
        "chunks_storage_class",
        "minimum_size_for_multipart_upload",
        "concurrency",
        "retries",
        "timeouts",
    )
    concurrency: StorageConcurrencySettings | None = setting(
        instance(StorageConcurrencySettings), StorageConcurrencySettings
    )
    retries: StorageRetriesSettings | None = setting(
        instance(StorageRetriesSettings), StorageRetriesSettings
    )
    unsafe_use_conditional_create: bool | None = setting(boolean, True)
    unsafe_use_conditional_update: bool | None = setting(boolean, True)
    unsafe_use_metadata: bool | None = setting(boolean, True)
    storage_class: str | None = setting(string)
    metadata_storage_class: str | None = setting(string)
    chunks_storage_class: str | None = setting(string)
    minimum_size_for_multipart_upload: int | None = setting(u64, 100 * 1024 * 1024)
    timeouts: StorageTimeoutSettings | None = setting(instance(StorageTimeoutSettings))


class ChecksumAlgorithm(NamedInt):
    """Checksum sent with writes to S3.

    Only `Crc64Nvme` and `Sha256` are sent. The client has no others: with one of these, objects are
    written without a checksum, and a warning is logged.
    """

    Crc32 = 0
    Crc32c = 1
    Crc64Nvme = 2
    Sha1 = 3
    Sha256 = 4


@record
class S3Options(SettingsRecord):
    """How to reach an S3 or S3-compatible store."""

    _shown_name = "storage.S3Options"
    region: str | None = setting(string)
    endpoint_url: str | None = setting(string)
    allow_http: bool = always_set(boolean, False)
    anonymous: bool = always_set(boolean, False)
    force_path_style: bool = always_set(boolean, False)
    network_stream_timeout_seconds: int | None = setting(u32)
    requester_pays: bool = always_set(boolean, False)
    checksum_algorithm: ChecksumAlgorithm | None = setting(instance(ChecksumAlgorithm))


class _Store(HasRepr):
    """Base of the store variants, which show their arguments by position."""

    _executable = True

    def _shown_title(self) -> str:
        return dotted(f"config.{type(self).__qualname__}")

    def __repr__(self) -> str:
        return f"{self._shown_title()}({', '.join(source(a) for a in self._arguments())})"

    def _arguments(self) -> tuple[object, ...]:
        return ()


@dataclass(frozen=True, repr=False)
class _S3Store(_Store):
    options: S3Options

    def __post_init__(self) -> None:
        instance(S3Options)(self.options)

    def _arguments(self) -> tuple[object, ...]:
        return (self.options,)

    def _shown_fields(self) -> Iterable[Field]:
        return self.options._shown_fields()


@dataclass(frozen=True, repr=False)
class _OptionStore(_Store):
    opts: Mapping[str, str] | None = None

    def _arguments(self) -> tuple[object, ...]:
        return (shown_data(self.opts),)

    def _shown_fields(self) -> Iterable[Field]:
        yield Field("opts", shown_data(self.opts))


class ObjectStoreConfig(ABC):  # noqa: B024  (a namespace; the variants are virtual subclasses)
    """A kind of object store with its options; use one of the nested classes."""

    def __new__(cls) -> ObjectStoreConfig:
        """Refuse: only the variants can be made."""
        raise TypeError("use one of the variants, such as ObjectStoreConfig.S3(options)")

    @dataclass(frozen=True, repr=False)
    class InMemory(_Store):
        """Objects of this process."""

    @dataclass(frozen=True, repr=False)
    class LocalFileSystem(_Store):
        """Files below a directory."""

        path: str

        def __post_init__(self) -> None:
            string(self.path)

        def _arguments(self) -> tuple[object, ...]:
            return (self.path,)

        def _shown_fields(self) -> Iterable[Field]:
            yield Field("path", self.path)

    class S3Compatible(_S3Store):
        """A store that speaks the S3 protocol."""

    class S3(_S3Store):
        """Amazon S3."""

    class Gcs(_OptionStore):
        """Google Cloud Storage."""

    class Azure(_OptionStore):
        """Azure Blob Storage; the option `account` is needed."""

    class Tigris(_S3Store):
        """Tigris."""

    @dataclass(frozen=True, repr=False)
    class Http(_OptionStore):
        """Files behind a web server, with headers to send."""

        headers: Mapping[str, str] | None = None

        def _arguments(self) -> tuple[object, ...]:
            shown = super()._arguments()
            return shown if self.headers is None else (*shown, shown_headers(self.headers))

        def _shown_fields(self) -> Iterable[Field]:
            """Options, and the names of the headers (their values may be secret)."""
            yield from super()._shown_fields()
            yield Field("headers", None if self.headers is None else list(self.headers))


ObjectStoreConfig.register(_Store)

AnyObjectStoreConfig: TypeAlias = (
    ObjectStoreConfig.InMemory
    | ObjectStoreConfig.LocalFileSystem
    | ObjectStoreConfig.S3
    | ObjectStoreConfig.S3Compatible
    | ObjectStoreConfig.Gcs
    | ObjectStoreConfig.Azure
    | ObjectStoreConfig.Tigris
    | ObjectStoreConfig.Http
)

S3_LIKE: Final = (ObjectStoreConfig.S3, ObjectStoreConfig.S3Compatible, ObjectStoreConfig.Tigris)
_SCHEMES: Final[Mapping[str, tuple[type, ...]]] = {
    "s3": S3_LIKE,
    "tigris": (ObjectStoreConfig.Tigris,),
    "gcs": (ObjectStoreConfig.Gcs,),
    "gs": (ObjectStoreConfig.Gcs,),
    "az": (ObjectStoreConfig.Azure,),
    "azure": (ObjectStoreConfig.Azure,),
    "abfs": (ObjectStoreConfig.Azure,),
    "http": (ObjectStoreConfig.Http,),
    "https": (ObjectStoreConfig.Http,),
    "file": (ObjectStoreConfig.LocalFileSystem,),
}


@record
class VirtualChunkContainer(SettingsRecord):
    """A place that virtual chunks may be read from: all URLs that begin with `url_prefix`."""

    _shown_name = "virtual.VirtualChunkContainer"
    shown_order = ("name", "url_prefix", "store")
    url_prefix: str = required(string)
    # For mypy: the kinds of store have this base.
    store: AnyObjectStoreConfig = required(instance(_Store))  # type: ignore[assignment]
    name: str | None = setting(string)

    def check(self) -> None:
        """Refuse a container that could never serve a chunk.

        Raises:
            InvalidInputError: bad name, prefix without final slash, or a scheme that does not
                suit the store.
        """
        if self.name is not None and (not self.name or "/" in self.name):
            raise _refuse("the name of a virtual chunk container is empty or has a slash", self)
        if not self.url_prefix.endswith("/"):
            raise _refuse("the url_prefix of a virtual chunk container must end in '/'", self)
        if set(self.url_prefix) & {"?", "#"}:
            raise _refuse("the url_prefix of a virtual chunk container has no query", self)
        try:
            root = parse_location(self.url_prefix)
        except InvalidInputError as error:
            raise _refuse(f"url_prefix cannot be used: {error.args[0]}", self) from None
        if not isinstance(self.store, _SCHEMES.get(root.scheme, ())):
            raise _refuse(f"scheme {root.scheme!r} of url_prefix does not suit the store", self)
        if root.scheme == "file" and not root.authority and not root.key:
            raise _refuse("url_prefix must have a path", self)


def _refuse(message: str, container: VirtualChunkContainer) -> InvalidInputError:
    return InvalidInputError(
        message,
        kind=ErrorKind.BAD_PREFIX,
        url_prefix=container.url_prefix,
        store=type(container.store).__name__,
    )


@dataclass(frozen=True, slots=True, repr=False)
class VirtualChunkSpec(MaskedRecord):
    """A chunk that is a range of bytes of some other object."""

    index: list[int]
    location: str
    offset: int
    length: int
    etag_checksum: str | None = None
    last_updated_at_checksum: datetime | None = None

    def __post_init__(self) -> None:
        for number in self.index:
            u32(number)
        u64(self.offset)
        u64(self.length)
        when = self.last_updated_at_checksum
        if when is not None and when.tzinfo is None:
            raise ValueError("last_updated_at_checksum must have a time zone")
