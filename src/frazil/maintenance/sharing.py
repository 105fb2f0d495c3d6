"""Disk usage by owner: what each array, snapshot or ref refers to, alone and shared with others.

Bytes are ranges of chunk objects. Several owners may refer to one range, and several ranges may
lie in one object, which garbage collection deletes as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from frazil.arrays import I64, U8, Mask
from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.expire import expire
from frazil.maintenance.id_sets import ID_WIDTH
from frazil.maintenance.listing import batched
from frazil.maintenance.space import RANGE_WIDTH, Usage, native_ranges, reachable_entries, usage_of
from frazil.maintenance.tuning import FILES_AT_ONCE
from frazil.maintenance.walk import WalkLimits, over_manifests
from frazil.model.history import ManifestFile, Snapshot, SnapshotEntry
from frazil.model.nodes import ArrayNode
from frazil.storage.assets import Assets
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

UsageBy: TypeAlias = Literal["array", "snapshot", "branch"]
BY: Final = ("array", "snapshot", "branch")
PartKey: TypeAlias = tuple[ManifestId, NodeId]
"""The references of one array in one manifest."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one owner refers to in native chunks; inline and virtual bytes beside it."""

    name: str
    """path of an array, id of a snapshot, or name of a ref"""
    kind: str
    """array, snapshot, branch or tag"""
    chunks: int = 0
    referenced_bytes: int = 0
    unique_bytes: int = 0
    """what no other owner refers to"""
    reclaimable_bytes: int = 0
    """what expiry and garbage collection would free"""
    stranded_bytes: int = 0
    """what expiry would leave unused inside objects that stay; compaction frees it"""
    inline_bytes: int = 0
    virtual_bytes: int = 0

    @property
    def shared_bytes(self) -> int:
        """What other owners refer to as well."""
        return self.referenced_bytes - self.unique_bytes


@dataclass(frozen=True, slots=True, repr=False)
class Shares(ReportView):
    """All owners of one kind, largest first, and the repository as a whole."""

    owners: tuple[Share, ...]
    total: Share


def shares(
    context: Context,
    by: UsageBy = "array",
    *,
    older_than: datetime | None = None,
) -> Shares:
    """Tell what arrays, snapshots or refs refer to, over all that branches and tags reach.

    With `older_than` also what would become free if snapshots before that time expired.

    Raises:
        InvalidInputError: `by` is something else.
        FormatError: `older_than` is given, and snapshots of this generation cannot expire.
    """
    if by not in BY:
        raise InvalidInputError(
            f"by must be one of {', '.join(BY)}, not {by!r}", kind=ErrorKind.INVALID_OPTION
        )
    if older_than is not None:
        context.generation.require_expiry()
    entries = reachable_entries(context.refs)
    tree = _Tree.read(context.assets, entries)
    index = _Index.read(context.assets, tree.files.values())
    kept = None if older_than is None else _kept(context, entries, older_than)
    free, stranded = index.dead(tree, kept)
    if by == "array":
        owners = tree.by_array()
    elif by == "snapshot":
        owners = tree.by_snapshot()
    else:
        owners = _by_ref(context, tree)
    parts = {owner: index.numbers(keys) for owner, keys in owners.items()}
    counts = np.zeros(len(index.lengths), np.int64)
    for numbers in parts.values():
        counts[numbers] += 1
    found = [
        index.share(owner, owners[owner], numbers, counts == 1, free, stranded)
        for owner, numbers in parts.items()
    ]
    every = index.numbers(index.parts)
    total = index.share(
        ("total", "repository"), set(index.parts), every, counts >= 0, free, stranded
    )
    found.sort(key=lambda each: (-each.referenced_bytes, each.name))
    return Shares(tuple(found), total)


def _kept(
    context: Context, entries: Mapping[SnapshotId, SnapshotEntry], older_than: datetime
) -> set[SnapshotId]:
    """The snapshots that an expiry would keep, and those that refs point to."""
    released = expire(context, older_than, dry_run=True).released
    tips = {*context.refs.branches().values(), *context.refs.tags().values()}
    return {one for one in entries if one not in released} | tips


