"""Virtual chunk containers: which locations may be read, with what, and reading them.

Format reference 4.10. A chunk is read only through a container that the configuration names
and the caller has authorised; credentials are never stored and never shown.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.model.chunks import VirtualRef
from frazil.model.config import (
    ObjectStoreConfig,
    RepositoryConfig,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.model.strings import Strings
from frazil.storage.base import fan_out
from frazil.storage.clients import DEFAULT_LIMIT
from frazil.storage.credentials import AnyCredential, Credentials
from frazil.storage.locations import VCC, for_matching, is_settled, key_of, normalised, without_user
from frazil.storage.virtual_source import FileSource, ObjectSource, Source, Wanted, source_for

Authorized: TypeAlias = Mapping[str, AnyCredential | None]

MERGE_GAP: Final = 64 << 10
"""Ranges of one object that lie no further apart are read together,"""
MERGE_MAX: Final = 16 << 20
"""up to this size."""
MAX_END: Final = 2**63 - 1
"""No object is longer than file offsets can say."""

_S3_LIKE: Final = (ObjectStoreConfig.S3, ObjectStoreConfig.S3Compatible, ObjectStoreConfig.Tigris)
_SUSPECT: Final = re.compile(r"(?<!:)//|/\.{1,2}(?:[/\n]|\Z)|%")
"""What a key may hold that some stores cannot."""
_FITTING: Final[tuple[tuple[type | tuple[type, ...], type], ...]] = (
    (_S3_LIKE, Credentials.S3),
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

    def __init__(self, config: RepositoryConfig, authorized: Authorized | None = None) -> None:
        usable = [
            made
            for container in (config.virtual_chunk_containers or {}).values()
            if (made := _usable(container)) is not None
        ]
        usable.sort(key=lambda container: -len(container.url_prefix))
        self._containers = tuple(usable)
        self._prefixes = [(c, (c.url_prefix, for_matching(c.url_prefix))) for c in usable]
        self._by_name = {container.name: container for container in usable if container.name}
        self._authorized = {_with_slash(p): c for p, c in (authorized or {}).items()}
        self._settings = config.storage or StorageSettings()
        self._limit = config.max_concurrent_requests or DEFAULT_LIMIT
        self._check_credentials()
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._sources: dict[tuple[str, str], Source] = {}

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_sources")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        return f"Containers({[container.url_prefix for container in self._containers]})"

    def _check_credentials(self) -> None:
        """Refuse credentials that do not suit the store of their container."""
        for container in self._containers:
            prefix = container.url_prefix
            if prefix not in self._authorized:
                continue
            credential = self._authorized[prefix]
            if credential is None and not isinstance(container.store, ObjectStoreConfig.Azure):
                warnings.warn(
                    f"authorize_virtual_chunk_access gives None for {prefix}; name the"
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
            InvalidInputError: the location is no URL, `validate` finds no container for it, or
                no object can have these bytes.
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
    ) -> tuple[Strings, npt.NDArray[np.bool_]]:
        """Locations in stored form, and which of them a container covers; "" is left alone."""
        texts = Strings.of(locations)
        covered = np.ones(len(texts), np.bool_)
        present = texts.take(np.flatnonzero(texts.sizes)) if not texts.sizes.all() else texts
        if not len(present):
            return texts, covered
        common = present.common_prefix()
        # Files of one archive share a beginning that settles the form of all of them.
        if not is_settled(common):
            texts = Strings.of([normalised(text) if text else text for text in texts])
        if validate:
            is_simple = is_settled(common) and self._covering(common) is not None
            if not is_simple or _SUSPECT.search("\n".join(locations)):
                covered[:] = [not text or self._refusal(text) is None for text in texts]
        return texts, covered

    def _covering(self, text: str) -> VirtualChunkContainer | None:
        """The container with the longest prefix of a location in stored form."""
        if text.startswith(VCC):
            return self._by_name.get(text[len(VCC) :].partition("/")[0])
        return next((c for c, prefixes in self._prefixes if text.startswith(prefixes)), None)

    def _refusal(self, text: str) -> str | None:
        """Why a location cannot be used, or None."""
        container = self._covering(text) or self._covering(for_matching(text))
        if container is None:
            return "no virtual chunk container covers it"
        if isinstance(container.store, _S3_LIKE):
            return None
        parts = key_of(self.expand(text)).removesuffix("/").split("/")
        if parts != [""] and any(part in ("", ".", "..") for part in parts):
            return "this kind of store has no keys with empty, '.' or '..' parts"
        return None

    def _check_covered(self, text: str) -> None:
        if why := self._refusal(text):
            raise InvalidInputError(
                f"invalid chunk location {without_user(text)}: {why};"
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
                f"no virtual chunk container is named {name!r}; edit the repository configuration",
                kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
                location=location,
            )
        return container.url_prefix + rest

    def expand_many(self, locations: Strings) -> list[str]:
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
        jobs = self._merge(refs)
        by_source: dict[int, tuple[Source, list[_Job]]] = {}
        for source, job in jobs:
            by_source.setdefault(id(source), (source, []))[1].append(job)
        for source, group in by_source.values():
            for job, data in zip(group, self._read_all(source, group), strict=True):
                for number, first, last in job.parts:
                    found[number] = data[first:last]
        return found

    def _read_all(self, source: Source, jobs: list[_Job]) -> list[bytes]:
        match source:
            case FileSource():
                return fan_out(lambda job: source.read(job.wanted), jobs)
            case ObjectSource():
                return source.read_many([job.wanted for job in jobs], self._limit)

    def _merge(self, refs: Sequence[VirtualRef]) -> list[tuple[Source, _Job]]:
        """Whole chunks as few requests: near ranges of one object make one."""
        order = sorted(
            range(len(refs)),
            key=lambda n: (refs[n].location, str(refs[n].checksum), refs[n].offset),
        )
        jobs: list[tuple[Source, _Job]] = []
        last: tuple[str, str | int | None] | None = None
        for number in order:
            ref = refs[number]
            if (ref.location, ref.checksum) != last or not jobs[-1][1].takes(ref, number):
                source, wanted = self._resolve(ref, 0, ref.length)
                jobs.append((source, _Job(wanted, number)))
                last = (ref.location, ref.checksum)
        return jobs

    def _resolve(self, ref: VirtualRef, start: int, end: int) -> tuple[Source, Wanted]:
        if not 0 <= start <= end <= ref.length:
            raise InvalidInputError(
                "range outside the chunk",
                kind=ErrorKind.INVALID_BYTE_RANGE,
                start=start,
                end=end,
                length=ref.length,
            )
        url = self.expand(ref.location)
        container = self._covering(for_matching(url))
        if container is None:
            raise InvalidInputError(
                f"no virtual chunk container covers {without_user(url)}; edit the repository"
                " configuration to add one",
                kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            )
        source = self._source(container, url)
        return source, Wanted(url, ref.offset + start, ref.offset + end, ref.checksum)

    def _source(self, container: VirtualChunkContainer, url: str) -> Source:
        """The client for a container; one for each bucket or host, kept."""
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
        authority = url.partition("://")[2].partition("/")[0]
        with self._lock:
            if (prefix, authority) not in self._sources:
                self._sources[prefix, authority] = source_for(
                    container, self._authorized[prefix], url, self._settings
                )
            return self._sources[prefix, authority]


class _Job:
    """One range to read, and the chunks that are parts of it."""

    def __init__(self, wanted: Wanted, number: int) -> None:
        self.wanted = wanted
        self.parts = [(number, 0, wanted.end - wanted.start)]

    def takes(self, ref: VirtualRef, number: int) -> bool:
        """Take a chunk of the same object in, if it is near enough."""
        wanted = self.wanted
        end = max(wanted.end, ref.offset + ref.length)
        if ref.offset > wanted.end + MERGE_GAP or end - wanted.start > MERGE_MAX:
            return False
        first = ref.offset - wanted.start
        self.wanted = Wanted(wanted.url, wanted.start, end, wanted.checksum)
        self.parts.append((number, first, first + ref.length))
        return True


def _usable(container: VirtualChunkContainer) -> VirtualChunkContainer | None:
    """A container from a stored configuration, put right, or None if it can serve nothing."""
    made = VirtualChunkContainer(_with_slash(container.url_prefix), container.store, container.name)
    try:
        made.check()
    except InvalidInputError:
        return None
    return made


def _with_slash(prefix: str) -> str:
    return prefix if prefix.endswith("/") else f"{prefix}/"


def _fitting(container: VirtualChunkContainer) -> Any:  # noqa: ANN401  (a type for isinstance)
    for stores, credential in _FITTING:
        if isinstance(container.store, stores):
            return credential
    return ()
