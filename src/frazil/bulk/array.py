"""An array of a session that reads, and writes, like one of numpy."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from copy import deepcopy
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from frazil.arrays import Array, Shape
from frazil.bulk.grid import GridAxis
from frazil.bulk.read import (
    OpenedArray,
    SessionOrStore,
    open_array,
    read_by_zarr,
    read_selection,
    zarr_array,
)
from frazil.bulk.write import write_region
from frazil.drawing.markup import Html, escaped, fields, folded, frame, table
from frazil.errors import InvalidInputError
from frazil.masking import clean, shown_data
from frazil.transaction.keys import clean_path
from frazil.transaction.views import chunk_view, views

if TYPE_CHECKING:
    import zarr

ChunkLengths: TypeAlias = tuple[int, ...] | tuple[tuple[int, ...], ...]

MOST_LISTED: Final = 1 << 20
"""Chunks of different lengths along an axis that are listed one by one,"""
MOST_SHOWN: Final = 100
"""and that a person wants to see."""


class BulkArray:
    """An array of a session, read many chunks at once; get one from `Session.array`.

    It follows the session: what is written there is seen here. It pickles if the session does.
    """

    def __init__(self, owner: SessionOrStore, path: str) -> None:
        self._owner = owner
        self._path = clean_path(path)
        self._opened()  # an array that is not there shall be found out at once

    def _opened(self) -> OpenedArray:
        return open_array(self._owner, self._path)

    def _zarr(self) -> zarr.Array[Any]:
        return zarr_array(self._owner, self._path)

    # --- what it is ---

    @property
    def path(self) -> str:
        """Where in the hierarchy it is, from the root."""
        return self._path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._path.rpartition("/")[2]

    @property
    def shape(self) -> Shape:
        """Length of each axis."""
        return tuple(axis.array_length for axis in self._opened().node.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        layout = self._opened().layout
        return self._zarr().dtype if layout is None else layout.chain.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take in memory."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> ChunkLengths:
        """Shape of what is decoded at a time; lengths along each axis where they differ.

        Raises:
            InvalidInputError: they differ, and there are too many to list.
        """
        layout = self._opened().layout
        if layout is None:
            return self._zarr().chunks
        grid = layout.inner_grid
        if all(axis.is_regular for axis in grid):
            return tuple(axis.sizes[0] for axis in grid)
        return tuple(map(_lengths, grid))

    @property
    def largest_chunk(self) -> Shape:
        """At most so long is what is decoded at a time, along each axis."""
        layout = self._opened().layout
        if layout is None:
            return self._zarr().chunks
        return tuple(max(axis.sizes) for axis in layout.inner_grid)

    @property
    def shards(self) -> Shape | None:
        """Shape of what holds many chunks in one object, if there is such a thing."""
        layout = self._opened().layout
        if layout is None:
            return self._zarr().shards
        return None if layout.chain.shards is None else layout.chunks

    @property
    def fill_value(self) -> Any:  # noqa: ANN401 - an element of any type
        """Value of elements that were never written."""
        layout = self._opened().layout
        return self._zarr().fill_value if layout is None else layout.chain.fill_value

    @property
    def attrs(self) -> Mapping[str, Any]:
        """A copy of its attributes."""
        layout = self._opened().layout
        return dict(self._zarr().attrs) if layout is None else deepcopy(dict(layout.attributes))

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of its axes, if it has any."""
        return self._opened().node.dimension_names

    @property
    def _shown_chunks(self) -> str:
        layout = self._opened().layout
        is_listed = layout is None or all(
            axis.is_regular or axis.count <= MOST_SHOWN for axis in layout.inner_grid
        )
        return str(self.chunks) if is_listed else f"at most {self.largest_chunk}"

    def __repr__(self) -> str:
        facts = f"shape={self.shape} dtype={self.dtype} chunks={self._shown_chunks}"
        return clean(f"<BulkArray {self._path} {facts}>")

    def _repr_html_(self) -> str:
        return frame(f"BulkArray {self._path}", views(self._views()))

    def _views(self) -> Iterator[Html]:
        named = zip(self.dims or (None,) * self.ndim, self.shape, strict=True)
        axes = (f"{name}: {size:,}" if name else f"{size:,}" for name, size in named)
        facts = {"shape": f"({', '.join(axes)})", "type": str(self.dtype)}
        facts["chunks"] = self._shown_chunks
        if self.shards is not None:
            facts["shards"] = str(self.shards)
        facts["in memory"] = f"{self.nbytes:,} bytes"
        yield fields((name, escaped(value)) for name, value in facts.items())
        if self.attrs:
            shown = (
                [escaped(str(key)), escaped(repr(shown_data(value, str(key))))]
                for key, value in self.attrs.items()
            )
            yield folded(f"{len(self.attrs):,} attributes", table(("", ""), shown))
        yield from chunk_view(self._owner.state, self._opened().node)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    # --- reading ---

    def __getitem__(self, selection: Any) -> Any:  # noqa: ANN401 - an array or an element
        found = self._read(selection, "brackets")
        return found[()] if found.ndim == 0 else found

    @property
    def oindex(self) -> Access:
        """Selection axis by axis: arrays of indices and masks cross each other."""
        return Access(self, "oindex")

    @property
    def vindex(self) -> Access:
        """Selection of points: arrays of indices go together, as in numpy."""
        return Access(self, "vindex")

    @property
    def blocks(self) -> Access:
        """Selection of whole chunks by their numbers."""
        return Access(self, "blocks")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: ANN401 - what numpy takes
        if copy is False:
            raise ValueError("an array in storage cannot be used without a copy")
        found = self._read(..., "brackets")
        return found if dtype is None else found.astype(dtype, copy=False)

    def _read(self, selection: object, by: str) -> Array:
        opened = self._opened()
        if opened.layout is None:
            return read_by_zarr(self._owner, self._path, selection, by=by)
        return read_selection(opened, selection, by=by)

    # --- writing ---

    def __setitem__(self, selection: Any, values: Any) -> None:  # noqa: ANN401 - as numpy
        write_region(self._owner, self._path, selection, values)

    # --- with others ---

    def __dask_tokenize__(self) -> tuple[object, ...]:
        state = self._opened().state
        if not state.changes.is_empty or state.editable:
            return (uuid.uuid4().hex,)  # what is read may change
        return type(self).__name__, state.context.storage.url, str(state.base_id), self._path


class Access:
    """One way to select from an array."""

    __slots__ = ("_array", "_by")

    def __init__(self, array: BulkArray, by: str) -> None:
        self._array = array
        self._by = by

    def __getitem__(self, selection: Any) -> Array:  # noqa: ANN401 - what numpy takes
        return self._array._read(selection, self._by)

    def __setitem__(self, selection: Any, values: Any) -> None:  # noqa: ANN401 - as numpy
        write_region(self._array._owner, self._array._path, selection, values, by=self._by)


def _lengths(axis: GridAxis) -> tuple[int, ...]:
    """Lengths of all chunks along an axis, as far as they hold elements."""
    if axis.count > MOST_LISTED:
        raise InvalidInputError(
            f"{axis.count} chunks of different lengths are too many to list; see largest_chunk"
        )
    chunks = np.arange(axis.count)
    ends = np.minimum(axis.start_of(chunks) + axis.size_of(chunks), axis.length)
    return tuple(np.diff(ends, prepend=0).tolist())
