"""Object stores through obstore: S3 and its relatives, Google, Azure, and web servers to read.

Keys are used as they are. Where to connect is in `places`, the clients are in `clients`, and
how conditional writes stay certain is in `conditional`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import obstore
from obstore import exceptions as foreign

from frazil.errors import ErrorKind, ReadOnlyError, StorageError
from frazil.model.config import Attribution, StorageConcurrencySettings, StorageSettings
from frazil.model.display import Field, Verbatim
from frazil.storage.base import (
    PLAIN,
    Attributes,
    Bytes,
    Deleted,
    Fetched,
    Found,
    Listed,
    LostRace,
    Storage,
    Unchanged,
    Version,
    Written,
    all_deleted,
)
from frazil.storage.clients import Clients
from frazil.storage.conditional import (
    WRITE_ID,
    ConditionalPut,
    condition,
    delete_once,
    no_conditions,
)
from frazil.storage.faults import (
    FOREIGN,
    cleaned,
    fault,
    is_missing_bucket,
    is_uncertain,
    status_of,
    translate_errors,
)
from frazil.storage.keys import byte_span, check_key, check_prefix, check_range
from frazil.storage.odd_listing import list_odd
from frazil.storage.places import CloudPlace, HttpPlace
from frazil.storage.requests import (
    BeyondError,
    ByteSpan,
    ask_head,
    begin_get,
    delete_one,
    exact,
    flat,
    get_span,
    is_same_state,
    listed_object,
    range_option,
    run_all,
    tag_for,
    version_of_object,
    whole,
    whole_async,
)
from frazil.storage.s3_place import S3Place
from frazil.storage.tuning import DEFAULT_LIMIT, PART_BYTES, PARTED_FROM

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from obstore.store import ObjectStore

T = TypeVar("T")
ObjectRange: TypeAlias = tuple[str, int | None, int | None]

UNSORTED: Final = "--x-s3"
"""Ends the names of directory buckets, which list keys in any order."""
MAX_PARTS: Final = 9_000
"""of a multipart upload; stores allow 10,000"""
DELETE_BATCH: Final = 1000
"""Keys of one bulk delete: the limit of S3."""


class ObjectStorage(Storage):
    """The objects of a repository below a prefix of an object store."""

    def __init__(
        self,
        place: CloudPlace,
        *,
        settings: StorageSettings | None = None,
        legacy_rooted_keys: bool | None = None,
        attribution: Attribution | None = None,
        max_concurrent_requests: int = DEFAULT_LIMIT,
    ) -> None:
        self._clients = Clients(
            place,
            settings or StorageSettings(),
            legacy_rooted_keys=legacy_rooted_keys,
            attribution=attribution,
            limit=max_concurrent_requests,
        )

    @property
    def place(self) -> CloudPlace:
        """Where this is, with its options."""
        return self._clients.place

    @property
    def url(self) -> str:
        return self.place.url

    @property
    def connection(self) -> Mapping[str, str | None]:
        return self.place.connection

    def _shown_fields(self) -> Iterable[Field]:
        yield Field("type", Verbatim(self.place.kind))
        for name, value in self.place.fields():
            yield Field(name, Verbatim(value))

    # --- reading ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it; a large one by several requests at once."""
        check_key(key)
        check_range(start, end)
        if start is not None and start == end:
            return self._nothing(key, start, end)  # HTTP cannot ask for an empty range
        return self._whole(lambda: self._get(key, start, end))

    def _get(self, key: str, start: int | None, end: int | None) -> bytes | None:
        try:
            with self._clients.gate:
                found = begin_get(self._clients, key, range_option(start, end))
                if found is None:
                    return None
                first, last = found.range
                if last - first <= 2 * self._part_bytes:
                    with self._translated("read", key):
                        return bytes(found.bytes())
        except BeyondError:
            return self._nothing(key, start, end)
        except foreign.NotSupportedError:
            return self._get_by_detour(key, start, end)
        return self._get_parts(key, first, last, found.meta["e_tag"])

    def _get_by_detour(self, key: str, start: int | None, end: int | None) -> bytes | None:
        client = self._clients.reader

        async def one(span: ByteSpan) -> bytes | None:
            return (await self._get_spans(client, key, [span]))[0]

        return run_all(one, [(start, end)], 1)[0]

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        check_key(key)
        return self._whole(lambda: self._fetch(key, known))

    def _fetch(self, key: str, known: Version | None) -> Fetched | Unchanged | None:
        tag = tag_for(self._clients, known)
        with self._clients.gate:
            try:
                found = begin_get(self._clients, key, {"if_none_match": tag} if tag else {})
            except foreign.NotModifiedError:
                return Unchanged()
            if found is None:
                return None
            version = version_of_object(found.meta)
            if known is not None and version == known:
                return Unchanged()
            with self._translated("read", key):
                return Fetched(bytes(found.bytes()), version)

    def head(self, key: str) -> Listed | None:
        check_key(key)
        found = ask_head(self._clients, key)
        return None if found is None else listed_object(key, found.meta)

    def get_many(self, ranges: Sequence[ObjectRange]) -> Found:
        """Many ranges at once; several of one object share requests where they are near."""
        if len(ranges) < 2:
            return [self.get(*item) for item in ranges]
        by_key: dict[str, list[int]] = {}
        for number, (key, start, end) in enumerate(ranges):
            check_key(key)
            check_range(start, end)
            by_key.setdefault(key, []).append(number)
        client = self._clients.reader
        found: Found = [None] * len(ranges)

        async def one(item: tuple[str, list[int]]) -> None:
            key, numbers = item
            spans = [ranges[number][1:] for number in numbers]
            parts = await whole_async(
                lambda: self._get_spans(client, key, spans), self._clients.settings
            )
            for number, part in zip(numbers, parts, strict=True):
                found[number] = part

        run_all(one, list(by_key.items()), self._clients.limit)
        return found

    async def _get_spans(self, client: ObjectStore, key: str, spans: Sequence[ByteSpan]) -> Found:
        """Ranges of one object, in order."""
        full = self._clients.full(key)
        try:
            if len(spans) > 1 and (bounds := exact(spans)):
                starts, ends = bounds
                try:
                    parts = await obstore.get_ranges_async(client, full, starts=starts, ends=ends)
                    return [bytes(part) for part in parts]
                except foreign.NotSupportedError:
                    pass
                except foreign.GenericError as error:
                    if status_of(error) != 416:
                        raise
            return [await get_span(client, full, *span) for span in spans]
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise self._fault(error, "read", key) from None
            return [None] * len(spans)
        except FOREIGN as error:
            raise self._fault(error, "read", key) from None

    def list(self, prefix: str = "") -> Iterator[Listed]:
        check_prefix(prefix)
        if self._clients.is_odd:
            yield from sorted(self._list_odd(prefix), key=attrgetter("key"))
            return
        yield from self._whole(lambda: self._list(prefix))

    def _list(self, prefix: str) -> Sequence[Listed]:
        root = self._clients.full("")
        # Keys with a leading slash can only be listed by asking for everything.
        wanted = None if self._clients.is_rooted else root + prefix
        found: list[Listed] = []
        with self._clients.gate, self._translated("list", prefix):
            for batch in obstore.list(self._clients.reader, wanted or None, chunk_size=1000):
                for meta in batch:
                    path = meta["path"]
                    if path.startswith(root + prefix):
                        found.append(listed_object(path[len(root) :], meta))
        found.sort(key=attrgetter("key"))
        return found

    def _list_odd(self, prefix: str, limit: int = 1000) -> Iterator[Listed]:
        place = self.place
        assert isinstance(place, S3Place)  # other stores have no empty parts in their keys
        with self._clients.gate, self._translated("list", prefix):
            yield from list_odd(self._clients, place, prefix, limit)

    def list_between(self, prefix: str, first: str, last: str) -> Iterator[Listed]:
        """Some of the objects below a prefix; sorted listings are asked for no others."""
        place = self._clients.place
        is_sorted = isinstance(place, S3Place) and not place.bucket.endswith(UNSORTED)
        if not is_sorted or self._clients.is_odd or self._clients.is_rooted:
            yield from super().list_between(prefix, first, last)
            return
        check_prefix(prefix)
        yield from self._whole(lambda: self._list_between(prefix, first, last))

    def _list_between(self, prefix: str, first: str, last: str) -> Sequence[Listed]:
        root = self._clients.full("")
        offset = f"{root}{prefix}{_before(first)}" if first else None
        start, stop = prefix + first, prefix + last
        found: list[Listed] = []
        with self._clients.gate, self._translated("list", prefix):
            for batch in obstore.list(
                self._clients.reader, root + prefix, offset=offset, chunk_size=1000
            ):
                keys = [meta["path"][len(root) :] for meta in batch]
                found += [
                    listed_object(key, meta)
                    for key, meta in zip(keys, batch, strict=True)
                    if start <= key < stop
                ]
                if keys and keys[-1] >= stop:
                    break
        return found

    def is_empty(self) -> bool:
        """Whether no object at all is here; asks for one page only."""
        if self._clients.is_odd:
            return next(self._list_odd("", 1), None) is None
        return self._whole(self._is_empty)

    def _is_empty(self) -> bool:
        wanted = self._clients.full("") or None
        with self._clients.gate, self._translated("list", ""):
            return not any(obstore.list(self._clients.reader, wanted, chunk_size=10))

    # --- writing ---

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write the object, in parts when it is large."""
        self._check_writable(key)
        with self._clients.gate, self._translated("write", key):
            obstore.put(
                self._clients.writer,
                self._clients.full(key),
                flat(data),
                attributes=self._attributes(attributes),
                **self._upload(len(data)),
            )

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        todo = [*items]
        for key, _ in todo:
            self._check_writable(key)
        if not todo:
            return
        client, extra = self._clients.writer, self._attributes(attributes)

        async def one(item: tuple[str, Bytes]) -> None:
            key, data = item
            with self._translated("write", key):
                await obstore.put_async(
                    client,
                    self._clients.full(key),
                    flat(data),
                    attributes=extra,
                    **self._upload(len(data)),
                )

        run_all(one, todo, self._clients.limit)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write only if the object is still as expected, and know whether it was us."""
        self._check_writable(key)
        mode = condition(self._clients, key, expected)
        if mode is None:
            self.put(key, data, attributes)
            found = ask_head(self._clients, key)
            return Written(version_of_object(found.meta) if found else Version(None))
        write = ConditionalPut(self._clients, key, bytes(data), expected, mode)
        return write.run(self._attributes(attributes, write.write_id))

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Copy an object, by way of this machine, if its version is still as expected."""
        check_key(source)
        self._check_writable(target)
        return self._whole(lambda: self._copy_if(source, target, expected))

    def _copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        tag = tag_for(self._clients, expected)
        try:
            with self._clients.gate:
                found = begin_get(self._clients, source, {"if_match": tag} if tag else {})
                if found is None or not is_same_state(version_of_object(found.meta), expected):
                    return LostRace(source)
                with self._translated("read", source):
                    data = bytes(found.bytes())
        except foreign.PreconditionError:
            return LostRace(source)
        extra = {name: text for name, text in found.attributes.items() if name != WRITE_ID}
        with self._clients.gate, self._translated("write", target):
            done = obstore.put(
                self._clients.writer,
                self._clients.full(target),
                data,
                attributes=extra,
                **self._upload(len(data)),
            )
        return Written(Version(done["e_tag"], done["version"]))

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        """Let the store copy an object; one that is too large for that goes by this machine."""
        self._check_writable(target)
        check_key(source)
        try:
            with self._clients.gate, self._translated("copy", source):
                obstore.copy(
                    self._clients.writer, self._clients.full(source), self._clients.full(target)
                )
        except StorageError:
            # Stores refuse to copy more than some gigabytes in one request.
            super().duplicate(source, target)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects in batches; one that fails does not stop the others."""
        for key in keys:
            self._check_writable(key)
        client = self._clients.writer
        batches = [keys[at : at + DELETE_BATCH] for at in range(0, len(keys), DELETE_BATCH)]

        async def one(batch: Sequence[str]) -> Deleted:
            full = [self._clients.full(key) for key in batch]
            try:
                await obstore.delete_async(client, full)
            except FOREIGN as error:
                reasons = await asyncio.gather(*(delete_one(client, path) for path in full))
                found = [(k, why) for k, why in zip(batch, reasons, strict=True) if why is not None]
                failed = tuple((key, cleaned(why)) for key, why in found)
                doubt = any(map(is_uncertain, (error, *(why for _, why in found))))
                return Deleted(len(batch) - len(failed), failed=failed, in_doubt=doubt)
            return Deleted(len(batch))

        return all_deleted(run_all(one, batches, self._clients.limit))

    def delete_once(self, key: str, expected: Version) -> Deleted:
        self._check_writable(key)
        return delete_once(self._clients, key, expected)

    # --- what the store can do ---

    def probe_conditional_writes(self) -> None:
        """Make sure that this store honours conditions on writes, with a throw-away object.

        Raises:
            StorageError: it does not, so that concurrent commits could lose data.
        """
        key = f"probe-{secrets.token_hex(8)}"
        first = self.put_if(key, b"first", None)
        if not isinstance(first, Written):
            raise no_conditions(self._clients, key, "a new object could not be created")
        try:
            if isinstance(self.put_if(key, b"second", None), Written):
                raise no_conditions(self._clients, key, "an object could be created twice")
            other = Version('"0123456789abcdef0123456789abcdef"', "1")
            if isinstance(self.put_if(key, b"third", other), Written):
                raise no_conditions(self._clients, key, "a changed object could be overwritten")
            if not isinstance(self.put_if(key, b"last", first.version), Written):
                raise no_conditions(self._clients, key, "an unchanged object could not be replaced")
        finally:
            self.delete_many([key])

    @property
    def can_write(self) -> bool:
        return self.place.can_write

    @property
    def allows_empty_prefix(self) -> bool:
        """False at the root of a bucket, where others may keep things too."""
        return bool(self.place.prefix) or isinstance(self.place, HttpPlace)

    @property
    def percent_encodes_names(self) -> bool:
        """Not in S3, where the official package keeps names as they are."""
        return not self.place.keeps_keys

    def require_safe_commits(self) -> None:
        """Try conditional writes where it is not known that the store honours them.

        Raises:
            StorageError: it does not, so that concurrent commits could lose data.
        """
        settings = self._clients.settings
        is_wanted = settings.effective("unsafe_use_conditional_create") and settings.effective(
            "unsafe_use_conditional_update"
        )
        if is_wanted and not self.place.has_known_conditions:
            self.probe_conditional_writes()

    # --- settings ---

    def default_settings(self) -> StorageSettings:
        """Nothing special: the general defaults are made for object stores."""
        return StorageSettings()

    def with_settings(self, settings: StorageSettings) -> Self:
        """The same place with other settings; clients are opened anew."""
        return self._with(self._clients.changed(settings=settings))

    def with_attribution(self, attribution: Attribution) -> Self:
        """The same place, whose requests carry these labels in their User-Agent."""
        return self._with(self._clients.changed(attribution=attribution))

    @property
    def request_limit(self) -> int:
        """How many requests may be in flight at once."""
        return self._clients.limit

    def with_request_limit(self, max_concurrent_requests: int) -> Self:
        return self._with(self._clients.changed(limit=max_concurrent_requests))

    def moved_to(self, place: CloudPlace) -> Self:
        """The same storage with other options of its place."""
        return self._with(self._clients.changed(place=place))

    def _with(self, clients: Clients) -> Self:
        other = type(self).__new__(type(self))
        other._clients = clients
        return other

    # --- single requests ---

    def _nothing(self, key: str, start: int | None, end: int | None) -> bytes | None:
        """Answer a range that is empty or that the server refused as outside the object."""
        found = ask_head(self._clients, key)
        if found is None:
            return None
        byte_span(found.meta["size"], start, end)
        return b""

    def _get_parts(self, key: str, first: int, last: int, etag: str | None) -> bytes:
        """Read a large range by several requests at once, all of the same version."""
        most = self._concurrency("max_concurrent_requests_for_object")
        count = max(1, min(most, -(-(last - first) // self._part_bytes)))
        step = -(-(last - first) // count)
        client, full = self._clients.reader, self._clients.full(key)
        same: dict[str, object] = (
            {"if_match": tag_for(self._clients, Version(etag))} if etag else {}
        )
        whole = bytearray(last - first)

        async def one(start: int) -> None:
            options: Any = {"range": (start, min(start + step, last)), **same}
            with self._translated("read", key):
                found = await obstore.get_async(client, full, options=options)
                part = await found.bytes_async()
            whole[start - first : start - first + len(part)] = memoryview(part)

        run_all(one, range(first, last, step), min(most, self._clients.limit))
        return bytes(whole)

    @property
    def _part_bytes(self) -> int:
        return self._concurrency("ideal_concurrent_request_size")

    def _concurrency(self, name: str) -> int:
        settings = self._clients.settings.concurrency or StorageConcurrencySettings()
        return int(str(settings.effective(name)))

    # --- parts of requests ---

    def _check_writable(self, key: str) -> None:
        check_key(key)
        if not self.can_write:
            raise ReadOnlyError(
                "this storage is read-only",
                kind=ErrorKind.READ_ONLY_STORAGE,
                storage=self.url,
            )

    def _attributes(self, given: Attributes, write_id: str | None = None) -> dict[str, str]:
        """What is kept beside the bytes, in obstore's terms."""
        settings = self._clients.settings
        found: dict[str, str] = {}
        if settings.effective("unsafe_use_metadata"):
            # Without underscores, as in the official package: some gateways drop such names.
            found.update({name.replace("_", ""): text for name, text in given.metadata.items()})
            if given.content_type:
                found["Content-Type"] = given.content_type
            if write_id:
                found[WRITE_ID] = write_id
        own = settings.chunks_storage_class if given.is_chunk else settings.metadata_storage_class
        if storage_class := own or settings.storage_class:
            found["Storage-Class"] = storage_class
        return found

    def _upload(self, size: int) -> dict[str, Any]:
        wanted = self._clients.settings.minimum_size_for_multipart_upload
        if size < max(PARTED_FROM if wanted is None else wanted, 1):
            return {"use_multipart": False}
        return {"use_multipart": True, "chunk_size": max(PART_BYTES, -(-size // MAX_PARTS))}

    def _whole(self, read: Callable[[], T]) -> T:
        """Make a read again when its reply breaks off."""
        return whole(read, self._clients.settings)

    def _translated(self, action: str, key: str) -> AbstractContextManager[None]:
        return translate_errors(action, key, self.url)

    def _fault(self, error: BaseException, action: str, key: str) -> Exception:
        return fault(error, action, key, self.url)


def _before(name: str) -> str:
    """A name that comes before another one, with few between: listings begin behind it."""
    # The letter before 0 is a slash, and names have no empty parts.
    letter = "." if name[-1] == "0" else chr(ord(name[-1]) - 1)
    return f"{name[:-1]}{letter}~"
