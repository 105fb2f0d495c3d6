"""What the processes write to: a few small arrays whose every value names who wrote it.

Runs with the official packages too, so that it imports only zarr and the standard library.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import zarr

Content: TypeAlias = dict[str, int | list[int]]
"""All values of a snapshot: `array/index`, `notes/name`, and `log` as a list."""

EMPTY: Final = -1
SHARED: Final = 6
SCRATCH: Final = 4
OWN: Final = 2
PLACES: Final = ("here", "there")
LOG_CHUNK: Final = 8
LOG_LIMIT: Final = 40
"""An append to a log of this length begins a new one."""
HELD_S: Final = 3.0
"""How long the proxy holds a request: longer than clients wait for an answer."""
_TOKEN: Final = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class Field:
    """Where a repository is, and how many processes work on it."""

    place: Mapping[str, str]
    """`path` on a local disk; `endpoint`, `bucket`, `prefix`, `key`, `secret` on an S3 server"""
    spec: int | str
    actors: int
    is_upgraded: bool = False
    """whether somebody upgrades it to spec 2 on the way"""

    @property
    def late_s(self) -> float:
        """How long after the death of a process a request of it may still arrive."""
        return 0.0 if "path" in self.place else HELD_S + 1.0

    @property
    def resolution_s(self) -> float:
        """How exactly the time of an object is told."""
        return 0.05 if "path" in self.place else 1.5

    def storage(self, icechunk: Any) -> Any:
        """The place as a storage of one of the packages."""
        place = self.place
        if "path" in place:
            return icechunk.local_filesystem_storage(place["path"])
        return icechunk.s3_storage(
            bucket=place["bucket"],
            prefix=place["prefix"],
            region="us-east-1",
            endpoint_url=place["endpoint"],
            allow_http=True,
            force_path_style=True,
            access_key_id=place["key"],
            secret_access_key=place["secret"],
        )

    def config(self, icechunk: Any, inline: int) -> Any:
        """Few and short retries, so that some failures come through to the caller."""
        limits = {}
        if hasattr(icechunk, "StorageTimeoutSettings"):
            limits["timeouts"] = icechunk.StorageTimeoutSettings(
                connect_timeout_ms=2000, read_timeout_ms=2000, operation_attempt_timeout_ms=2000
            )
        retries = icechunk.StorageRetriesSettings(
            max_tries=4, initial_backoff_ms=20, max_backoff_ms=200
        )
        settings = icechunk.StorageSettings(retries=retries, **limits)
        return icechunk.RepositoryConfig(inline_chunk_threshold_bytes=inline, storage=settings)

    def open(self, icechunk: Any, inline: int = 0) -> Any:
        """The repository through one of the packages."""
        return icechunk.Repository.open(self.storage(icechunk), self.config(icechunk, inline))

    def create(self) -> None:
        """Make the repository, by our own package."""
        icechunk = importlib.import_module("frazil.icechunk")
        keeps = importlib.import_module("tests.support.generations").keeps_config(self.spec)
        config = self.config(icechunk, 0) if keeps else None
        repo = icechunk.Repository.create(
            self.storage(icechunk), config, spec_version=self.spec, check_clean_root=False
        )
        session = repo.writable_session("main")
        root = zarr.create_group(session.store)
        for name, size in self.arrays().items():
            new_array(root, name, size)
        root.create_array(
            "log", shape=(0,), chunks=(LOG_CHUNK,), dtype="i8", fill_value=EMPTY, compressors=None
        )
        root.create_group("notes")
        new_array(root.create_group(PLACES[0]), "slot", 1)
        root.create_group(PLACES[1])
        session.commit("field")
        # One more, so that nobody amends or reverts the commit that made the arrays.
        session = repo.writable_session("main")
        zarr.open_group(session.store, mode="r+").attrs["begun"] = True
        repo.create_branch("dev", session.commit(message(0, "begun")))

    def arrays(self) -> dict[str, int]:
        """Names and lengths of the arrays in chunks of one value."""
        own = {f"own{actor}": OWN for actor in range(self.actors)}
        return {"shared": SHARED, "scratch": SCRATCH, **own}

    def empty(self) -> Content:
        """What there is when the processes begin."""
        cells = {f"{name}/{i}": EMPTY for name, size in self.arrays().items() for i in range(size)}
        return {**cells, "log": [], "slot": EMPTY, "place of slot": 0}

    def read(self, session: Any) -> Content:
        """All values of a snapshot."""
        root: Any = zarr.open_group(session.store, mode="r")
        found: Content = {}
        for name in self.arrays():
            values = root[name][:].tolist()
            found.update({f"{name}/{index}": value for index, value in enumerate(values)})
        found["log"] = root["log"][:].tolist()
        found.update({f"notes/{key}": value for key, value in root["notes"].attrs.items()})
        where = places_of_slot(root)
        found["place of slot"] = where[0] if len(where) == 1 else EMPTY
        found["slot"] = int(root[PLACES[where[0]]]["slot"][0]) if where else EMPTY
        return found


def places_of_slot(root: Any) -> list[int]:
    """In which groups the array is that is moved from one to the other."""
    return [number for number, name in enumerate(PLACES) if "slot" in root[name]]


def new_array(root: Any, name: str, size: int) -> Any:
    """An array without values, each in a chunk of its own."""
    return root.create_array(
        name, shape=(size,), chunks=(1,), dtype="i8", fill_value=EMPTY, compressors=None
    )


def message(token: int, kind: str) -> str:
    """What a commit says of itself."""
    return f"#{token} {kind}"


def token_of(text: str) -> int | None:
    """The token in a message; None in those from before the processes began."""
    found = _TOKEN.match(text)
    return int(found[1]) if found else None
