"""The parts of a `zarr.json` document that a snapshot must know."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.model.documents import Document, damaged_document, read_document, read_json
from frazil.model.nodes import ArrayNode, Dimension

MAX_LENGTH: Final = 2**64 - 1
MAX_CHUNKS: Final = 2**32 - 1
NEWEST_SPEC: Final = 2
SHARDING: Final = "sharding_indexed"
CHECKSUM: Final = {"name": "crc32c"}
"""The codec that adds a checksum to the bytes of a chunk."""
STRUCTURE: Final = (
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "codecs",
    "fill_value",
    "storage_transformers",
)
"""Fields that say how chunks are read: one side's chunks mean nothing under the other's."""


@dataclass(frozen=True, slots=True)
class GroupMeta:
    """A group; nothing in its document concerns us."""


@dataclass(frozen=True, slots=True)
class ArrayMeta:
    """The grid of an array; the empty dimension name counts as none."""

    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None


NodeMeta: TypeAlias = GroupMeta | ArrayMeta


def parse_node(document: bytes, *, spec: int) -> NodeMeta:
    """Read a `zarr.json` document for a repository of this spec.

    Raises:
        InvalidInputError: it is not the metadata of a Zarr v3 group or array, or its chunk grid
            cannot be stored.
    """
    try:
        node = read_json(document)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error
    if not isinstance(node, dict):
        raise malformed("it is not a JSON object")
    if node.get("zarr_format", 3) != 3:
        raise malformed(f"zarr_format is {node['zarr_format']!r}, and only version 3 can be stored")
    match node.get("node_type"):
        case "group":
            return GroupMeta()
        case "array":
            return _array(node, spec)
        case other:
            raise malformed(f"node_type must be 'array' or 'group', found {other!r}")


def malformed(problem: str) -> InvalidInputError:
    """The error for a document that is not what it should be."""
    return InvalidInputError(f"bad zarr.json: {problem}", kind=ErrorKind.BAD_METADATA)


def _array(node: dict[str, Any], spec: int) -> ArrayMeta:
    lengths = numbers(node.get("shape"), "shape")
    grid = node.get("chunk_grid")
    if not isinstance(grid, dict) or not isinstance(grid.get("configuration"), dict):
        raise malformed("chunk_grid must have a name and a configuration")
    name, configuration = grid.get("name"), grid["configuration"]
    if name == "regular":
        chunks = numbers(configuration.get("chunk_shape"), "chunk_shape")
        counts = [_regular(length, chunk) for length, chunk in _pairs(lengths, chunks)]
    elif name == "rectilinear" and spec >= 2:
        axes = configuration.get("chunk_shapes")
        if not isinstance(axes, list):
            raise malformed("chunk_shapes must be a list")
        counts = [_rectilinear(length, axis) for length, axis in _pairs(lengths, axes)]
    else:
        limit = "Non-regular chunk grids are not supported in icechunk format version 1: "
        raise malformed(f"{limit if spec < 2 else ''}chunk grid {name!r} cannot be stored")
    if max(counts, default=0) > MAX_CHUNKS:
        raise malformed(f"an axis has {max(counts)} chunks, and at most {MAX_CHUNKS} can be stored")
    names = checked_names(node.get("dimension_names"), len(lengths))
    named = None if names is None else tuple(name or None for name in names)
    return ArrayMeta(tuple(map(Dimension, lengths, counts)), named)


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_LENGTH


def numbers(values: object, name: str) -> tuple[int, ...]:
    """A list of lengths."""
    if not isinstance(values, list) or not all(map(_is_number, values)):
        raise malformed(f"{name} must be a list of non-negative integers")
    return tuple(values)


def _pairs(lengths: Sequence[int], others: Sequence[Any]) -> list[tuple[int, Any]]:
    if len(lengths) != len(others):
        raise malformed(f"shape has {len(lengths)} axes and the chunk grid has {len(others)}")
    return list(zip(lengths, others, strict=True))


def _regular(length: int, chunk: int) -> int:
    return -(-length // chunk) if chunk else 0


def _rectilinear(length: int, axis: object) -> int:
    """Number of chunks of one axis: lengths, with runs of equal ones as [length, count]."""
    if _is_number(axis):
        assert isinstance(axis, int)
        return _regular(length, axis)
    if not isinstance(axis, list):
        raise malformed("each axis of chunk_shapes must be an integer or a list")
    total = 0
    for item in axis:
        if _is_number(item):
            total += 1
        elif isinstance(item, list) and len(item) == 2 and all(map(_is_number, item)):
            total += item[1]
        else:
            raise malformed("items of chunk_shapes must be integers or pairs of length and count")
    return total


def checked_names(names: object, rank: int) -> tuple[str | None, ...] | None:
    """The names of so many dimensions; None where a document has none."""
    if names is None:
        return None
    if not isinstance(names, list) or not all(n is None or isinstance(n, str) for n in names):
        raise malformed("dimension_names must be a list of strings and nulls")
    if len(names) != rank:
        raise malformed(f"there are {len(names)} dimension_names for {rank} axes")
    return tuple(names)


def read_alike(one: bytes, other: bytes) -> bool:
    """Whether chunks mean the same under two documents of arrays."""
    if one == other:
        return True
    first, second = read_document(one), read_document(other)
    return all(
        json.dumps(first.get(name), sort_keys=True) == json.dumps(second.get(name), sort_keys=True)
        for name in STRUCTURE
    )


def regular_chunk_shape(document: bytes) -> tuple[int, ...] | None:
    """Length of a chunk along each axis; None where chunks differ, or have no length."""
    grid = read_array_document(document)["chunk_grid"]
    if grid["name"] != "regular":
        return None
    lengths = tuple(grid["configuration"]["chunk_shape"])
    return lengths if all(lengths) else None


def with_checksum(codecs: Sequence[Any]) -> list[Any]:
    """Codecs of an array, and last a checksum of the bytes that they make.

    In shards each inner chunk gets one, because that is what is read alone.
    """
    found = list(codecs)
    last = found[-1] if found else None
    if isinstance(last, dict) and last.get("name") == SHARDING:
        given = last["configuration"]
        inner = {**given, "codecs": with_checksum(given["codecs"])}
        return [*found[:-1], {**last, "configuration": inner}]
    is_there = isinstance(last, dict) and last.get("name") == CHECKSUM["name"]
    return found if is_there else [*found, CHECKSUM]


def array_document(node: ArrayNode) -> Document:
    """The `zarr.json` of an array, with a shape and a chunk grid that make sense."""
    try:
        return read_array_document(node.user_data)
    except FormatError as error:
        error.facts["path"] = node.path
        raise


@lru_cache(maxsize=512)
def read_array_document(document: bytes) -> Document:
    """The same of its bytes."""
    try:
        meta = parse_node(document, spec=NEWEST_SPEC)
    except InvalidInputError as error:
        raise FormatError(str(error), kind=ErrorKind.BAD_METADATA) from error
    if not isinstance(meta, ArrayMeta):
        raise damaged_document("it is not an array's", None)
    return read_document(document)
