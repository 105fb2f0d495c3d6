"""What a file refers to, read without the rest of it.

Work on whole histories opens every snapshot and every manifest, and needs of each no more than
its place in the history and the names of what it uses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.reader import U32, U64, Buffer, Table
from frazil.formats.envelope import FileKind, unseal
from frazil.formats.metadata import codec_of, read_metadata
from frazil.formats.refs import CHUNK_ID, ref_groups
from frazil.formats.snapshot import MANIFEST_FILE_V1
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.model.history import MAX_MICROS, ManifestFile, SnapshotEntry


def manifest_files(blob: bytes, *, key: str) -> tuple[ManifestFile, ...]:
    """The manifests that a snapshot file lists.

    Raises:
        FormatError: the file is damaged or not a snapshot.
    """
    return _manifest_files(Buffer(unseal(blob, FileKind.SNAPSHOT, key=key).body, key).root())


def snapshot_links(blob: bytes, *, key: str) -> tuple[SnapshotEntry, tuple[ManifestFile, ...]]:
    """What history records of a snapshot file that names its parent, and its manifests.

    Raises:
        FormatError: the file is damaged or not a snapshot.
    """
    envelope = unseal(blob, FileKind.SNAPSHOT, key=key)
    buffer = Buffer(envelope.body, key)
    root = buffer.root()
    parent = root.struct_bytes(1, 12)
    flushed_at = root.number(3, U64)
    if flushed_at > MAX_MICROS:
        raise buffer.fail("impossible time")
    entry = SnapshotEntry(
        id=SnapshotId(root.required_bytes(0, 12, "id")),
        parent_id=None if parent is None else SnapshotId(parent),
        flushed_at=flushed_at,
        message=root.required_text(4, "message"),
        metadata=read_metadata(root, 5, codec_of(envelope.spec, key), "metadata"),
    )
    return entry, _manifest_files(root)


def _manifest_files(root: Table) -> tuple[ManifestFile, ...]:
    old = map(MANIFEST_FILE_V1.unpack, root.structs(6, MANIFEST_FILE_V1.size, "manifest_files"))
    new = (
        (table.required_bytes(0, 12, "id"), table.number(1, U64), table.number(2, U32))
        for table in root.tables(7)
    )
    return tuple(
        ManifestFile(ManifestId(name), size, count)
        for files in (old, new)
        for name, size, count in files
    )


def native_chunk_ids(blob: bytes, *, key: str) -> npt.NDArray[np.uint8]:
    """The chunk objects that a manifest file refers to, (n, 12); repeated ones repeat.

    Raises:
        FormatError: the file is damaged or not a manifest.
    """
    buffer = Buffer(unseal(blob, FileKind.MANIFEST, key=key).body, key)
    parts = [np.zeros((0, ChunkId.width), np.uint8)]
    for array in buffer.root().tables(1, "arrays"):
        for group in ref_groups(buffer, *array.required_vector(1, 4, "refs")):
            if group.has(CHUNK_ID):
                ids = np.ascontiguousarray(group.values(CHUNK_ID, f"V{ChunkId.width}"))
                parts.append(ids.view(np.uint8).reshape(-1, ChunkId.width))
    return np.concatenate(parts)
