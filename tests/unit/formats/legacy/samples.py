"""Snapshots, manifests and logs to write and read again, made by hand or by hypothesis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.g1_coords import BASES
from frazil.formats.legacy.header import wrap
from frazil.formats.legacy.layouts import dialect_layout
from frazil.formats.legacy.messages import pack_message
from frazil.formats.legacy.names import numbered_node
from frazil.formats.legacy.records import Ancestor, ManifestRecord, SnapshotRecord
from frazil.formats.legacy.zarr_fields import dump_json
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.history import ManifestFile, Metadata, Snapshot
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node

MESSAGE_DIALECTS: Final = tuple(
    dialect
    for dialect in Dialect
    if dialect.is_writable and dialect.generation is not LegacyGeneration.G1
)
MANIFEST_ID: Final = ManifestId(bytes(range(12)))
LOG_DIALECTS: Final = tuple(dialect for dialect in MESSAGE_DIALECTS if dialect.has_logs)

TIMES: Final = st.integers(0, 4_000_000_000 * 10**9)
CHARACTERS: Final = st.characters(codec="utf-8")
TEXTS: Final = st.text(CHARACTERS, max_size=12)
SEGMENTS: Final = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=6
).filter(lambda text: text not in (".", ".."))
JSON_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ATTRIBUTES: Final = st.dictionaries(TEXTS, JSON_VALUES, max_size=3)


def array_json(**changes: Any) -> bytes:  # noqa: ANN401 - fields of a JSON document
    """The document of a small array, in the form it is rebuilt in."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "attributes": {},
        "shape": [10, 10],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 5]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    return dumps(document | changes)


def group_json(attributes: dict[str, Any] | None = None) -> bytes:
    """The document of a group."""
    return dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes or {}})


def dumps(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def node_id(dialect: Dialect, number: int) -> NodeId:
    """The id of a node in a dialect."""
    if dialect.has_numbered_nodes:
        return numbered_node(number)
    return NodeId(bytes([7] * 7 + [number]))


def small_snapshot(dialect: Dialect) -> SnapshotRecord:
    """A snapshot with a group, an array with a manifest, and two ancestors."""
    manifest = ManifestId(bytes(range(12)))
    nodes: tuple[Node, ...] = (
        GroupNode(node_id(dialect, 1), "/", group_json({"title": "x"})),
        ArrayNode(
            node_id(dialect, 2),
            "/t",
            array_json(attributes={"u": 1}, dimension_names=["y", None]),
            (Dimension(10, 2), Dimension(10, 2)),
            ("y", None),
            (ManifestRef(manifest, ((0, 2), (0, 2))),),
        ),
    )
    size, rows = _known_sizes(dialect)
    by_parent = dialect in (Dialect.G3H, Dialect.G3I)
    parent = SnapshotId(bytes([1] * 12))
    history = (
        Ancestor(parent, 1_700_000_000_000_000_001, "first"),
        Ancestor(SnapshotId(bytes([2] * 12)), 1_600_000_000_000_000_000, "root"),
    )
    return SnapshotRecord(
        snapshot=Snapshot(
            id=SnapshotId(bytes([3] * 12)),
            parent_id=parent,
            nodes=nodes,
            flushed_at=1_800_000_000_123_456,
            message="second",
            metadata={"by": "me"},
            manifest_files=(ManifestFile(manifest, size, rows),),
        ),
        dialect=dialect,
        history=() if by_parent else history,
        total_parents=0 if by_parent else 2,
        written_at=1_800_000_000_123_456_789,
        started_at=None if by_parent else 1_800_000_000_000_000_000,
    )


def _known_sizes(dialect: Dialect) -> tuple[int, int]:
    """What a dialect keeps of the size and the number of references of a manifest."""
    if dialect in (Dialect.G3G, Dialect.G3H, Dialect.G3I):
        return 321, 4
    is_sized = dialect in (Dialect.G3D, Dialect.G3E, Dialect.G3_SEED, Dialect.G3F)
    return (321, 0) if is_sized else (0, 0)


@st.composite
def tables(draw: st.DrawFn, dialect: Dialect) -> ChunkTable:
    """References of one array."""
    ndim = draw(st.integers(0, 3))
    coords = draw(
        st.sets(
            st.tuples(*[st.integers(0, 300) | st.integers(0, 2**32 - 1)] * ndim),
            min_size=1,
            max_size=6,
        )
    )
    return ChunkTable.from_refs(ndim, [(c, draw(refs(dialect))) for c in coords])


@st.composite
def refs(draw: st.DrawFn, dialect: Dialect) -> ChunkRef:
    """A reference that a dialect can hold."""
    offset, length = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**33))
    kind = draw(st.sampled_from(["native", "inline", "virtual"]))
    if kind == "native":
        return NativeRef(ChunkId(draw(st.binary(min_size=12, max_size=12))), offset, length)
    if kind == "inline":
        return InlineRef(draw(st.binary(max_size=9)))
    checksum = None
    if dialect.has_checksums:
        checksum = draw(st.none() | st.integers(1, 2**32 - 1) | TEXTS)
    location = "s3://bucket/" + draw(TEXTS)
    return VirtualRef(location, offset, length, checksum)


