"""Where the bytes of a repository are: by array, by snapshot, by kind of object."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from operator import add
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import U8
from frazil.commit.base import RefStore
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.walk import WalkLimits, over_manifests, reachable_manifests
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.history import SnapshotEntry
from frazil.model.nodes import ArrayNode
from frazil.model.values import ChunkStorageStats
from frazil.storage.assets import Assets
from frazil.storage.base import Storage
from frazil.transaction.context import Context
from frazil.transaction.working import WorkingState

NAME_WIDTH: Final = 16
RANGE_WIDTH: Final = NAME_WIDTH + 8 + 8
"""A range of an object: its name or the digest of it, offset and length."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Chunks and their bytes, by where these are."""

    chunks: int = 0
    native_bytes: int = 0
    virtual_bytes: int = 0
    inline_bytes: int = 0

    @property
    def stored_bytes(self) -> int:
        """Bytes that lie in the repository itself."""
        return self.native_bytes + self.inline_bytes

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class SnapshotUsage:
    """What a snapshot refers to, and what of it no earlier one did."""

    entry: SnapshotEntry
    usage: Usage
    new_native_bytes: int
    new_inline_bytes: int = 0
    new_manifest_bytes: int = 0
    """files of manifests, which hold the inline bytes, compressed"""


@dataclass(frozen=True, slots=True)
class PrefixUsage:
    """Objects below one prefix."""

    objects: int
    size_bytes: int


def usage_of(tables: Iterable[ChunkTable]) -> Usage:
    """Count references."""
    chunks, sums = 0, np.zeros(len(ChunkType), np.uint64)
    for table in tables:
        chunks += len(table)
        for kind in ChunkType:
            sums[kind] += table.length[table.kind == kind].sum()
    kinds = (ChunkType.native, ChunkType.virtual, ChunkType.inline)
    return Usage(chunks, *(int(sums[kind]) for kind in kinds))


def array_usage(state: WorkingState, node: ArrayNode) -> Usage:
    """What an array of a snapshot refers to."""
    return usage_of([state.table(node)])


def snapshot_usage(assets: Assets, history: Iterable[SnapshotEntry]) -> Iterator[SnapshotUsage]:
    """Follow a history, oldest first; each manifest is read once."""
    seen = RowSet(RANGE_WIDTH)
    known: dict[ManifestId, Usage] = {}
    for entry in history:
        files = assets.fresh_snapshot(entry.id).manifest_files
        fresh = [file for file in files if file.id not in known]
        ranges = RowSet(RANGE_WIDTH)
        found = over_manifests(fresh, WalkLimits(), partial(_tables, assets))
        for file, tables in zip(fresh, found, strict=True):
            known[file.id] = usage_of(tables)
            for table in tables:
                ranges.add(native_ranges(table))
        new = RowSet(RANGE_WIDTH)
        new.add(ranges.rows()[~seen.contains(ranges.rows())])
        seen.add(new.rows())
        used = sum((known[file.id] for file in files), Usage())
        yield SnapshotUsage(
            entry,
            used,
            total_length(new),
            sum(known[file.id].inline_bytes for file in fresh),
            sum(file.size_bytes for file in fresh),
        )


def reachable_entries(refs: RefStore) -> dict[SnapshotId, SnapshotEntry]:
    """All snapshots that branches and tags lead to."""
    found: dict[SnapshotId, SnapshotEntry] = {}
    for tip in {*refs.branches().values(), *refs.tags().values()}:
        for entry in refs.ancestry(tip):
            if entry.id in found:
                break
            found[entry.id] = entry
    return found


def growth(context: Context) -> Iterator[SnapshotUsage]:
    """What each snapshot of the whole repository added, in the order in which they were made."""
    entries = reachable_entries(context.refs).values()
    ordered = sorted(entries, key=lambda entry: (entry.flushed_at, entry.id))
    return snapshot_usage(context.assets, ordered)


def _tables(assets: Assets, manifest_id: ManifestId) -> list[ChunkTable]:
    return [table for _, table in assets.fresh_manifest(manifest_id).tables()]


def objects_by_kind(storage: Storage) -> dict[str, PrefixUsage]:
    """Everything below the root of a repository, by first part of the key."""
    counts: dict[str, tuple[int, int]] = {}
    for item in storage.list(""):
        kind = item.key.partition("/")[0]
        objects, size = counts.get(kind, (0, 0))
        counts[kind] = objects + 1, size + item.size_bytes
    return {kind: PrefixUsage(*counts[kind]) for kind in sorted(counts)}


# --- ranges of objects ---


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What one manifest refers to."""

    native: U8
    virtual: U8
    """(n, RANGE_WIDTH) each"""
    inlined_bytes: int


def chunk_storage_stats(context: Context, limits: WalkLimits | None = None) -> ChunkStorageStats:
    """Sum the chunks of all snapshots that branches and tags reach.

    A range of an object counts once, however many references name it; inline bytes count for
    each manifest that holds them.
    """
    limits = limits or WalkLimits()
    native, virtual, inlined = RowSet(RANGE_WIDTH), RowSet(RANGE_WIDTH), 0
    files = reachable_manifests(context, limits).values()
    for found in over_manifests(files, limits, partial(_look, context.assets)):
        native.add(found.native)
        virtual.add(found.virtual)
        inlined += found.inlined_bytes
    return ChunkStorageStats(total_length(native), total_length(virtual), inlined)


def _look(assets: Assets, manifest_id: ManifestId) -> _Found:
    tables = _tables(assets, manifest_id)
    nothing = np.zeros((0, RANGE_WIDTH), np.uint8)
    return _Found(
        np.concatenate([nothing, *map(native_ranges, tables)]),
        np.concatenate([nothing, *map(_virtual_ranges, tables)]),
        sum(int(table.length[table.kind == ChunkType.inline].sum()) for table in tables),
    )


def native_ranges(table: ChunkTable) -> U8:
    """The ranges of objects that a table refers to, (n, RANGE_WIDTH)."""
    rows = table.kind == ChunkType.native
    return _ranges(table.chunk_id[rows], table.offset[rows], table.length[rows])


def _virtual_ranges(table: ChunkTable) -> U8:
    rows = table.kind == ChunkType.virtual
    if not rows.any():
        return np.zeros((0, RANGE_WIDTH), np.uint8)
    names = _digests(table.locations)[table.location[rows]]
    return _ranges(names, table.offset[rows], table.length[rows])


def _digests(texts: Sequence[str]) -> U8:
    """Texts as rows of fixed width, so that millions of them need not be kept."""
    joined = b"".join(
        hashlib.blake2b(text.encode(), digest_size=NAME_WIDTH).digest() for text in texts
    )
    return np.frombuffer(joined, np.uint8).reshape(-1, NAME_WIDTH)


def _ranges(names: U8, offset: npt.NDArray[np.uint64], length: npt.NDArray[np.uint64]) -> U8:
    rows = np.zeros((len(names), RANGE_WIDTH), np.uint8)
    rows[:, : names.shape[1]] = names
    rows[:, NAME_WIDTH:-8] = offset.astype("<u8").view(np.uint8).reshape(-1, 8)
    rows[:, -8:] = length.astype("<u8").view(np.uint8).reshape(-1, 8)
    return rows


def total_length(ranges: RowSet) -> int:
    """How many bytes ranges cover, each counted once."""
    lengths = np.ascontiguousarray(ranges.rows()[:, -8:]).view("<u8")
    return sum(map(int, lengths.ravel().tolist())) if len(lengths) else 0
