"""Writing dask arrays through forks of a session.

Every task writes its block through a fork of its own, hands back only the changes it made, and
these are merged in a tree. A task that fails or is repeated leaves nothing that a commit would
see.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeAlias
from uuid import uuid4

import dask.array
import numpy as np
import numpy.typing as npt

# For mypy: dask exports them without saying so.
from dask import compute, delayed  # type: ignore[attr-defined]

from frazil.distributed import extract_session, in_session, merge_sessions
from frazil.session import ForkSession, Session

P = ParamSpec("P")
DaskArray: TypeAlias = Any
ZarrArray: TypeAlias = Any
ArrayRegion: TypeAlias = tuple[Any, ...]

_DECIDED: Final = ("compute", "return_stored", "load_stored", "lock")
"""Arguments of `dask.array.store` that callers cannot choose."""


@dataclass(frozen=True, slots=True)
class _Write:
    """One dask array on its way to a region of a Zarr array."""

    source: DaskArray
    target: ZarrArray
    region: ArrayRegion

    @property
    def fork(self) -> ForkSession:
        session = extract_session(self.target)
        if not isinstance(session, ForkSession):
            raise TypeError(
                "dask writes through forks: open the target from the store of Session.fork(), "
                f"not of a {type(session).__name__}, and merge what store_dask returns"
            )
        return session


def store_dask(
    *,
    sources: Sequence[DaskArray],
    targets: Sequence[ZarrArray],
    regions: Sequence[ArrayRegion | None] | ArrayRegion | None = None,
    split_every: int | None = None,
    **store_kwargs: Any,  # noqa: ANN401  (those of dask.compute)
) -> ForkSession:
    """Write dask arrays to Zarr arrays of a fork, and return the fork with all changes.

    Blocks that meet inside a Zarr chunk are joined first, so that no chunk is written by two
    tasks.

    Args:
        sources: dask arrays.
        targets: for each source an array opened from the store of a `Session.fork()`.
        regions: for each source where in its target it goes; one tuple counts for all.
        split_every: how many forks one task merges.
        store_kwargs: arguments of `dask.compute`, such as `scheduler`.

    Raises:
        TypeError: a source is no dask array, or a target is not in the store of a fork.
        ValueError: the numbers of sources, targets and regions differ, or a shape is wrong.
    """
    for name in _DECIDED:
        if name in store_kwargs:
            raise TypeError(f"store_dask decides the argument {name!r} itself")
    writes = _pair(sources, targets, regions)
    forks = [write.fork for write in writes]
    for write in writes:
        _array_library(write.source)
        _check_shape(write)
    fork = merge_sessions(*forks)
    for turn in _turns(writes):
        start = fork.fork()  # saves earlier changes once, so that every task sees them
        stored = [_stored(write, start) for write in turn]
        merge_sessions(
            fork, session_merge_reduction(stored, split_every=split_every, **store_kwargs)
        )
    return fork


def session_merge_reduction(
    arrays: DaskArray | Sequence[DaskArray],
    *,
    split_every: int | None,
    **store_kwargs: Any,  # noqa: ANN401  (those of dask.compute)
) -> ForkSession:
    """Compute dask arrays whose blocks are Zarr arrays of forks, and merge the forks.

    Raises:
        TypeError: something is no dask array.
    """
    given = arrays if isinstance(arrays, list | tuple) else [arrays]
    reduced = [
        _array_library(array).reduction(
            array,
            name="frazil-changes",
            chunk=computing_meta(extract_session),
            aggregate=computing_meta(_merge_parts),
            split_every=split_every,
            concatenate=False,
            keepdims=False,
            dtype=object,
            meta=np.array([object()], dtype=object),
        )
        for array in given
    ]
    # For mypy: dask has no types for it.
    return merge_sessions(*compute(*reduced, **store_kwargs))  # type: ignore[no-untyped-call]


def computing_meta(function: Callable[P, Any]) -> Callable[P, Any]:
    """Let a function answer dask's question for the type of its result without running."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401  (as the function)
        if kwargs.get("computing_meta"):
            return np.array([object()], dtype=object)
        return function(*args, **kwargs)

    return answer


# --- in the tasks ---


def _write_block(
    block: npt.ArrayLike, target: ZarrArray, region: ArrayRegion, block_info: Mapping[Any, Any]
) -> ZarrArray:
    """Write one block through a new fork, and return the array that holds the fork."""
    index = tuple(slice(*ends) for ends in block_info[0]["array-location"])
    own = in_session(target, extract_session(target).fork())
    own[_inside(region, index)] = block
    return own


def _inside(region: ArrayRegion, index: ArrayRegion) -> ArrayRegion:
    """The part of a region that a block covers; fixed positions have no part in the index."""
    parts = iter(index)
    return tuple(
        _part_of(along, next(parts)) if isinstance(along, slice) else along for along in region
    )


def _part_of(whole: slice, part: slice) -> slice:
    start, step = whole.start, whole.step
    return slice(start + part.start * step, start + part.stop * step, step)


