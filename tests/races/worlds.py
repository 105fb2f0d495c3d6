"""Repositories for actors to meet in, what all can see of one, and whether it is sound."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pytest

from frazil import (
    LocalFileSystemAccess,
    Repository,
    RepositoryConfig,
    Storage,
    containers_credentials,
)
from frazil.fsck import Code, Level, fsck
from frazil.storage.memory import MemoryStorage
from tests.races.files import folder
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import CrowdedStorage, Step

CONFIG: Final = RepositoryConfig(inline_chunk_threshold_bytes=0)
AGE: Final = timedelta(days=10)
"""How old the files of a world look."""
YOUNGEST_GARBAGE: Final = timedelta(days=2)
SPECS: Final[dict[str, Spec]] = {
    "v1": 1,
    "v2": 2,
    "v2-remote": 2,
    "g1": "g1",
    "g2": "g2",
    "g3": "g3",
}
"""Kinds of worlds; `remote` ones have a storage that does not answer in line."""
STAGING: Final = "audit-"
TABLE: Final = {
    "w/zarr.json": group_document(),
    "w/time/zarr.json": array_document(
        4,
        chunks=(4,),
        data_type="int64",
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        dimension_names=["time"],
    ),
    "w/time/c/0": np.arange(4, dtype="<i8").tobytes(),
    "w/v/zarr.json": array_document(
        4, chunks=(2,), dimension_names=["time"], attributes={"_FillValue": 255}
    ),
    "w/v/c/0": bytes([1, 1]),
    "w/v/c/1": bytes([2, 2]),
}
"""A variable with a coordinate, as Spark and xarray understand it."""
NEVER_CHANGED: Final = ("snapshots/", "manifests/", "chunks/")
_ID: Final = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{20}\b")
State: TypeAlias = dict[str, Any]
Commit: TypeAlias = tuple[str, dict[str, bytes]]
"""Its message, and all that its snapshot holds."""


@contextmanager
def known_ids(seed: str) -> Iterator[None]:
    """Ids that follow from a seed, so that a run can be had again exactly."""
    numbers = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", lambda size=32: numbers.randbytes(size))
        yield


def cells(*numbers: int) -> bytes:
    """The bytes of a chunk."""
    return bytes(numbers)


def commit(repo: Repository, branch: str, message: str, keys: dict[str, bytes]) -> str:
    """Write keys and commit them."""
    session = repo.writable_session(branch)
    write_keys(session, keys)
    return session.commit(message)


@dataclass(frozen=True, slots=True)
class Facts:
    """What actors know of a world."""

    ids: dict[str, str]
    """snapshots by the messages of their commits"""
    cut: datetime
    """when the world was made; all its snapshots are older"""


@dataclass(frozen=True, slots=True)
class World:
    """A repository as it is before anybody acts."""

    kind: str
    objects: dict[str, bytes]
    facts: Facts

    def copy(self) -> Place:
        """The same repository at a place of its own."""
        place = Place(self.kind, self.facts)
        for key, data in self.objects.items():
            place.memory.put(key, data)
        place.settle()
        return place


@dataclass(slots=True)
class Place:
    """Where actors meet."""

    kind: str
    facts: Facts
    memory: MemoryStorage = field(default_factory=MemoryStorage)
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))

    def settle(self) -> None:
        """Let everything that is here be old."""
        self.moment = datetime.now(UTC)

    def storage(self, step: Step = lambda _operation, _key: None) -> Storage:
        """The storage as one actor uses it."""
        return CrowdedStorage(
            self.memory,
            step,
            moment=lambda: self.moment,
            age=AGE,
            answers_inline=not self.kind.endswith("remote"),
        )


def garbage_before() -> datetime:
    """What a careful collector asks for."""
    return datetime.now(UTC) - YOUNGEST_GARBAGE


@cache
def world(kind: str) -> World:
    """A repository with branches to merge, commits to undo, garbage and trash."""
    with known_ids(kind):
        return _made(kind)


def _made(kind: str) -> World:
    place = Place(kind, Facts({}, datetime.now(UTC)))
    Repository.create(place.storage(), spec_version=SPECS[kind])
    repo = Repository.open(place.storage(), CONFIG)
    ids = {}
    ids["one"] = commit(
        repo,
        "main",
        "one",
        {
            "zarr.json": group_document(),
            "a/zarr.json": array_document(8, chunks=(2,)),
            "b/zarr.json": array_document(8, chunks=(2,)),
            "t/zarr.json": array_document(4, chunks=(2,)),
            **{f"{name}/c/{i}": cells(i + 1, i + 1) for name in "ab" for i in range(4)},
            "t/c/0": cells(1, 1),
            "t/c/1": cells(2, 2),
            **TABLE,
        },
    )
    repo.create_tag("t1", ids["one"])
    repo.create_branch("dev", ids["one"])
    ids["dev"] = commit(repo, "dev", "dev", {"a/c/3": cells(50, 50)})
    ids["two"] = commit(repo, "main", "two", {"b/c/0": cells(20, 20)})
    repo.create_branch("behind", ids["two"])
    ids["three"] = commit(repo, "main", "three", {"b/c/1": cells(30, 30)})
    ids["four"] = commit(repo, "main", "four", {"a/c/2": cells(40, 40)})
    for name in ("trashed", "gone"):
        repo.create_branch(name, ids["two"])
        ids[name] = commit(repo, name, name, {"a/c/1": cells(60, 60)})
        repo.delete_branch(name)
        if name == "trashed":
            place.settle()
            repo = Repository.open(place.storage(), CONFIG)
            repo.space.collect_planned(repo.space.plan_garbage(garbage_before()), quarantine=True)
    objects = {item.key: place.memory.get(item.key) or b"" for item in place.memory.list("")}
    return World(kind, objects, Facts(ids, datetime.now(UTC)))


class Reader:
    """Reads snapshots, and remembers what it read in other places from the very same bytes.

    What a snapshot holds follows from the files that were read for it. If all of them are at
    this place too, unchanged, so is what they gave; most snapshots of a world never change.
    """

    known: ClassVar[dict[str, tuple[dict[str, bytes | None], dict[str, bytes]]]] = {}

    def __init__(self, place: Place) -> None:
        self.place = place
        self.here: dict[str, dict[str, bytes]] = {}

    def contents(self, snapshot_id: str) -> dict[str, bytes]:
        """All keys and values."""
        if snapshot_id not in self.here:
            self.here[snapshot_id] = self._contents(snapshot_id)
        return self.here[snapshot_id]

    def _contents(self, snapshot_id: str) -> dict[str, bytes]:
        get = self.place.memory.get
        files, found = self.known.get(snapshot_id, ({}, {}))
        if files and all(get(key) is data for key, data in files.items()):
            return found
        keys: set[str] = set()
        # A handle of its own has nothing in its cache.
        repo = open_for_all(self.place.storage(lambda _, key: keys.add(key)))
        found = contents(repo.readonly_session(snapshot_id=snapshot_id))
        files = {key: get(key) for key in keys if key.startswith(NEVER_CHANGED)}
        self.known[snapshot_id] = (files, found)
        return found


def open_for_all(storage: Storage) -> Repository:
    """The repository, whose virtual chunks may be read."""
    return Repository.open(
        storage,
        authorize_virtual_chunk_access=containers_credentials(
            {folder().as_uri() + "/": LocalFileSystemAccess}
        ),
    )


def state_of(place: Place) -> State:
    """All that a user can see, opened anew; without ids and times, which differ in each run."""
    storage = place.memory
    reader = Reader(place)
    repo = Repository.open(storage)

    def commits(**ref: str) -> list[Commit]:
        found = [*repo.ancestry(**ref)]
        return [(_plain(info.message), reader.contents(info.id)) for info in found]

    # Names of branches that stage a piece of work are random, and what stays of them depends on
    # how it ended; they must be readable like all others.
    branches = {name: commits(branch=name) for name in sorted(repo.list_branches())}
    config = Repository.fetch_config(storage)
    return {
        "spec": str(repo.spec_version),
        "branches": {name: at for name, at in branches.items() if not name.startswith(STAGING)},
        "tags": {name: commits(tag=name) for name in sorted(repo.list_tags())},
        "containers": sorted((config and config.virtual_chunk_containers) or ()),
        "attributes": repo.metadata if repo.spec_version == 2 else None,
        "status": repo.status.availability.name if repo.spec_version == 2 else None,
        "flags": [flag.name for flag in repo.feature_flags() if not flag.enabled]
        if repo.spec_version == 2
        else None,
    }


def _plain(message: str) -> str:
    return _ID.sub("ID", message)


def unsound(place: Place) -> list[str]:
    """What a check of the whole repository finds; objects that nobody needs are no fault."""
    findings = fsck(Repository.open(place.memory)).findings
    return [
        str(each)
        for each in findings
        if each.level != Level.NOTE
        # Expiry in generations before spec 1 may leave branches with first snapshots of their
        # own, whether or not somebody else is there.
        and not (each.code == Code.HISTORY_ROOTS and place.kind.startswith("g"))
    ]
