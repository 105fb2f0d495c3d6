"""Virtual chunk containers: which locations may be read, with what, and reading them.

A chunk is read only through a container that the configuration names
and the caller has authorised; credentials are never stored and never shown.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.masking import shown_url
from frazil.model.chunks import VirtualRef
from frazil.model.config import (
    ObjectStoreConfig,
    RepositoryConfig,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.model.location import ParsedLocation, parse_location
from frazil.model.stores import S3_LIKE
from frazil.model.strings import StringPool
from frazil.storage.credentials import AnyCredential, Credentials
from frazil.storage.locations import VCC, is_settled, normalised
from frazil.storage.ranges import WantedRange, near_ranges
from frazil.storage.trust import NOTHING, Trust, why_not_trusted
from frazil.storage.tuning import DEFAULT_LIMIT

if TYPE_CHECKING:
    from frazil.storage.virtual_source import VirtualSource

Authorized: TypeAlias = Mapping[str, AnyCredential | None]

MAX_END: Final = 2**63 - 1
"""No object is longer than file offsets can say."""

_SUSPECT: Final = re.compile(r"(?<!:)/\.{0,2}(?:[/\n]|\Z)|[%\\?#\x00-\x09\x0b-\x1f\x7f]")
"""Characters of locations that need a closer check."""
_FITTING: Final[tuple[tuple[type | tuple[type, ...], type], ...]] = (
    (S3_LIKE, Credentials.S3),
    (ObjectStoreConfig.Gcs, Credentials.Gcs),
    (ObjectStoreConfig.Azure, Credentials.Azure),
    (ObjectStoreConfig.LocalFileSystem, Credentials.LocalFileSystemAccess),
    (ObjectStoreConfig.Http, Credentials.HttpAccess),
)


def checksum_of(checksum: str | datetime | None) -> str | int | None:
    """What a reference keeps of a checksum: an ETag, or whole seconds since 1970."""
    if not isinstance(checksum, datetime):
        return checksum
    if checksum.tzinfo is None:
        raise ValueError("the time of a checksum must have a time zone")
    return int(checksum.astimezone(UTC).timestamp())


class Containers:
    """The containers of a configuration, with the authority to read from some of them."""

    def __init__(
        self,
        config: RepositoryConfig,
        authorized: Authorized | None = None,
        trust: Trust = NOTHING,
    ) -> None:
        """Read the containers of a configuration; `trust` is what the caller has named."""
        usable = [
            made
            for container in (config.virtual_chunk_containers or {}).values()
            if (made := _usable(container)) is not None
        ]
        roots = [(parse_location(container.url_prefix), container) for container in usable]
        # The longest first: a container inside another one has its own rules.
        self._roots = sorted(roots, key=lambda pair: -len(pair[0].key))
        self._containers = tuple(container for _, container in self._roots)
        self._by_name = {container.name: container for container in usable if container.name}
        self._authorized = {_with_slash(p): c for p, c in (authorized or {}).items()}
        self._trust = trust
        self._settings = config.storage or StorageSettings()
        self._limit = config.max_concurrent_requests or DEFAULT_LIMIT
        self._check_credentials()
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._sources: dict[str, VirtualSource] = {}

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_sources")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        return f"Containers({[shown_url(each.url_prefix) for each in self._containers]})"

    def _check_credentials(self) -> None:
        """Refuse credentials that do not suit the store of their container."""
        for container in self._containers:
            prefix = container.url_prefix
            if prefix not in self._authorized:
                continue
            credential = self._authorized[prefix]
            if credential is None and not isinstance(container.store, ObjectStoreConfig.Azure):
                warnings.warn(
                    f"authorize_virtual_chunk_access gives None for {shown_url(prefix)}; name the"
                    " credentials instead (LocalFileSystemAccess, HttpAccess, from the"
                    " environment or anonymous)",
                    DeprecationWarning,
                    stacklevel=4,
                )
            elif not isinstance(credential, _fitting(container)):
                raise StorageError(
                    "the credentials do not suit the store of the virtual chunk container",
                    kind=ErrorKind.STORAGE_OTHER,
                    container=prefix,
                    store=type(container.store).__name__,
                    credentials=type(credential).__name__,
                )

    def authorized_prefixes(self) -> set[str]:
        """The URL prefixes that may be read, whether or not a container has them."""
        return set(self._authorized)

    # --- checking locations ---

    def make_ref(
        self,
        location: str,
        offset: int,
        length: int,
        checksum: str | datetime | None = None,
        *,
        validate: bool = True,
    ) -> VirtualRef:
        """A reference with its location in stored form.

        Raises:
            InvalidInputError: the location is not a URL, `validate` finds no container for it, or
                the byte range is impossible.
        """
        if length == 0:
            raise InvalidInputError(
                "zero-length chunks cannot be stored", kind=ErrorKind.ZERO_LENGTH_CHUNK
            )
        if offset < 0 or length < 0 or offset + length > MAX_END:
            raise InvalidInputError(
                "offset and length of a virtual chunk must be possible in an object",
                kind=ErrorKind.INVALID_VIRTUAL_REF,
                offset=offset,
                length=length,
            )
        text = normalised(location)
        if validate:
            self._check_covered(text)
        return VirtualRef(text, offset, length, checksum_of(checksum))

    def check_many(
        self, locations: Sequence[str], *, validate: bool = True
    ) -> tuple[StringPool, npt.NDArray[np.bool_]]:
        """Locations in stored form, and which of them a container covers; "" is left alone."""
        texts = StringPool.of(locations)
        covered = np.ones(len(texts), np.bool_)
        present = texts.take(np.flatnonzero(texts.sizes)) if not texts.sizes.all() else texts
        if not len(present):
            return texts, covered
        common = present.common_prefix()
        # Files of one archive share a beginning that settles the form of all of them.
        if not is_settled(common):
            texts = StringPool.of([normalised(text) if text else text for text in texts])
        if validate and not self._is_plain(common, locations):
            covered[:] = [not text or self._refusal(text) is None for text in texts]
        return texts, covered

    def _is_plain(self, common: str, locations: Sequence[str]) -> bool:
        """Whether locations with a common prefix are all covered, decided by the prefix alone."""
        if not is_settled(common) or not any(
            common.startswith(container.url_prefix) for container in self._containers
        ):
            return False
        joined = "\n".join(locations)
        return joined.count("\n") == len(locations) - 1 and not _SUSPECT.search(joined)

    def decide(self, location: str) -> tuple[VirtualChunkContainer, ParsedLocation]:
        """The container that covers a location, and the location taken apart.

        This is the only place that decides what may be read. The endpoint comes from the container
        alone.

        Raises:
            InvalidInputError: no container covers it, or it is ambiguous.
        """
        found = parse_location(self.expand(location))
        if not found.key or found.key.endswith("/"):
            raise _uncovered("it names a folder, not an object")
        for root, container in self._roots:
            if found.is_in(root):
                if found.has_empty_parts and not isinstance(container.store, S3_LIKE):
                    raise _uncovered("this kind of store has no keys with empty parts")
                return container, found
        raise _uncovered("no virtual chunk container covers it")

    def _refusal(self, text: str) -> str | None:
        """Why a location cannot be used, or None."""
        try:
            self.decide(text)
        except InvalidInputError as error:
            return str(error.args[0])
        return None

    def _check_covered(self, text: str) -> None:
        if why := self._refusal(text):
            raise InvalidInputError(
                f"invalid chunk location {shown_url(text)}: {why};"
                " edit the repository configuration",
                kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            )

    def expand(self, location: str) -> str:
        """A location as an absolute URL: `vcc://name/rest` is looked up by name."""
        if not location.startswith(VCC):
            return location
        name, slash, rest = location[len(VCC) :].partition("/")
        container = self._by_name.get(name)
        if container is None or not slash:
            raise InvalidInputError(
                f"no virtual chunk container is named {name!r}",
                kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
                location=location,
            )
        return container.url_prefix + rest

    def expand_many(self, locations: StringPool) -> list[str]:
        """Many locations as absolute URLs."""
        texts = locations.tolist()
        if VCC.encode() not in locations.data:
            return texts
        return [self.expand(location) for location in texts]

    # --- reading ---

    def fetch(self, ref: VirtualRef, start: int | None = None, end: int | None = None) -> bytes:
        """Bytes `start:end` of a chunk.

        Raises:
            InvalidInputError: no container covers it, or it is not authorised.
            StorageError: the object is missing, has changed or is too short.
        """
        source, wanted = self._resolve(ref, start or 0, ref.length if end is None else end)
        return source.read(wanted)

    def fetch_many(self, refs: Sequence[VirtualRef]) -> list[bytes]:
        """Many whole chunks at once, in order; neighbours in an object are read together."""
        found: list[bytes] = [b""] * len(refs)
        spans = [
            ((ref.location, repr(ref.checksum)), ref.offset, ref.offset + ref.length)
            for ref in refs
        ]
        by_source: dict[int, tuple[VirtualSource, list[tuple[WantedRange, Sequence[int]]]]] = {}
        for numbers in near_ranges(spans):
            first = refs[numbers[0]]
            source, wanted = self._resolve(first, 0, first.length)
            if len(numbers) > 1:
                wanted = replace(wanted, end=max(spans[number][2] for number in numbers))
            by_source.setdefault(id(source), (source, []))[1].append((wanted, numbers))
        for source, jobs in by_source.values():
            read = source.read_many([wanted for wanted, _ in jobs], self._limit)
            for (wanted, numbers), data in zip(jobs, read, strict=True):
                for number in numbers:
                    at = refs[number].offset - wanted.start
                    found[number] = data[at : at + refs[number].length]
        return found

    def _resolve(self, ref: VirtualRef, start: int, end: int) -> tuple[VirtualSource, WantedRange]:
        if not 0 <= start <= end <= ref.length:
            raise InvalidInputError(
                "range outside the chunk",
                kind=ErrorKind.INVALID_BYTE_RANGE,
                start=start,
                end=end,
                length=ref.length,
            )
        try:
            container, found = self.decide(ref.location)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the virtual chunk {shown_url(ref.location)} cannot be read: {error.args[0]};"
                " edit the repository configuration",
                kind=error.kind,
            ) from None
        source = self._source(container)
        url = self.expand(ref.location)
        return source, WantedRange(
            url, found.key, ref.offset + start, ref.offset + end, ref.checksum
        )

    def _source(self, container: VirtualChunkContainer) -> VirtualSource:
        """The client for a container, kept."""
        prefix = container.url_prefix
        if prefix not in self._authorized or (
            self._authorized[prefix] is None
            and isinstance(container.store, ObjectStoreConfig.Azure)
        ):
            named = f" ({container.name})" if container.name else ""
            raise InvalidInputError(
                f"the virtual chunk container {prefix}{named} is not open to us: authorize it,"
                " by authorize_virtual_chunk_access when the repository is opened",
                kind=ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER,
            )
        with self._lock:
            if prefix not in self._sources:
                self._sources[prefix] = self._open(container)
            return self._sources[prefix]

    def _open(self, container: VirtualChunkContainer) -> VirtualSource:
        # Imports the clients of object stores, so only when one is needed.
        from frazil.storage.virtual_source import source_for

        prefix = container.url_prefix
        root, credential = parse_location(prefix), self._authorized[prefix]
        if why := why_not_trusted(container, root, credential, self._trust):
            raise InvalidInputError(
                f"the virtual chunk container {prefix} is used only on your own word, as the"
                f" configuration stored in the repository is not trusted: {why}; if that is right,"
                " open the repository with a config that has this container, or name its address:"
                f" endpoints= in Python, --authorize {prefix}=https://… on the command line,"
                " authorize in SQL; or read without credentials",
                kind=ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER,
            )
        return source_for(container, root, credential, self._settings)


def _usable(container: VirtualChunkContainer) -> VirtualChunkContainer | None:
    """A container from a stored configuration, normalised; None if it cannot be used."""
    made = VirtualChunkContainer(_with_slash(container.url_prefix), container.store, container.name)
    try:
        made.check()
    except InvalidInputError:
        return None
    return made


def _uncovered(why: str) -> InvalidInputError:
    return InvalidInputError(why, kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK)


def _with_slash(prefix: str) -> str:
    return prefix if prefix.endswith("/") else f"{prefix}/"


def _fitting(container: VirtualChunkContainer) -> Any:  # noqa: ANN401  (a type for isinstance)
    for stores, credential in _FITTING:
        if isinstance(container.store, stores):
            return credential
    return ()
