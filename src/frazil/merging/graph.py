"""The history as a graph, merge parents and expired snapshots included, and its merge bases."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag

from frazil.errors import ErrorKind, SessionStateError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.model import lineage
from frazil.model.history import Metadata, Micros, SnapshotEntry
from frazil.model.lineage import merged_commits, other_parents
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot of the graph."""

    id: SnapshotId
    time: Micros
    parents: tuple[SnapshotId, ...]
    """the parent, then what it merged"""
    is_readable: bool = True
    """its snapshot file exists, or so history says"""
    is_expired: bool = False
    """whether it expired; else it was on a merged branch that was deleted"""
    is_partial: bool = False
    """whether it merged more snapshots than it names, and those are gone"""


class _Paint(IntFlag):
    OURS = 1
    THEIRS = 2
    BOTH = 3
    STALE = 4
    """an ancestor of a snapshot that both sides have"""


@dataclass(frozen=True, slots=True)
class CommonHistory:
    """What two histories share."""

    bases: tuple[SnapshotId, ...]
    """the newest snapshots that both have, none an ancestor of another"""
    only_theirs: tuple[SnapshotId, ...]
    """newest first"""


class Graph:
    """The commits of a repository, read as they are needed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[SnapshotId, Commit] = {}
        self._before: dict[SnapshotId, tuple[SnapshotId, ...]] = {}
        """parents of snapshots that left the history, as those that stayed tell"""
        self._latest: dict[SnapshotId, Micros] = {}
        """no later than this, for snapshots whose time is unknown"""
        self._expired: set[SnapshotId] = set()

    def commit(self, snapshot_id: SnapshotId) -> Commit:
        """One commit; those that are gone are known by what others tell of them."""
        found = self._known.get(snapshot_id)
        if found is None:
            found = self._known[snapshot_id] = self._load(snapshot_id)
        return found

    def metadata(self, snapshot_id: SnapshotId) -> Metadata:
        """What a commit says of itself; nothing if it is gone."""
        try:
            return self._context.refs.entry_as_known(snapshot_id).metadata
        except SnapshotNotFoundError:
            return {}

    def _load(self, snapshot_id: SnapshotId) -> Commit:
        try:
            entry = self._context.refs.entry(snapshot_id)
        except SnapshotNotFoundError:
            return self._load_gone(snapshot_id)
        merged, is_partial = self._note_merged(entry.metadata, entry.flushed_at)
        parents = self._note_pruned(entry) + merged
        return Commit(snapshot_id, entry.flushed_at, parents, is_partial=is_partial)

    def _note_pruned(self, entry: SnapshotEntry) -> tuple[SnapshotId, ...]:
        """The parent as it was before expiry, with the expired ones between."""
        parent = () if entry.parent_id is None else (entry.parent_id,)
        for number, one in enumerate(entry.pruned_ancestor_tx_logs):
            self._before.setdefault(one, parent)
            self._expired.add(one)
            age = len(entry.pruned_ancestor_tx_logs) - number
            self._latest.setdefault(one, entry.flushed_at - age)
            parent = (one,)
        return parent

    def _note_merged(self, metadata: Metadata, time: Micros) -> tuple[tuple[SnapshotId, ...], bool]:
        """The other parents, what came with them if one is gone, and whether that is not all."""
        others = other_parents(metadata)
        is_partial = False
        if not all(map(self._is_known, others)):
            named = merged_commits(metadata)
            is_partial = len(named) >= lineage.NAMED_COMMITS
            others = tuple(dict.fromkeys((*others, *named)))
        for number, one in enumerate(others):
            self._latest.setdefault(one, time - 1 - number)
        return others, is_partial

    def _is_known(self, snapshot_id: SnapshotId) -> bool:
        try:
            self._context.refs.entry(snapshot_id)
        except SnapshotNotFoundError:
            return False
        return True

    def _load_gone(self, snapshot_id: SnapshotId) -> Commit:
        parents = self._before.get(snapshot_id, ())
        expired = snapshot_id in self._expired
        try:
            snapshot = self._context.assets.snapshot(snapshot_id)
        except SnapshotNotFoundError:
            time = self._latest.get(snapshot_id, 0)
            return Commit(snapshot_id, time, parents, is_readable=False, is_expired=expired)
        own = () if snapshot.parent_id is None else (snapshot.parent_id,)
        merged, is_partial = self._note_merged(snapshot.metadata, snapshot.flushed_at)
        return Commit(
            snapshot_id,
            snapshot.flushed_at,
            (*(own or parents), *merged),
            is_expired=expired,
            is_partial=is_partial,
        )

    # --- asking ---

    def is_ancestor(self, one: SnapshotId, of: SnapshotId) -> bool:
        """Whether a snapshot is an ancestor of another, merges included."""
        return one == of or self.common((one,), (of,), strict=False).bases == (one,)

    def common(
        self, ours: Iterable[SnapshotId], theirs: Iterable[SnapshotId], *, strict: bool = True
    ) -> CommonHistory:
        """The merge bases of two sides, each of one snapshot or more.

        Raises:
            SessionStateError: what they have in common has expired and is gone.
        """
        painted = self._paint(ours, theirs)
        both = [one for one, paint in painted.items() if paint == _Paint.BOTH]
        if strict:
            self._require_readable(painted)
        fresh = [one for one, paint in painted.items() if paint == _Paint.THEIRS]
        fresh.sort(key=lambda one: self.commit(one).time, reverse=True)
        return CommonHistory(tuple(self._without_ancestors(both)), tuple(fresh))

    def _paint(
        self, ours: Iterable[SnapshotId], theirs: Iterable[SnapshotId]
    ) -> dict[SnapshotId, _Paint]:
        """Go back from both sides, newest first, until only what both have is left.

        Parents are older than their children, so all its children have marked a snapshot when it
        is visited.
        """
        painted: dict[SnapshotId, _Paint] = {}
        queue: list[tuple[Micros, SnapshotId]] = []
        waiting: set[SnapshotId] = set()

        def add(one: SnapshotId, paint: _Paint) -> None:
            before = painted.get(one, _Paint(0))
            if before | paint == before:
                return
            painted[one] = before | paint
            if one not in waiting:
                waiting.add(one)
                heapq.heappush(queue, (-self.commit(one).time, one))

        for one in ours:
            add(one, _Paint.OURS)
        for one in theirs:
            add(one, _Paint.THEIRS)
        while queue and any(not painted[one] & _Paint.STALE for _, one in queue):
            _, one = heapq.heappop(queue)
            waiting.discard(one)
            paint = painted[one]
            if paint & _Paint.BOTH == _Paint.BOTH:
                paint |= _Paint.STALE
            for parent in self.commit(one).parents:
                add(parent, paint)
        return painted

    def _without_ancestors(self, found: list[SnapshotId]) -> list[SnapshotId]:
        """Only those that are no ancestor of another, oldest first."""
        if len(found) < 2:
            return found
        newest = [
            one
            for one in found
            if not any(self.is_ancestor(one, of=two) for two in found if two != one)
        ]
        return sorted(newest, key=lambda one: (self.commit(one).time, one))

    # --- gaps ---

    def _require_readable(self, painted: dict[SnapshotId, _Paint]) -> None:
        """Refuse if there is a gap between the sides and what they seem to have in common."""
        for one, paint in painted.items():
            if paint & _Paint.STALE:
                continue
            commit = self.commit(one)
            is_base = paint == _Paint.BOTH
            if not commit.is_readable:
                if is_base or commit.is_expired:
                    raise expired_base(one)
            elif not is_base and (
                self._is_cut_off(commit) or self._may_have_merged(commit, paint, painted)
            ):
                raise expired_base(one)

    def _may_have_merged(
        self, commit: Commit, paint: _Paint, painted: dict[SnapshotId, _Paint]
    ) -> bool:
        """Whether a commit may have merged a snapshot of the other side without naming it."""
        other = _Paint.BOTH & ~paint
        return commit.is_partial and any(
            found == other and self.commit(one).time < commit.time for one, found in painted.items()
        )

    def _is_cut_off(self, commit: Commit) -> bool:
        """Whether a snapshot that seems to follow a root was put there by expiry."""
        if not commit.parents:
            return False
        root = self.commit(commit.parents[0])
        is_root = root.is_readable and not root.parents
        return is_root and was_adopted(self._context, commit.id, root.id)


def follows_expired(context: Context, entry: SnapshotEntry) -> bool:
    """Whether commits between a snapshot and its parent have expired.

    Its own log then does not tell all that has changed since the parent.
    """
    if entry.pruned_ancestor_tx_logs:
        return True
    if entry.parent_id is None or context.refs.entry(entry.parent_id).parent_id is not None:
        return False
    return was_adopted(context, entry.id, entry.parent_id)


def was_adopted(context: Context, snapshot_id: SnapshotId, root: SnapshotId) -> bool:
    """Whether expiry made a snapshot the child of the root, which the history does not say.

    The log of such a snapshot does not list all its nodes.
    """
    before = {node.id for node in context.assets.snapshot(root).nodes}
    nodes = {node.id for node in context.assets.snapshot(snapshot_id).nodes} - before
    if not nodes:
        return False
    log = context.assets.log(snapshot_id)
    return log is None or not nodes <= {*log.new_groups, *log.new_arrays}


def expired_base(snapshot_id: SnapshotId) -> SessionStateError:
    """The error for versions that can no longer be compared."""
    return SessionStateError(
        "the common ancestor of both sides has expired, so it is not known which side changed "
        "what; name a snapshot to compare with as the base",
        kind=ErrorKind.MERGE_BASE_EXPIRED,
        snapshot=snapshot_id,
    )
