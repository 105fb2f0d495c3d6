"""Object stores through obstore: S3 and its relatives, Google, Azure, and web servers to read.

Conditional writes carry a random id, are attempted one at a time, and are read back when their
outcome is in doubt: a lost reply looks exactly like a lost race. Keys are used as they are.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import obstore
from obstore import exceptions as foreign

from frazil.errors import ErrorKind, ReadOnlyError, StorageError
from frazil.model.config import Attribution, StorageConcurrencySettings, StorageSettings
from frazil.model.display import Field, Literal, Shown
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
    byte_span,
    check_key,
    check_prefix,
    check_range,
)
from frazil.storage.clients import DEFAULT_LIMIT, Clients
from frazil.storage.faults import (
    FOREIGN,
    LOST_RACE,
    cleaned,
    fault,
    is_missing_bucket,
    is_uncertain,
    is_unsupported,
    status_of,
    told,
)
from frazil.storage.io_loop import run_all
from frazil.storage.places import HttpPlace, Place, Role, S3Place, backoff_s, max_tries

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from obstore import GetResult, ObjectMeta, PutMode, UpdateVersion
    from obstore.store import ObjectStore

Range: TypeAlias = tuple[str, int | None, int | None]
Span: TypeAlias = tuple[int | None, int | None]

WRITE_ID: Final = "icechunkwriteid"
"""Letters only: Azure wants identifiers, and some gateways drop names with an underscore."""
PART_BYTES: Final = 16 << 20
MAX_PARTS: Final = 9_000
"""of a multipart upload; stores allow 10,000"""
DELETE_BATCH: Final = 1000


class ObjectStorage(Storage, Shown):
    """The objects of a repository below a prefix of an object store."""

    shown_name = "Storage"

    def __init__(
        self,
        place: Place,
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
    def place(self) -> Place:
        """Where this is, with its options."""
        return self._clients.place

    @property
    def url(self) -> str:
        """Where this is, without secrets."""
        return self.place.url

    def shown_fields(self) -> Iterable[Field]:
        """The kind of store and where it is."""
        yield Field("type", Literal(self.place.kind))
        for name, value in self.place.fields():
            yield Field(name, Literal(value))

    # --- reading ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it; a large one by several requests at once."""
        check_key(key)
        check_range(start, end)
        if start is not None and start == end:
            return self._nothing(key, start, end)  # HTTP cannot ask for an empty range
        try:
            with self._clients.gate:
                found = self._begin(key, _range_option(start, end))
                if found is None:
                    return None
                first, last = found.range
                if last - first <= 2 * self._part_bytes:
                    with self._told("read", key):
                        return bytes(found.bytes())
        except _BeyondError:
            return self._nothing(key, start, end)
        except foreign.NotSupportedError:
            return self._get_by_detour(key, start, end)
        return self._get_parts(key, first, last, found.meta["e_tag"])

    def _get_by_detour(self, key: str, start: int | None, end: int | None) -> bytes | None:
        client = self._clients.reader

        async def one(span: Span) -> bytes | None:
            return (await self._get_spans(client, key, [span]))[0]

        return run_all(one, [(start, end)], 1)[0]

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Return the object with its version, or say that the known one is still there."""
        check_key(key)
        tag = self._tag(known)
        with self._clients.gate:
            try:
                found = self._begin(key, {"if_none_match": tag} if tag else {})
            except foreign.NotModifiedError:
                return Unchanged()
            if found is None:
                return None
            version = _version(found.meta)
            if known is not None and version == known:
                return Unchanged()
            with self._told("read", key):
                return Fetched(bytes(found.bytes()), version)

    def head(self, key: str) -> Listed | None:
        """Tell size and time of an object."""
        check_key(key)
        found = self._head(key)
        return None if found is None else _listed(key, found.meta)

    def get_many(self, ranges: Sequence[Range]) -> Found:
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
            parts = await self._get_spans(client, key, spans)
            for number, part in zip(numbers, parts, strict=True):
                found[number] = part

        run_all(one, list(by_key.items()), self._clients.limit)
        return found

    async def _get_spans(self, client: ObjectStore, key: str, spans: Sequence[Span]) -> Found:
        """Ranges of one object, in order."""
        full = self._clients.full(key)
        try:
            if len(spans) > 1 and (exact := _exact(spans)):
                starts, ends = exact
                try:
                    parts = await obstore.get_ranges_async(client, full, starts=starts, ends=ends)
                    return [bytes(part) for part in parts]
                except foreign.NotSupportedError:
                    pass
                except foreign.GenericError as error:
                    if status_of(error) != 416:
                        raise
            return [await _get_span(client, full, *span) for span in spans]
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise self._fault(error, "read", key) from None
            return [None] * len(spans)
        except FOREIGN as error:
            raise self._fault(error, "read", key) from None

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the objects below a prefix, sorted by key."""
        check_prefix(prefix)
        root = self._clients.full("")
        # Keys with a leading slash can only be listed by asking for everything.
        wanted = None if self._clients.is_rooted else root + prefix
        found: list[Listed] = []
        with self._clients.gate, self._told("list", prefix):
            for batch in obstore.list(self._clients.reader, wanted or None, chunk_size=1000):
                for meta in batch:
                    path = meta["path"]
                    if path.startswith(root + prefix):
                        found.append(_listed(path[len(root) :], meta))
        found.sort(key=attrgetter("key"))
        yield from found

    def is_empty(self) -> bool:
        """Whether no object at all is here; asks for one page only."""
        wanted = self._clients.full("") or None
        with self._clients.gate, self._told("list", ""):
            return not any(obstore.list(self._clients.reader, wanted, chunk_size=10))

    # --- writing ---

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write the object, in parts when it is large."""
        self._check_writable(key)
        with self._clients.gate, self._told("write", key):
            obstore.put(
                self._clients.writer,
                self._clients.full(key),
                _flat(data),
                attributes=self._attributes(attributes),
                **self._upload(len(data)),
            )

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Many writes at once."""
        todo = [*items]
        for key, _ in todo:
            self._check_writable(key)
        if not todo:
            return
        client, extra = self._clients.writer, self._attributes(attributes)

        async def one(item: tuple[str, Bytes]) -> None:
            key, data = item
            with self._told("write", key):
                await obstore.put_async(
                    client,
                    self._clients.full(key),
                    _flat(data),
                    attributes=extra,
                    **self._upload(len(data)),
                )

        run_all(one, todo, self._clients.limit)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write only if the object is still as expected, and know whether it was us."""
        self._check_writable(key)
        mode = self._condition(key, expected)
        if mode is None:
            self.put(key, data, attributes)
            found = self._head(key)
            return Written(_version(found.meta) if found else Version(None))
        attempt = _Attempt(key, bytes(data), expected, secrets.token_hex(12))
        extra = self._attributes(attributes, attempt.write_id)
        settings = self._clients.settings
        tries = max_tries(settings)
        for number in range(tries):
            if outcome := self._put_once(attempt, mode, extra):
                return outcome
            if number + 1 < tries:
                time.sleep(backoff_s(settings, number))
        raise attempt.failure or StorageError("the store gave no answer", key=key)

    def _put_once(
        self, attempt: _Attempt, mode: PutMode, extra: dict[str, str]
    ) -> Written | LostRace | None:
        """One conditional write; None when it should be tried again."""
        key = attempt.key
        try:
            with self._clients.gate:
                done = obstore.put(
                    self._clients.get(Role.CONDITION),
                    self._clients.full(key),
                    attempt.data,
                    attributes=extra,
                    mode=mode,
                    use_multipart=False,
                )
            return Written(Version(done["e_tag"], done["version"]))
        except LOST_RACE as error:
            attempt.failure = self._fault(error, "write", key)
            return self._resolve(attempt)
        except FOREIGN as error:
            if is_unsupported(error):
                raise self._no_conditions(key, cleaned(error)) from None
            attempt.failure = self._fault(error, "write", key)
            if not is_uncertain(error):
                raise attempt.failure from None
        attempt.is_in_doubt = True
        try:
            return self._written_by_us(attempt)
        except StorageError:
            return None  # still unreachable: the next attempt finds out

    def _resolve(self, attempt: _Attempt) -> Written | LostRace | None:
        """Tell a lost race from the echo of our own write, and from a passing conflict."""
        if ours := self._written_by_us(attempt):
            return ours
        found = self._head(attempt.key)
        if attempt.expected is None:
            return None if found is None else LostRace(attempt.key)
        if found is not None and _is_same(_version(found.meta), attempt.expected):
            return None  # refused for the moment only; nobody has changed anything
        return LostRace(attempt.key)

    def _written_by_us(self, attempt: _Attempt) -> Written | None:
        found = self._head(attempt.key)
        if found is None:
            return None
        stored = found.attributes.get(WRITE_ID)
        if stored == attempt.write_id:
            return Written(_version(found.meta))
        if stored is None and attempt.is_in_doubt:
            # The store keeps no ids. Only a try whose reply was lost can have left our bytes
            # there; after a plain refusal equal bytes are somebody else's.
            there = self.fetch(attempt.key)
            if isinstance(there, Fetched) and there.data == attempt.data:
                return Written(there.version)
        return None

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Copy an object, by way of this machine, if its version is still as expected."""
        check_key(source)
        self._check_writable(target)
        tag = self._tag(expected)
        try:
            with self._clients.gate:
                found = self._begin(source, {"if_match": tag} if tag else {})
                if found is None or not _is_same(_version(found.meta), expected):
                    return LostRace(source)
                with self._told("read", source):
                    data = bytes(found.bytes())
        except foreign.PreconditionError:
            return LostRace(source)
        extra = {name: text for name, text in found.attributes.items() if name != WRITE_ID}
        with self._clients.gate, self._told("write", target):
            done = obstore.put(
                self._clients.writer,
                self._clients.full(target),
                data,
                attributes=extra,
                **self._upload(len(data)),
            )
        return Written(Version(done["e_tag"], done["version"]))

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects in batches; one that fails does not stop the others."""
        for key in keys:
            self._check_writable(key)
        client = self._clients.writer
        batches = [keys[at : at + DELETE_BATCH] for at in range(0, len(keys), DELETE_BATCH)]

        async def one(batch: Sequence[str]) -> list[tuple[str, str]]:
            full = [self._clients.full(key) for key in batch]
            try:
                await obstore.delete_async(client, full)
            except FOREIGN:
                reasons = await asyncio.gather(*(_delete_one(client, path) for path in full))
                return [(k, reason) for k, reason in zip(batch, reasons, strict=True) if reason]
            return []

        failed = [pair for part in run_all(one, batches, self._clients.limit) for pair in part]
        return Deleted(len(keys) - len(failed), failed=tuple(failed))

    # --- what the store can do ---

    def probe_conditional_writes(self) -> None:
        """Make sure that this store honours conditions on writes, with a throw-away object.

        Raises:
            StorageError: it does not, so that concurrent commits could lose data.
        """
        key = f"probe-{secrets.token_hex(8)}"
        first = self.put_if(key, b"first", None)
        if not isinstance(first, Written):
            raise self._no_conditions(key, "a new object could not be created")
        try:
            if isinstance(self.put_if(key, b"second", None), Written):
                raise self._no_conditions(key, "an object could be created twice")
            other = Version('"0123456789abcdef0123456789abcdef"', "1")
            if isinstance(self.put_if(key, b"third", other), Written):
                raise self._no_conditions(key, "a changed object could be overwritten")
            if not isinstance(self.put_if(key, b"last", first.version), Written):
                raise self._no_conditions(key, "an unchanged object could not be replaced")
        finally:
            self.delete_many([key])

    def _no_conditions(self, key: str, why: str) -> StorageError:
        return StorageError(
            "this store does not support conditional writes, which keep concurrent commits"
            " safe; use another store, or switch them off in StorageSettings"
            " (unsafe_use_conditional_create, unsafe_use_conditional_update) if there is never"
            " more than one writer",
            kind=ErrorKind.STORAGE_CONFIG,
            storage=self.url,
            key=key,
            cause=why,
        )

    @property
    def can_write(self) -> bool:
        """Whether this kind of place takes writes."""
        return self.place.can_write

    @property
    def allows_empty_prefix(self) -> bool:
        """False at the root of a bucket, where others may keep things too."""
        return bool(self.place.prefix) or isinstance(self.place, HttpPlace)

    @property
    def keeps_keys(self) -> bool:
        """Whether the official package keeps names verbatim here, without percent-encoding."""
        return self.place.keeps_keys

    # --- settings ---

    def default_settings(self) -> StorageSettings:
        """Nothing special: the general defaults are made for object stores."""
        return StorageSettings()

    def with_settings(self, settings: StorageSettings) -> ObjectStorage:
        """The same place with other settings; clients are opened anew."""
        return self._with(self._clients.changed(settings=settings))

    def with_attribution(self, attribution: Attribution | None) -> ObjectStorage:
        """The same place, whose requests carry these labels in their User-Agent."""
        return self._with(self._clients.changed(attribution=attribution or Attribution()))

    def with_request_limit(self, max_concurrent_requests: int) -> ObjectStorage:
        """The same place with another limit on requests in flight."""
        return self._with(self._clients.changed(limit=max_concurrent_requests))

    def _with(self, clients: Clients) -> ObjectStorage:
        other = ObjectStorage.__new__(ObjectStorage)
        other._clients = clients
        return other

    # --- single requests ---

    def _begin(self, key: str, options: dict[str, object]) -> GetResult | None:
        """Begin to read; None when there is no such object."""
        given: Any = options
        try:
            return obstore.get(self._clients.reader, self._clients.full(key), options=given)
        except (foreign.NotModifiedError, foreign.PreconditionError, foreign.NotSupportedError):
            raise
        except FOREIGN as error:
            if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
                return None
            if status_of(error) == 416:
                raise _BeyondError from None
            raise self._fault(error, "read", key) from None

    def _head(self, key: str) -> GetResult | None:
        with self._clients.gate:
            return self._begin(key, {"head": True})

    def _nothing(self, key: str, start: int | None, end: int | None) -> bytes | None:
        """Answer a range that is empty or that the server refused as outside the object."""
        found = self._head(key)
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
        same: dict[str, object] = {"if_match": self._tag(Version(etag))} if etag else {}
        whole = bytearray(last - first)

        async def one(start: int) -> None:
            options: Any = {"range": (start, min(start + step, last)), **same}
            with self._told("read", key):
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
                "this storage can only be read",
                kind=ErrorKind.READ_ONLY_STORAGE,
                storage=self.url,
            )

    def _attributes(self, given: Attributes, write_id: str | None = None) -> dict[str, str]:
        """What is kept beside the bytes, in obstore's terms."""
        settings = self._clients.settings
        found: dict[str, str] = {}
        if settings.effective("unsafe_use_metadata"):
            found.update(given.metadata)
            if given.content_type:
                found["Content-Type"] = given.content_type
            if write_id:
                found[WRITE_ID] = write_id
        own = settings.chunks_storage_class if given.is_chunk else settings.metadata_storage_class
        if storage_class := own or settings.storage_class:
            found["Storage-Class"] = storage_class
        return found

    def _upload(self, size: int) -> dict[str, Any]:
        smallest = int(str(self._clients.settings.effective("minimum_size_for_multipart_upload")))
        if size < max(smallest, 1):
            return {"use_multipart": False}
        return {"use_multipart": True, "chunk_size": max(PART_BYTES, -(-size // MAX_PARTS))}

    def _condition(self, key: str, expected: Version | None) -> PutMode | None:
        """The mode of a conditional write; None where settings turn conditions off."""
        settings = self._clients.settings
        if expected is None:
            return "create" if settings.effective("unsafe_use_conditional_create") else None
        if not settings.effective("unsafe_use_conditional_update"):
            return None
        mode: UpdateVersion = {}
        # obstore refuses None as a value.
        if tag := self._tag(expected):
            mode["e_tag"] = tag
        if expected.generation is not None:
            mode["version"] = expected.generation
        if not mode:
            raise self._no_conditions(key, "it gives no versions")
        return mode

    def _tag(self, version: Version | None) -> str | None:
        """An ETag to compare with; some S3 servers only know it without its quotes."""
        if version is None or version.etag is None:
            return None
        return bare(version.etag) if isinstance(self.place, S3Place) else version.etag

    def _told(self, action: str, key: str) -> AbstractContextManager[None]:
        return told(action, key, self.url)

    def _fault(self, error: BaseException, action: str, key: str) -> Exception:
        return fault(error, action, key, self.url)


class _BeyondError(Exception):
    """The server says that the range is not in the object."""


@dataclass
class _Attempt:
    """A conditional write on its way."""

    key: str
    data: bytes
    expected: Version | None
    write_id: str
    is_in_doubt: bool = False
    """whether an earlier try may have taken effect"""
    failure: Exception | None = None


async def _get_span(client: ObjectStore, full: str, start: int | None, end: int | None) -> bytes:
    """One range of an object, also where the store knows only some kinds of ranges, or none."""
    if start is None or start != end:
        try:
            return await _ask(client, full, _range_option(start, end))
        except foreign.NotSupportedError:
            pass
        except foreign.GenericError as error:
            if status_of(error) != 416:
                raise
    first, last = byte_span((await obstore.head_async(client, full))["size"], start, end)
    if first >= last:
        return b""
    try:
        return await _ask(client, full, {"range": (first, last)})
    except foreign.NotSupportedError:
        return (await _ask(client, full, {}))[first:last]


async def _ask(client: ObjectStore, full: str, options: dict[str, object]) -> bytes:
    given: Any = options
    found = await obstore.get_async(client, full, options=given)
    return bytes(await found.bytes_async())


async def _delete_one(client: ObjectStore, full: str) -> str | None:
    """Delete one object and give the reason if that fails."""
    try:
        await obstore.delete_async(client, full)
    except FOREIGN as error:
        if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
            return None
        return cleaned(error)
    return None


def _range_option(start: int | None, end: int | None) -> dict[str, object]:
    if start is None and end is None:
        return {}
    if end is not None:
        return {"range": (start or 0, end)}
    if start is not None and start < 0:
        return {"range": {"suffix": -start}}
    return {"range": {"offset": start}}


def _exact(spans: Sequence[Span]) -> tuple[list[int], list[int]] | None:
    """Starts and ends, when all spans have both and none is empty."""
    starts = [start for start, end in spans if start is not None and end is not None]
    ends = [end for start, end in spans if start is not None and end is not None]
    if len(starts) < len(spans) or any(a >= b for a, b in zip(starts, ends, strict=True)):
        return None
    return starts, ends


def _flat(data: Bytes) -> bytes | memoryview:
    """The bytes in the form obstore takes."""
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 and view.c_contiguous else bytes(view)


def _version(meta: ObjectMeta) -> Version:
    return Version(meta["e_tag"], meta["version"])


def _is_same(found: Version, expected: Version) -> bool:
    if expected.generation is not None and found.generation is not None:
        return found.generation == expected.generation
    return bare(found.etag or "") == bare(expected.etag or "")


def bare(etag: str) -> str:
    """An ETag without the quotes around it."""
    return etag[1:-1] if len(etag) > 1 and etag[0] == etag[-1] == '"' else etag


def _listed(key: str, meta: ObjectMeta) -> Listed:
    return Listed(key, meta["size"], meta["last_modified"])
