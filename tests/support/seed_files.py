"""Repositories of G1, G2 and G3 written from the texts of their specifications alone.

Nothing here uses the library's own encoders, and what the texts leave open is a parameter: other
people will have decided it otherwise than we did.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, TypeAlias

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from frazil.storage.base import Storage

Value: TypeAlias = Any
Coords: TypeAlias = tuple[int, ...]
Encode: TypeAlias = Callable[[Coords], bytes]

CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MAGIC: Final = bytes.fromhex("494345f09fa78a4348554e4b")
TIME: Final = "2024-10-01T12:00:00.000000Z"
INITIAL: Final = "Repository initialized"
WRITER: Final = b"somebody"


@dataclass(frozen=True, slots=True)
class Array:
    """An array of 32-bit whole numbers; chunks in `absent` were never written."""

    path: str
    values: npt.NDArray[np.int32]
    chunks: tuple[int, ...]
    fill: int = -1
    absent: frozenset[Coords] = frozenset()
    keys: str = "Slash"
    """Slash, Dot or Default; in G1 also v2"""
    manifests: int = 1
    """over how many manifests the chunks are spread, by their first coordinate"""
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def grid(self) -> Coords:
        return tuple(-(-n // c) for n, c in zip(self.values.shape, self.chunks, strict=True))

    def expected(self) -> npt.NDArray[np.int32]:
        """What a reader must see."""
        seen = self.values.copy()
        for coords in self.absent:
            seen[self._box(coords)] = self.fill
        return seen

    def _box(self, coords: Coords) -> tuple[slice, ...]:
        pairs = zip(coords, self.chunks, strict=True)
        return tuple(slice(i * size, (i + 1) * size) for i, size in pairs)

    def stored(self) -> dict[Coords, bytes]:
        """The chunks that were written, in order."""
        found = {}
        for coords in product(*map(range, self.grid)):
            if coords not in self.absent:
                whole = np.full(self.chunks, self.fill, "<i4")
                part = self.values[self._box(coords)]
                whole[tuple(slice(0, n) for n in part.shape)] = part
                found[coords] = whole.tobytes()
        return found

    def parts(self) -> list[dict[Coords, bytes]]:
        """The chunks of each manifest."""
        stored = [*self.stored().items()]
        size = -(-len(stored) // self.manifests)
        return [dict(stored[at : at + size]) for at in range(0, len(stored), size)]


# --- extents ---


def first_and_last(coords: Sequence[Coords], array: Array) -> tuple[list[int], list[int]]:
    """The end is the last chunk."""
    axes = [*zip(*coords, strict=True)]
    return [min(axis) for axis in axes], [max(axis) for axis in axes]


def first_and_after(coords: Sequence[Coords], array: Array) -> tuple[list[int], list[int]]:
    """The end is the chunk after the last."""
    start, end = first_and_last(coords, array)
    return start, [last + 1 for last in end]


def elements(coords: Sequence[Coords], array: Array) -> tuple[list[int], list[int]]:
    """Elements are counted, not chunks."""
    start, end = first_and_after(coords, array)
    return (
        [n * size for n, size in zip(start, array.chunks, strict=True)],
        [n * size for n, size in zip(end, array.chunks, strict=True)],
    )


def first_and_count(coords: Sequence[Coords], array: Array) -> tuple[list[int], list[int]]:
    """The second number is how many."""
    start, end = first_and_after(coords, array)
    return start, [high - low for low, high in zip(start, end, strict=True)]


Measure: TypeAlias = Callable[[Sequence[Coords], Array], tuple[list[int], list[int]]] | None
EXTENTS: Final[Mapping[str, Measure]] = {
    "first and last": first_and_last,
    "first and after": first_and_after,
    "elements": elements,
    "first and count": first_and_count,
    "none": None,
}


# --- coordinates of G1 ---


def _fixed(code: str) -> Encode:
    return lambda coords: b"".join(struct.pack(code, each) for each in coords)


def leb128(coords: Coords) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    for value in coords:
        rest = value
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)
    return bytes(out)


COORDS: Final[Mapping[str, Encode]] = {
    "u8": _fixed(">B"),
    "be16": _fixed(">H"),
    "be32": _fixed(">I"),
    "be64": _fixed(">Q"),
    "le16": _fixed("<H"),
    "le32": _fixed("<I"),
    "le64": _fixed("<Q"),
    "leb128": leb128,
}


# --- ids ---


def crockford(raw: bytes) -> str:
    """Base 32, zero bits appended on the right."""
    digits = -(-len(raw) * 8 // 5)
    number = int.from_bytes(raw, "big") << (digits * 5 - len(raw) * 8)
    return "".join(CROCKFORD[number >> 5 * (digits - 1 - at) & 31] for at in range(digits))


def sequence(number: int) -> str:
    """The name of a numbered file."""
    return crockford((1099511627775 - number).to_bytes(5, "big"))


class Ids:
    """Ids that are the same in every run; none is one that the library would make itself."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._count = 0

    def __call__(self) -> bytes:
        self._count += 1
        return uuid.uuid5(uuid.NAMESPACE_URL, str(self._count)).bytes[: self._width]


