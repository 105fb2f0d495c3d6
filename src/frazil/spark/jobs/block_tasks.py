"""What tasks do with blocks of variables: read, apply, combine, and write them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import xarray as xr

from frazil.errors import ErrorKind, InvalidInputError
from frazil.run import path_of
from frazil.session import ForkSession
from frazil.spark import worker
from frazil.spark.jobs.block_outputs import Output
from frazil.spark.location import Pinned
from frazil.spark.tasks import Batches, Part
from frazil.spelling import listed, nearest

if TYPE_CHECKING:
    pass

Function: TypeAlias = Callable[..., Any]
Made: TypeAlias = xr.Dataset

PARTIALS: Final = "place long, number long, partial binary"
_PARTIAL_SCHEMA: Final = pa.schema(
    [("place", pa.int64()), ("number", pa.int64()), ("partial", pa.binary())]
)


@lru_cache(maxsize=4)
def opened(pinned: Pinned, group: str) -> xr.Dataset:
    """A group of a snapshot, whose values are read when they are needed."""
    store = worker.session(pinned).store
    found: xr.Dataset = xr.open_zarr(
        store, group=group.strip("/") or None, consolidated=False, chunks=None
    )
    return found


@dataclass(frozen=True, slots=True)
class Blocks:
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
    ) -> Blocks:
        """The same blocks, numbered so that those to combine follow each other."""
        known = dict(self.dims)
        for dim in over:
            if dim not in known:
                raise bad_blocks(
                    f"no dimension {dim!r}{nearest(dim, known)} (there are {listed(known)})"
                )
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
        block = opened(self.pinned, self.group)[list(self.inputs)].isel(region).load()
        if not self.as_numpy:
            return self._named(self.fn(block))
        made = self.fn(*(block[name].values for name in self.inputs))
        arrays = made if isinstance(made, tuple | list) else (made,)
        if len(arrays) != len(self.names):
            raise bad_blocks(
                f"the function gave {len(arrays)} arrays for {len(self.names)} outputs"
            )
        dims = block[self.inputs[0]].dims
        found = xr.Dataset()
        for name, values in zip(self.names, arrays, strict=True):
            if np.ndim(values) != len(dims):
                raise bad_blocks(
                    f"the function gave {np.ndim(values)} axes, the inputs have {len(dims)}"
                )
            found[name] = (dims, np.asarray(values))
        same = [dim for dim in found.dims if found.sizes[dim] == block.sizes[dim]]
        return found.assign_coords({d: block[d] for d in same if d in block.coords})

    def _named(self, made: object) -> Made:
        if isinstance(made, xr.DataArray):
            name = self.names[0] if self.names else made.name
            if name is None:
                raise bad_blocks("the function gave an array without a name: give outputs")
            return made.to_dataset(name=name)
        if not isinstance(made, xr.Dataset):
            raise bad_blocks(f"the function gave {type(made).__name__}, not a Dataset or DataArray")
        if self.names and len(self.names) == len(made.data_vars):
            return made.rename(dict(zip(made.data_vars, self.names, strict=True)))
        return made

    def finished(self, made: Made) -> Made:
        """The result of what was combined."""
        return made if self.finish is None else self._named(self.finish(made))

    def __call__(self, number: int) -> list[Part]:
        """Make a block and store it."""
        return [*self.stored(number, self.apply(number))]

    def stored(self, number: int, made: Made) -> Iterator[Part]:
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
            # xarray writes no index to a region, but it does write what is none.
            single = single.drop_indexes([output.name], errors="ignore")
            single[output.name].encoding = {}
            group = self.place.strip("/") or None
            single.to_zarr(
                self.fork.store, group=group, region=region or None, mode="r+", consolidated=False
            )
            node = state.array(path_of(self.place, output.name))
            changes = state.changes.chunks.get(node.id)
            if changes is not None:
                yield Part(index, changes.columns()[0].compact())
        state.changes = nodes
        state.move_base(state.base_id)

    def partials(self, batches: Batches) -> Batches:
        """What the function gives for blocks, with neighbours combined."""
        per_place = prod(self.counts[dim] for dim in self.over)
        held: tuple[int, int, Made] | None = None
        for batch in batches:
            for number in batch.column(0).to_pylist():
                made, place = self.apply(number), number // per_place
                if held is not None and held[0] == place:
                    held = place, held[1], self._united(held[2], made)
                    continue
                if held is not None:
                    yield _partial(*held)
                held = place, number, made
        if held is not None:
            yield _partial(*held)

    def combined(self, batches: Batches) -> Iterator[Part]:
        """Combine what came of the blocks of a place, which come in order, and store it."""
        per_place = prod(self.counts[dim] for dim in self.over)
        held: tuple[int, Made] | None = None
        for batch in batches:
            for row in batch.to_pylist():
                made = pickle.loads(row["partial"])  # of our own tasks
                if held is not None and held[0] == row["place"]:
                    held = held[0], self._united(held[1], made)
                    continue
                if held is not None:
                    yield from self.stored(held[0] * per_place, self.finished(held[1]))
                held = row["place"], made
        if held is not None:
            yield from self.stored(held[0] * per_place, self.finished(held[1]))

    def _united(self, one: Made, other: Made) -> Made:
        return one + other if self.combine is None else self.combine(one, other)


def _partial(place: int, number: int, made: Made) -> pa.RecordBatch:
    packed = pickle.dumps(made.load(), pickle.HIGHEST_PROTOCOL)
    arrays = [
        pa.array([v], f.type) for v, f in zip((place, number, packed), _PARTIAL_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_PARTIAL_SCHEMA)


def bad_blocks(message: str) -> InvalidInputError:
    """The error for a function or blocks that do not fit."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_OPTION)
