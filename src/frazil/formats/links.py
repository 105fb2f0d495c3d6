"""What a file refers to, read without the rest of it.

Work on whole histories opens every snapshot and every manifest, and needs of each no more than
its place in the history and the names of what it uses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.reader import Buffer
from frazil.formats.envelope import FileKind, unseal
from frazil.formats.refs import CHUNK_ID, ref_groups
from frazil.formats.snapshot import read_entry, read_manifest_files
from frazil.ids import ChunkId
from frazil.model.history import ManifestFile, SnapshotEntry


def manifest_files(blob: bytes, *, key: str) -> tuple[ManifestFile, ...]:
    """The manifests that a snapshot file lists.

    Raises:
        FormatError: the file is damaged or not a snapshot.
    """
    return tuple(read_manifest_files(Buffer(unseal(blob, FileKind.SNAPSHOT, key=key).body, key)))


def snapshot_links(blob: bytes, *, key: str) -> tuple[SnapshotEntry, tuple[ManifestFile, ...]]:
    """What history records of a snapshot file that names its parent, and its manifests.

    Raises:
        FormatError: the file is damaged or not a snapshot.
    """
    envelope = unseal(blob, FileKind.SNAPSHOT, key=key)
    buffer = Buffer(envelope.body, key)
    return read_entry(buffer, envelope.spec), tuple(read_manifest_files(buffer))


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
