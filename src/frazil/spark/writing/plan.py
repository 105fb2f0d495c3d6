"""What one write does: axes with their labels, arrays with their chunks, small enough for tasks.

A plan is made on the driver from the schema, the options and what is there. Where rows bring
labels of their own it is open at first; `resolve` closes it once all labels are known.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrays import Mask
from frazil.bulk.grid import ArrayLayout, Grid, layout_of
from frazil.cf.decoding import Values
from frazil.errors import unsuitable
from frazil.formats.zarr_meta import ArrayMeta, parse_node
from frazil.ids import NodeId
from frazil.model.nodes import ArrayNode
from frazil.spark.location import Pinned
from frazil.spark.options.table import WriteRequest
from frazil.spark.writing.encode import Encoder
from frazil.spark.writing.new_arrays import NewArray
from frazil.transaction.changeset import ArrayData
from frazil.transaction.tree import array_node


class _Lean:
    """A record that is pickled without what it has worked out of its fields."""

    def __getstate__(self) -> dict[str, Any]:
        own = {each.name for each in fields(cast(Any, self))}
        return {k: v for k, v in self.__dict__.items() if k in own}


@dataclass(frozen=True)
class TableAxis(_Lean):
    """One dimension of the table that is written."""

    name: str
    path: str
    """of the array with its labels"""
    encoder: Encoder | None
    """None: there are no labels, and rows have positions"""
    values: Values | None
    """the labels as they are stored, in order"""
    size: int
    grows: bool
    """whether rows may bring new labels"""
    new: NewArray | None = None
    """the array of labels, if it has to be made"""
    old_size: int = 0
    template: bytes | None = None
    """the document of the array of labels, if there is or was one"""
    is_fresh: bool = False
    """whether the array of labels is made by this write"""

    @cached_property
    def comparable(self) -> pa.Array:
        """The labels as Arrow finds them."""
        return comparable(np.zeros(0) if self.values is None else self.values)

    def document(self) -> bytes | None:
        """The document that the array of labels must have; None when it stays as it is."""
        if self.encoder is None or (self.size == self.old_size and not self.is_fresh):
            return None
        if self.new is not None:
            return self.new.document((self.size,))
        assert self.template is not None
        return reshaped(self.template, (self.size,))


@dataclass(frozen=True)
class ArrayPlan(_Lean):
    """One array that is written."""

    name: str
    path: str
    dims: tuple[str, ...]
    encoder: Encoder
    document: bytes
    """with its final shape once the plan is resolved"""
    is_new: bool
    new: NewArray | None = None
    old_shape: tuple[int, ...] = ()

    @cached_property
    def layout(self) -> ArrayLayout:
        """Its grid and codecs."""
        found = layout_of(self.document)
        if found is None:
            raise unsuitable(
                f"array {self.path!r} has codecs or a type that Spark's tasks cannot write"
            )
        return found

    @property
    def grid(self) -> Grid:
        """Its chunks."""
        return self.layout.grid

    def shaped(self, shape: tuple[int, ...]) -> bytes:
        """Its document with a shape."""
        if self.new is not None:
            return self.new.document(shape)
        return self.document if shape == self.old_shape else reshaped(self.document, shape)

    @property
    def blank(self) -> Any:  # noqa: ANN401  (a value of the array)
        """What cells hold that no row is for."""
        fill = self.encoder.fill
        return self.layout.chain.fill_value if fill is None else fill

    @property
    def is_blank_absent(self) -> bool:
        """Whether absent chunks read as cells without rows.

        Many arrays have 0 for what was never written, and another value for what is missing.
        """
        chain = self.layout.chain
        return chain.is_fill(np.full(1, self.blank, chain.dtype))


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """Arrays whose chunks hold the same cells, so that they are written together."""

    arrays: tuple[int, ...]
    """numbers of the arrays in the plan"""
    axes: tuple[int, ...]
    """the axes of the table, in the order of the arrays"""


@dataclass(frozen=True)
class WritePlan(_Lean):
    """What to write where, on top of which snapshot."""

    pinned: Pinned
    branch: str
    group: str
    axes: tuple[TableAxis, ...]
    arrays: tuple[ArrayPlan, ...]
    deleted: tuple[str, ...]
    """arrays that go before new ones are made"""
    region: tuple[Mask, ...] | None
    """along each axis the places to replace"""
    request: WriteRequest
    is_resolved: bool = False
    relied: tuple[str, ...] = ()
    """paths of arrays that the rows were made from"""
    began: float = field(default_factory=time.time, compare=False)
    """when it was made: what tasks store is not older"""

    @property
    def columns(self) -> list[str]:
        """Names of all columns: labels, then values."""
        return [axis.name for axis in self.axes] + [array.name for array in self.arrays]

    @property
    def has_new_arrays(self) -> bool:
        """Whether the grid of an array is not known before all labels are."""
        return any(array.is_new for array in self.arrays)

    @property
    def is_void(self) -> bool:
        """Whether there were no rows to take the labels of a new table from."""
        return not self.deleted and any(axis.is_fresh and not axis.size for axis in self.axes)

    @cached_property
    def groups(self) -> tuple[ChunkGroup, ...]:
        """The arrays by what their chunks hold."""
        numbers = {axis.name: number for number, axis in enumerate(self.axes)}
        found: dict[object, list[int]] = {}
        for number, array in enumerate(self.arrays):
            found.setdefault((array.dims, array.grid), []).append(number)
        return tuple(
            ChunkGroup(tuple(members), tuple(numbers[d] for d in self.arrays[members[0]].dims))
            for members in found.values()
        )

    def resolve(self, found: Mapping[str, Values]) -> WritePlan:
        """The plan with the labels that rows have, as they are stored, in any order.

        Raises:
            InvalidInputError: new labels cannot be put behind those that are there.
        """
        axes = tuple(_grown(axis, found.get(axis.name)) for axis in self.axes)
        sizes = {axis.name: axis.size for axis in axes}
        arrays = tuple(
            replace(array, document=array.shaped(tuple(sizes[dim] for dim in array.dims)))
            for array in self.arrays
        )
        return replace(self, axes=axes, arrays=arrays, is_resolved=True)


def _grown(axis: TableAxis, found: Values | None) -> TableAxis:
    if found is None or not axis.grows or axis.values is None or axis.encoder is None:
        return axis
    extra = np.unique(found) if found.dtype.kind != "O" else np.array(sorted(set(found)), object)
    if len(axis.values) and len(extra):
        index = _index_of(comparable(extra), axis.comparable)
        extra = extra[index < 0]
    if not len(extra):
        return axis
    old = axis.values
    if old.dtype.kind in "iufMm":
        if extra.dtype.kind == "f" and np.isnan(extra).any():
            raise unsuitable(f"column {axis.name!r} has NaN, which is no coordinate")
        steps = np.diff(old)
        falls = len(old) > 1 and (steps < steps.dtype.type(0)).all()
        rises = len(old) and (steps > steps.dtype.type(0)).all()
        if falls:
            extra = extra[::-1]
        if (falls and not extra[0] < old[-1]) or (rises and not extra[0] > old[-1]):
            raise unsuitable(
                f"column {axis.name!r} has new labels that do not come after the last one, and "
                "arrays only grow at their end"
            )
    values = np.concatenate([old, extra.astype(old.dtype)])
    return replace(axis, values=values, size=len(values))


def comparable(values: Values) -> pa.Array:
    """Stored labels as an Arrow array in which equal ones are found."""
    match values.dtype.kind:
        case "f":
            # Zeros of both signs are one label; Arrow would tell them apart.
            return pa.array(values.astype("f8") + 0.0)
        case "i" | "u":
            return pa.array(values.astype(values.dtype.newbyteorder("=")))
        case "M" | "m":
            return pa.array(values.astype("i8"))
        case "b":
            return pa.array(values)
        case "S" | "V":
            return pa.array([bytes(v).rstrip(b"\0") for v in values], pa.binary())
        case _:
            is_text = not any(isinstance(value, bytes) for value in values[:1].tolist())
            return pa.array(values.tolist(), pa.string() if is_text else pa.binary())


def _index_of(values: pa.Array, known_values: pa.Array) -> Values:
    """Places of values among others; -1 where they are not."""
    found = pc.index_in(values, value_set=known_values.cast(values.type))
    return np.asarray(pc.fill_null(found, -1), np.int64)


def label_places(axis: TableAxis, stored: Values) -> Values:
    """Places of stored labels along an axis; -1 where there is no such label."""
    return _index_of(comparable(stored), axis.comparable)


def reshaped(document: bytes, shape: Sequence[int]) -> bytes:
    """The document of an array with another shape."""
    return json.dumps({**json.loads(document), "shape": list(shape)}).encode()


def node_of(path: str, document: bytes) -> ArrayNode:
    """A node with a document, as if it were new."""
    meta = parse_node(document, spec=2)
    assert isinstance(meta, ArrayMeta)
    data = ArrayData(NodeId.random(), document, meta.shape, meta.dimension_names)
    return array_node(path, data)
