"""A plan into a session: groups, arrays, small values and references."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import zarr

from frazil.bulk.read import read_region
from frazil.bulk.write import write_region
from frazil.cf.decoding import is_scaled
from frazil.cf.times import converted, time_units
from frazil.errors import AlreadyExistsError, ErrorKind, InvalidInputError, unsuitable
from frazil.ingestion.encoding import (
    array_json,
    decoded_fill,
    encoded_dtype,
    encoding_in,
    encoding_type,
    native_encoding,
    variable_from,
    without_zarr_warnings,
)
from frazil.ingestion.names import VariableChoice
from frazil.ingestion.plans import REPOSITORY, IngestPlan, PlannedArray, TransferKind
from frazil.ingestion.records import Array, FileScan, FileVariable, Identity, Shape, ordered_json
from frazil.model.chunks import ChunkType
from frazil.model.nodes import ArrayNode, GroupNode
from frazil.session import ForkSession, Session
from frazil.transaction.working import WorkingState

SHORT: Final = 1024
LONG: Final = 65_536
"""Chunks of coordinates that can grow are between these lengths."""


# --- what is there ---


def read_base(session: Session, group: str) -> tuple[FileScan, frozenset[str]] | None:
    """The arrays that a group has, as if a file had them, and which of them are native.

    Coordinates come with their values. None when the group has no arrays.
    """
    state = session.state
    found = state.tree.get(group or "/")
    if found is None:
        return None
    if not isinstance(found, GroupNode):
        raise InvalidInputError(
            "there is an array where the group should be",
            kind=ErrorKind.NOT_A_GROUP,
            path=group,
        )
    prefix = f"{group}/"
    nodes = {
        node.path.removeprefix(prefix): node
        for node in state.arrays()
        if node.path.startswith(prefix) and "/" not in node.path.removeprefix(prefix)
    }
    if not nodes:
        return None
    known = {name: json.loads(node.user_data) for name, node in nodes.items()}
    bare = [
        variable_from(name, meta, encoding_in(meta), None, nameless="dim_")
        for name, meta in known.items()
    ]
    native = frozenset(name for name, node in nodes.items() if not _is_virtual(state, node))
    described = {each.name: (each.dims, each.attrs, each.size * 8) for each in bare}
    loaded = VariableChoice().chosen(described) & native
    variables = tuple(
        replace(each, values=np.asarray(read_region(session, nodes[each.name].path)))
        if each.name in loaded
        else each
        for each in bare
    )
    attributes = ordered_json(json.loads(found.user_data).get("attributes", {}))
    scan = FileScan(REPOSITORY, "repository", Identity(0, None, 0), variables, attributes)
    return scan, native


def _is_virtual(state: WorkingState, node: ArrayNode) -> bool:
    """Whether the chunks of an array are in other files, as far as its last manifest shows."""
    tables = state.load_tables(node, node.manifests[-1:])
    return any(bool((table.kind == ChunkType.virtual).any()) for table in tables)


# --- what is written ---


def make_groups(session: Session, group: str, attributes: str | None) -> None:
    """Make the group, and those above it, where they are missing."""
    parts = [part for part in group.split("/") if part]
    for depth in range(len(parts) + 1):
        path, is_target = "/" + "/".join(parts[:depth]), depth == len(parts)
        says_more = is_target and attributes not in (None, "{}")
        if session.state.tree.get(path) is not None and not says_more:
            continue
        known = json.loads(attributes) if is_target and attributes else {}
        made = {"zarr_format": 3, "node_type": "group", "attributes": known}
        session.state.set_metadata(path, json.dumps(made, ensure_ascii=False).encode())


def settle_array(array: PlannedArray, plan: IngestPlan) -> tuple[Shape, str, dict[str, Any]]:
    """Chunks, encoding and attributes of an array in the repository."""
    attrs = dict(array.attrs)
    if array.kind is not TransferKind.LOADED:
        return array.chunks, array.encoding, attrs
    values = loaded_values(plan, array)
    fill = decoded_fill(attrs, values.dtype) if values.dtype.kind != "T" else ""
    # Along an axis that may grow chunks have a power of two as length.
    chunks = tuple(
        min(LONG, max(SHORT, 1 << max(0, length - 1).bit_length()))
        if plan.axis(dim)
        else max(1, length)
        for dim, length in zip(array.dims, array.shape, strict=True)
    )
    kind = encoding_type(array.encoding) if values.dtype.kind == "O" else values.dtype
    return chunks, native_encoding(kind, fill, None), attrs


def make_array(session: Session, path: str, array: PlannedArray, plan: IngestPlan) -> None:
    """Create an array, or give it its new shape."""
    state = session.state
    old = state.tree.get(path)
    if isinstance(old, ArrayNode) and array.base_shape is not None:
        meta = json.loads(old.user_data)
        meta["shape"] = list(array.shape)
        state.set_metadata(path, json.dumps(meta, ensure_ascii=False).encode())
        return
    if old is not None:
        raise AlreadyExistsError(
            "there is an array of that name; append to it, or choose another group",
            kind=ErrorKind.NODE_ALREADY_EXISTS,
            path=path,
        )
    chunks, encoding, attrs = settle_array(array, plan)
    state.set_metadata(path, array_json(encoding, array.shape, chunks, array.dims, attrs))


def write_loaded(session: Session, path: str, array: PlannedArray, plan: IngestPlan) -> int:
    """Write the values of a variable that are at hand; tell how many bytes they are."""
    values = loaded_values(plan, array)
    region: tuple[slice, ...] = ()
    if array.base_shape is not None:
        if array.base_shape == array.shape:
            return 0
        region = tuple(map(slice, array.first, array.shape))
        values = values[region]
        values = _as_stored(values, encoded_dtype(array.encoding), array)
    write_values(session, path, region, values)
    return int(values.nbytes)


def write_values(
    session: Session | ForkSession, path: str, region: tuple[slice, ...], values: Array
) -> None:
    """Write values of any type to a region, or to the whole of an array."""
    with without_zarr_warnings():
        # Texts and records are zarr's own business, and scalars have no region.
        if values.dtype.kind in "TOUV" or not values.ndim:
            target = zarr.open_array(session.store, path=path.strip("/"), mode="r+", zarr_format=3)
            target[region or ...] = values
        else:
            write_region(session, path, region or ..., values)


def _as_stored(values: Array, dtype: np.dtype[Any], array: PlannedArray) -> Array:
    """Values converted to the type of an existing array, if they fit."""
    if values.dtype == dtype or dtype.kind in "TO":
        return values
    made = values.astype(dtype)
    if not np.array_equal(made, values, equal_nan=values.dtype.kind == "f"):
        raise unsuitable(f"values of {array.name!r} cannot be stored as {dtype} without change")
    return made


def loaded_values(plan: IngestPlan, array: PlannedArray) -> Array:
    """All values of a variable that is written at once, including those of the base."""
    axis = plan.axis(array.name)
    if axis is not None and axis.values is not None:
        return axis.values
    files = [*([0] if array.base_shape is not None else []), *array.files]
    parts = [(number, plan.scans[number][array.name]) for number in files]
    joined = [dim for dim in array.dims if plan.axis(dim) is not None]
    first = parts[0][1].values
    assert first is not None
    if not joined:
        return first
    dtype = _common_dtype([part.values for _, part in parts if part.values is not None])
    fill = decoded_fill(array.attrs, dtype) if dtype.kind not in "TO" else ""
    values = np.full(array.shape, 0 if fill is None else fill, dtype)
    for number, part in parts:
        assert part.values is not None
        start = plan.start(array, number)
        shape = plan.part_shape(array, number)
        place = values[tuple(slice(a, a + n) for a, n in zip(start, shape, strict=True))]
        place[...] = _moved(plan, array, number, part).reshape(place.shape)
    return values


def _common_dtype(parts: Sequence[Array]) -> np.dtype[Any]:
    if any(part.dtype.kind == "T" for part in parts):
        return np.dtypes.StringDType()
    return np.result_type(*{part.dtype for part in parts})


def _moved(plan: IngestPlan, array: PlannedArray, number: int, part: FileVariable) -> Array:
    """Values of a file, with times converted to the units in which they are stored.

    Bounds without units of their own count as the coordinate that they belong to.
    """
    assert part.values is not None
    for axis in plan.axes:
        owner = plan.scans[number].get(axis.name) if axis.name in array.dims else None
        attrs = {} if owner is None else owner.attrs
        units = time_units({**attrs, **part.attrs})
        is_bounds = array.name in (attrs.get("bounds"), attrs.get("climatology"))
        if is_bounds and units is not None and axis.units is not None:
            is_packed = is_scaled({**attrs, **part.attrs})
            return converted(part.values, units, axis.units, is_packed=is_packed)
    return part.values
