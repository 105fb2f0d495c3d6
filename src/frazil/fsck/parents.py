"""Finds the parents of version 2 snapshots, whose files do not name them, by their logs.

The log of a snapshot says what it changed: the parent is the snapshot that differs by just that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frazil.fsck.files import RepositoryFiles, content_of
from frazil.fsck.log_rules import Claims, claims_of
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Micros, Snapshot
from frazil.model.nodes import ArrayNode, Node


def explains(parent: Snapshot, snapshot: Snapshot, claims: Claims) -> bool:
    """Whether applying a log to one snapshot gives exactly the other."""
    if parent.flushed_at >= snapshot.flushed_at:
        return False
    old: Mapping[NodeId, Node] = {node.id: node for node in parent.nodes}
    new: Mapping[NodeId, Node] = {node.id: node for node in snapshot.nodes}
    added, removed = new.keys() - old.keys(), old.keys() - new.keys()
    passing = claims.new & claims.deleted  # came and went
    if claims.new - passing != added - passing or not added <= claims.new:
        return False
    if claims.deleted - passing != removed - passing or not removed <= claims.deleted:
        return False
    moved = {move.node_id for move in claims.moves}
    known = old.keys() | claims.new
    if not (claims.updated | claims.chunks.keys() | moved) <= known:
        return False
    return all(
        _is_explained(old[one], new[one], claims, has_moved=one in moved)
        for one in old.keys() & new.keys()
    )


def _is_explained(before: Node, after: Node, claims: Claims, *, has_moved: bool) -> bool:
    if before.user_data != after.user_data and after.id not in claims.updated:
        return False
    if before.path != after.path and not has_moved:
        return False
    if not isinstance(before, ArrayNode) or not isinstance(after, ArrayNode):
        return type(before) is type(after)
    # An empty log is that of manifests that were only written anew.
    may_differ = after.id in claims.chunks or after.id in claims.updated or claims.is_empty
    return may_differ or set(before.manifests) == set(after.manifests)


@dataclass(slots=True)
class PlacedSnapshots:
    """Snapshots whose parents were found, and those whose were not."""

    parents: dict[SnapshotId, SnapshotId] = field(default_factory=dict)
    alone: list[SnapshotId] = field(default_factory=list)

    def children(self, one: SnapshotId) -> list[SnapshotId]:
        """The snapshots that were placed right after a snapshot."""
        return [child for child, parent in self.parents.items() if parent == one]

    def leaves(self) -> list[SnapshotId]:
        """The newest snapshot of each line that was placed."""
        above = set(self.parents.values())
        return [one for one in [*self.parents, *self.alone] if one not in above]


def find_parents(
    files: RepositoryFiles, known: Mapping[SnapshotId, Micros], loose: Sequence[Snapshot]
) -> PlacedSnapshots:
    """Find the parents of unlisted snapshots, among the listed ones and each other, by age.

    Where several would do, as for a commit that changed nothing, it is the youngest.
    """
    placed = PlacedSnapshots()
    ages = dict(known)
    for snapshot in sorted(loose, key=lambda one: one.flushed_at):
        log = content_of(files.log(snapshot.id), snapshot.id)
        found = None
        if log is not None:
            claims = claims_of([log])
            younger_first = sorted(ages, key=lambda one: -ages[one])
            fits = (one for one in younger_first if _fits(files, one, snapshot, claims))
            found = next(fits, None)
        if found is None:
            placed.alone.append(snapshot.id)
        else:
            placed.parents[snapshot.id] = found
        ages[snapshot.id] = snapshot.flushed_at
    return placed


def _fits(files: RepositoryFiles, one: SnapshotId, snapshot: Snapshot, claims: Claims) -> bool:
    parent = content_of(files.snapshot(one), one)
    return parent is not None and explains(parent, snapshot, claims)
