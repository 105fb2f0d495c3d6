"""How many bytes of chunks a repository refers to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.formats.manifest import decode_manifest
from frazil.maintenance.id_sets import U8, RowSet
from frazil.maintenance.walk import WalkLimits, over_manifests, reachable_manifests
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.values import ChunkStorageStats
from frazil.transaction.context import Context

NAME_WIDTH: Final = 16
RANGE_WIDTH: Final = NAME_WIDTH + 8 + 8
"""A range of an object: its name or the digest of it, offset and length."""


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
    for found in over_manifests(context.storage, files, limits, _look):
        native.add(found.native)
        virtual.add(found.virtual)
        inlined += found.inlined_bytes
    return ChunkStorageStats(total_length(native), total_length(virtual), inlined)


def _look(blob: bytes, key: str) -> _Found:
    tables = [table for _, table in decode_manifest(blob, key=key).tables()]
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
