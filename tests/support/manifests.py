"""Ways into manifests that only tests need."""

from __future__ import annotations

from frazil.flatbuf.reader import Buffer
from frazil.formats.envelope import FileKind, unseal
from frazil.formats.refs import find_ref
from frazil.ids import NodeId
from frazil.model.chunks import ChunkRef
from frazil.model.config import ManifestVirtualChunkLocationCompressionConfig
from frazil.model.nodes import Coordinates
from frazil.model.settings import record


@record
class Compression(ManifestVirtualChunkLocationCompressionConfig):
    """Settings of location compression that ask for it however few chunks there are."""

    def __init__(self, min_num_chunks: int | None = 0, **others: int | None) -> None:
        super().__init__(min_num_chunks, **others)


def search_bytes(blob: bytes, node: NodeId, coords: Coordinates, *, key: str) -> ChunkRef | None:
    """Find a chunk in the bytes of a manifest, however small it is."""
    buffer = Buffer(unseal(blob, FileKind.MANIFEST, key=key).body, key)
    root = buffer.root()
    for array in root.tables(1, "arrays"):
        if array.required_bytes(0, 8, "node_id") == node:
            start, count = array.required_vector(1, 4, "refs")
            return find_ref(buffer, start, count, coords, root.blob(2) or b"")
    return None
