"""The arrays that a function over blocks makes: their shapes, their metadata, their regions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr
import zarr

from frazil.bulk.codecs import Shape
from frazil.bulk.write import write_region
from frazil.errors import ErrorKind, InvalidInputError
from frazil.run import path_of
from frazil.session import Session
from frazil.transaction.keys import METADATA

_KEPT_ENCODING: Final = ("units", "calendar")
"""What blocks of times in other calendars must have in common."""


@dataclass(frozen=True, slots=True)
class Output:
    """An array to make, a chunk for each block."""

    name: str
    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    split: tuple[str, ...]
    """dimensions along which blocks follow each other"""
    is_coordinate: bool
    document: bytes
    """its `zarr.json`"""
    values: Any = None
    """encoded values of an array that all blocks share"""

    def region(self, made: xr.Dataset, at: Mapping[str, int]) -> dict[str, slice]:
        """Where a block of the array goes.

        Raises:
            InvalidInputError: the block has other dimensions or another length than the first.
        """
        found = made.get(self.name, made.coords.get(self.name))
        if found is None or tuple(found.dims) != self.dims:
            dims = None if found is None else tuple(found.dims)
            raise _bad(f"a block gave {self.name!r} with dimensions {dims}, the first {self.dims}")
        region = {}
        for dim, n, chunk in zip(self.dims, self.shape, self.chunks, strict=True):
            start = at[dim] * chunk if dim in self.split else 0
            expected = min(start + chunk, n) - start if dim in self.split else n
            if found.sizes[dim] != expected:
                raise _bad(
                    f"a block gave {found.sizes[dim]} cells of {self.name!r} along {dim!r}, and "
                    f"{expected} were expected: all blocks but the last must give the same"
                )
            region[dim] = slice(start, start + expected)
        return region


def plan_outputs(
    first: xr.Dataset,
    last: xr.Dataset | None,
    counts: Mapping[str, int],
    *,
    is_reduction: bool = False,
) -> list[Output]:
    """The arrays to make, from what came of the first and the last block.

    Of a reduction the first block gives the form of the result only, not its values.

    Raises:
        InvalidInputError: an array does not have a dimension that is cut into blocks.
    """
    end = first if last is None else last
    cut = {dim for dim, count in counts.items() if count > 1}
    template = _template(first)
    documents, raw = _encoded(template)
    names = [str(name) for name in first.data_vars]
    if not names:
        raise _bad("the function gave no variables")
    used = {str(dim) for name in names for dim in first[name].dims}
    coordinates = [dim for dim in sorted(used) if dim in first.coords]
    found = []
    for name in (*names, *coordinates):
        dims = tuple(str(dim) for dim in first[name].dims)
        is_coordinate = name in coordinates
        missing = cut - set(dims)
        if missing and not is_coordinate:
            raise _bad(
                f"{name!r} has no dimension {sorted(missing)[0]!r}, which is cut into blocks: take "
                "all of it at once, blocks={...: -1}, or use reduce_blocks"
            )
        if name not in end.variables or tuple(end[name].dims) != dims:
            raise _bad(f"the last block gave {name!r} with other dimensions than the first")
        split = tuple(dim for dim in dims if dim in cut)
        parts = tuple(int(first.sizes[dim]) for dim in dims)
        shape = tuple(
            (counts[dim] - 1) * part + int(end.sizes[dim]) if dim in cut else part
            for dim, part in zip(dims, parts, strict=True)
        )
        chunks = tuple(max(1, part) for part in parts)
        is_shared = not split and (is_coordinate or not is_reduction)
        values = raw[name] if is_shared else None
        document = _resized(documents[name], shape, chunks)
        found.append(Output(name, dims, shape, chunks, split, is_coordinate, document, values))
    return found


def _template(first: xr.Dataset) -> xr.Dataset:
    """The first block with encodings that all blocks can share."""
    made = first.drop_vars([name for name in first.coords if name not in first.dims])
    for name, variable in made.variables.items():
        kept = {key: variable.encoding[key] for key in _KEPT_ENCODING if key in variable.encoding}
        if variable.dtype.kind == "M":
            # Units of the source may be too coarse for means of times.
            times = variable.values.astype("M8[ns]").astype(np.int64)
            unit = "nanoseconds" if (times % 1_000_000_000).any() else "seconds"
            kept = {"units": f"{unit} since 1970-01-01", "dtype": "int64"}
        made[name].encoding = kept
    return made


def _encoded(template: xr.Dataset) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Metadata and values as xarray writes them."""
    held: dict[str, Any] = {}
    store = zarr.storage.MemoryStore(held)
    template.to_zarr(store, mode="w", consolidated=False, zarr_format=3)
    documents = {
        key.rpartition("/")[0]: json.loads(data.to_bytes())
        for key, data in held.items()
        if key.endswith(f"/{METADATA}")
    }
    raw = {name: np.asarray(zarr.open_array(store, path=name)[...]) for name in documents}
    return documents, raw


def _resized(document: Mapping[str, Any], shape: Shape, chunks: Shape) -> bytes:
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    return json.dumps({**document, "shape": list(shape), "chunk_grid": grid}).encode()


def make_arrays(writing: Session, place: str, outputs: Sequence[Output]) -> None:
    """Put the arrays into a session, with the values of those that all blocks share."""
    for output in outputs:
        path = path_of(place, output.name)
        writing.state.set_metadata(path, output.document)
        if output.values is not None:
            write_region(writing, path, ..., output.values)


def _bad(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.UNSUITABLE_DATA)