# --- G1 ---

_G1_METADATA: Final = pa.struct(
    [
        pa.field("shape", pa.list_(pa.uint16()), nullable=False),
        pa.field("data_type", pa.string(), nullable=False),
        pa.field("fill_value", pa.binary()),
        pa.field("dimension_names", pa.list_(pa.string())),
        pa.field(
            "chunk_grid",
            pa.struct(
                [
                    pa.field("name", pa.string(), nullable=False),
                    pa.field(
                        "configuration",
                        pa.struct([pa.field("chunk_shape", pa.list_(pa.uint16()), nullable=False)]),
                        nullable=False,
                    ),
                ]
            ),
        ),
        pa.field(
            "chunk_key_encoding",
            pa.struct(
                [
                    pa.field("name", pa.string(), nullable=False),
                    pa.field(
                        "configuration",
                        pa.struct([pa.field("separator", pa.string(), nullable=False)]),
                        nullable=False,
                    ),
                ]
            ),
        ),
        pa.field(
            "codecs",
            pa.list_(
                pa.struct(
                    [
                        pa.field("name", pa.string(), nullable=False),
                        pa.field("configuration", pa.binary()),
                    ]
                )
            ),
        ),
    ]
)
_G1_STRUCTURE: Final = pa.schema(
    [
        pa.field("id", pa.uint16(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("array_metadata", _G1_METADATA),
        pa.field("inline_attrs", pa.binary()),
        pa.field(
            "attrs_reference",
            pa.struct(
                [
                    pa.field("attrs_file", pa.string(), nullable=False),
                    pa.field("row", pa.uint16(), nullable=False),
                    pa.field("flags", pa.uint16()),
                ]
            ),
        ),
        pa.field(
            "inventories",
            pa.list_(
                pa.struct(
                    [
                        pa.field("inventory_file", pa.string(), nullable=False),
                        pa.field("row", pa.uint16(), nullable=False),
                        pa.field("extent", pa.list_(pa.list_(pa.uint16(), 2)), nullable=False),
                        pa.field("flags", pa.uint16()),
                    ]
                )
            ),
        ),
    ]
)
_G1_INVENTORY: Final = pa.schema(
    [
        pa.field("id", pa.uint32(), nullable=False),
        pa.field("array_id", pa.uint32(), nullable=False),
        pa.field("coord", pa.binary(), nullable=False),
        pa.field("inline_data", pa.binary()),
        pa.field("chunk_file", pa.string()),
        pa.field("offset", pa.uint64()),
        pa.field("length", pa.uint32(), nullable=False),
    ]
)
_SEPARATORS: Final = {"Slash": "/", "Dot": ".", "Default": "/", "v2": "."}


def _parquet(rows: Sequence[Mapping[str, Value]], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return bytes(sink.getvalue())


@dataclass(frozen=True, slots=True)
class G1:
    """A repository of G1, with one snapshot for each list of arrays."""

    coords: Encode = COORDS["be16"]
    extents: Measure = None
    refs: bool = True
    one_inventory: bool = False
    """all arrays of a snapshot share one file"""
    name: Callable[[bytes], str] = lambda raw: str(uuid.UUID(bytes=raw))
    suffix: str = ""
    """of structure files and inventories"""

    def write(self, storage: Storage, *snapshots: Sequence[Array]) -> list[str]:
        """Write all of it, and tell the ids of the snapshots."""
        ids = Ids(16)
        listed: list[dict[str, Value]] = []
        for number, arrays in enumerate(([], *snapshots)):
            rows = [{"id": 0, "type": "group", "path": "/", "inline_attrs": b'{"root":true}'}]
            rows += self._arrays(storage, arrays, ids)
            name = self.name(ids())
            file = f"{name}{self.suffix}"
            storage.put(f"s/{file}", _parquet(rows if arrays else [], _G1_STRUCTURE))
            listed.append(
                {
                    "snapshot-id": name,
                    "parent-snapshot-id": listed[-1]["snapshot-id"] if listed else None,
                    "timestamp-ms": 1723200000000 + number * 60000,
                    "structure-file": file,
                }
            )
        tip = listed[-1]["snapshot-id"]
        state: dict[str, Value] = {"id": self.name(ids()), "generation": len(listed)}
        state["snapshots"] = listed
        if self.refs:
            state["refs"] = {"main": {"name": "main", "snapshot-id": tip, "type": "branch"}}
        storage.put("state.json", json.dumps(state).encode())
        return [item["snapshot-id"] for item in listed]

    def _arrays(
        self, storage: Storage, arrays: Sequence[Array], ids: Ids
    ) -> Iterator[dict[str, Value]]:
        shared: list[dict[str, Value]] = []
        file = f"{self.name(ids())}{self.suffix}"
        for number, array in enumerate(arrays, 1):
            inventories = []
            for part in array.parts():
                rows = [self._row(storage, ids, number, *item) for item in part.items()]
                shared += rows
                if not self.one_inventory:
                    file = f"{self.name(ids())}{self.suffix}"
                    storage.put(f"i/{file}", _parquet(_numbered(rows), _G1_INVENTORY))
                pairs: list[list[int]] = []
                if self.extents is not None and part:
                    edges = self.extents([*part], array)
                    pairs = [list(pair) for pair in zip(*edges, strict=True)]
                inventories.append({"inventory_file": file, "row": 0, "extent": pairs})
            yield {
                "id": number,
                "type": "array",
                "path": array.path,
                "array_metadata": _g1_metadata(array),
                "inline_attrs": json.dumps(dict(array.attributes)).encode(),
                "inventories": inventories,
            }
        if self.one_inventory and shared:
            storage.put(f"i/{file}", _parquet(_numbered(shared), _G1_INVENTORY))

    def _row(
        self, storage: Storage, ids: Ids, number: int, coords: Coords, data: bytes
    ) -> dict[str, Value]:
        row: dict[str, Value] = {"array_id": number, "coord": self.coords(coords)}
        row["length"] = len(data)
        if sum(coords) % 2:
            return row | {"inline_data": data}
        name = self.name(ids())
        storage.put(f"c/{name}", data)
        return row | {"chunk_file": name, "offset": 0}


def _numbered(rows: Sequence[Mapping[str, Value]]) -> list[dict[str, Value]]:
    return [{"id": number, **row} for number, row in enumerate(rows)]


def _g1_metadata(array: Array) -> dict[str, Value]:
    return {
        "shape": list(array.values.shape),
        "data_type": "int32",
        "fill_value": struct.pack(">i", array.fill),
        "dimension_names": None,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": {
            "name": "v2" if array.keys == "v2" else "default",
            "configuration": {"separator": _SEPARATORS[array.keys]},
        },
        "codecs": [{"name": "bytes", "configuration": b'{"endian":"little"}'}],
    }


# --- G2 and G3 ---


@dataclass(frozen=True, slots=True)
class G2:
    """A repository of G2, with one snapshot for each list of arrays."""

    extents: Measure = None
    id_text: Callable[[bytes], Value] = list
    """how ids are spelled inside files"""
    file_name: Callable[[bytes], str] = crockford
    suffix: str = ".json"
    is_message: bool = False
    """the same structs in MessagePack"""
    attribute_file: bool = False
    """attributes of arrays are in a file of their own"""

    def write(self, storage: Storage, *snapshots: Sequence[Array]) -> list[bytes]:
        """Write all of it, and tell the ids of the snapshots."""
        ids = Ids(16)
        history: list[dict[str, Value]] = []
        found: list[bytes] = []
        for number, arrays in enumerate(([], *snapshots)):
            raw = ids()
            nodes: dict[str, Value] = {}
            if arrays:
                nodes["/"] = {"id": 0, "path": "/", "user_attributes": None, "node_data": "Group"}
            for index, array in enumerate(arrays, 1):
                nodes[array.path] = self._array(storage, ids, index, array)
            message = f"commit {number}" if number else INITIAL
            own = {"id": self.id_text(raw), "message": message, "written_at": TIME}
            snapshot = {
                "metadata": own,
                "nodes": nodes,
                "properties": {},
                "short_term_history": history,
                "short_term_parents": len(history),
                "started_at": TIME,
                "total_parents": len(history),
            }
            self._put(storage, f"s/{self.file_name(raw)}", snapshot)
            ref = {"properties": {}, "snapshot": self.id_text(raw), "timestamp": TIME}
            storage.put(f"r/main/{sequence(number)}.json", json.dumps(ref).encode())
            history = [own, *history]
            found.append(raw)
        return found

    def _put(self, storage: Storage, key: str, value: Value) -> None:
        data: bytes = msgpack.packb(value) if self.is_message else json.dumps(value).encode()
        storage.put(key + self.suffix, data)

    def _array(self, storage: Storage, ids: Ids, index: int, array: Array) -> Value:
        manifests = []
        for part in array.parts():
            chunks: dict[Value, Value] = {}
            for coords, data in part.items():
                name: Value = "/".join(map(str, (index, *coords)))
                if self.is_message:
                    name = index, coords
                if sum(coords) % 2:
                    chunks[name] = {"Inline": data if self.is_message else list(data)}
                    continue
                raw = ids()
                storage.put(f"c/{self.file_name(raw)}", data)
                ref = {"id": self.id_text(raw), "offset": 0, "length": len(data)}
                chunks[name] = {"Ref": ref}
            raw = ids()
            self._put(storage, f"m/{self.file_name(raw)}", {"chunks": chunks})
            edges = [] if self.extents is None else [*self.extents([*part], array)]
            manifests.append({"object_id": self.id_text(raw), "flags": [], "extents": edges})
        metadata = {
            "shape": list(array.values.shape),
            "data_type": "int32",
            "chunk_shape": list(array.chunks),
            "chunk_key_encoding": array.keys,
            "fill_value": {"Int32": array.fill},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "storage_transformers": None,
            "dimension_names": None,
        }
        attributes: Value = {"Inline": dict(array.attributes)}
        if self.attribute_file:
            raw = ids()
            self._put(storage, f"a/{self.file_name(raw)}", [dict(array.attributes)])
            attributes = {"Ref": {"object_id": self.id_text(raw), "location": 0, "flags": []}}
        return {
            "id": index,
            "path": array.path,
            "user_attributes": attributes,
            "node_data": {"Array": [metadata, manifests]},
        }


@dataclass(frozen=True, slots=True)
class G3:
    """A repository of G3 in MessagePack, with one snapshot for each list of arrays."""

    extents: Measure = None
    header: int = 27
    """bytes: 0 for none, 27 as designed, 39 as released"""
    is_packed: bool = True
    fields: int = 11

    def write(self, storage: Storage, *snapshots: Sequence[Array]) -> list[bytes]:
        """Write all of it, and tell the ids of the snapshots."""
        ids = Ids(12)
        history: list[list[Value]] = []
        found: list[bytes] = []
        for number, arrays in enumerate(([], *snapshots)):
            raw = ids()
            files: list[Value] = []
            nodes: dict[str, Value] = {}
            if arrays:
                nodes["/"] = [0, "/", None, "Group"]
            for index, array in enumerate(arrays, 1):
                nodes[array.path] = self._array(storage, ids, index, array, files)
            own = [crockford(raw), TIME, f"commit {number}" if number else INITIAL]
            body = [files, [], len(history), len(history), history, own, TIME, {}, nodes]
            if self.fields == 11:
                body = [0, {}, *body]
            storage.put(f"snapshots/{crockford(raw)}", self.wrapped(1, body))
            ref = {"snapshot": crockford(raw)}
            storage.put(f"refs/branch.main/{sequence(number)}.json", json.dumps(ref).encode())
            history = [own, *history]
            found.append(raw)
        return found

    def wrapped(self, kind: int, body: Value) -> bytes:
        """A file of a kind."""
        data: bytes = msgpack.packb(body)
        if not self.header:
            return data
        name = WRITER.ljust(12 if self.header == 27 else 24)
        packed = zstandard.ZstdCompressor().compress(data) if self.is_packed else data
        return MAGIC + name + bytes([1, kind, int(self.is_packed)]) + packed

    def _array(
        self, storage: Storage, ids: Ids, index: int, array: Array, files: list[Value]
    ) -> Value:
        manifests = []
        for part in array.parts():
            chunks: dict[Value, Value] = {}
            for coords, data in part.items():
                if sum(coords) % 2:
                    chunks[index, coords] = {"Inline": data}
                    continue
                raw = ids()
                storage.put(f"chunks/{crockford(raw)}", data)
                chunks[index, coords] = {"Ref": [crockford(raw), 0, len(data)]}
            raw = ids()
            blob = self.wrapped(2, [0 if self.fields == 11 else 1, {}, chunks])
            storage.put(f"manifests/{crockford(raw)}", blob)
            has_size = self.fields != 11
            files.append([crockford(raw), 0, *([len(blob)] if has_size else [])])
            edges = [] if self.extents is None else [*self.extents([*part], array)]
            manifests.append([crockford(raw), edges])
        metadata = [
            list(array.values.shape),
            "int32",
            list(array.chunks),
            array.keys,
            {"Int32": array.fill},
            [["bytes", {"endian": "little"}]],
            None,
            None,
        ]
        attributes = {"Inline": dict(array.attributes)}
        return [index, array.path, attributes, {"Array": [metadata, manifests]}]
