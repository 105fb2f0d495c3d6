"""Fixtures of the test suites of commit protocols: repositories, handles, competitors.

Each handle on the repository is opened apart, as another process would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from frazil.commit.base import Publication, RefStore, now_micros
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    StorageError,
)
from frazil.formats.generation import generation_named
from frazil.ids import MAIN, SnapshotId
from frazil.model.history import Snapshot, SnapshotEntry
from frazil.opening import create_repository, open_context
from frazil.storage.base import PLAIN, Attributes, Bytes, LostRace, Storage, Version, Written
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.context import Context

SPECS = ("g1", "g2", "g3", "v1", "v2")
"""One generation for each commit protocol, and both that use numbered files."""
FIELD = "inline_chunk_threshold_bytes"
MOST_CALLS = 60
"""More storage calls than any step of a commit protocol makes."""


class InterposedStorage(FaultyStorage):
    """A storage that runs a competitor once, just before or after a conditional write."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None
    """when set, the reply to the write is lost as well"""

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write conditionally, with what others do around it."""
        if self.before is not None:
            action, self.before = self.before, None
            action()
        done = super().put_if(key, data, expected, attributes)
        if self.after is not None:
            action, self.after = self.after, None
            action()
            raise StorageError("planned loss of the reply", kind=ErrorKind.OBJECT_STORE, key=key)
        return done


@dataclass(frozen=True, slots=True, repr=False)
class CommitHandle:
    """A repository as one process sees it."""

    context: Context

    @property
    def refs(self) -> RefStore:
        """Its branches and tags."""
        return self.context.refs

    def prepare(self, base: SnapshotId, message: str) -> SnapshotEntry:
        """Write the files of a snapshot that is to follow `base`, and give its history entry."""
        parent = self.refs.entry(base)
        stores_parent = self.context.generation.stores_parent
        snapshot = Snapshot(
            id=SnapshotId.random(),
            parent_id=base if stores_parent else None,
            nodes=(),
            flushed_at=max(now_micros(), parent.flushed_at + 1000),
            message=message,
            metadata={},
            manifest_files=(),
        )
        self.context.assets.make_durable([self.context.assets.save_snapshot(snapshot)])
        return SnapshotEntry(snapshot.id, base, snapshot.flushed_at, message, {})

    def publication(self, message: str, branch: str = MAIN) -> Publication:
        """A publication upon the present tip of a branch, ready to be published."""
        base = self.refs.branch_tip(branch)
        return Publication(branch, base, self.prepare(base, message))

    def commit(self, message: str, branch: str = MAIN) -> SnapshotId:
        """Publish an empty snapshot upon the present tip of a branch."""
        publication = self.publication(message, branch)
        self.refs.publish(publication)
        return publication.entry.id

    def messages(self, branch: str = MAIN) -> list[str]:
        """The history of a branch, newest first, without the first snapshot."""
        refs = self.refs
        return [entry.message for entry in refs.ancestry(refs.branch_tip(branch))][:-1]


def handle(storage: Storage) -> CommitHandle:
    """Open the repository at a place."""
    return CommitHandle(open_context(storage, None, None))


class ScenesOfCommits:
    """The fixtures that all parts of the contract share."""

    @pytest.fixture(params=SPECS)
    def spec(self, request: pytest.FixtureRequest) -> str:
        """Name of a generation."""
        return str(request.param)

    @pytest.fixture
    def place(self, storage: Storage, spec: str) -> Storage:
        """A storage that holds a new repository."""
        generation = generation_named(spec)
        assert generation is not None
        create_repository(storage, None, generation, check_clean_root=True)
        return storage

    @pytest.fixture
    def ours(self, place: Storage) -> CommitHandle:
        """The handle that a test uses."""
        return handle(place)

    @pytest.fixture
    def theirs(self, place: Storage) -> CommitHandle:
        """The handle of a concurrent writer."""
        return handle(place)


def succeeds(work: Callable[[], object]) -> bool:
    """Whether an operation succeeds, rather than losing a race."""
    try:
        work()
    except (ConflictError, AlreadyExistsError):
        return False
    return True
