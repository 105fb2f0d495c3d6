"""Every chunk through its codecs: whether its bytes give an array of its shape."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from frazil.bulk.codecs import Shape
from frazil.bulk.fetch import VIRTUAL, References, check_length
from frazil.bulk.grid import Grid
from frazil.bulk.layout import Layout, layout_of
from frazil.errors import FormatError, FrazilError, InvalidInputError, StorageError
from frazil.fsck.files import Files
from frazil.fsck.findings import Code, Finding
from frazil.fsck.snapshot_rules import Use
from frazil.ids import ManifestId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates
from frazil.statistics.files import Checksums
from frazil.statistics.records import crc32c, identified
from frazil.storage.assets import chunk_key, manifest_key
from frazil.storage.base import fan_out
from frazil.transaction.context import Context

AT_ONCE: Final = 64
"""Chunks whose bytes are in memory at one time."""
LARGEST: Final = 1 << 32
"""Bytes of a decoded chunk; larger ones are left alone."""


@dataclass(slots=True)
class Decoded:
    """How many chunks were decoded, and what was found."""

    chunks: int = 0
    unchecked: dict[str, int] = field(default_factory=dict)
    """bytes of chunks that no checksum covers, by array"""
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """The chunks of an array in one manifest, and how they are made."""

    context: Context
    layout: Layout
    path: str
    manifest: str
    virtual: bool

    def decode(self, item: tuple[Coordinates, ChunkRef, set[int]]) -> Finding | bool:
        """Decode a chunk; False where its bytes are not at hand, which others tell of."""
        coords, ref, checksums = item
        where = chunk_key(ref.chunk_id) if isinstance(ref, NativeRef) else self.manifest
        shape = _chunk_shape(self.layout.grid, coords)
        chain = self.layout.chain
        if math.prod(shape) * max(1, chain.dtype.itemsize) > LARGEST:
            told = f"chunks of {shape} cells are too large to be decoded here"
            return Finding(Code.CHUNK_UNDECODED, self.manifest, told, self.path)
        try:
            length = len(ref.data) if isinstance(ref, InlineRef) else ref.length
            check_length(length, chain.encoded_limit(shape))
            if isinstance(ref, VirtualRef) and not self.virtual:
                return False
            data = self.context.read_chunk(ref)
            chain.decode(data, shape)
        except (StorageError, InvalidInputError):
            return False
        except FormatError as error:
            return Finding(Code.CHUNK_DAMAGED, where, str(error), self.path, (coords,), 1)
        if checksums and checksums != {found := crc32c(data)}:
            known = " or ".join(f"{each:08x}" for each in sorted(checksums))
            told = f"its crc32c is {found:08x}, and was {known} when it was analyzed"
            return Finding(Code.CHUNK_CHANGED, where, told, self.path, (coords,), 1)
        return True


def decode_chunks(
    context: Context,
    files: Files,
    manifest_id: ManifestId,
    uses: Collection[Use],
    checksums: Checksums,
    *,
    virtual: bool,
) -> Decoded:
    """Decode the chunks of a manifest, once for each way that an array describes them.

    Where checksums of stored bytes are known, these are compared too.
    """
    read, done, key = files.manifest(manifest_id), Decoded(), manifest_key(manifest_id)
    if read is None or read.content is None:
        return done  # told already
    for use in {(use.node_id, use.document): use for use in uses}.values():
        table, layout = read.content.table(use.node_id), _layout(use.document)
        if table is None or table.ndim != len(use.grid):
            continue
        known = _known(context, table, layout, checksums)
        if layout is None or not layout.chain.is_checked:
            is_open = (table.kind != VIRTUAL) & ~np.array([*map(bool, known)], np.bool_)
            done.unchecked[use.path] = int(table.length[is_open].sum())
        if layout is None:
            done.findings.append(Finding(Code.CHUNK_UNDECODED, key, "", use.path))
            continue
        work = _Array(context, layout, use.path, key, virtual).decode
        for rows in _portions(table, known):
            for answer in fan_out(work, rows):
                if isinstance(answer, Finding):
                    done.findings.append(answer)
                done.chunks += answer is True
    return done


def _layout(document: bytes) -> Layout | None:
    try:
        return layout_of(document)
    except (FrazilError, ValueError, KeyError, TypeError):  # told by the rules of snapshots
        return None


def _known(
    context: Context, table: ChunkTable, layout: Layout | None, checksums: Checksums
) -> list[set[int]]:
    """What is known of the bytes of each chunk."""
    if layout is None or not len(checksums.ranges):
        return [set() for _ in range(len(table))]
    rows, can_be_known = identified(References.of(table), layout.grid, context.containers.expand)
    pairs = zip(checksums.of(rows), can_be_known.tolist(), strict=True)
    return [found if is_known else set() for found, is_known in pairs]


def _portions(
    table: ChunkTable, known: list[set[int]]
) -> Iterator[list[tuple[Coordinates, ChunkRef, set[int]]]]:
    for first in range(0, len(table), AT_ONCE):
        rows = range(first, min(first + AT_ONCE, len(table)))
        yield [(tuple(table.coords[row].tolist()), table.ref(row), known[row]) for row in rows]


def _chunk_shape(grid: Grid, coords: Coordinates) -> Shape:
    sizes = partial(np.array, dtype=np.int64)
    return tuple(int(axis.size_of(sizes([c]))[0]) for axis, c in zip(grid, coords, strict=True))
