"""What an array's `zarr.json` says of its chunks: their grid, and how they are read and written.

Regular and rectilinear grids are one thing here: runs of chunks of equal length, of which a
regular axis has one that never ends. A grid is as large as its description, not as its chunks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from frazil.arrays import I64, Shape
from frazil.bulk.chain import Chain
from frazil.bulk.compiling import compile_chain
from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.zarr_meta import array_document, read_array_document
from frazil.model.documents import damaged_document
from frazil.model.nodes import ArrayNode

MOST_AXES: Final = 64
"""as many as numpy has"""
_NUMBER: Final = re.compile("0|[1-9][0-9]*")
"""as keys have numbers: others with the same value would be second names of a chunk"""
LONGEST: Final = 1 << 62
"""Elements of an axis or a chunk at most: two such numbers can be added in 64 bits."""


@dataclass(frozen=True, slots=True)
class GridAxis:
    """The chunks along one axis."""

    length: int
    """of the array, in elements"""
    sizes: tuple[int, ...]
    """length of the chunks in each run"""
    firsts: tuple[int, ...] = (0,)
    """number of the first chunk of each run"""
    starts: tuple[int, ...] = (0,)
    """element that each run begins with"""

    @property
    def is_regular(self) -> bool:
        """Whether all chunks have the same length."""
        return len(self.sizes) == 1

    @property
    def count(self) -> int:
        """Number of chunks that hold elements of the array."""
        return int(self.chunk_of(np.array([self.length - 1]))[0]) + 1 if self.length else 0

    def chunk_of(self, elements: I64) -> I64:
        """The chunks that hold some elements."""
        if self.is_regular:
            return elements // self.sizes[0]
        run = np.searchsorted(self.starts, elements, "right") - 1
        start, size = np.array(self.starts)[run], np.array(self.sizes)[run]
        found: I64 = np.array(self.firsts)[run] + (elements - start) // size
        return found

    def start_of(self, chunks: I64) -> I64:
        """The elements that some chunks begin with."""
        if self.is_regular:
            return chunks * self.sizes[0]
        run = np.searchsorted(self.firsts, chunks, "right") - 1
        ahead = (chunks - np.array(self.firsts)[run]) * np.array(self.sizes)[run]
        found: I64 = np.array(self.starts)[run] + ahead
        return found

    def size_of(self, chunks: I64) -> I64:
        """The full lengths of some chunks, also beyond the end of the array."""
        if self.is_regular:
            return np.full(len(chunks), self.sizes[0])
        return np.array(self.sizes)[np.searchsorted(self.firsts, chunks, "right") - 1]


Grid: TypeAlias = tuple[GridAxis, ...]


def chunk_in_grid(text: str, separator: str, counts: Sequence[int]) -> tuple[int, ...] | None:
    """The coordinates in a chunk's key; None for a chunk outside of a grid of so many chunks."""
    parts = text.split(separator) if counts else []
    if len(parts) != len(counts) or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    coords = tuple(map(int, parts))
    return coords if all(c < n for c, n in zip(coords, counts, strict=True)) else None


def regular_grid(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Grid:
    """A grid of equal chunks."""
    return tuple(GridAxis(length, (size,)) for length, size in zip(shape, chunks, strict=True))


def parse_grid(document: Mapping[str, Any]) -> Grid:
    """Read the chunk grid of a `zarr.json` document."""
    shape = tuple(document["shape"])
    name, given = document["chunk_grid"]["name"], document["chunk_grid"]["configuration"]
    if len(shape) > MOST_AXES:
        raise _bad(f"{len(shape)} axes, and at most {MOST_AXES} can be read")
    axes = given["chunk_shape"] if name == "regular" else given["chunk_shapes"]
    if name not in ("regular", "rectilinear") or len(axes) != len(shape):
        raise _bad(f"grid {name!r} with {len(axes)} axes for an array with {len(shape)}")
    return tuple(_axis(length, axis) for length, axis in zip(shape, axes, strict=True))


def _axis(length: int, axis: int | list[Any]) -> GridAxis:
    runs = [(axis, None)] if isinstance(axis, int) else [_run(item) for item in axis]
    sizes: list[int] = []
    firsts: list[int] = []
    starts: list[int] = []
    first = start = 0
    for size, count in runs:
        if size < 1 and length:
            raise _bad("chunks must have a length")
        if count == 0:
            continue
        if not sizes or sizes[-1] != size:
            sizes.append(size)
            firsts.append(first)
            starts.append(start)
        if count is None:
            start = max(start, length)
            break
        first += count
        start += size * count
    if max(length, start, *sizes) > LONGEST:
        raise _bad(f"at most {LONGEST} elements along an axis can be read")
    if start < length:
        raise _bad(f"chunks cover {start} of {length} elements")
    return GridAxis(length, tuple(sizes) or (1,), tuple(firsts) or (0,), tuple(starts) or (0,))


def _run(item: int | list[int]) -> tuple[int, int | None]:
    return (item, 1) if isinstance(item, int) else (item[0], item[1])


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError(f"bad chunk grid: {problem}", kind=ErrorKind.INVALID_ARRAY_METADATA)


UNKNOWN: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Errors that unknown metadata may raise; zarr, or a codec of a plugin, may know it."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayLayout:
    """The grid and the codecs of an array."""

    shape: Shape
    grid: Grid
    chain: Chain
    attributes: Mapping[str, Any]
    dimension_names: tuple[str | None, ...] | None

    @property
    def chunks(self) -> Shape | None:
        """Shape of what is stored as one object or reference; None when that differs."""
        if not all(axis.is_regular for axis in self.grid):
            return None
        return tuple(axis.sizes[0] for axis in self.grid)

    @property
    def inner_grid(self) -> Grid:
        """The grid of the smallest parts that can be read: inner chunks where there are shards."""
        shards = self.chain.shards
        return self.grid if shards is None else regular_grid(self.shape, shards.inner_shape)


@lru_cache(maxsize=256)
def layout_of(document: bytes) -> ArrayLayout | None:
    """Read a `zarr.json`; None when it has something that only zarr may know."""
    node = read_array_document(document)
    if node.get("storage_transformers"):
        return None
    try:
        chain = compile_chain(node)
    except UNKNOWN:  # a data type, a fill value or a codec of others
        return None
    if chain is None:
        return None
    names = node.get("dimension_names")
    attributes = node.get("attributes") or {}
    if not isinstance(attributes, Mapping):
        raise damaged_document("attributes must be a JSON object", None)
    return ArrayLayout(
        shape=tuple(node["shape"]),
        grid=parse_grid(node),
        chain=chain,
        attributes=attributes,
        dimension_names=None if names is None else tuple(names),
    )


def array_layout(node: ArrayNode) -> ArrayLayout | None:
    """The layout of an array; None when its `zarr.json` has something that only zarr may know."""
    try:
        return layout_of(node.user_data)
    except FormatError as error:
        error.facts["path"] = node.path
        raise


def grid_of(node: ArrayNode) -> Grid:
    """The chunk grid of an array."""
    return parse_grid(array_document(node))
