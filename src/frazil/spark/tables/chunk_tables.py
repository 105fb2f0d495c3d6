"""Metadata tables with a row per chunk or per manifest, made as columns from manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.ids import ManifestId, NodeId, SnapshotId, crockford_many
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.nodes import ArrayNode
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.tables.schemas import LONG, LONGS, TEXT, TIME, struct
from frazil.storage.assets import CHUNKS as CHUNK_PREFIX
from frazil.storage.assets import manifest_key

ROWS: Final = 65_536
PARTS: Final = 200
"""The largest number of partitions of such a table."""

CHUNKS: Final = struct(
    node_path=TEXT,
    chunk_index=LONGS,
    kind=TEXT,
    location=TEXT,
    offset=LONG,
    length=LONG,
    etag=TEXT,
    last_modified=TIME,
    manifest=TEXT,
)
MANIFESTS: Final = struct(
    path=TEXT,
    length=LONG,
    node_path=TEXT,
    extents_start=LONGS,
    extents_end=LONGS,
    chunk_refs_count=LONG,
    native_count=LONG,
    virtual_count=LONG,
    inline_count=LONG,
    referenced_bytes=LONG,
)
_KINDS: Final = {
    int(ChunkType.native): "native",
    int(ChunkType.virtual): "virtual",
    int(ChunkType.inline): "inline",
}


@dataclass(frozen=True, slots=True)
class Part:
    """The references of one array in one manifest."""

    path: str
    node_id: NodeId
    manifest_id: ManifestId
    size_bytes: int


def parts_of_snapshot(_: Repository, session: Session) -> list[Part]:
    """The parts that a snapshot is made of."""
    files = session.state.manifest_files
    return [
        Part(node.path, node.id, ref.id, files[ref.id].size_bytes if ref.id in files else 0)
        for node in session.state.arrays()
        for ref in node.manifests
    ]


def parts_of_history(repository: Repository, _: Session) -> list[Part]:
    """The parts of everything that a branch or a tag leads to, each once."""
    refs, assets = repository.context.refs, repository.context.assets
    seen: set[SnapshotId] = set()
    found: dict[tuple[NodeId, ManifestId], Part] = {}
    for tip in {*refs.branches().values(), *refs.tags().values()}:
        for entry in refs.ancestry(tip):
            if entry.id in seen:
                break  # the rest is shared with a history already walked
            seen.add(entry.id)
            snapshot = assets.snapshot(entry.id)
            sizes = {file.id: file.size_bytes for file in snapshot.manifest_files}
            for node in snapshot.nodes:
                if isinstance(node, ArrayNode):
                    for ref in node.manifests:
                        part = Part(node.path, node.id, ref.id, sizes.get(ref.id, 0))
                        found.setdefault((node.id, ref.id), part)
    return list(found.values())


def grouped(parts: list[Part]) -> list[tuple[Part, ...]]:
    """Parts put together into not too many partitions; those of one manifest stay neighbours."""
    if not parts:
        return []
    ordered = sorted(parts, key=lambda part: (part.manifest_id, part.path))
    per = -(-len(ordered) // PARTS)
    return [tuple(ordered[at : at + per]) for at in range(0, len(ordered), per)]


def load(session: Session, part: Part) -> ChunkTable | None:
    """The references of a part."""
    return session.state.context.assets.manifest(part.manifest_id, part.size_bytes).table(
        part.node_id
    )


def chunk_batches(session: Session, part: Part) -> Iterator[pa.RecordBatch]:
    """The chunks of a part."""
    table = load(session, part)
    if table is None:
        return
    expand = session.state.context.containers.expand
    locations = pa.array([expand(location) for location in table.locations], pa.string())
    etags = pa.array(list(table.etags), pa.string())
    for start in range(0, len(table), ROWS):
        yield _chunk_batch(table.take(slice(start, start + ROWS)), part, locations, etags)


def _chunk_batch(
    table: ChunkTable, part: Part, locations: pa.Array, etags: pa.Array
) -> pa.RecordBatch:
    n = len(table)
    schema = arrow_schema(CHUNKS)
    kinds = pa.array([_KINDS.get(number) for number in range(max(_KINDS) + 1)])
    is_inline = table.kind == ChunkType.inline
    times = table.last_modified.astype(np.int64) * 1_000_000
    arrays = [
        pa.repeat(part.path, n),
        index_lists(table.coords, schema.field("chunk_index").type),
        kinds.take(pa.array(table.kind.astype(np.int64))),
        _locations(table, locations),
        pa.array(table.offset.astype(np.int64), mask=is_inline),
        pa.array(table.length.astype(np.int64)),
        etags.take(pa.array(table.etag, mask=np.asarray(table.etag < 0))),
        pa.array(times.view("M8[us]"), mask=np.asarray(table.last_modified == 0)).cast(
            pa.timestamp("us", tz="UTC")
        ),
        pa.repeat(manifest_key(part.manifest_id), n),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _locations(table: ChunkTable, locations: pa.Array) -> pa.Array:
    """Where bytes are: a key of the repository, somebody's file, or nowhere but the manifest."""
    is_native = table.kind == ChunkType.native
    virtual = locations.take(pa.array(table.location, mask=np.asarray(table.location < 0)))
    if not is_native.any():
        return virtual
    names = crockford_many(np.ascontiguousarray(table.chunk_id[is_native]))
    keys = pa.array([CHUNK_PREFIX + name for name in names], pa.string())
    if is_native.all():
        return keys
    places = np.cumsum(is_native) - 1
    native = keys.take(pa.array(places, mask=~is_native))
    return pc.coalesce(native, virtual)


def index_lists(coords: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Rows of numbers as an array of lists."""
    n, width = coords.shape
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * width, pa.int32())
    flat = pa.array(np.ascontiguousarray(coords).reshape(-1).astype(np.int64))
    return pa.ListArray.from_arrays(offsets, flat, type=kind)


def manifest_batches(session: Session, part: Part) -> Iterator[pa.RecordBatch]:
    """One row for a part."""
    table = load(session, part)
    if table is None:
        return
    counts = np.bincount(table.kind, minlength=max(_KINDS) + 1)
    row = {
        "path": manifest_key(part.manifest_id),
        "length": part.size_bytes,
        "node_path": part.path,
        "extents_start": [low for low, _ in table.extents],
        "extents_end": [high for _, high in table.extents],
        "chunk_refs_count": len(table),
        "native_count": int(counts[ChunkType.native]),
        "virtual_count": int(counts[ChunkType.virtual]),
        "inline_count": int(counts[ChunkType.inline]),
        "referenced_bytes": int(table.length.sum()),
    }
    yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(MANIFESTS))
