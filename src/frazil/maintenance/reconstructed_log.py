"""An operations log for a repository that never kept one, made from the history of its refs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.ids import MAIN, SnapshotId
from frazil.model.history import Micros, SnapshotEntry, UpdateEntry, UpdateKind, UpdateType

STEP: Final = 1000
"""Microseconds between a commit and the refs that were made for it."""


@dataclass(frozen=True, slots=True)
class RefLineages:
    """The history of each ref, from which an operations log is reconstructed.

    Lineages are newest first; `times` tells when each reachable snapshot was written.
    """

    main: Sequence[SnapshotEntry]
    branches: Mapping[str, Sequence[SnapshotEntry]]
    """without main"""
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId]
    times: Mapping[SnapshotId, Micros]

    @property
    def root_time(self) -> Micros:
        """When the repository was created."""
        return self.main[-1].flushed_at


def synthetic_log(old: RefLineages) -> list[UpdateEntry]:
    """A reconstructed operations log, oldest first; times ascend strictly, as in a real one."""
    events = sorted(_events(old), key=lambda event: event[0])
    entries: list[UpdateEntry] = []
    last = -1
    for time, kind in events:
        last = max(time, last + 1)
        entries.append(UpdateEntry(kind, last))
    return entries


def _events(old: RefLineages) -> Iterator[tuple[Micros, UpdateKind]]:
    yield old.root_time, UpdateType.RepoInitialized()
    listed = {entry.id for entry in old.main}
    yield from _commits(MAIN, old.main[:-1])
    for name, lineage in old.branches.items():
        yield lineage[0].flushed_at + STEP, UpdateType.BranchCreated(name)
        yield from _commits(name, [entry for entry in lineage if entry.id not in listed])
        listed.update(entry.id for entry in lineage)
    for name, target in old.tags.items():
        yield _time(old, target) + STEP, UpdateType.TagCreated(name)
    for name, target in old.deleted_tags.items():
        yield _time(old, target) + STEP, UpdateType.TagCreated(name)
        yield _time(old, target) + 2 * STEP, UpdateType.TagDeleted(name, target)


def _commits(branch: str, lineage: Sequence[SnapshotEntry]) -> Iterable[tuple[Micros, UpdateKind]]:
    for entry in reversed(lineage):
        yield entry.flushed_at, UpdateType.NewCommit(branch, entry.id)


def _time(old: RefLineages, snapshot_id: SnapshotId) -> Micros:
    return old.times.get(snapshot_id, old.root_time)