FILLS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "uint64": st.integers(0, 2**64 - 1),
    "float32": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just("NaN"),
    "float64": st.floats(allow_nan=False, allow_infinity=False) | st.just("-Infinity"),
    "complex64": st.just([1.5, "NaN"]),
}


@st.composite
def array_nodes(draw: st.DrawFn, dialect: Dialect, number: int, path: str) -> ArrayNode:
    """An array that every dialect can hold, in the form it is rebuilt in."""
    axes = draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), max_size=3))
    data_type = draw(st.sampled_from(sorted(FILLS)))
    names = draw(st.none() | st.lists(st.none() | SEGMENTS, min_size=len(axes), max_size=len(axes)))
    changes: dict[str, Any] = {} if names is None else {"dimension_names": names}
    document = array_json(
        attributes=draw(ATTRIBUTES),
        shape=[length for length, _ in axes],
        chunk_grid={
            "name": "regular",
            "configuration": {"chunk_shape": [chunk for _, chunk in axes]},
        },
        data_type=data_type,
        fill_value=draw(FILLS[data_type]),
        **changes,
    )
    shape = tuple(Dimension(length, -(-length // chunk)) for length, chunk in axes)
    manifests = draw(st.lists(st.binary(min_size=12, max_size=12), max_size=2))
    grid = tuple((0, dim.num_chunks) for dim in shape)
    return ArrayNode(
        node_id(dialect, number),
        path,
        document,
        shape,
        None if names is None else tuple(names),
        tuple(ManifestRef(ManifestId(raw), grid) for raw in manifests),
    )


def rows_of(table: ChunkTable) -> list[tuple[tuple[int, ...], ChunkRef]]:
    """All references of a table, to compare with those of another."""
    return list(table.refs())


def coords_of(*rows: tuple[int, ...]) -> np.ndarray:
    """Chunk coordinates as a column."""
    return np.array(rows, np.uint32).reshape(len(rows), len(rows[0]) if rows else 0)


def encode_attributes(items: Sequence[Metadata], dialect: Dialect) -> bytes:
    """An attribute file as writers of a dialect made it."""
    layout = dialect_layout(dialect)
    if layout.is_json:
        return dump_json(list(items))
    wrapping = layout.wrapping_of(FileKind.ATTRIBUTES)
    return wrap(pack_message(list(items)), FileKind.ATTRIBUTES, wrapping)


def encode_coord(coords: Sequence[int]) -> bytes:
    """The coordinates of one chunk in `ovi1`, index by index."""
    return b"".join(map(_encode_index, coords))


def _encode_index(value: int) -> bytes:
    size = next(size for size in range(9, 0, -1) if value >= BASES[size - 1])
    payload = value - BASES[size - 1]
    if size == 9:
        return b"\xff" + payload.to_bytes(8, "big")
    leading = 0xFF << 9 - size & 0xFF
    return (payload | leading << 8 * (size - 1)).to_bytes(size, "big")


def record_of(dialect: Dialect, found: dict[NodeId, ChunkTable]) -> ManifestRecord:
    """A record to be written."""
    has_id = dialect in (Dialect.G3G, Dialect.G3H, Dialect.G3I)
    return ManifestRecord(found, dialect, MANIFEST_ID if has_id else None)
