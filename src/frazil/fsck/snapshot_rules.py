"""The rules of one snapshot file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from frazil.errors import InvalidInputError
from frazil.flatbuf.reader import Table
from frazil.formats.snapshot import MANIFEST_FILE_V1
from frazil.formats.zarr_meta import ArrayMeta, GroupMeta, parse_node
from frazil.fsck.files import CheckedFile, ascends, metadata_order
from frazil.fsck.findings import REPORTED_NODES, Code, Finding
from frazil.ids import ManifestId, NodeId, SnapshotId, parent_path
from frazil.model.history import Snapshot
from frazil.model.nodes import ArrayNode, Extents, GroupNode, Node, overlap
from frazil.storage.assets import manifest_key, snapshot_key

MANY_MANIFESTS: Final = 2000
"""Manifests of an array among which overlaps are looked for pair by pair."""


@dataclass(frozen=True, slots=True)
class ManifestUse:
    """How a snapshot uses a manifest for one of its arrays."""

    node_id: NodeId
    path: str
    extents: Extents
    grid: tuple[int, ...]
    size_bytes: int
    num_chunk_refs: int
    document: bytes = b""
    """zarr.json, where chunks are to be decoded"""


def check_snapshot_name(snapshot_id: SnapshotId, read: CheckedFile[Snapshot]) -> Iterator[Finding]:
    """Check that a snapshot can be read, and is the one of its name."""
    yield from read.findings
    if read.content is not None and read.content.id != snapshot_id:
        detail = f"it says that it is {read.content.id}"
        yield Finding(Code.SNAPSHOT_ID, snapshot_key(snapshot_id), detail)


def check_snapshot_file(snapshot_id: SnapshotId, read: CheckedFile[Snapshot]) -> Iterator[Finding]:
    """Check a snapshot by itself."""
    key, snapshot = snapshot_key(snapshot_id), read.content
    yield from check_snapshot_name(snapshot_id, read)
    if snapshot is None:
        return
    if read.root is not None:
        yield from _layout(read.root, read.spec, key)
        yield from metadata_order(read.root, 5, key)
    yield from _nodes(snapshot, read.spec, key)
    yield from _manifests(snapshot, key)


def uses_of(snapshot: Snapshot, *, documents: bool) -> Iterator[tuple[ManifestId, ManifestUse]]:
    """What a snapshot says of each manifest that its arrays need."""
    files = {file.id: file for file in snapshot.manifest_files}
    for node in snapshot.nodes:
        if not isinstance(node, ArrayNode):
            continue
        for ref in node.manifests:
            file = files.get(ref.id)
            yield (
                ref.id,
                ManifestUse(
                    node.id,
                    node.path,
                    ref.extents,
                    node.grid,
                    file.size_bytes if file else -1,
                    file.num_chunk_refs if file else -1,
                    node.user_data if documents else b"",
                ),
            )


def _layout(root: Table, spec: int, key: str) -> Iterator[Finding]:
    """Fields that belong to the other spec version."""
    if spec == 1:
        if root.at(7) is not None:
            yield Finding(Code.SNAPSHOT_LAYOUT, key, "a list of manifests as spec 2 has it")
        return
    if root.at(1) is not None:
        yield Finding(Code.SNAPSHOT_LAYOUT, key, "a parent, which from spec 2 on repo alone knows")
    if root.structs(6, MANIFEST_FILE_V1.size):
        yield Finding(Code.SNAPSHOT_LAYOUT, key, "a list of manifests as spec 1 has it")


# --- nodes ---


def _nodes(snapshot: Snapshot, spec: int, key: str) -> Iterator[Finding]:
    by_path: dict[str, Node] = {node.path: node for node in snapshot.nodes}
    by_id: dict[NodeId, str] = {}
    reported: dict[Code, int] = {}
    for node in snapshot.nodes:
        for finding in _node(node, spec, key, by_path, by_id):
            reported[finding.code] = reported.get(finding.code, 0) + 1
            if reported[finding.code] <= REPORTED_NODES:
                yield finding
        by_id[node.id] = node.path


def _node(
    node: Node, spec: int, key: str, by_path: dict[str, Node], by_id: dict[NodeId, str]
) -> Iterator[Finding]:
    path = node.path
    if node.id in by_id:
        yield Finding(Code.NODE_ID, key, f"{by_id[node.id]} has the same id", path)
    if path != "/":
        above = by_path.get(parent_path(path))
        if above is None:
            yield Finding(Code.NODE_ORPHAN, key, f"{parent_path(path)} is not there", path)
        elif isinstance(above, ArrayNode):
            yield Finding(Code.NODE_INSIDE_ARRAY, key, f"{above.path} is an array", path)
    try:
        meta = parse_node(node.user_data, spec=spec)
    except InvalidInputError as error:
        yield Finding(Code.NODE_METADATA, key, str(error), path)
        return
    match node, meta:
        case GroupNode(), GroupMeta():
            return
        case ArrayNode(), ArrayMeta():
            yield from _array(node, meta, key)
        case _:
            kind = "a group" if isinstance(node, GroupNode) else "an array"
            yield Finding(Code.NODE_KIND, key, f"the node is {kind}", path)


def _array(node: ArrayNode, meta: ArrayMeta, key: str) -> Iterator[Finding]:
    if node.shape != meta.shape:
        found = [(dim.array_length, dim.num_chunks) for dim in node.shape]
        wanted = [(dim.array_length, dim.num_chunks) for dim in meta.shape]
        detail = f"lengths and chunks are {found}, by zarr.json {wanted}"
        yield Finding(Code.NODE_SHAPE, key, detail, node.path)
    if node.dimension_names != meta.dimension_names:
        detail = f"they are {node.dimension_names}, by zarr.json {meta.dimension_names}"
        yield Finding(Code.NODE_DIMENSION_NAMES, key, detail, node.path)
    for ref in node.manifests:
        beyond = any(
            end > max(count, 1) for (_, end), count in zip(ref.extents, node.grid, strict=True)
        )
        if beyond:
            detail = f"{manifest_key(ref.id)} covers {box_text(ref.extents)} of {list(node.grid)}"
            yield Finding(Code.EXTENTS_OUTSIDE, key, detail, node.path)
    if len(node.manifests) <= MANY_MANIFESTS:
        for one, other in combinations(node.manifests, 2):
            if overlap(one.extents, other.extents):
                detail = f"{manifest_key(one.id)} and {manifest_key(other.id)}"
                yield Finding(Code.EXTENTS_OVERLAP, key, detail, node.path)


def box_text(extents: Extents) -> str:
    """What a manifest covers, for a message."""
    return "[" + ", ".join(f"{start}:{end}" for start, end in extents) + "]"


# --- manifests ---


def _manifests(snapshot: Snapshot, key: str) -> Iterator[Finding]:
    listed = [file.id for file in snapshot.manifest_files]
    if not ascends(listed):
        yield Finding(Code.MANIFEST_FILE_ORDER, key)
    known, used = set(listed), set[ManifestId]()
    for node in snapshot.nodes:
        if isinstance(node, ArrayNode):
            for ref in node.manifests:
                used.add(ref.id)
                if ref.id not in known:
                    yield Finding(Code.MANIFEST_UNLISTED, key, manifest_key(ref.id), node.path)
    for one in sorted(known - used)[:REPORTED_NODES]:
        yield Finding(Code.MANIFEST_UNUSED, key, manifest_key(one))
