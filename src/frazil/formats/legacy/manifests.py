"""Manifests of G2 and G3, read: maps from chunks to payloads, flat or nested by node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgpack

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind, references_justified
from frazil.formats.legacy.columns import ManifestBuilder, TableBuilder
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import LONG, SHORT, Wrapping, refuse_flat, unwrap
from frazil.formats.legacy.messages import MessageReader
from frazil.formats.legacy.names import WIDE
from frazil.formats.legacy.records import ManifestRecord
from frazil.formats.legacy.structs import (
    MAX_RANK,
    MAX_U32,
    MAX_U64,
    LegacyDocument,
    StructForm,
    Value,
    early_dialect,
)
from frazil.ids import ManifestId, NodeId
from frazil.model.nodes import Coordinates

Entry: TypeAlias = tuple[NodeId, Coordinates, Value]

FIELDS: Final = {
    1: ("chunks",),
    2: ("id", "chunks"),
    3: ("version", "flags", "chunks"),
    4: ("version", "flags", "id", "chunks"),
}
_UNREADABLE: Final = (msgpack.exceptions.UnpackException, ValueError, TypeError)


# --- reading ---


def decode_manifest(blob: bytes, *, key: str, generation: LegacyGeneration) -> ManifestRecord:
    """Read a manifest of G2 or G3 in whatever dialect it is."""
    wrapping, body = unwrap(blob, FileKind.MANIFEST, key=key)
    document = LegacyDocument(key, generation)
    if body[:1] == b"{":
        value = document.mapping(document.json(body), "a manifest")
        entries = _flat_json(document, document.mapping(value.get("chunks"), "chunks"))
        return _Reader(document, wrapping.size).record(entries, Dialect.G2_JSON, None)
    if wrapping.header:
        refuse_flat(body, key=key)
    reader = MessageReader(body, key=key, packed=wrapping.size)
    if reader.is_map():
        return _decode_mapped(document, reader, wrapping)
    count = reader.array_header()
    document.forms.add(StructForm.LIST)
    if count not in FIELDS:
        raise document.fail(f"a manifest has no {count} fields")
    head = {name: reader.value() for name in FIELDS[count][:-1]}
    id = document.manifest_id(head["id"]) if "id" in head else None
    parser = _Reader(document, wrapping.size)
    entries = parser.entries(body, reader)
    return parser.record(entries, lambda: _dialect(document, parser, count, wrapping), id)


def _decode_mapped(
    document: LegacyDocument, reader: MessageReader, wrapping: Wrapping
) -> ManifestRecord:
    """A manifest that is a map with the names of its fields."""
    value = reader.value()
    reader.finish()
    document.forms.add(StructForm.MAP)
    id = document.manifest_id(value["id"]) if "id" in value else None
    parser = _Reader(document, wrapping.size)
    entries = parser.mapped(document.mapping(value.get("chunks"), "chunks"))
    count = next(n for n in (4, 3, 2, 1) if n == 1 or set(FIELDS[n]) <= value.keys())
    return parser.record(entries, lambda: _dialect(document, parser, count, wrapping), id)


def _dialect(document: LegacyDocument, parser: _Reader, count: int, wrapping: Wrapping) -> Dialect:
    """The dialect of a manifest as far as its content tells."""
    if count == 1:
        is_wide = document.generation is LegacyGeneration.G2 or document.id_width == WIDE
        return early_dialect(document) if is_wide else Dialect.G3_UNRELEASED
    if count == 2:
        return Dialect.G3I
    if count == 4:
        return Dialect.G3G
    if parser.is_nested:
        return Dialect.G3F
    if wrapping.header:
        return {SHORT: Dialect.G3_SEED, LONG: Dialect.G3E}[wrapping.header]
    if wrapping.compressed:
        return Dialect.G3D
    if parser.has_checksums:
        return Dialect.G3C
    return Dialect.G3B if document.has_numbered_nodes is False else Dialect.G3A


class _Reader:
    """Reads the chunks of one manifest."""

    def __init__(self, document: LegacyDocument, size: int) -> None:
        self._document = document
        self._left = references_justified(size)
        self._nodes: dict[Value, NodeId] = {}
        self.is_nested = False
        self.has_checksums = False

    def record(
        self,
        entries: Iterable[Entry],
        dialect: Dialect | Callable[[], Dialect],
        id: ManifestId | None,
    ) -> ManifestRecord:
        """The record of all entries; the dialect is asked for when they have been seen."""
        builder = ManifestBuilder(self._document.key)
        for node, coords, payload in entries:
            self._left -= 1
            if self._left < 0:
                raise self._document.fail("more references than a file of its size can hold")
            self._add(builder.of(node, len(coords)), coords, payload)
        tables, strays = builder.finish()
        known = dialect if isinstance(dialect, Dialect) else dialect()
        return ManifestRecord(tables, known, id, self._document.chunks, strays, self.has_checksums)

    def entries(self, body: bytes, reader: MessageReader) -> Iterator[Entry]:
        """The entries of a map that begins where the reader stands."""
        count = reader.map_header()
        # The entries are small: limits keep a length that lies from reserving memory.
        unpacker = msgpack.Unpacker(
            use_list=False,
            strict_map_key=False,
            max_buffer_size=len(body),
            max_array_len=MAX_RANK,
            max_map_len=1,
        )
        start = reader.at
        unpacker.feed(memoryview(body)[start:])
        try:
            for _ in range(count):
                yield from self._entry(unpacker)
        except FormatError:
            raise
        except _UNREADABLE as error:
            raise self._document.fail(f"unreadable MessagePack: {error!r}") from error
        reader.at = start + unpacker.tell()
        reader.finish()

    def _entry(self, unpacker: Value) -> Iterator[Entry]:
        first = unpacker.unpack()
        if isinstance(first, tuple) and len(first) == 2 and isinstance(first[1], tuple):
            node, coords = first
            if not isinstance(node, bytes):
                yield self._node(node), self._coords(coords), unpacker.unpack()
                return
        self.is_nested = True
        node_id = self._node(first)
        for _ in range(unpacker.read_map_header()):
            yield node_id, self._coords(unpacker.unpack()), unpacker.unpack()

    def mapped(self, chunks: Mapping[Value, Value]) -> Iterator[Entry]:
        """The entries of a map that is there already."""
        for first, value in chunks.items():
            if isinstance(first, tuple) and len(first) == 2 and not isinstance(first[0], bytes):
                yield self._node(first[0]), self._coords(first[1]), value
                continue
            self.is_nested = True
            node = self._node(first)
            for coords, payload in self._document.mapping(value, "chunks of a node").items():
                yield node, self._coords(coords), payload

    def _node(self, value: Value) -> NodeId:
        found = self._nodes.get(value)
        if found is None:
            found = self._nodes[value] = self._document.node_id(value)
        return found

    def _coords(self, value: Value) -> Coordinates:
        return read_coords(self._document, value)

    def _add(self, table: TableBuilder, coords: Coordinates, payload: Value) -> None:
        document = self._document
        kind, content = document.variant(payload, "a chunk")
        if kind == "Ref":
            id, offset, length = document.fields(content, ("id", "offset", "length"), "a chunk")
            start, size = self._range(offset, length)
            table.native(coords, document.chunk_id(id), start, size)
        elif kind == "Inline":
            table.inline(coords, self._inline(content))
        elif kind == "Virtual":
            location, (start, size), checksum = self._virtual(content)
            table.virtual(coords, location, start, size, checksum)
        else:
            raise document.fail(f"a chunk cannot be {kind!r}")

    def _range(self, offset: Value, length: Value) -> tuple[int, int]:
        start = self._document.number(offset, "offset", MAX_U64)
        return start, self._document.number(length, "length", MAX_U64 - start)

    def _inline(self, content: Value) -> bytes:
        if isinstance(content, bytes):
            return content
        try:
            return bytes(self._document.items(content, "inline chunk"))
        except (ValueError, TypeError) as error:
            raise self._document.fail("an inline chunk must be bytes") from error

    def _virtual(self, content: Value) -> tuple[str, tuple[int, int], str | int | None]:
        document = self._document
        names = ("location", "offset", "length", "checksum")
        is_old = isinstance(content, list | tuple) and len(content) == 3
        parts = list(document.fields(content, names[:3] if is_old else names, "a virtual chunk"))
        location = parts[0]
        if isinstance(location, Mapping):
            if isinstance(content, Mapping):
                document.forms.add(StructForm.OTHER)
            _, location = document.variant(location, "location")
        checksum: str | int | None = None
        if not is_old and not isinstance(content, Mapping):
            self.has_checksums = True
        if not is_old and parts[3] is not None:
            kind, value = document.variant(parts[3], "checksum")
            if kind == "LastModified":
                checksum = document.number(value, "last modified", MAX_U32)
            elif kind == "ETag":
                checksum = document.text(value, "etag")
            else:
                raise document.fail(f"a checksum cannot be {kind!r}")
        return document.text(location, "location"), self._range(parts[1], parts[2]), checksum


def read_coords(document: LegacyDocument, value: Value) -> Coordinates:
    """The coordinates of a chunk."""
    if not isinstance(value, list | tuple) or len(value) > MAX_RANK:
        raise document.fail("chunk coordinates must be a list")
    for each in value:
        if type(each) is not int or not 0 <= each <= MAX_U32:
            raise document.fail(f"chunk coordinates must be whole numbers up to {MAX_U32}")
    return tuple(value)


def _flat_json(document: LegacyDocument, chunks: Mapping[str, Value]) -> Iterator[Entry]:
    for name, payload in chunks.items():
        try:
            if name.startswith("["):
                node, coords = json.loads(name)
            else:
                node, *coords = map(_digits, name.split("/"))
        except (ValueError, TypeError, RecursionError) as error:
            raise document.fail(f"{name!r} does not name a chunk") from error
        yield document.node_id(node), read_coords(document, coords), payload


def _digits(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise ValueError(text)
    return int(text)


# --- writing ---
