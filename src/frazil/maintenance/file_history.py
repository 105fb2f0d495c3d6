"""The history of a repository that keeps parents in its snapshot files.

Following parents file by file costs one round trip for each commit, so all snapshots are read
side by side first and followed in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.arrays import U8
from frazil.errors import FormatError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.maintenance.id_sets import RowSet, id_rows
from frazil.maintenance.listing import ID_NAME, batched
from frazil.maintenance.tuning import FILES_AT_ONCE
from frazil.model.history import ManifestFile, SnapshotEntry
from frazil.storage.assets import SNAPSHOTS, Assets
from frazil.storage.pool import fan_out


@dataclass(frozen=True, slots=True)
class KnownSnapshot:
    """What is needed of a snapshot file."""

    entry: SnapshotEntry
    manifest_files: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True)
class FileHistory:
    """Snapshots by id; one that was not read before is read when it is met."""

    assets: Assets
    known: dict[SnapshotId, KnownSnapshot] = field(default_factory=dict)

    def __getitem__(self, snapshot_id: SnapshotId) -> KnownSnapshot:
        found = self.known.get(snapshot_id)
        if found is None:
            found = KnownSnapshot(*self.assets.fresh_links(snapshot_id))
            self.known[snapshot_id] = found
        return found

    def ancestry(self, tip: SnapshotId) -> Iterator[SnapshotEntry]:
        """A snapshot and its ancestors, newest first.

        Raises:
            SnapshotNotFoundError: a file is missing.
            FormatError: a file is damaged, or the parents run in a circle.
        """
        seen: set[SnapshotId] = set()
        current: SnapshotId | None = tip
        while current is not None:
            if current in seen:
                raise FormatError("history runs in a circle", snapshot=current)
            seen.add(current)
            entry = self[current].entry
            yield entry
            current = entry.parent_id

    def newest_first(self, rows: U8) -> npt.NDArray[np.intp]:
        """The order of snapshots by time, newest first: descendants come before their ancestors."""
        times = [
            known.entry.flushed_at if (known := self.known.get(SnapshotId(bytes(row)))) else 0
            for row in rows
        ]
        return np.argsort(-np.array(times, np.int64), kind="stable")

    def kept(self, tips: Iterable[SnapshotId], old: U8) -> dict[SnapshotId, KnownSnapshot]:
        """What a collection of `old` snapshot files must leave: what tips and young files need.

        A young file may be that of a commit, or of a ref, which is just being made.
        """
        found = self.reachable(tips)
        is_old = RowSet()
        is_old.add(old)
        ids = [one for one in self.known if one not in found]
        rows = is_old.contains(id_rows(ids)) if ids else np.zeros(0, np.bool_)
        for young in (one for one, is_one in zip(ids, rows.tolist(), strict=True) if not is_one):
            at: SnapshotId | None = young
            while at is not None and at not in found and at in self.known:
                found[at] = self.known[at]
                at = self.known[at].entry.parent_id
        return found

    def since(
        self, tips: Iterable[SnapshotId], known: Collection[SnapshotId]
    ) -> dict[SnapshotId, KnownSnapshot]:
        """What some tips descend from, tips included, as far as it is not known."""
        found: dict[SnapshotId, KnownSnapshot] = {}
        for tip in tips:
            for entry in self.ancestry(tip):
                if entry.id in found or entry.id in known:
                    break
                found[entry.id] = self[entry.id]
        return found

    def reachable(self, tips: Iterable[SnapshotId]) -> dict[SnapshotId, KnownSnapshot]:
        """Everything that some tips descend from, tips included."""
        return self.since(tips, ())


def read_file_history(assets: Assets, at_once: int = FILES_AT_ONCE) -> FileHistory:
    """Read all snapshot files; damage counts only where history needs it.

    Raises:
        StorageError: a file cannot be read now. What it needs is unknown then, not nothing.
    """
    start = len(SNAPSHOTS)
    names = (item.key[start:] for item in assets.storage.list(SNAPSHOTS))
    ids = (SnapshotId.parse(name) for name in names if ID_NAME.fullmatch(name))

    def attempt(snapshot_id: SnapshotId) -> KnownSnapshot | None:
        try:
            return KnownSnapshot(*assets.fresh_links(snapshot_id))
        except (FormatError, SnapshotNotFoundError):
            return None

    history = FileHistory(assets)
    for group in batched(ids, at_once):
        for snapshot_id, found in zip(group, fan_out(attempt, group), strict=True):
            if found is not None:
                history.known[snapshot_id] = found
    return history
