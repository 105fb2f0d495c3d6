"""What an array's `zarr.json` says about reading and writing its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from frazil.bulk.chain import Chain, compile_chain
from frazil.bulk.codecs import Shape
from frazil.bulk.grid import Grid, parse_grid, regular_grid
from frazil.errors import FormatError
from frazil.formats.zarr_meta import array_document, read_array_document
from frazil.model.documents import damaged_document
from frazil.model.nodes import ArrayNode

UNKNOWN: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What makes no sense to us in a document may make sense to zarr, or to a codec of somebody."""


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
    return Layout(
        shape=tuple(node["shape"]),
        grid=parse_grid(node),
        chain=chain,
        attributes=attributes,
        dimension_names=None if names is None else tuple(names),
    )


def array_layout(node: ArrayNode) -> Layout | None:
    """The layout of an array; None when its `zarr.json` has something that only zarr may know.

    Raises:
        FormatError: its `zarr.json` is damaged.
    """
    try:
        return layout_of(node.user_data)
    except FormatError as error:
        error.facts["path"] = node.path
        raise


def grid_of(node: ArrayNode) -> Grid:
    """The chunk grid of an array.

    Raises:
        FormatError: its `zarr.json` is damaged.
    """
    return parse_grid(array_document(node))
