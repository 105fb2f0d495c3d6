"""`zarr.json` taken apart into the fields that the older generations store, and put together.

Those generations know a fixed set of fields. A document with more than that is refused when it
is written, by the name of the field, so that nothing is ever lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.fill_values import (
    CORE,
    TEXTUAL,
    DataType,
    UnfitError,
    fill_to_bytes,
    raw_bits,
    raw_bits_named,
)
from frazil.formats.legacy.messages import pack_message
from frazil.formats.zarr_meta import MAX_CHUNKS, checked_names, malformed, numbers
from frazil.ids import NodeId
from frazil.model.history import Metadata
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node
from frazil.model.plain import JSON

REGULAR: Final = "regular"
DEFAULT_KEYS: Final = "default"
V2_KEYS: Final = "v2"
_DROPPED: Final = frozenset({"consolidated_metadata"})
_GROUP_KEYS: Final = frozenset({"zarr_format", "node_type", "attributes"})
_ARRAY_KEYS: Final = _GROUP_KEYS | {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
}
TWO_PARTS: Final = frozenset({"name", "configuration"})


@dataclass(frozen=True, slots=True)
class NamedConfiguration:
    """A codec or storage transformer."""

    name: str
    configuration: Mapping[str, JSON] | None = None

    def json(self) -> JSON:
        """Its form in zarr.json."""
        if self.configuration is None:
            return {"name": self.name}
        return {"name": self.name, "configuration": self.configuration}


@dataclass(frozen=True, slots=True)
class ArrayFields:
    """The metadata of an array but for its attributes."""

    shape: tuple[int, ...]
    data_type: str
    """its name, or the JSON text of a type that is an object"""
    chunk_shape: tuple[int, ...]
    key_encoding: str
    separator: str | None
    fill_value: JSON
    """as zarr.json spells it"""
    codecs: tuple[NamedConfiguration, ...]
    storage_transformers: tuple[NamedConfiguration, ...] | None = None
    dimension_names: tuple[str | None, ...] | None = None

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Lengths in elements and chunks."""
        return tuple(
            Dimension(length, -(-length // chunk) if chunk else 0)
            for length, chunk in zip(self.shape, self.chunk_shape, strict=True)
        )


@dataclass(frozen=True, slots=True)
class NodeFields:
    """A document taken apart; `array` is None for a group."""

    attributes: Metadata | None
    array: ArrayFields | None


# --- checks ---


def cannot_hold(generation: LegacyGeneration, field: str, why: str) -> InvalidInputError:
    """The error for what a generation has no room for."""
    return InvalidInputError(
        f"not representable in this generation: {field}: {why}",
        kind=ErrorKind.NOT_REPRESENTABLE,
        generation=generation.name,
        field=field,
    )


# --- taking apart ---


def parse_fields(generation: LegacyGeneration, document: bytes) -> NodeFields:
    """Take a document apart for a generation.

    Raises:
        InvalidInputError: the generation cannot hold it, or it is damaged.
    """
    try:
        node = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise malformed(f"it is not JSON: {error}") from error
    if not isinstance(node, dict) or node.get("zarr_format", 3) != 3:
        raise malformed("it is not an object of Zarr format 3")
    kind = node.get("node_type")
    if kind not in ("group", "array"):
        raise malformed(f"node_type must be 'array' or 'group', found {kind!r}")
    _check_extra(generation, node, _ARRAY_KEYS if kind == "array" else _GROUP_KEYS)
    attributes = node.get("attributes")
    if attributes is not None:
        packs = generation is not LegacyGeneration.G1
        _check_object(generation, attributes, "attributes", "attributes", packs=packs)
    return NodeFields(attributes, _parse_array(generation, node) if kind == "array" else None)


def _check_extra(
    generation: LegacyGeneration, node: dict[str, JSON], known: frozenset[str]
) -> None:
    for name in node.keys() - known - _DROPPED:
        value = node[name]
        if not isinstance(value, dict) or value.get("must_understand") is not False:
            raise cannot_hold(generation, name, "there is no place for further fields")


def _check_object(
    generation: LegacyGeneration, value: JSON, field: str, what: str, *, packs: bool = True
) -> None:
    """Refuse what is no object, or one that MessagePack cannot hold if it `packs`."""
    if not isinstance(value, dict):
        raise malformed(f"{what} must be an object")
    try:
        if packs:
            pack_message(value)
    except FormatError as error:
        raise cannot_hold(generation, field, str(error.args[0])) from error


def _parse_array(generation: LegacyGeneration, node: dict[str, JSON]) -> ArrayFields:
    shape = numbers(node.get("shape"), "shape")
    data_type = _parse_data_type(generation, node.get("data_type"))
    key_encoding, separator = _parse_key_encoding(generation, node.get("chunk_key_encoding"))
    transformers = _parse_named(
        generation, node.get("storage_transformers"), "storage_transformers"
    )
    if generation is LegacyGeneration.G1 and transformers:
        raise cannot_hold(generation, "storage_transformers", "there is no place for them")
    fields = ArrayFields(
        shape=shape,
        data_type=data_type,
        chunk_shape=_parse_grid(generation, node.get("chunk_grid"), shape),
        key_encoding=key_encoding,
        separator=separator,
        fill_value=node.get("fill_value"),
        codecs=_parse_named(generation, node.get("codecs"), "codecs") or (),
        storage_transformers=None if generation is LegacyGeneration.G1 else transformers,
        dimension_names=checked_names(node.get("dimension_names"), len(shape)),
    )
    _check_fill(generation, fields)
    return fields


def _parse_data_type(generation: LegacyGeneration, value: JSON) -> str:
    if isinstance(value, dict) and generation is LegacyGeneration.G1:
        return json.dumps(value, separators=(",", ":"))
    if not isinstance(value, str):
        if isinstance(value, dict):
            raise cannot_hold(generation, "data_type", f"the type {value.get('name')!r}")
        raise malformed("data_type must be a text or an object")
    if generation is not LegacyGeneration.G1 and type_of(generation, value) is None:
        raise cannot_hold(generation, "data_type", f"the type {value!r}")
    return value


def type_of(generation: LegacyGeneration, name: str) -> DataType | None:
    """How G2 or G3 spell values of a data type; None where they do not know it."""
    if name in CORE:
        return CORE[name]
    return TEXTUAL.get(name) if generation is LegacyGeneration.G3 else raw_bits_named(name)


def _parse_grid(
    generation: LegacyGeneration, grid: JSON, shape: tuple[int, ...]
) -> tuple[int, ...]:
    if not isinstance(grid, dict) or not isinstance(grid.get("configuration"), dict):
        raise malformed("chunk_grid must have a name and a configuration")
    if grid.get("name") != REGULAR:
        raise cannot_hold(generation, "chunk_grid", f"the grid {grid.get('name')!r}")
    configuration = grid["configuration"]
    if grid.keys() - TWO_PARTS or configuration.keys() - {"chunk_shape"}:
        raise cannot_hold(generation, "chunk_grid", "a grid with further fields")
    chunks = numbers(configuration.get("chunk_shape"), "chunk_shape")
    if len(chunks) != len(shape):
        raise malformed(f"shape has {len(shape)} axes and the chunk grid has {len(chunks)}")
    if 0 in chunks and generation is not LegacyGeneration.G1:
        raise cannot_hold(generation, "chunk_grid", "chunks of length zero")
    for length, chunk in zip(shape, chunks, strict=True):
        if chunk and -(-length // chunk) > MAX_CHUNKS:
            raise malformed(f"an axis has more than {MAX_CHUNKS} chunks")
    return chunks


def _parse_key_encoding(generation: LegacyGeneration, value: JSON) -> tuple[str, str | None]:
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise malformed("chunk_key_encoding must have a name")
    name, configuration = value["name"], value.get("configuration")
    separator = configuration.get("separator") if isinstance(configuration, dict) else None
    if separator is not None and not isinstance(separator, str):
        raise malformed("the separator of chunk keys must be a text")
    if value.keys() - TWO_PARTS or (configuration or {}).keys() - {"separator"}:
        raise cannot_hold(generation, "chunk_key_encoding", "further fields")
    if generation is LegacyGeneration.G1:
        known = {DEFAULT_KEYS: "/", V2_KEYS: "."}
        if separator is None and name not in known:
            raise cannot_hold(generation, "chunk_key_encoding", f"{name!r} without separator")
        return name, known[name] if separator is None else separator
    if name != DEFAULT_KEYS or separator not in (None, "/", "."):
        raise cannot_hold(generation, "chunk_key_encoding", f"{name!r} with {separator!r}")
    return name, separator


def _parse_named(
    generation: LegacyGeneration, values: JSON, field: str
) -> tuple[NamedConfiguration, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise malformed(f"{field} must be a list")
    found = []
    for each in values:
        value = {"name": each} if isinstance(each, str) else each
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise malformed(f"each of {field} must have a name")
        configuration = value.get("configuration")
        if configuration is not None:
            _check_object(generation, configuration, field, f"a configuration in {field}")
        if value.keys() - TWO_PARTS:
            raise cannot_hold(generation, field, f"{value['name']!r} with further fields")
        found.append(NamedConfiguration(value["name"], configuration))
    return tuple(found)


def _check_fill(generation: LegacyGeneration, fields: ArrayFields) -> None:
    try:
        if generation is LegacyGeneration.G1:
            fill_to_bytes(fields.data_type, fields.fill_value)
        else:
            tagged_fill(generation, fields)
    except UnfitError as error:
        raise cannot_hold(generation, "fill_value", f"{fields.fill_value!r}: {error}") from error


# --- tagged values ---


def tagged_fill(
    generation: LegacyGeneration, fields: ArrayFields, *, as_json: bool = False
) -> dict[str, JSON]:
    """The fill value of an array as G2 and G3 store it; JSON spells NaN and infinities as texts."""
    known = type_of(generation, fields.data_type)
    assert known is not None, "data types are checked first"
    if fields.fill_value is None:
        raise UnfitError("there must be one")
    spell = known.json if as_json else known.tagged
    return {known.tag: spell(known.parse(fields.fill_value))}


def untagged_fill(known: DataType, value: JSON) -> JSON:
    """The fill value in zarr.json for a tagged one."""
    if not isinstance(value, Mapping) or list(value) != [known.tag]:
        raise UnfitError(f"it must have the tag {known.tag}")
    return known.json(known.parse(value[known.tag]))


def stored_type(value: JSON) -> DataType | None:
    """The data type for its stored form in G2 or G3."""
    if isinstance(value, str):
        return CORE.get(value) or TEXTUAL.get(value)
    if isinstance(value, Mapping) and list(value) == ["rawbits"]:
        bits = value["rawbits"]
        if type(bits) is int and 0 < bits < 1 << 24 and bits % 8 == 0:
            return raw_bits(bits)
    return None


# --- putting together ---


def build_document(fields: NodeFields) -> bytes:
    """The `zarr.json` of a node, in a fixed order of keys."""
    document: dict[str, JSON] = {
        "zarr_format": 3,
        "node_type": "group" if fields.array is None else "array",
        "attributes": {} if fields.attributes is None else fields.attributes,
    }
    if fields.array is not None:
        document |= array_fields_document(fields.array)
    return _text(document)


def build_node(
    id: NodeId, path: str, fields: NodeFields, manifests: Iterable[ManifestRef] = ()
) -> Node:
    """The node that has these fields."""
    document, array = build_document(fields), fields.array
    if array is None:
        return GroupNode(id, path, document)
    names = array.dimension_names
    named = None if names is None else tuple(name or None for name in names)
    return ArrayNode(id, path, document, array.dimensions, named, tuple(manifests))


def array_fields_document(fields: ArrayFields) -> dict[str, JSON]:
    """What `zarr.json` says of an array beyond what it says of a group."""
    is_object = fields.data_type.startswith("{")
    keys: dict[str, JSON] = {"name": fields.key_encoding}
    if fields.separator is not None:
        keys["configuration"] = {"separator": fields.separator}
    document: dict[str, JSON] = {
        "shape": list(fields.shape),
        "data_type": json.loads(fields.data_type) if is_object else fields.data_type,
        "chunk_grid": {
            "name": REGULAR,
            "configuration": {"chunk_shape": list(fields.chunk_shape)},
        },
        "chunk_key_encoding": keys,
        "fill_value": fields.fill_value,
        "codecs": [codec.json() for codec in fields.codecs],
    }
    if fields.storage_transformers is not None:
        document["storage_transformers"] = [each.json() for each in fields.storage_transformers]
    if fields.dimension_names is not None:
        document["dimension_names"] = list(fields.dimension_names)
    return document


def put_attributes(document: bytes, attributes: Metadata) -> bytes:
    """A document of ours with other attributes."""
    node = json.loads(document)
    node["attributes"] = attributes
    return _text(node)


def dump_json(document: JSON) -> bytes:
    """JSON without spaces, in UTF-8, as files hold it: with nothing that JSON lacks."""
    return _text(plain_json(document))


def _text(document: JSON) -> bytes:
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode()


def plain_json(value: JSON) -> JSON:
    """A value with NaN and infinities as the texts that Zarr spells them by: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: plain_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value
