"""The nodes of snapshots of G2 and G3: structured metadata and pointers to manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from frazil.errors import InvalidInputError
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.fill_values import UnfitError
from frazil.formats.legacy.layouts import DialectLayout, IdForm
from frazil.formats.legacy.names import from_crockford, node_number, stored_name
from frazil.formats.legacy.records import AttributeRef, Names
from frazil.formats.legacy.structs import MAX_U32, LegacyDocument, Value
from frazil.formats.legacy.zarr_fields import (
    DEFAULT_KEYS,
    ArrayFields,
    NamedConfiguration,
    NodeFields,
    build_node,
    parse_fields,
    stored_type,
    tagged_fill,
    untagged_fill,
)
from frazil.ids import ManifestId, NodeId, ObjectId, SnapshotId
from frazil.model.nodes import ArrayNode, Dimension, Extents, ManifestRef, Node, path_order

NODE: Final = ("id", "path", "user_attributes", "node_data")
ARRAY_METADATA: Final = (
    "shape",
    "data_type",
    "chunk_shape",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
)
NAMED: Final = ("name", "configuration")
_SEPARATORS: Final = {"Slash": "/", "Dot": ".", "Default": None}
_KEY_NAMES: Final = {separator: name for name, separator in _SEPARATORS.items()}


# --- reading ---


def read_nodes(
    document: LegacyDocument, value: Value
) -> tuple[tuple[Node, ...], dict[str, AttributeRef]]:
    """The nodes of a snapshot in order, and where attributes are that are not in it."""
    refs: dict[str, AttributeRef] = {}
    nodes = [_read_node(document, *pair, refs) for pair in document.mapping(value, "nodes").items()]
    nodes.sort(key=lambda node: path_order(node.path))
    return tuple(nodes), refs


def _read_node(
    document: LegacyDocument, path: Value, value: Value, refs: dict[str, AttributeRef]
) -> Node:
    raw_id, own_path, attributes, data = document.fields(value, NODE, "a node")
    path = document.path(path, "path of a node")
    if own_path != path:
        raise document.fail(f"the node at {path} has the path {own_path!r}")
    node_id = document.node_id(raw_id)
    found = _read_attributes(document, attributes, path, refs)
    kind, content = document.variant(data, "node_data")
    if kind == "Group" and content is None:
        return build_node(node_id, path, NodeFields(found, None))
    if kind != "Array":
        raise document.fail(f"the node at {path} is neither a group nor an array")
    metadata, manifests = document.pair(content, ("zarr_metadata", "manifests"), "an array")
    fields = _read_array(document, metadata)
    refs_here = [
        _read_manifest_ref(document, each, fields.dimensions)
        for each in document.items(manifests, "manifests")
    ]
    return build_node(node_id, path, NodeFields(found, fields), refs_here)


def _read_attributes(
    document: LegacyDocument, value: Value, path: str, refs: dict[str, AttributeRef]
) -> dict[str, Value] | None:
    if value is None:
        return None
    kind, content = document.variant(value, "user_attributes")
    if kind == "Inline":
        return document.metadata(content, "attributes")
    if kind != "Ref":
        raise document.fail("attributes are neither inline nor in a file")
    is_short = isinstance(content, list | tuple) and len(content) == 2
    names = ("object_id", "location") if is_short else ("object_id", "location", "flags")
    parts = document.fields(content, names, "a reference to attributes")
    file = document.file_name(parts[0], "attribute file")
    refs[path] = AttributeRef(file, document.number(parts[1], "location", MAX_U32))
    return {}


def _read_array(document: LegacyDocument, value: Value) -> ArrayFields:
    parts = document.fields(value, ARRAY_METADATA, "array metadata")
    shape, data_type, chunk_shape, keys, fill, codecs, transformers, names = parts
    known = stored_type(data_type)
    if known is None:
        raise document.fail(f"unknown data type {data_type!r}")
    if not isinstance(keys, str) or keys not in _SEPARATORS:
        raise document.fail(f"unknown chunk key encoding {keys!r}")
    lengths = document.numbers(shape, "shape")
    chunks = document.numbers(chunk_shape, "chunk_shape")
    if 0 in chunks:
        raise document.fail("chunk_shape does not go with shape")
    document.check_grid(lengths, chunks)
    try:
        fill_value = untagged_fill(known, fill)
    except UnfitError as error:
        raise document.fail(f"fill value {fill!r}: {error}") from error
    return ArrayFields(
        shape=lengths,
        data_type=known.name,
        chunk_shape=chunks,
        key_encoding=DEFAULT_KEYS,
        separator=_SEPARATORS[keys],
        fill_value=fill_value,
        codecs=_read_named(document, codecs, "codecs"),
        storage_transformers=None
        if transformers is None
        else _read_named(document, transformers, "storage_transformers"),
        dimension_names=_read_names(document, names, len(lengths)),
    )


def _read_named(
    document: LegacyDocument, value: Value, what: str
) -> tuple[NamedConfiguration, ...]:
    found = []
    for each in document.items(value, what):
        name, configuration = document.fields(each, NAMED, what)
        found.append(
            NamedConfiguration(
                document.text(name, what),
                None if configuration is None else document.metadata(configuration, what),
            )
        )
    return tuple(found)


def _read_names(document: LegacyDocument, value: Value, rank: int) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    names = document.items(value, "dimension_names")
    if len(names) != rank:
        raise document.fail("dimension_names do not go with shape")
    return tuple(None if each is None else document.text(each, "a name") for each in names)


def _read_manifest_ref(
    document: LegacyDocument, value: Value, dimensions: Sequence[Dimension]
) -> ManifestRef:
    is_short = isinstance(value, list | tuple) and len(value) == 2
    names = ("object_id", "extents") if is_short else ("object_id", "flags", "extents")
    parts = document.fields(value, names, "a reference to a manifest")
    return ManifestRef(
        document.manifest_id(parts[0]), read_extents(document, parts[-1], dimensions)
    )


def read_extents(
    document: LegacyDocument, value: Value, dimensions: Sequence[Dimension]
) -> Extents:
    """The chunks that a manifest has, as far as the file tells it for certain."""
    if isinstance(value, Mapping):
        value = document.pair(value, ("start", "end"), "extents")
    edges = [document.numbers(each, "extents") for each in document.items(value, "extents")]
    if not edges or not document.has_true_extents:
        return document.edges((), dimensions)
    if len(edges) != 2 or len(edges[0]) != len(edges[1]):
        raise document.fail("extents must be a first and a last edge")
    return document.edges(tuple(zip(*edges, strict=True)), dimensions)


# --- writing ---


class NodeWriter:
    """Spells nodes in a dialect: structs as lists or as maps."""

    def __init__(self, dialect: Dialect, layout: DialectLayout, names: Names) -> None:
        self._dialect = dialect
        self._layout = layout
        self._names = names

    def nodes(
        self, nodes: Iterable[Node], attributes: Mapping[str, AttributeRef]
    ) -> dict[str, Value]:
        """All nodes by path, ordered as the libraries did.

        Raises:
            InvalidInputError: the generation cannot hold one of them.
        """
        ordered = sorted(nodes, key=lambda node: _components(node.path))
        return {node.path: self._node(node, attributes.get(node.path)) for node in ordered}

    def struct(self, names: Sequence[str], values: Sequence[Value]) -> Value:
        """A struct of named fields."""
        if self._layout.is_named:
            return dict(zip(names, values, strict=True))
        return list(values)

    def snapshot_id(self, id: SnapshotId) -> Value:
        """The id of a snapshot, of which G2 stores the 16 bytes that its name spells."""
        name = stored_name(self._dialect.generation, "snapshots", id, self._names.snapshots)
        return write_id(self._layout.ids, id, name)

    def manifest_id(self, id: ManifestId) -> Value:
        """The id of a manifest, likewise."""
        name = stored_name(self._dialect.generation, "manifests", id, self._names.manifests)
        return write_id(self._layout.ids, id, name)

    def node_id(self, id: NodeId) -> Value:
        """The id of a node."""
        if self._dialect.has_numbered_nodes:
            return node_number(id)
        return [bytes(id), []] if self._layout.ids is IdForm.PACKED else str(id)

    def _node(self, node: Node, attributes: AttributeRef | None) -> Value:
        fields = parse_fields(self._dialect.generation, node.user_data)
        data: Value = "Group"
        if fields.array is not None:
            assert isinstance(node, ArrayNode)
            data = {
                "Array": [
                    self._array(fields.array),
                    [self._manifest_ref(ref) for ref in node.manifests],
                ]
            }
        where: Value = None if fields.attributes is None else {"Inline": fields.attributes}
        if attributes is not None:
            where = {"Ref": self._attribute_ref(attributes)}
        return self.struct(NODE, (self.node_id(node.id), node.path, where, data))

    def _attribute_ref(self, ref: AttributeRef) -> Value:
        file = file_id(self._layout.ids, ref.file)
        if self._layout.has_flags:
            return self.struct(("object_id", "location", "flags"), (file, ref.location, []))
        return self.struct(("object_id", "location"), (file, ref.location))

    def _array(self, fields: ArrayFields) -> Value:
        data_type: Value = fields.data_type
        tagged = tagged_fill(self._dialect.generation, fields, as_json=self._layout.is_json)
        if "RawBits" in tagged:
            data_type = {"rawbits": int(fields.data_type[1:])}
        transformers = fields.storage_transformers
        return self.struct(
            ARRAY_METADATA,
            (
                list(fields.shape),
                data_type,
                list(fields.chunk_shape),
                _KEY_NAMES[fields.separator],
                tagged,
                self._named(fields.codecs),
                None if transformers is None else self._named(transformers),
                None if fields.dimension_names is None else list(fields.dimension_names),
            ),
        )

    def _named(self, values: Iterable[NamedConfiguration]) -> list[Value]:
        return [self.struct(NAMED, (each.name, each.configuration)) for each in values]

    def _manifest_ref(self, ref: ManifestRef) -> Value:
        id = self.manifest_id(ref.id)
        extents: list[list[int]] = []
        if self._layout.has_extents:
            extents = [[low for low, _ in ref.extents], [high for _, high in ref.extents]]
        if self._layout.has_flags:
            return self.struct(("object_id", "flags", "extents"), (id, [], extents))
        return self.struct(("object_id", "extents"), (id, extents))


def write_id(form: IdForm, id: ObjectId, name: str) -> Value:
    """An object id as a dialect spells it."""
    if form is IdForm.PACKED:
        return [bytes(id), []]
    return file_id(form, name)


def file_id(form: IdForm, name: str) -> Value:
    """The id that a Crockford name spells, as a dialect does."""
    if form is IdForm.TEXT:
        return name
    digits = 16 if form is IdForm.NUMBERS else 12
    raw = _bytes_of(name, digits)
    return list(raw) if form is IdForm.NUMBERS else [raw, []]


def _bytes_of(name: str, width: int) -> bytes:
    raw = from_crockford(name, width)
    if raw is None:
        raise InvalidInputError(f"{name!r} is not the text of a {width}-byte id")
    return raw


def _components(path: str) -> tuple[bytes, ...]:
    """Sort key of paths in the libraries: component by component."""
    return tuple(part.encode() for part in path.split("/")[1:] if part)
