"""One array that both sides have, merged: document by field, shape by axis, chunk by chunk.

Pure apart from the two functions it is given, which fetch how chunks changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from frazil.arrays import U32
from frazil.formats.zarr_meta import STRUCTURE, ArrayMeta, parse_node, regular_chunk_shape
from frazil.ids import ChunkId
from frazil.masking import shown_url
from frazil.merging.records import (
    OURS,
    THEIRS,
    ConflictKind,
    Contested,
    MergeConflict,
    Resolution,
    chunk_sample,
)
from frazil.merging.states import ChunkDelta, common, outside
from frazil.model.chunks import ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.documents import Document, read_document
from frazil.model.nodes import ArrayNode

Settle: TypeAlias = Callable[[MergeConflict], Resolution]

ATTRIBUTES: Final = "attributes"
SHAPE: Final = "shape"


class MissingKey:
    """A key that is not there."""


MISSING: Final = MissingKey()


def equal_json(one: object, other: object) -> bool:
    """Whether two JSON values are equal, 1, 1.0 and true being different ones."""
    if isinstance(one, MissingKey) or isinstance(other, MissingKey):
        return one is other
    return one is other or _canonical(one) == _canonical(other)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def write_document(document: Document) -> bytes:
    """The bytes of a metadata document."""
    return json.dumps(document, indent=2).encode()


def say_the_same(one: bytes, other: bytes) -> bool:
    """Whether two documents differ at most in spaces and in the order of names."""
    return one == other or equal_json(read_document(one), read_document(other))


def merge_fields(
    path: str, base: Document, ours: Document, theirs: Document, settle: Settle
) -> Document:
    """All fields merged but those that say how chunks are read, which stay ours."""
    merged: Document = {}
    for name in _names(ours, theirs):
        if name in STRUCTURE or name == SHAPE:
            if name in ours:
                merged[name] = ours[name]
            continue
        values = [each.get(name, MISSING) for each in (base, ours, theirs)]
        if name == ATTRIBUTES and all(isinstance(each, MissingKey | dict) for each in values):
            old, own, their = (each if isinstance(each, dict) else {} for each in values)
            value: object = _attributes(path, old, own, their, settle)
        else:
            value = _one(ConflictKind.METADATA, path, name, values, settle)
        if not isinstance(value, MissingKey):
            merged[name] = value
    return merged


def _attributes(
    path: str, base: Document, ours: Document, theirs: Document, settle: Settle
) -> Document:
    merged: Document = {}
    for key in _names(ours, theirs):
        values = [each.get(key, MISSING) for each in (base, ours, theirs)]
        value = _one(ConflictKind.ATTRIBUTE, path, key, values, settle)
        if not isinstance(value, MissingKey):
            merged[key] = value
    return merged


def _names(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterable[str]:
    return [*ours, *(name for name in theirs if name not in ours)]


def _one(kind: ConflictKind, path: str, name: str, values: list[object], settle: Settle) -> object:
    """One value of three: the one that was changed, or the one that is chosen."""
    base, ours, theirs = values
    if equal_json(ours, theirs) or equal_json(theirs, base):
        return ours
    if equal_json(ours, base):
        return theirs
    shown = [None if isinstance(each, MissingKey) else each for each in (ours, theirs)]
    side = settle(MergeConflict(kind, path, shown[0], shown[1], name))
    if isinstance(side, Contested):
        return side.mark
    return theirs if side == "theirs" else ours


def structure(document: Document) -> Document:
    """The fields that say how chunks are read."""
    return {name: document[name] for name in STRUCTURE if name in document}


def has_shape(document: bytes) -> bool:
    """Whether a document tells the shape of an array; where a base is contested it does not."""
    return isinstance(read_document(document).get(SHAPE), list)


def rank(document: Document) -> int:
    """The number of axes."""
    shape = document.get(SHAPE)
    return len(shape) if isinstance(shape, list) else -1


Fetch: TypeAlias = Callable[[], ChunkDelta]
NAMES: Final = "dimension_names"
SPEC_OF_DOCUMENTS: Final = 2
"""Every stored document was accepted before; the latest rules accept them all."""


@dataclass(frozen=True, slots=True, eq=False)
class MergedArray:
    """What becomes of an array, seen from our side."""

    document: bytes
    delta: ChunkDelta
    """how our chunks change; of the rank of the document"""
    is_theirs: bool = False
    """the array is theirs in all, chunks and structure"""
    contested_shape: bool = False


@dataclass(frozen=True, eq=False)
class ArraySides:
    """An array as both sides and perhaps the base have it, with ways to its chunks."""

    path: str
    base: ArrayNode | None
    ours: ArrayNode
    theirs: ArrayNode
    fetch_ours: Fetch
    """how our chunks differ from the base"""
    fetch_theirs: Fetch
    fetch_across: Fetch
    """how theirs differ from ours"""
    fetch_beyond: Callable[[tuple[int, ...]], ChunkTable]
    """their references beyond a grid"""

    @cached_property
    def changed_ours(self) -> ChunkDelta:
        """How our chunks differ from the base."""
        return self.fetch_ours()

    @cached_property
    def changed_theirs(self) -> ChunkDelta:
        """How their chunks differ from the base."""
        return self.fetch_theirs()

    @property
    def is_of_one_rank(self) -> bool:
        """Whether the array has the same number of axes on both sides."""
        _, ours, theirs = self.texts
        return rank(ours) == rank(theirs)

    @cached_property
    def texts(self) -> tuple[Document, Document, Document]:
        """The documents of base, ours and theirs; without a base its structure is ours."""
        ours, theirs = read_document(self.ours.user_data), read_document(self.theirs.user_data)
        if self.base is None:
            base = structure(ours)
            if equal_json(ours.get(SHAPE), theirs.get(SHAPE)):
                base[SHAPE] = ours.get(SHAPE)
            return base, ours, theirs
        return read_document(self.base.user_data), ours, theirs


def merge_array(sides: ArraySides, settle: Settle) -> MergedArray:
    """Merge an array that both sides have."""
    base, ours, theirs = sides.texts
    fields = merge_fields(sides.path, base, ours, theirs, settle)
    whole = _structure_side(sides, settle)
    if not sides.is_of_one_rank and whole in (OURS, THEIRS):
        fields.pop(NAMES, None)  # they may be those of the other axes
        side = ours if whole == OURS else theirs
        fields |= {name: side[name] for name in (NAMES,) if name in side}
    if whole == THEIRS:
        taken: Document = {name: theirs[name] for name in (*STRUCTURE, SHAPE) if name in theirs}
        kept = {name: fields[name] for name in fields if name not in STRUCTURE}
        document = _document(sides, {**kept, **taken})
        return MergedArray(document, sides.fetch_across(), is_theirs=True)
    if whole == OURS:
        return MergedArray(_document(sides, fields), ChunkDelta.empty(len(sides.ours.shape)))
    if isinstance(whole, Contested):
        marked = {**fields, "codecs": whole.mark}
        return MergedArray(write_document(marked), ChunkDelta.empty(len(sides.ours.shape)))
    return _merge_chunks(sides, fields, settle)


def _document(sides: ArraySides, merged: Document) -> bytes:
    """The bytes of a document: those of a side that has the same, if one does."""
    for node, text in zip((sides.ours, sides.theirs), sides.texts[1:], strict=True):
        if equal_json(text, merged):
            return node.user_data
    return write_document(merged)


# --- structure ---


def _structure_side(sides: ArraySides, settle: Settle) -> Resolution:
    """The side whose structure, shape and chunks are taken as a whole; None to merge them."""
    base, ours, theirs = map(structure, sides.texts)
    if equal_json(ours, theirs) and sides.is_of_one_rank:
        return None
    kind = ConflictKind.CREATED if sides.base is None else ConflictKind.STRUCTURE
    if sides.base is not None:
        if equal_json(ours, base) and not _touched(sides, OURS):
            return THEIRS
        if equal_json(theirs, base) and not _touched(sides, THEIRS):
            return OURS
    shown = [{SHAPE: text.get(SHAPE), **structure(text)} for text in sides.texts[1:]]
    side = settle(MergeConflict(kind, sides.path, shown[0], shown[1]))
    return OURS if side is None else side


def _touched(sides: ArraySides, side: str) -> bool:
    """Whether a side changed the shape or the chunks, or names of axes that are others now."""
    base, ours, theirs = sides.texts
    text = ours if side == OURS else theirs
    names = () if sides.is_of_one_rank else (NAMES,)
    if not all(equal_json(text.get(name), base.get(name)) for name in (SHAPE, *names)):
        return True
    return bool(len(sides.changed_ours if side == OURS else sides.changed_theirs))


# --- shape and chunks ---


def _merge_chunks(sides: ArraySides, fields: Document, settle: Settle) -> MergedArray:
    shape, settled, contested = _merge_shape(sides, settle)
    document = _document(sides, {**fields, SHAPE: shape})
    grid = _grid(document)
    ours, theirs = sides.changed_ours, sides.changed_theirs
    for side, delta, node in ((OURS, ours, sides.ours), (THEIRS, theirs, sides.theirs)):
        whole = _whole_chunks(document, node)
        cut = _cut_axes(delta, whole, settled)
        if cut and settle(_cut_conflict(sides, outside(delta.table, whole))) == side:
            own = [each.array_length for each in node.shape]
            shape = [own[axis] if axis in cut else n for axis, n in enumerate(shape)]
            document = _document(sides, {**fields, SHAPE: shape})
            grid = _grid(document)
    delta = _merge_deltas(sides, ours.within(grid), theirs.within(grid), settle)
    if any(new > old for new, old in zip(grid, sides.ours.grid, strict=True)):
        # Where we have cells no longer, or not yet, theirs are the only ones.
        beyond = ChunkDelta(sides.fetch_beyond(sides.ours.grid), delta.dropped).within(grid).table
        delta = delta.plus(beyond)
    if contested is not None:
        document = write_document({**read_document(document), SHAPE: contested.mark})
    is_theirs = not len(ours) and document == sides.theirs.user_data
    return MergedArray(document, delta, is_theirs, contested is not None)


def _grid(document: bytes) -> tuple[int, ...]:
    meta = parse_node(document, spec=SPEC_OF_DOCUMENTS)
    assert isinstance(meta, ArrayMeta)
    return tuple(each.num_chunks for each in meta.shape)


def _whole_chunks(document: bytes, node: ArrayNode) -> tuple[int, ...]:
    """How many chunks of a side a document leaves whole along each axis."""
    meta, lengths = parse_node(document, spec=SPEC_OF_DOCUMENTS), regular_chunk_shape(document)
    assert isinstance(meta, ArrayMeta)
    return tuple(
        new.array_length // lengths[axis]
        if lengths is not None and new.array_length < old.array_length
        else new.num_chunks
        for axis, (new, old) in enumerate(zip(meta.shape, node.shape, strict=True))
    )


def _merge_shape(sides: ArraySides, settle: Settle) -> tuple[list[int], set[int], Contested | None]:
    """The lengths of all axes, the axes where a conflict was settled, and whether it was not."""
    base, ours, theirs = (text.get(SHAPE) for text in sides.texts)
    assert isinstance(ours, list)
    assert isinstance(theirs, list)
    known = base if isinstance(base, list) and len(base) == len(ours) else [None] * len(ours)
    shape, open_axes = list(ours), set()
    for axis, (old, a, b) in enumerate(zip(known, ours, theirs, strict=True)):
        if a == b or b == old:
            continue
        if a == old:
            shape[axis] = b
        else:
            open_axes.add(axis)
    if not open_axes:
        return shape, set(), None
    side = settle(MergeConflict(ConflictKind.SHAPE, sides.path, ours, theirs, SHAPE))
    if side == THEIRS:
        shape = [theirs[axis] if axis in open_axes else n for axis, n in enumerate(shape)]
    return shape, open_axes, side if isinstance(side, Contested) else None


def _cut_axes(delta: ChunkDelta, grid: tuple[int, ...], settled: set[int]) -> set[int]:
    """Axes that are too short for what one side wrote, apart from those settled already."""
    lost = outside(delta.table, grid).coords
    return {axis for axis in range(len(grid)) if (lost[:, axis] >= grid[axis]).any()} - settled


def _cut_conflict(sides: ArraySides, lost: ChunkTable) -> MergeConflict:
    ours, theirs = (text[SHAPE] for text in sides.texts[1:])
    return MergeConflict(
        ConflictKind.SHAPE,
        sides.path,
        ours,
        theirs,
        SHAPE,
        chunk_count=len(lost),
        chunks=chunk_sample(lost.coords),
    )


def _merge_deltas(
    sides: ArraySides, ours: ChunkDelta, theirs: ChunkDelta, settle: Settle
) -> ChunkDelta:
    """What of their changes is to be made on our side."""
    if not len(ours) or not len(theirs):
        return theirs
    alike, clashing = common(ours, theirs)
    wanted = theirs.without(alike)
    if not len(clashing):
        return wanted
    conflict = MergeConflict(
        ConflictKind.CHUNKS,
        sides.path,
        _shown_refs(ours, clashing),
        _shown_refs(theirs, clashing),
        chunk_count=len(clashing),
        chunks=chunk_sample(clashing),
    )
    side = settle(conflict)
    if side == THEIRS:
        return wanted
    wanted = wanted.without(clashing)
    return wanted.plus(contested_refs(clashing)) if isinstance(side, Contested) else wanted


def contested_refs(coords: U32) -> ChunkTable:
    """References that equal no others."""
    ids = np.frombuffer(b"".join(ChunkId.random() for _ in coords), np.uint8).reshape(-1, 12)
    return ChunkTable.native(coords, ids, 0, 1)


def _shown_refs(delta: ChunkDelta, coords: U32) -> list[Any]:
    shown: list[Any] = []
    for each in chunk_sample(coords):
        row = delta.table.find(each)
        if row < 0:
            shown.append(None)
            continue
        match delta.table.ref(row):
            case NativeRef(chunk_id, offset, length):
                shown.append(f"native {chunk_id} {offset}+{length}")
            case VirtualRef(location, offset, length):
                shown.append(f"virtual {shown_url(location)} {offset}+{length}")
            case InlineRef(data):
                shown.append(f"inline, {len(data)} bytes")
    return shown
