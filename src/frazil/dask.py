"""Writing dask arrays through forks of a session.

Every task writes its block through a fork of its own, hands back only the changes it made, and
these are merged in a tree. A task that fails or is repeated leaves nothing behind that a commit
would see.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, ParamSpec, TypeAlias

import dask
import dask.array
import numpy as np
import numpy.typing as npt
import zarr
from dask.array.optimization import fuse_slice
from dask.layers import ArraySliceDep
from zarr.storage import StorePath

from frazil.distributed import extract_session, merge_sessions
from frazil.session.session import ForkSession

P = ParamSpec("P")
Region: TypeAlias = tuple[Any, ...]
ZarrArray: TypeAlias = Any
"""A `zarr.Array` of a fork's store."""

_OURS: Final = ("compute", "return_stored", "load_stored", "lock", "flush")
"""Arguments of `dask.array.store` that are decided here."""


def store_dask(
    *,
    sources: Sequence[Any],
    targets: Sequence[ZarrArray],
    regions: Sequence[Region | None] | Region | None = None,
    split_every: int | None = None,
    **store_kwargs: Any,  # noqa: ANN401  (those of dask.compute)
) -> ForkSession:
    """Write dask arrays to Zarr arrays of a fork, and return the fork with all changes.

    Blocks whose borders lie inside a Zarr chunk are joined first, so that no chunk is written
    by two tasks.

    Args:
        sources: dask arrays.
        targets: for each source an array opened from the store of a `Session.fork()`.
        regions: for each source where in the target it goes; one tuple counts for all.
        split_every: how many forks one task merges.
        store_kwargs: arguments of `dask.compute`, such as `scheduler`.

    Raises:
        TypeError: a source is no dask array, or a target is not in the store of a fork.
        ValueError: the numbers of sources, targets and regions differ.
    """
    for name in _OURS:
        if store_kwargs.pop(name, None):
            raise TypeError(f"store_dask does not take the argument {name!r}")
    places = _places(sources, targets, regions)
    forks = [_fork_of(target) for target in targets]
    written = [
        _write(source, target, region, fork.fork())
        for (source, target, region), fork in zip(places, _clean(forks), strict=True)
    ]
    merged = _merge_tree(written, split_every, store_kwargs)
    # The first fork may hold earlier changes, which the new ones must follow.
    return merge_sessions(*forks, *merged)


def computing_meta(function: Callable[P, Any]) -> Callable[P, Any]:
    """Let a function answer dask's question for the type of its result without running it."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401  (as the function)
        if kwargs.get("computing_meta"):
            return np.array([object()], dtype=object)
        return function(*args, **kwargs)

    return answer