def _merge_parts(parts: Any, axis: object = None, keepdims: object = None) -> ForkSession:  # noqa: ANN401 - lists of lists of forks
    return merge_sessions(parts)


# --- in the graph ---


def _stored(write: _Write, start: Session) -> DaskArray:
    """The dask array of the Zarr arrays that `_write_block` returns."""
    source = _aligned(write)
    target = in_session(write.target, start)
    write_id = uuid4().hex  # a cluster that remembers an equal earlier write must not skip this
    # The target is a task of its own, which a worker loads once for all its blocks.
    return source.map_blocks(
        _write_block,
        target=delayed(target, name=f"frazil-target-{write_id}", traverse=False),
        region=write.region,
        name=f"frazil-write-{write_id}",
        dtype=source.dtype,
        meta=source._meta,
    )


def _array_library(array: DaskArray) -> Any:  # noqa: ANN401  (a module)
    """The module an array comes from: dask's own or the expression based one."""
    if isinstance(array, dask.array.Array):
        return dask.array
    other = sys.modules.get("dask_array")
    if other is not None and isinstance(array, other.Array):
        return other
    raise TypeError(f"Expected a dask array, received {type(array)!r}")


def _pair(
    sources: Sequence[DaskArray],
    targets: Sequence[ZarrArray],
    regions: Sequence[ArrayRegion | None] | ArrayRegion | None,
) -> list[_Write]:
    given: Sequence[Any] = (
        [regions] * len(sources) if regions is None or isinstance(regions, tuple) else regions
    )
    if not len(sources) == len(targets) == len(given):
        raise ValueError(f"{len(sources)} sources, {len(targets)} targets and {len(given)} regions")
    return [
        _Write(source, target, _full_region(target, region))
        for source, target, region in zip(sources, targets, given, strict=True)
    ]


def _full_region(target: ZarrArray, region: ArrayRegion | None) -> ArrayRegion:
    """A region with one entry for each dimension and numbers in all slices."""
    given: ArrayRegion = () if region is None else tuple(region)
    if len(given) > target.ndim:
        raise ValueError(f"the region {given} has more dimensions than array {target.path!r}")
    rest = [slice(None)] * (target.ndim - len(given))
    return tuple(
        slice(*along.indices(extent)) if isinstance(along, slice) else along
        for along, extent in zip((*given, *rest), target.shape, strict=True)
    )


def _turns(writes: Sequence[_Write]) -> Iterator[list[_Write]]:
    """Put writes to one array one after the other, as two of its regions may share a chunk."""
    waiting = list(writes)
    while waiting:
        turn: dict[str, _Write] = {}
        later = [
            write for write in waiting if turn.setdefault(write.target.path, write) is not write
        ]
        yield list(turn.values())
        waiting = later


# --- chunk borders ---


def _check_shape(write: _Write) -> None:
    shape = tuple(
        len(range(along.start, along.stop, along.step))
        for along in write.region
        if isinstance(along, slice)
    )
    if shape != tuple(write.source.shape):
        raise ValueError(
            f"a dask array of shape {tuple(write.source.shape)} does not fit the region of "
            f"shape {shape} of array {write.target.path!r}"
        )


def _aligned(write: _Write) -> DaskArray:
    """The source with blocks that meet only where Zarr chunks meet."""
    parts = [
        (along, edges)
        for along, edges in zip(write.region, _chunk_edges(write.target), strict=True)
        if isinstance(along, slice)
    ]
    chunks = tuple(
        _aligned_blocks(blocks, along, edges)
        for blocks, (along, edges) in zip(write.source.chunks, parts, strict=True)
    )
    return write.source if chunks == write.source.chunks else write.source.rechunk(chunks)


def _aligned_blocks(
    blocks: tuple[int, ...], along: slice, edges: npt.NDArray[np.int64]
) -> tuple[int, ...]:
    """Move borders of blocks down to the next border of chunks."""
    if along.step != 1:
        return (sum(blocks),)
    start = along.start
    borders = start + np.cumsum(blocks[:-1], dtype=np.int64)
    below = edges[np.searchsorted(edges, borders, side="right") - 1]
    if np.array_equal(below, borders):
        return blocks
    inner = np.unique(below[below > start]) - start
    return tuple(int(size) for size in np.diff(inner, prepend=0, append=sum(blocks)))


def _chunk_edges(target: ZarrArray) -> list[npt.NDArray[np.int64]]:
    """Where the objects that Zarr writes begin, along each dimension."""
    # The newer property knows chunks of unequal sizes too.
    sizes = getattr(target, "write_chunk_sizes", None)
    if sizes is not None:
        return [np.cumsum([0, *along], dtype=np.int64) for along in sizes]
    unit = target.shards or target.chunks
    return [
        np.arange(0, extent + size, size, dtype=np.int64)
        for extent, size in zip(target.shape, unit, strict=True)
    ]