def _by_ref(context: Context, tree: _Tree) -> dict[tuple[str, str], set[PartKey]]:
    found: dict[tuple[str, str], set[PartKey]] = {}
    for kind, refs in (("branch", context.refs.branches()), ("tag", context.refs.tags())):
        for name, tip in refs.items():
            keys: set[PartKey] = set()
            for entry in context.refs.ancestry(tip):
                keys |= tree.parts.get(entry.id, set())
            found[name, kind] = keys
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Snapshots, their arrays, and where the references of those are."""

    files: dict[ManifestId, ManifestFile]
    parts: dict[SnapshotId, set[PartKey]]
    paths: dict[NodeId, str]
    """where an array was last"""

    @classmethod
    def read(cls, assets: Assets, entries: Mapping[SnapshotId, SnapshotEntry]) -> _Tree:
        """Read every snapshot."""
        tree = cls({}, {}, {})
        ordered = sorted(entries.values(), key=lambda each: each.flushed_at)
        for group in batched([entry.id for entry in ordered], FILES_AT_ONCE):
            for snapshot in fan_out(assets.fresh_snapshot, group):
                tree._add(snapshot)
        return tree

    def _add(self, snapshot: Snapshot) -> None:
        self.files.update((file.id, file) for file in snapshot.manifest_files)
        keys = self.parts.setdefault(snapshot.id, set())
        for node in snapshot.nodes:
            if isinstance(node, ArrayNode):
                self.paths[node.id] = node.path
                keys.update((ref.id, node.id) for ref in node.manifests)

    def by_snapshot(self) -> dict[tuple[str, str], set[PartKey]]:
        """The references of each snapshot."""
        return {(str(one), "snapshot"): keys for one, keys in self.parts.items()}

    def by_array(self) -> dict[tuple[str, str], set[PartKey]]:
        """The references of each array in all snapshots; those that shared a path are one."""
        found: dict[tuple[str, str], set[PartKey]] = {
            (path, "array"): set() for path in self.paths.values()
        }
        for keys in self.parts.values():
            for key in keys:
                found[self.paths[key[1]], "array"].add(key)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Index:
    """Every range that manifests refer to, numbered."""

    lengths: I64
    objects: I64
    """number of the object that a range lies in"""
    parts: dict[PartKey, I64]
    usage: dict[PartKey, Usage]

    @classmethod
    def read(cls, assets: Assets, files: Iterable[ManifestFile]) -> _Index:
        """Read every manifest."""
        files = tuple(files)
        rows: list[U8] = [np.zeros((0, RANGE_WIDTH), np.uint8)]
        spans: dict[PartKey, tuple[int, int]] = {}
        usage: dict[PartKey, Usage] = {}
        at = 0
        for file, tables in zip(
            files, over_manifests(files, WalkLimits(), partial(_look, assets)), strict=True
        ):
            for node_id, ranges, used in tables:
                rows.append(ranges)
                spans[file.id, node_id] = at, at + len(ranges)
                usage[file.id, node_id] = used
                at += len(ranges)
        raw, number = _distinct(np.concatenate(rows))
        is_new = np.ones(len(raw), np.bool_)
        is_new[1:] = (raw[1:, :ID_WIDTH] != raw[:-1, :ID_WIDTH]).any(axis=1)
        objects = np.cumsum(is_new) - 1
        lengths = np.ascontiguousarray(raw[:, -8:]).view("<u8").ravel().astype(np.int64)
        parts = {key: number[a:b] for key, (a, b) in spans.items()}
        return cls(lengths, objects, parts, usage)

    def numbers(self, keys: Iterable[PartKey]) -> I64:
        """The ranges that some references name."""
        is_named = np.zeros(len(self.lengths), np.bool_)
        for key in keys:
            if key in self.parts:
                is_named[self.parts[key]] = True
        return np.flatnonzero(is_named)

    def dead(self, tree: _Tree, kept: set[SnapshotId] | None) -> tuple[Mask, Mask]:
        """Ranges that would be freed if only some snapshots stayed, and those left in objects."""
        count = len(self.lengths)
        is_dead = np.zeros(count, np.bool_)
        if kept is None:
            return is_dead, is_dead
        is_dead[:] = True
        is_dead[self.numbers({key for one in kept for key in tree.parts.get(one, ())})] = False
        lives = np.zeros(int(self.objects.max(initial=-1)) + 1, np.bool_)
        lives[self.objects[~is_dead]] = True
        stays = lives[self.objects] if count else is_dead
        return is_dead & ~stays, is_dead & stays

    def share(
        self,
        owner: tuple[str, str],
        keys: Iterable[PartKey],
        numbers: I64,
        is_unique: Mask,
        free: Mask,
        stranded: Mask,
    ) -> Share:
        """What an owner refers to."""
        lengths = self.lengths[numbers]
        used = sum((self.usage[key] for key in keys if key in self.usage), Usage())
        return Share(
            *owner,
            chunks=used.chunks,
            referenced_bytes=int(lengths.sum()),
            unique_bytes=int(lengths[is_unique[numbers]].sum()),
            reclaimable_bytes=int(lengths[free[numbers]].sum()),
            stranded_bytes=int(lengths[stranded[numbers]].sum()),
            inline_bytes=used.inline_bytes,
            virtual_bytes=used.virtual_bytes,
        )


def _distinct(rows: U8) -> tuple[U8, I64]:
    """Different rows, those of one object side by side, and which of them each row is."""
    words = np.ascontiguousarray(rows).view(np.uint64)  # far quicker to sort than texts
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(rows), np.int64)
    number[order] = np.cumsum(is_new) - 1
    return ordered[is_new].view(np.uint8), number


def _look(assets: Assets, manifest_id: ManifestId) -> list[tuple[NodeId, U8, Usage]]:
    return [
        (node_id, native_ranges(table), usage_of([table]))
        for node_id, table in assets.fresh_manifest(manifest_id).tables()
    ]
