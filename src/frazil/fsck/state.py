"""What a repair knows of a repository while it plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from frazil.formats.generation import Generation
from frazil.fsck.files import Files
from frazil.ids import SnapshotId
from frazil.model.history import RepoInfo, Snapshot, SnapshotEntry


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Refs and history as they are, or as they would be after the steps so far."""

    files: Files
    generation: Generation
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    entries: Mapping[SnapshotId, SnapshotEntry]
    info: RepoInfo | None = None
    """the repo object, where there is one"""

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot | None:
        """A snapshot, if its file is there and sound."""
        read = self.files.snapshot(snapshot_id)
        return None if read is None else read.content

    def ancestry(self, tip: SnapshotId) -> Iterator[SnapshotId]:
        """A snapshot and its ancestors, as far as they are known."""
        seen: set[SnapshotId] = set()
        one: SnapshotId | None = tip
        while one is not None and one not in seen:
            seen.add(one)
            yield one
            entry = self.entries.get(one)
            one = None if entry is None else entry.parent_id
