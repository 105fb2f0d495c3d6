"""The rules of one manifest, alone and against the arrays that use it, and of its chunks' bytes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import Shape
from frazil.bulk.fetch import VIRTUAL, ChunkReferences, check_length
from frazil.bulk.grid import ArrayLayout, Grid, layout_of
from frazil.errors import FormatError, FrazilError, InvalidInputError, StorageError
from frazil.formats.manifest import Manifest
from frazil.fsck.files import CheckedFile, RepositoryFiles
from frazil.fsck.findings import SHOWN_CHUNKS, Code, Finding
from frazil.fsck.snapshot_rules import ManifestUse, box_text
from frazil.fsck.tuning import CHUNKS_AT_ONCE
from frazil.ids import ManifestId
from frazil.masking import shown_url
from frazil.model.chunks import ChunkRef, ChunkTable, ChunkType, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates, Extents
from frazil.statistics.files import Checksums
from frazil.statistics.records import identified
from frazil.storage.assets import chunk_key, manifest_key
from frazil.storage.locations import normalised
from frazil.storage.pool import fan_out
from frazil.storage.virtual import Containers
from frazil.transaction.context import Context
from frazil.transaction.verification import crc32c

SHOWN_LOCATIONS: Final = 20
"""Bad locations of a manifest that are named; the rest is counted."""


def check_manifest_file(
    manifest_id: ManifestId,
    read: CheckedFile[Manifest] | None,
    uses: Collection[ManifestUse],
    containers: Containers,
) -> Iterator[Finding]:
    """Check a manifest, and what snapshots say of it."""
    key = manifest_key(manifest_id)
    if read is None:
        paths = sorted({use.path for use in uses})
        yield Finding(Code.MANIFEST_MISSING, key, path=paths[0] if paths else None)
        return
    yield from read.findings
    yield from _sizes(read.size_bytes, uses, key)
    manifest = read.content
    if manifest is None:
        return
    if manifest.id != manifest_id:
        yield Finding(Code.MANIFEST_ID, key, f"it says that it is {manifest.id}")
    for count in sorted({use.num_chunk_refs for use in uses} - {-1, manifest.num_refs}):
        detail = f"it has {manifest.num_refs}, recorded are {count}"
        yield Finding(Code.MANIFEST_COUNT, key, detail)
    seen: set[tuple[object, ...]] = set()
    for use in _sorted(uses):
        place = (use.node_id, use.extents, use.grid)
        if place not in seen:
            seen.add(place)
            yield from _use(manifest, use, key)
    for _, table in manifest.tables():
        yield from _locations(table, containers, key)


def _sorted(uses: Collection[ManifestUse]) -> list[ManifestUse]:
    return sorted(uses, key=lambda use: (use.path, use.extents))


def _sizes(size_bytes: int, uses: Collection[ManifestUse], key: str) -> Iterator[Finding]:
    for size in sorted({use.size_bytes for use in uses} - {-1, size_bytes}):
        # Readers fetch as much as is recorded, and everything where that is zero.
        code = Code.MANIFEST_SIZE if 0 < size < size_bytes else Code.MANIFEST_SIZE_LONG
        yield Finding(code, key, f"it has {size_bytes} bytes, recorded are {size}")


def _use(manifest: Manifest, use: ManifestUse, key: str) -> Iterator[Finding]:
    table = manifest.table(use.node_id)
    if table is None or not len(table):
        yield Finding(Code.MANIFEST_ARRAY, key, path=use.path)
        return
    if table.ndim != len(use.grid):
        detail = f"{table.ndim} coordinates for {len(use.grid)} axes"
        yield Finding(Code.CHUNK_RANK, key, detail, use.path)
        return
    hidden = ~_inside(table, use.extents)
    if hidden.any():
        yield Finding(Code.EXTENTS_COVER, key, "", use.path, *_some(table, hidden))
    elif table.ndim and table.extents != use.extents:
        detail = f"covered is {box_text(use.extents)}, held {box_text(table.extents)}"
        yield Finding(Code.EXTENTS_LOOSE, key, detail, use.path)
    outside = ~_inside(table, tuple((0, max(count, 1)) for count in use.grid))
    if outside.any():
        detail = f"the grid is {list(use.grid)}"
        yield Finding(Code.CHUNK_OUTSIDE_GRID, key, detail, use.path, *_some(table, outside))
    empty = table.length == 0
    if empty.any():
        yield Finding(Code.CHUNK_EMPTY, key, "", use.path, *_some(table, empty))


def _inside(table: ChunkTable, extents: Extents) -> npt.NDArray[np.bool_]:
    inside = np.ones(len(table), np.bool_)
    for axis, (start, end) in enumerate(extents):
        column = table.coords[:, axis]
        inside &= (column >= start) & (column < end)
    return inside


def _some(table: ChunkTable, mask: npt.NDArray[np.bool_]) -> tuple[tuple[Coordinates, ...], int]:
    rows = np.flatnonzero(mask)
    first = tuple(tuple(table.coords[row].tolist()) for row in rows[:SHOWN_CHUNKS].tolist())
    return first, len(rows)


def _locations(table: ChunkTable, containers: Containers, key: str) -> Iterator[Finding]:
    virtual = np.flatnonzero(table.kind == ChunkType.virtual)
    if not len(virtual):
        return
    used = np.unique(table.location[virtual])
    texts = [table.locations[number] for number in used.tolist()]
    try:
        _, covered = containers.check_many(texts)
    except InvalidInputError:
        yield from _invalid(texts, key)
        return
    for number in np.flatnonzero(~covered)[:SHOWN_LOCATIONS].tolist():
        yield Finding(Code.CONTAINER_UNDECLARED, key, shown_url(texts[number]))


def _invalid(texts: list[str], key: str) -> Iterator[Finding]:
    reported = 0
    for text in texts:
        try:
            normalised(text)
        except InvalidInputError as error:
            yield Finding(Code.LOCATION_INVALID, key, str(error))
            reported += 1
            if reported == SHOWN_LOCATIONS:
                return


LARGEST: Final = 1 << 32
"""Bytes of a decoded chunk; larger ones are left alone."""


@dataclass(slots=True)
class DecodeResult:
    """How many chunks were decoded, and what was found."""

    chunks: int = 0
    unchecked: dict[str, int] = field(default_factory=dict)
    """bytes of chunks that no checksum covers, by array"""
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """The chunks of an array in one manifest, and how they are made."""

    context: Context
    layout: ArrayLayout
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
            detail = f"chunks of {shape} cells are too large to be decoded here"
            return Finding(Code.CHUNK_UNDECODED, self.manifest, detail, self.path)
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
            detail = f"its crc32c is {found:08x}, and was {known} when it was analyzed"
            return Finding(Code.CHUNK_CHANGED, where, detail, self.path, (coords,), 1)
        return True


def decode_chunks(
    context: Context,
    files: RepositoryFiles,
    manifest_id: ManifestId,
    uses: Collection[ManifestUse],
    checksums: Checksums,
    *,
    virtual: bool,
) -> DecodeResult:
    """Decode the chunks of a manifest, once for each way that an array describes them.

    Where checksums of stored bytes are known, these are compared too.
    """
    read, done, key = files.manifest(manifest_id), DecodeResult(), manifest_key(manifest_id)
    if read is None or read.content is None:
        return done  # reported already
    for use in {(use.node_id, use.document): use for use in _sorted(uses)}.values():
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


def decoded_bytes(uses: Collection[ManifestUse]) -> int:
    """About how many bytes the chunks of a manifest are, decoded."""
    sizes = [0]
    for count, document in {(use.num_chunk_refs, use.document) for use in uses}:
        layout = _layout(document)
        if layout is not None:
            cells = math.prod(_chunk_shape(layout.grid, (0,) * len(layout.grid)))
            sizes.append(max(count, 0) * cells * layout.chain.dtype.itemsize)
    return max(sizes)


def _layout(document: bytes) -> ArrayLayout | None:
    try:
        return layout_of(document)
    except (FrazilError, ValueError, KeyError, TypeError):  # reported by the rules of snapshots
        return None


def _known(
    context: Context, table: ChunkTable, layout: ArrayLayout | None, checksums: Checksums
) -> list[set[int]]:
    """What is known of the bytes of each chunk."""
    if layout is None or not len(checksums.ranges):
        return [set() for _ in range(len(table))]
    rows, can_be_known = identified(
        ChunkReferences.of(table), layout.grid, context.containers.expand
    )
    pairs = zip(checksums.of(rows), can_be_known.tolist(), strict=True)
    return [found if is_known else set() for found, is_known in pairs]


def _portions(
    table: ChunkTable, known: list[set[int]]
) -> Iterator[list[tuple[Coordinates, ChunkRef, set[int]]]]:
    for first in range(0, len(table), CHUNKS_AT_ONCE):
        rows = range(first, min(first + CHUNKS_AT_ONCE, len(table)))
        yield [(tuple(table.coords[row].tolist()), table.ref(row), known[row]) for row in rows]


def _chunk_shape(grid: Grid, coords: Coordinates) -> Shape:
    sizes = partial(np.array, dtype=np.int64)
    return tuple(int(axis.size_of(sizes([c]))[0]) for axis, c in zip(grid, coords, strict=True))
