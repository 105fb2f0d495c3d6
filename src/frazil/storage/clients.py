"""The live clients of a place: opened when first needed, one set for each process.

Also knows how keys are spelled in the bucket.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import obstore

from frazil import config
from frazil.errors import ErrorKind, StorageError
from frazil.model.config import Attribution, StorageSettings
from frazil.storage.client_settings import Client, Provider, Role, check_process, user_agent
from frazil.storage.credentials import S3Credentials
from frazil.storage.faults import FOREIGN, fault, status_of, translate_errors
from frazil.storage.places import CloudPlace
from frazil.storage.s3_place import S3Place
from frazil.storage.tuning import DEFAULT_LIMIT

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_ANCHORS: Final = ("repo", "refs/branch.main/ref.json")


class _SharedClients:
    """The last clients of a process, which later requests for the same place get again.

    Opening one takes ten milliseconds, and its first request a connection: sixteen are kept, more
    places than a job alternates between. The environment and the switches of the process are part
    of what a client is made of.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, as a forked process must: its parent's clients do not work there."""
        self._lock = threading.Lock()
        self._made: deque[tuple[object, ObjectStore]] = deque(maxlen=16)

    def get(self, parts: tuple[object, ...], make: Callable[[], ObjectStore]) -> ObjectStore:
        """The client that was made of these parts, or a new one."""
        parts = (*parts, config.current(), dict(os.environ))
        with self._lock:
            for known, client in self._made:
                if known == parts:
                    return client
        made = make()
        with self._lock:
            self._made.append((copy.deepcopy(parts), made))
        return made


_shared: Final = _SharedClients()
os.register_at_fork(after_in_child=_shared.renew)


def _has_fixed_key(place: CloudPlace) -> bool:
    """Whether what signs requests was given as it is, and is not asked for again."""
    fixed = (S3Credentials.Static, S3Credentials.Anonymous)
    return isinstance(place, S3Place) and isinstance(place.credentials, fixed)


