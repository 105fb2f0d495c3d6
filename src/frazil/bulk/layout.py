"""What an array's `zarr.json` says about reading and writing its chunks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from frazil.bulk.chain import Chain, compile_chain
from frazil.bulk.codecs import Shape
from frazil.bulk.grid import Grid, parse_grid, regular_grid


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
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
def layout_of(document: bytes) -> Layout | None:
    """Read a `zarr.json`; None when it has something that only zarr may know."""
    node = json.loads(document)
    if node.get("storage_transformers"):
        return None
    try:
        chain = compile_chain(node)
    except (ValueError, TypeError, KeyError):  # a data type, a fill value or a codec of others
        return None
    if chain is None:
        return None
    names = node.get("dimension_names")
    return Layout(
        shape=tuple(node["shape"]),
        grid=parse_grid(node),
        chain=chain,
        attributes=node.get("attributes") or {},
        dimension_names=None if names is None else tuple(names),
    )
