"""Every chunk through its codecs: whether its bytes give an array of its shape."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from frazil.bulk.codecs import Shape
from frazil.bulk.fetch import VIRTUAL, check_length
from frazil.bulk.grid import Grid, Layout, layout_of
from frazil.errors import FormatError, FrazilError, InvalidInputError, StorageError
from frazil.fsck.files import Files
from frazil.fsck.findings import Code, Finding
from frazil.fsck.snapshot_rules import Use
from frazil.ids import ManifestId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates
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

    def decode(self, item: tuple[Coordinates, ChunkRef]) -> Finding | bool:
        """Decode a chunk; False where its bytes are not at hand, which others tell of."""
        coords, ref = item
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
            chain.decode(self.context.read_chunk(ref), shape)
        except (StorageError, InvalidInputError):
            return False
        except FormatError as error:
            where = chunk_key(ref.chunk_id) if isinstance(ref, NativeRef) else self.manifest
            return Finding(Code.CHUNK_DAMAGED, where, str(error), self.path, (coords,), 1)
        return True


def decode_chunks(
    context: Context, files: Files, manifest_id: ManifestId, uses: Collection[Use], *, virtual: bool
) -> Decoded:
    """Decode the chunks of a manifest, once for each way that an array describes them."""
    read, done, key = files.manifest(manifest_id), Decoded(), manifest_key(manifest_id)
    if read is None or read.content is None:
        return done  # told already
    for use in {(use.node_id, use.document): use for use in uses}.values():
        table, layout = read.content.table(use.node_id), _layout(use.document)
        if table is None or table.ndim != len(use.grid):
            continue
        if layout is None or not layout.chain.is_checked:
            done.unchecked[use.path] = int(table.length[table.kind != VIRTUAL].sum())
        if layout is None:
            done.findings.append(Finding(Code.CHUNK_UNDECODED, key, "", use.path))
            continue
        work = _Array(context, layout, use.path, key, virtual).decode
        for rows in _portions(table):
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


def _portions(table: ChunkTable) -> Iterator[list[tuple[Coordinates, ChunkRef]]]:
    for first in range(0, len(table), AT_ONCE):
        rows = range(first, min(first + AT_ONCE, len(table)))
        yield [(tuple(table.coords[row].tolist()), table.ref(row)) for row in rows]


def _chunk_shape(grid: Grid, coords: Coordinates) -> Shape:
    sizes = partial(np.array, dtype=np.int64)
    return tuple(int(axis.size_of(sizes([c]))[0]) for axis, c in zip(grid, coords, strict=True))
