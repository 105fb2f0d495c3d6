"""The documents of arrays that a write makes: types, chunks, codecs and attributes by option."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import zarr
from pyspark.sql import types as t
from zarr.storage import MemoryStore

from frazil.bulk.data_types import dtype_of
from frazil.cf.decoding import FILL, encode_double
from frazil.errors import invalid_option, unsuitable
from frazil.formats.zarr_meta import with_checksum
from frazil.model.nodes import ArrayNode
from frazil.spark.location import location_of, open_pinned
from frazil.spark.options.table import STORAGE, WriteRequest
from frazil.spark.reading.columns import NUMBERS
from frazil.spark.reading.variables import NOTE, load_group
from frazil.texts import Compressor

V = TypeVar("V")

CHUNK_CELLS: Final = 1 << 20
"""Cells of a chunk of a new array, unless an option says otherwise."""
_EPOCH: Final = "since 1970-01-01 00:00:00"
_TIME: Final = {"units": f"microseconds {_EPOCH}", "calendar": "proleptic_gregorian"}
_DATE: Final = {"units": f"days {_EPOCH}", "calendar": "proleptic_gregorian"}
_EARLIEST: Final = -(2**63)
_TYPES: Final[dict[type[t.DataType], str]] = {
    **{type(spark): np.dtype(code).name for code, spark, _ in NUMBERS},
    t.BinaryType: "variable_length_bytes",
    t.DateType: "int64",
    t.TimestampType: "int64",
    t.TimestampNTZType: "int64",
    t.DayTimeIntervalType: "timedelta64[us]",
}


@dataclass(frozen=True, slots=True)
class NewArray:
    """What an array that does not exist yet shall be, but for its shape."""

    name: str
    dims: tuple[str, ...]
    dtype: str
    chunks: tuple[int | None, ...]
    """None: chosen by the shape"""
    shards: tuple[int, ...] | None = None
    fill_value: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    compressor: Compressor | None = None
    codecs: Any = None
    checksum: bool = False

    def document(self, shape: Sequence[int]) -> bytes:
        """The array's `zarr.json` with a shape.

        Raises:
            InvalidInputError: zarr refuses what the options ask for.
        """
        chunks = _chunk_shape(shape, self.chunks)
        store = MemoryStore()
        given: dict[str, Any] = {}
        if self.compressor is not None:
            given["compressors"] = self.compressor.codec()
        if self.fill_value is not None:
            given["fill_value"] = self.fill_value
        try:
            made = zarr.create_array(
                store,
                name="a",
                shape=tuple(shape),
                dtype=self.dtype,
                chunks=chunks,
                shards=self.shards,
                dimension_names=self.dims,
                attributes=dict(self.attributes),
                **given,
            )
        except (ValueError, TypeError, KeyError) as error:
            raise invalid_option(
                f"an array for column {self.name!r} cannot be made: {error}"
            ) from error
        found: dict[str, Any] = made.metadata.to_dict()
        if self.codecs is not None:
            found["codecs"] = self.codecs
        if self.checksum:
            found["codecs"] = with_checksum(found["codecs"])
        return json.dumps(found, default=_plain).encode()


def models(request: WriteRequest) -> Mapping[str, Mapping[str, Any]]:
    """Documents of the arrays that new ones of the same names shall be like.

    Raises:
        NodeNotFoundError: the group or array that `like` names is not there.
        RepositoryNotFoundError: nor is the repository.
    """
    if request.like is None:
        return {}
    storage = {STORAGE + name: value for name, value in request.storage.items()}
    target = location_of(request.like, storage)
    if target.table is not None:
        raise invalid_option(
            f"option 'like' names the table {target.table!r}; it must be a"
            " repository, or a group or array in it"
        )
    repository = target.location.open()
    session = open_pinned(target.pin(repository), repository)
    group, single = load_group(session, target.node)
    chosen = group.variables if single is None else {single: group.find(single)}
    nodes = {name: session.state.tree.get(each.path) for name, each in chosen.items()}
    return {
        name: json.loads(node.user_data)
        for name, node in nodes.items()
        if isinstance(node, ArrayNode)
    }


def _attributes_in_metadata(column: t.StructField) -> Mapping[str, Any]:
    """The attributes that a column brings along; none if its note is not one of ours."""
    try:
        found = json.loads((column.metadata or {}).get(NOTE, "{}"))
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    to_dict = getattr(value, "to_dict", None)
    if to_dict is None:
        raise TypeError(f"{type(value).__name__} is not JSON")
    return to_dict()


def _chunk_shape(shape: Sequence[int], wanted: Sequence[int | None]) -> tuple[int, ...]:
    """Chunk lengths: what was asked for, and of the rest as much as makes a good chunk."""
    given = [max(n, 1) if asked == -1 else asked for n, asked in zip(shape, wanted, strict=True)]
    room = max(CHUNK_CELLS // math.prod(n for n in given if n is not None), 1)
    for axis, size in reversed([*enumerate(shape)]):
        if wanted[axis] is None:
            given[axis] = max(min(size, room), 1)
            room = max(room // max(size, 1), 1)
    return tuple(n for n in given if n is not None)


def new_array(
    column: t.StructField,
    dims: tuple[str, ...],
    request: WriteRequest,
    model: Mapping[str, Any] | None = None,
) -> NewArray:
    """What the array for a column shall be; `model` is the document of one to be like.

    Raises:
        InvalidInputError: there is no array for such a type, or options contradict it.
    """
    name = column.name
    natural, encoding = _natural(column)
    is_label = dims == (name,)
    attributes = {**_attributes_in_metadata(column), **encoding}
    if is_label and encoding:
        attributes.setdefault("standard_name", "time")
    if model is not None:
        natural, attributes = _type_of(model), dict(model.get("attributes") or {})
    wanted = request.dtype or {}
    # A type for all is meant for the data, not for labels.
    dtype = wanted.get(name, natural if is_label else wanted.get("", natural))
    attributes |= (request.attributes or {}).get(name, {})
    fill = None if is_label else _fill(request, name, dtype, attributes)
    if model is not None and not is_label and fill is None:
        fill = model.get("fill_value")
    chunks = request.chunks or (None if is_label else _chunks_of(model, dims))
    shards = request.shards
    return NewArray(
        name=name,
        dims=dims,
        dtype=dtype,
        chunks=(None,) if is_label else tuple(_for(chunks, dim) for dim in dims),
        shards=None if is_label or shards is None else _shards(shards, dims),
        fill_value=fill,
        attributes=attributes,
        compressor=request.compressor,
        codecs=None if is_label else request.codecs,
        checksum=request.checksum,
    )


def _type_of(model: Mapping[str, Any]) -> str:
    found = model["data_type"]
    return found if isinstance(found, str) else dtype_of(found).str


def _chunks_of(model: Mapping[str, Any] | None, dims: tuple[str, ...]) -> dict[str, int] | None:
    """Lengths of chunks by dimension, as far as the model has the same ones."""
    if model is None or model["chunk_grid"]["name"] != "regular":
        return None
    lengths = model["chunk_grid"]["configuration"]["chunk_shape"]
    names = model.get("dimension_names") or [None] * len(lengths)
    found = dict(zip(names, map(int, lengths), strict=True))
    return {dim: found[dim] for dim in dims if dim in found}


def _natural(column: t.StructField) -> tuple[str, dict[str, Any]]:
    """The type and the attributes that go with a column of Spark."""
    kind = column.dataType
    if isinstance(kind, t.DecimalType):
        return ("int64" if kind.scale == 0 and kind.precision <= 18 else "float64"), {}
    if isinstance(kind, t.StructType) and kind.fieldNames() == ["re", "im"]:
        is_single = all(isinstance(f.dataType, t.FloatType) for f in kind.fields)
        return ("complex64" if is_single else "complex128"), {}
    found = "string" if isinstance(kind, t.StringType) else _TYPES.get(type(kind))
    if found is None:
        raise unsuitable(
            f"column {column.name!r} is {kind.simpleString()}, and there are no arrays of that"
        )
    if isinstance(kind, t.DateType):
        return found, dict(_DATE)
    return found, dict(_TIME) if isinstance(kind, t.TimestampType | t.TimestampNTZType) else {}


def _fill(request: WriteRequest, name: str, dtype: str, attributes: dict[str, Any]) -> Any:  # noqa: ANN401  (a scalar of any type)
    """The fill value; the attribute tells CF readers that it stands for a missing value."""
    text = _for(request.fill_value, name)
    if dtype in ("string", "variable_length_bytes"):
        return text
    kind, given = np.dtype(dtype).kind, attributes.get(FILL)
    if text is None and given is not None:
        if not isinstance(given, int | float):
            return None
        text = str(given)
    if text is None:
        if kind == "f":
            attributes[FILL] = encode_double(math.nan)
            return math.nan
        if "units" in attributes and attributes.get("calendar") and kind == "i":
            attributes[FILL] = _EARLIEST
            return _EARLIEST
        return None
    try:
        value = np.array(float(text) if kind in "fc" else int(text), dtype).item()
    except (ValueError, OverflowError) as error:
        raise invalid_option(
            f"option 'fill-value' has {text!r} for {name!r}, an array of {dtype}"
        ) from error
    if kind == "f":
        attributes[FILL] = encode_double(value)
    elif kind in "iu":
        attributes[FILL] = value
    return value


def _for(given: Mapping[str, V] | None, name: str) -> V | None:
    """What is given for a name, else for all."""
    return None if given is None else given.get(name, given.get(""))


def _shards(given: Mapping[str, int], dims: Sequence[str]) -> tuple[int, ...]:
    found = tuple(given.get(dim, given.get("", 0)) for dim in dims)
    if 0 in found:
        raise invalid_option(f"option 'shards' must name all of {', '.join(dims)}")
    return found
