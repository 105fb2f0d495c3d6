"""Manifests of G2 and G3, written in the dialect of a repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.header import Wrapping, wrap
from frazil.formats.legacy.layouts import DialectLayout, IdForm, dialect_layout
from frazil.formats.legacy.manifests import FIELDS
from frazil.formats.legacy.messages import (
    array_header,
    map_header,
    pack_message,
    pack_scalar,
    packed_struct,
)
from frazil.formats.legacy.names import stored_names
from frazil.formats.legacy.nodes import NodeWriter, file_id, write_id
from frazil.formats.legacy.records import ManifestRecord, Names
from frazil.formats.legacy.structs import Value
from frazil.formats.legacy.zarr_fields import cannot_hold, dump_json
from frazil.ids import ChunkId
from frazil.model.chunks import ChunkRef, ChunkTable, ChunkType, InlineRef, VirtualRef


def encode_manifest(record: ManifestRecord, wrapping: Wrapping | None = None) -> bytes:
    """Write a manifest in the dialect of its record, wrapped as usual or as `wrapping` says.

    Raises:
        InvalidInputError: the dialect cannot hold one of the references.
        FormatError: the dialect cannot be written.
    """
    layout = dialect_layout(record.dialect)
    writer = _Writer(record, layout)
    if layout.is_json:
        return dump_json({"chunks": dict(writer.json_entries())})
    head: list[Value] = [] if layout.manifest_fields <= 2 else [layout.version, {}]
    if layout.manifest_fields in (2, 4):
        if record.id is None:
            raise FormatError("a manifest of this dialect must have an id")
        head.append(write_id(layout.ids, record.id, str(record.id)))
    fields = [*map(pack_message, head), b"".join(writer.packed())]
    body = packed_struct(FIELDS[layout.manifest_fields], fields, named=layout.is_named)
    return wrap(body, FileKind.MANIFEST, wrapping or layout.wrapping_of(FileKind.MANIFEST))


def check_reference(dialect: Dialect, ref: ChunkRef) -> None:
    """Refuse a reference that a dialect cannot hold."""
    if isinstance(ref, VirtualRef) and ref.checksum is not None and not dialect.has_checksums:
        raise cannot_hold(dialect.generation, "checksum", "of a virtual chunk")


class _Writer:
    """Spells the references of a manifest in a dialect."""

    def __init__(self, record: ManifestRecord, layout: DialectLayout) -> None:
        self._record = record
        self._layout = layout
        self._nodes = NodeWriter(record.dialect, layout, Names())

    def packed(self) -> Iterator[bytes]:
        """The map of chunks in MessagePack."""
        tables = self._record.tables
        if self._layout.is_nested:
            yield map_header(len(tables))
            for node, table in sorted(tables.items()):
                yield pack_message(self._nodes.node_id(node))
                yield map_header(len(table))
                yield from self._rows(table, b"")
            return
        yield map_header(sum(map(len, tables.values())))
        for node, table in sorted(tables.items()):
            yield from self._rows(table, b"\x92" + pack_message(self._nodes.node_id(node)))

    def _rows(self, table: ChunkTable, prefix: bytes) -> Iterator[bytes]:
        """The entries of a table; columns are spelled as a whole, which takes less time."""
        rank = prefix + array_header(table.ndim)
        axes = [_packed_numbers(table.coords[:, axis]) for axis in range(table.ndim)]
        payloads = self._payloads(table)
        return map(b"".join, zip(repeat(rank), *axes, payloads, strict=False))

    def _payloads(self, table: ChunkTable) -> Iterator[bytes]:
        native = table.kind == ChunkType.native
        ids = iter(self._ids(table.chunk_id[native]))
        offsets, lengths = _packed_numbers(table.offset), _packed_numbers(table.length)
        others = iter(np.flatnonzero(~native).tolist())
        native_head, before_offset, before_length = self._between("Ref", "id")
        for is_native, offset, length in zip(native.tolist(), offsets, lengths, strict=True):
            if is_native:
                yield native_head + next(ids) + before_offset + offset + before_length + length
            else:
                yield self._other(table.ref(next(others)))

    def _ids(self, raw: npt.NDArray[np.uint8]) -> Iterable[bytes]:
        data, width = raw.tobytes(), ChunkId.width
        if self._layout.ids is IdForm.PACKED:
            return (
                b"\x92\xc4\x0c" + data[at : at + width] + b"\x90"
                for at in range(0, len(data), width)
            )
        if self._layout.ids is IdForm.NUMBERS:
            return (pack_message(file_id(IdForm.NUMBERS, name)) for name in self._names(raw))
        # Texts of ids are short, and spelled here quicker than one by one in the library.
        return (bytes([0xA0 | len(name)]) + name.encode() for name in self._names(raw))

    def _between(self, variant: str, first: str) -> tuple[bytes, bytes, bytes]:
        """What is before each of the three fields of a reference."""
        head = b"\x81" + pack_scalar(variant)
        if not self._layout.is_named:
            return head + b"\x93", b"", b""
        return head + b"\x83" + pack_scalar(first), pack_scalar("offset"), pack_scalar("length")

    def _names(self, raw: npt.NDArray[np.uint8]) -> list[str]:
        return stored_names(self._record.dialect.generation, raw, self._record.names)

    def _other(self, ref: ChunkRef) -> bytes:
        if isinstance(ref, InlineRef):
            return b"\x81\xa6Inline" + pack_scalar(ref.data)
        assert isinstance(ref, VirtualRef)
        return self._virtual(ref)

    def _virtual(self, ref: VirtualRef) -> bytes:
        offset, length = pack_scalar(ref.offset), pack_scalar(ref.length)
        if not self._layout.checksums:
            check_reference(self._record.dialect, ref)
            head, before_offset, before_length = self._between("Virtual", "location")
            location: Value = {"Absolute": ref.location}
            if self._layout.is_named:
                location = ref.location
            return head + pack_message(location) + before_offset + offset + before_length + length
        checksum: Value = None
        if isinstance(ref.checksum, str):
            checksum = {"ETag": ref.checksum}
        elif ref.checksum is not None:
            checksum = {"LastModified": ref.checksum}
        head = b"\x81\xa7Virtual\x94" + pack_scalar(ref.location)
        return head + offset + length + pack_message(checksum)

    def json_entries(self) -> Iterator[tuple[str, Value]]:
        """Keys and payloads of the chunks in JSON."""
        for node, table in sorted(self._record.tables.items()):
            number = self._nodes.node_id(node)
            native = table.kind == ChunkType.native
            names = iter(self._names(table.chunk_id[native]))
            for coords, (row, is_native) in zip(
                table.coords.tolist(), enumerate(native.tolist()), strict=True
            ):
                key = "/".join(map(str, (number, *coords)))
                yield key, self._json_payload(table, row, next(names) if is_native else None)

    def _json_payload(self, table: ChunkTable, row: int, name: str | None) -> Value:
        if name is not None:
            place = {"offset": int(table.offset[row]), "length": int(table.length[row])}
            return {"Ref": {"id": file_id(self._layout.ids, name), **place}}
        ref = table.ref(row)
        if isinstance(ref, InlineRef):
            return {"Inline": list(ref.data)}
        assert isinstance(ref, VirtualRef)
        check_reference(self._record.dialect, ref)
        place = {"offset": ref.offset, "length": ref.length}
        return {"Virtual": {"location": ref.location, **place}}


def _packed_numbers(column: npt.NDArray[np.unsignedinteger]) -> list[bytes]:
    """The numbers of a column; each distinct one is spelled once."""
    distinct, places = np.unique(column, return_inverse=True)
    spelled = [pack_scalar(number) for number in distinct.tolist()]
    return [spelled[place] for place in places.tolist()]