class Clients:
    """Clients for reading, writing and conditional writing, and the spelling of keys."""

    def __init__(
        self,
        place: CloudPlace,
        settings: StorageSettings,
        *,
        legacy_rooted_keys: bool | None = None,
        attribution: Attribution | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        _check_prefix(place, legacy_rooted_keys)
        self.place = place
        self.settings = copy.deepcopy(settings)
        self.attribution = attribution
        self.limit = limit
        self._forced_layout = legacy_rooted_keys
        self._folder, _, self._begin = f"/{place.prefix}/".rpartition("//")
        if not self.is_odd:
            self._begin = f"{place.prefix}/" if place.prefix else ""
        self._start()

    def _start(self) -> None:
        self.gate = threading.BoundedSemaphore(self.limit)
        self._lock = threading.RLock()
        self._open: dict[tuple[Role, bool], ObjectStore] = {}
        self._provider: Provider | None = None
        self._layout: bool | None = None

    def __getstate__(self) -> dict[str, object]:
        kept = ("place", "settings", "attribution", "limit", "_forced_layout", "_folder", "_begin")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def changed(
        self,
        *,
        place: CloudPlace | None = None,
        settings: StorageSettings | None = None,
        attribution: Attribution | None = None,
        limit: int | None = None,
    ) -> Clients:
        """The same place with other settings; credentials that were got serve the copy too."""
        other = Clients(
            place or self.place,
            settings or self.settings,
            legacy_rooted_keys=self._forced_layout,
            attribution=attribution or self.attribution,
            limit=limit or self.limit,
        )
        other._provider, other._layout = self._provider, self._layout
        if other._made_of() == self._made_of():
            # Opening a client takes ten milliseconds, and its first request a connection.
            other._open, other._lock = self._open, self._lock
        return other

    def _made_of(self) -> tuple[object, ...]:
        """All that clients differ by."""
        return self.place, self.settings, self.attribution

    # --- clients ---

    def get(self, role: Role) -> ObjectStore:
        """The client for a role."""
        return self._client(role, rooted=self.is_odd or self.is_rooted)

    @property
    def reader(self) -> ObjectStore:
        """The client for reading."""
        return self.get(Role.READ)

    @property
    def writer(self) -> ObjectStore:
        """The client for plain writes and deletes."""
        return self.get(Role.WRITE)

    def _client(self, role: Role, *, rooted: bool) -> ObjectStore:
        check_process()
        with self._lock:
            if (role, rooted) not in self._open:
                self._open[role, rooted] = self._make(role, rooted=rooted)
            return self._open[role, rooted]

    def _make(self, role: Role, *, rooted: bool) -> ObjectStore:
        place = self.place
        if self.is_odd and isinstance(place, S3Place):
            # obstore leaves what it takes for the bucket's name as it is.
            place = replace(place, bucket=place.bucket + quote(self._folder, safe="/"))
        if not _has_fixed_key(place):
            return self.client_of(place, role, rooted=rooted)
        parts = (role, rooted, place, self.settings, self.attribution)
        return _shared.get(parts, lambda: self.client_of(place, role, rooted=rooted))

    def client_of(
        self, place: CloudPlace, role: Role = Role.READ, *, rooted: bool = False
    ) -> ObjectStore:
        """A new client for a place that is like this one."""
        headers = place.read_headers if role is Role.READ else place.write_headers
        client = Client(role, self.settings, user_agent(self.attribution), headers)
        if isinstance(place, S3Place):
            stall = place.options.network_stream_timeout_seconds
            client = replace(
                client,
                allow_http=place.allows_http,
                stall_timeout_s=client.stall_timeout_s if stall is None else stall,
            )
        with translate_errors("connect to", "", place.url):
            self._provider = self._provider or place.provider()
            return place.open(client, self._provider, rooted=rooted)

    # --- keys ---

    def full(self, key: str) -> str:
        """A key as obstore wants it; empty parts and leading slashes are kept by the client."""
        return self._begin + key

    @property
    def is_odd(self) -> bool:
        """Whether the prefix has empty parts, which obstore refuses in keys."""
        prefix = self.place.prefix
        return prefix.startswith("/") or "//" in f"{prefix}/"

    @property
    def is_rooted(self) -> bool:
        """Whether keys have a leading slash, as in old repositories at the root of a bucket."""
        if self._forced_layout is not None:
            return self._forced_layout
        if self.place.prefix or not isinstance(self.place, S3Place):
            return False
        with self._lock:
            if self._layout is None:
                self._layout = self._probe_layout()
            return self._layout

    def _probe_layout(self) -> bool:
        pairs = [
            (self._etag(anchor, rooted=False), self._etag(anchor, rooted=True))
            for anchor in _ANCHORS
        ]
        # Some servers drop the slash: then both keys give the same object.
        has_rooted = any(rooted is not None and rooted != clean for clean, rooted in pairs)
        has_clean = any(clean is not None for clean, _ in pairs)
        if has_rooted and has_clean:
            raise StorageError(
                "the bucket holds repositories with and without a leading slash in their keys;"
                " legacy_rooted_keys says which one is meant",
                kind=ErrorKind.STORAGE_OTHER,
                storage=self.place.url,
            )
        return has_rooted

    def _etag(self, key: str, *, rooted: bool) -> str | None:
        try:
            meta = obstore.head(self._client(Role.READ, rooted=rooted), key)
        except FileNotFoundError:
            return None
        except FOREIGN as error:
            if status_of(error) == 400:  # how some servers refuse a leading slash
                return None
            raise fault(error, "read", key, self.place.url) from None
        return meta["e_tag"] or ""


def _check_prefix(place: CloudPlace, legacy_rooted_keys: bool | None) -> None:
    if legacy_rooted_keys and place.prefix:
        raise StorageError(
            "legacy_rooted_keys is only valid with an empty prefix",
            kind=ErrorKind.STORAGE_OTHER,
            prefix=place.prefix,
        )
    if any(part in (".", "..") for part in place.prefix.split("/")):
        raise StorageError(
            "a prefix with '.' or '..' parts cannot be used: addresses leave them out",
            kind=ErrorKind.STORAGE_CONFIG,
            prefix=place.prefix,
        )
