"""Reading ranges of objects outside the repository: from files, and from object stores."""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import obstore
from obstore import exceptions as foreign

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.masking import shown_url
from frazil.model.config import (
    ObjectStoreConfig,
    StorageConcurrencySettings,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.model.location import ParsedLocation
from frazil.storage.client_settings import user_agent
from frazil.storage.clients import Clients
from frazil.storage.credential_functions import (
    azure_anonymous_credentials,
    gcs_anonymous_credentials,
    s3_anonymous_credentials,
    s3_from_env_credentials,
)
from frazil.storage.credentials import AnyCredential
from frazil.storage.faults import FOREIGN, check_headers, cleaned, fault, status_of
from frazil.storage.places import AzurePlace, CloudPlace, GcsPlace, HttpPlace
from frazil.storage.pool import fan_out
from frazil.storage.posix import etag as file_etag
from frazil.storage.ranges import WantedRange
from frazil.storage.requests import bare, run_all
from frazil.storage.s3_place import S3Place
from frazil.storage.trust import TIGRIS
from frazil.storage.web_client import WebClient, body_of, ranged

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class FileSource:
    """Local files below one directory; links must not lead out of it."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)

    def read(self, wanted: WantedRange) -> bytes:
        """Read a range of a file."""
        path = self._confined(wanted)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            raise wanted.failed(error.strerror or "cannot open the file") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise wanted.failed("not a regular file")
            self._check(wanted, status)
            # Before memory is taken: a reference may name any length.
            wanted.check_end(status.st_size)
            return wanted.check_size(_read_range(descriptor, wanted))
        finally:
            os.close(descriptor)

    def read_many(self, wanted: Sequence[WantedRange], limit: int) -> list[bytes]:
        """Read many ranges, in threads."""
        return fan_out(self.read, wanted)

    def _confined(self, wanted: WantedRange) -> str:
        path = os.path.realpath(f"/{wanted.key}")
        if path.startswith(self._root.rstrip("/") + "/"):
            return path
        raise InvalidInputError(
            "the location leads out of its virtual chunk container",
            kind=ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER,
            location=shown_url(wanted.url),
        )

    def _check(self, wanted: WantedRange, status: os.stat_result) -> None:
        match wanted.checksum:
            case int(seconds) if not _is_of_time(status, seconds):
                raise wanted.modified()
            case str(tag) if bare(tag) != bare(file_etag(status)):
                raise wanted.modified()
            case _:
                pass


def _is_of_time(status: os.stat_result, seconds: int) -> bool:
    """Whether a file is the one that a reference of that time was made of.

    It was changed in that very second, or not changed since. A file that was put in its
    place later may well be older: `cp -p`, `rsync -a` and backups keep the times of files.
    """
    end = seconds * 1_000_000_000
    is_exact = end - 1_000_000_000 < status.st_mtime_ns <= end
    return is_exact or max(status.st_mtime_ns, status.st_ctime_ns) <= end


def _read_range(descriptor: int, wanted: WantedRange) -> bytes:
    """Read up to the end of the range or of the file."""
    data = os.pread(descriptor, wanted.size, wanted.start)
    while len(data) < wanted.size:
        more = os.pread(descriptor, wanted.size - len(data), wanted.start + len(data))
        if not more:
            break
        data += more
    return data


class ObjectSource:
    """Objects of one bucket, or behind one host."""

    def __init__(self, place: CloudPlace, settings: StorageSettings) -> None:
        self._clients = Clients(place, settings, legacy_rooted_keys=False)
        concurrency = settings.concurrency or StorageConcurrencySettings()
        self._part = int(str(concurrency.effective("ideal_concurrent_request_size")))
        self._most = int(str(concurrency.effective("max_concurrent_requests_for_object")))
        self._odd_client = lru_cache(maxsize=64)(self._open_odd)

    def read(self, wanted: WantedRange) -> bytes:
        """Read a range of an object; a large one by several requests at once."""
        client, key = self._address(wanted)
        if wanted.size <= 2 * self._part:
            with self._clients.gate:
                try:
                    found = obstore.get(client, key, options=self._options(wanted))
                    _check(wanted, found.meta["e_tag"], found.meta["last_modified"])
                    wanted.check_end(found.meta["size"])  # before memory is taken for it
                    return wanted.check_size(bytes(found.bytes()))
                except FOREIGN as error:
                    raise self._storage_error(wanted, error) from None
        count = min(self._most, -(-wanted.size // self._part))
        step = -(-wanted.size // count)
        starts = range(wanted.start, wanted.end, step)
        parts = [replace(wanted, start=at, end=min(at + step, wanted.end)) for at in starts]
        return b"".join(self.read_many(parts, self._most))

    def read_many(self, wanted: Sequence[WantedRange], limit: int) -> list[bytes]:
        """Read many ranges at once."""
        return run_all(self._read, wanted, limit)

    async def _read(self, wanted: WantedRange) -> bytes:
        client, key = self._address(wanted)
        try:
            found = await obstore.get_async(client, key, options=self._options(wanted))
            _check(wanted, found.meta["e_tag"], found.meta["last_modified"])
            wanted.check_end(found.meta["size"])
            return wanted.check_size(bytes(await found.bytes_async()))
        except FOREIGN as error:
            raise self._storage_error(wanted, error) from None

    def _options(self, wanted: WantedRange) -> Any:  # noqa: ANN401  (a TypedDict)
        options: dict[str, object] = {"range": (wanted.start, wanted.end)}
        match wanted.checksum:
            case str(tag):
                is_s3 = isinstance(self._clients.place, S3Place)
                options["if_match"] = bare(tag) if is_s3 else f'"{bare(tag)}"'
            case int(seconds):
                options["if_unmodified_since"] = datetime.fromtimestamp(seconds, UTC)
            case None:
                pass
        return options

    def _storage_error(self, wanted: WantedRange, error: BaseException) -> StorageError:
        if isinstance(error, foreign.PreconditionError):
            return wanted.modified()
        if status_of(error) == 416:
            return wanted.too_short()
        translated = fault(error, "read", wanted.key, self._clients.place.url)
        return wanted.failed(f"{translated.args[0]} ({cleaned(error)})")

    # --- keys ---

    def _address(self, wanted: WantedRange) -> tuple[ObjectStore, str]:
        """The client and the key to ask it for."""
        key = wanted.key
        if "//" not in key and not key.startswith("/"):
            return self._clients.reader, key
        folder, _, name = f"/{key}".rpartition("//")
        return self._odd_client(folder), name

    def _open_odd(self, folder: str) -> ObjectStore:
        """A client below a folder whose name ends in a slash, which obstore cannot spell."""
        place = self._clients.place
        assert isinstance(place, S3Place)
        below = replace(place, bucket=place.bucket + quote(folder, safe="/"))
        return Clients(below, self._clients.settings, legacy_rooted_keys=True).reader


class WebSource:
    """Files behind one web server."""

    def __init__(self, place: HttpPlace, settings: StorageSettings) -> None:
        self._client = WebClient(place, settings, user_agent())

    def read(self, wanted: WantedRange) -> bytes:
        """Read a range of a file."""
        headers = ranged(wanted.start, wanted.end)
        match wanted.checksum:
            case str(tag):
                headers["If-Match"] = f'"{bare(tag)}"'
            case int(seconds):
                headers["If-Unmodified-Since"] = formatdate(seconds, usegmt=True)
            case None:
                pass
        try:
            reply = self._client.ask("GET", wanted.key, headers, limit=wanted.end)
        except StorageError as error:
            raise wanted.failed(str(error)) from None
        match reply.status:
            case 200 | 206:
                _check(wanted, reply.etag, reply.modified)
                if reply.status == 200 and len(reply.body) <= wanted.start:
                    return wanted.check_size(b"")
                return wanted.check_size(body_of(reply, wanted.start, wanted.end))
            case 412:
                raise wanted.modified()
            case 404 | 410:
                raise wanted.failed("the object does not exist")
            case 416:
                return wanted.check_size(b"")
            case _:
                raise wanted.failed(str(self._client.failed(reply, "read", wanted.key)))

    def read_many(self, wanted: Sequence[WantedRange], limit: int) -> list[bytes]:
        """Read many ranges, in threads."""
        return fan_out(self.read, wanted)


def _check(wanted: WantedRange, etag: str | None, modified: datetime) -> None:
    """Compare once more: plain web servers ignore conditions."""
    match wanted.checksum:
        case str(tag) if etag and _strong(etag) != _strong(tag):
            raise wanted.modified()
        case int(seconds) if int(modified.timestamp()) > seconds:
            raise wanted.modified()
        case _:
            pass


def _strong(etag: str) -> str:
    return bare(etag.removeprefix("W/"))


VirtualSource: TypeAlias = FileSource | ObjectSource | WebSource


def source_for(
    container: VirtualChunkContainer,
    root: ParsedLocation,
    credential: AnyCredential | None,
    settings: StorageSettings,
) -> VirtualSource:
    """What reads the locations of a container, which is at `root`."""
    if isinstance(container.store, ObjectStoreConfig.LocalFileSystem):
        if root.authority:
            raise InvalidInputError(
                "the location names a file on another host",
                kind=ErrorKind.INVALID_VIRTUAL_REF,
                location=container.url_prefix,
            )
        return FileSource(f"/{root.key}")
    place = _place(container, root, credential)
    if isinstance(place, HttpPlace):
        return WebSource(place, settings)
    return ObjectSource(place, settings)


def _place(
    container: VirtualChunkContainer, root: ParsedLocation, credential: AnyCredential | None
) -> CloudPlace:
    store = container.store
    secret: Any = getattr(credential, "_0", None)
    match store:
        case ObjectStoreConfig.S3() | ObjectStoreConfig.S3Compatible() | ObjectStoreConfig.Tigris():
            options = copy.deepcopy(store.options)
            if isinstance(store, ObjectStoreConfig.Tigris) and options.endpoint_url is None:
                options.endpoint_url = TIGRIS
            if credential is None:
                unsigned = options.anonymous
                secret = s3_anonymous_credentials() if unsigned else s3_from_env_credentials()
            return S3Place(root.authority, "", options, secret)
        case ObjectStoreConfig.Gcs():
            secret = secret or gcs_anonymous_credentials()
            return GcsPlace(root.authority, "", secret, dict(store.opts or {}))
        case ObjectStoreConfig.Azure():
            opts = dict(store.opts or {})
            secret = secret or azure_anonymous_credentials()
            return AzurePlace(opts.pop("account", ""), root.authority, "", secret, opts)
        case ObjectStoreConfig.Http():
            address = f"{root.scheme}://{root.authority}"
            headers = check_headers(dict(store.headers or {}))
            return HttpPlace(address, dict(store.opts or {}), headers)
        case _:
            raise StorageError(
                "virtual chunks cannot be read from this kind of store",
                kind=ErrorKind.STORAGE_CONFIG,
                store=type(store).__name__,
            )
