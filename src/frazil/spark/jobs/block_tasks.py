"""Blocks of variables: what tasks do with them, and the arrays that come of it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import groupby
from math import prod
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import xarray as xr
import zarr

from frazil.arrays import Shape
from frazil.bulk.write import write_region
from frazil.errors import invalid_option, unsuitable
from frazil.run import path_of
from frazil.session import ForkSession, Session
from frazil.spark import worker
from frazil.spark.location import Pinned
from frazil.spark.reading.columns import row_batch
from frazil.spark.tasks import Batches, StoredChunks
from frazil.spelling import unknown
from frazil.transaction.keys import METADATA

Function: TypeAlias = Callable[..., Any]
Made: TypeAlias = xr.Dataset

PARTIALS: Final = "place long, number long, partial binary"
_PARTIAL_SCHEMA: Final = pa.schema(
    [("place", pa.int64()), ("number", pa.int64()), ("partial", pa.binary())]
)

_KEPT_ENCODING: Final = ("units", "calendar")
"""What blocks of times in other calendars must have in common."""


# --- outputs ---


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
            raise unsuitable(
                f"a block gave {self.name!r} with dimensions {dims}, the first {self.dims}"
            )
        region = {}
        for dim, n, chunk in zip(self.dims, self.shape, self.chunks, strict=True):
            start = at[dim] * chunk if dim in self.split else 0
            expected = min(start + chunk, n) - start if dim in self.split else n
            if found.sizes[dim] != expected:
                raise unsuitable(
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
        raise unsuitable("the function gave no variables")
    used = {str(dim) for name in names for dim in first[name].dims}
    coordinates = [dim for dim in sorted(used) if dim in first.coords]
    found = []
    for name in (*names, *coordinates):
        dims = tuple(str(dim) for dim in first[name].dims)
        is_coordinate = name in coordinates
        missing = cut - set(dims)
        if missing and not is_coordinate:
            raise unsuitable(
                f"{name!r} has no dimension {sorted(missing)[0]!r}, which is cut into blocks: take "
                "all of it at once, blocks={...: -1}, or use reduce_blocks"
            )
        if name not in end.variables or tuple(end[name].dims) != dims:
            raise unsuitable(f"the last block gave {name!r} with other dimensions than the first")
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


# --- tasks ---


@lru_cache(maxsize=4)
def open_group(pinned: Pinned, group: str) -> xr.Dataset:
    """A group of a snapshot, whose values are read when they are needed."""
    store = worker.session_at(pinned).store
    found: xr.Dataset = xr.open_zarr(
        store, group=group.strip("/") or None, consolidated=False, chunks=None
    )
    return found


@dataclass(frozen=True, slots=True)
class BlockJob:
    """Blocks of variables and what to do with them; small, for it goes to all tasks."""

    fn: Function
    pinned: Pinned
    group: str
    inputs: tuple[str, ...]
    names: tuple[str, ...]
    as_numpy: bool
    dims: tuple[tuple[str, int], ...]
    lengths: tuple[int, ...]
    over: tuple[str, ...] = ()
    combine: Callable[[Made, Made], Made] | None = None
    finish: Callable[[Made], Made] | None = None
    fork: ForkSession | None = None
    place: str = "/"
    outputs: tuple[Output, ...] = ()

    def reducing(
        self,
        over: Sequence[str],
        combine: Callable[[Made, Made], Made] | None,
        finish: Callable[[Made], Made] | None,
    ) -> BlockJob:
        """The same blocks, numbered so that those to combine follow each other."""
        known = dict(self.dims)
        for dim in over:
            if dim not in known:
                raise invalid_option(unknown("dimension", dim, known))
        by_dim = dict(zip(known, self.lengths, strict=True))
        order = [*(dim for dim in known if dim not in over), *over]
        return replace(
            self,
            dims=tuple((dim, known[dim]) for dim in order),
            lengths=tuple(by_dim[dim] for dim in order),
            over=tuple(over),
            combine=combine,
            finish=finish,
        )

    @property
    def counts(self) -> dict[str, int]:
        """Number of blocks along each dimension."""
        pairs = zip(self.dims, self.lengths, strict=True)
        return {dim: max(1, -(-n // length)) for (dim, n), length in pairs}

    @property
    def count(self) -> int:
        """Number of all blocks."""
        return prod(self.counts.values())

    def at(self, number: int) -> dict[str, int]:
        """Where a block is, in blocks."""
        counts = self.counts
        if not counts:
            return {}
        found = np.unravel_index(number, tuple(counts.values()))
        return {dim: int(i) for dim, i in zip(counts, found, strict=True)}

    def apply(self, number: int) -> Made:
        """Read a block and call the function."""
        at = self.at(number)
        region = {
            dim: slice(at[dim] * length, min((at[dim] + 1) * length, n))
            for (dim, n), length in zip(self.dims, self.lengths, strict=True)
        }
        block = open_group(self.pinned, self.group)[list(self.inputs)].isel(region).load()
        if not self.as_numpy:
            return self._named(self.fn(block))
        made = self.fn(*(block[name].values for name in self.inputs))
        arrays = made if isinstance(made, tuple | list) else (made,)
        if len(arrays) != len(self.names):
            raise invalid_option(
                f"the function gave {len(arrays)} arrays for {len(self.names)} outputs"
            )
        dims = block[self.inputs[0]].dims
        found = xr.Dataset()
        for name, values in zip(self.names, arrays, strict=True):
            if np.ndim(values) != len(dims):
                raise invalid_option(
                    f"the function gave {np.ndim(values)} axes, the inputs have {len(dims)}"
                )
            found[name] = (dims, np.asarray(values))
        same = [dim for dim in found.dims if found.sizes[dim] == block.sizes[dim]]
        return found.assign_coords({d: block[d] for d in same if d in block.coords})

    def _named(self, made: object) -> Made:
        if isinstance(made, xr.DataArray):
            name = self.names[0] if self.names else made.name
            if name is None:
                raise invalid_option("the function gave an array without a name: give outputs")
            return made.to_dataset(name=name)
        if not isinstance(made, xr.Dataset):
            raise invalid_option(
                f"the function gave {type(made).__name__}, not a Dataset or DataArray"
            )
        if self.names and len(self.names) == len(made.data_vars):
            return made.rename(dict(zip(made.data_vars, self.names, strict=True)))
        return made

    def finished(self, made: Made) -> Made:
        """The result of what was combined."""
        return made if self.finish is None else self._named(self.finish(made))

    def __call__(self, number: int) -> list[StoredChunks]:
        """Make a block and store it."""
        return [*self.stored(number, self.apply(number))]

    def stored(self, number: int, made: Made) -> Iterator[StoredChunks]:
        """Write what was made of a block where it belongs."""
        assert self.fork is not None
        at = self.at(number)
        state = self.fork.state
        nodes = state.changes.of_nodes()
        for index, output in enumerate(self.outputs):
            # What does not depend on a dimension is the same for all blocks along it.
            if output.values is not None or any(
                at[dim] for dim in at if dim not in output.split and dim not in self.over
            ):
                continue
            region = output.region(made, at)
            single = xr.Dataset({output.name: made[output.name].variable})
            # xarray writes no index coordinates to a region, but does write other coordinates.
            single = single.drop_indexes([output.name], errors="ignore")
            single[output.name].encoding = {}
            group = self.place.strip("/") or None
            single.to_zarr(
                self.fork.store, group=group, region=region or None, mode="r+", consolidated=False
            )
            node = state.array(path_of(self.place, output.name))
            changes = state.changes.chunks.get(node.id)
            if changes is not None:
                yield StoredChunks(index, changes.columns()[0].compact())
        state.changes = nodes
        state.move_base(state.base_id)

    @property
    def _per_place(self) -> int:
        """Blocks that are combined into one, which follow each other."""
        return prod(self.counts[dim] for dim in self.over)

    def partials(self, batches: Batches) -> Batches:
        """What the function gives for blocks, with neighbours combined."""
        per_place = self._per_place
        numbers = (n for batch in batches for n in batch.column(0).to_pylist())
        for place, blocks in groupby(numbers, lambda number: number // per_place):
            own = [*blocks]
            made = reduce(self._united, map(self.apply, own))
            packed = pickle.dumps(made.load(), pickle.HIGHEST_PROTOCOL)
            yield row_batch([(place, own[0], packed)], _PARTIAL_SCHEMA)

    def combined(self, batches: Batches) -> Iterator[StoredChunks]:
        """Combine what came of the blocks of a place, which come in order, and store it."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for place, same in groupby(rows, itemgetter("place")):
            parts = (pickle.loads(row["partial"]) for row in same)  # of our own tasks
            yield from self.stored(
                place * self._per_place, self.finished(reduce(self._united, parts))
            )

    def _united(self, one: Made, other: Made) -> Made:
        return one + other if self.combine is None else self.combine(one, other)
