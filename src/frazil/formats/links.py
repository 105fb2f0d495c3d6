"""What a file refers to, read without the rest of it.

Garbage collection opens every snapshot and every manifest of a history and needs of each no
more than the names of what it uses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frazil.formats.columns import groups
from frazil.formats.envelope import FileKind, unseal
from frazil.formats.flat import U32, U64, Buffer
from frazil.formats.refs import CHUNK_ID, WIDTHS
from frazil.formats.snapshot import MANIFEST_FILE_V1
from frazil.ids import ChunkId, ManifestId
from frazil.model.history import ManifestFile


def manifest_files(blob: bytes, *, key: str) -> tuple[ManifestFile, ...]:
    """The manifests that a snapshot file lists.

    Raises:
        FormatError: the file is damaged or not a snapshot.
    """
    root = Buffer(unseal(blob, FileKind.SNAPSHOT, key=key).body, key).root()
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
        for group in groups(buffer, *array.required_vector(1, 4, "refs"), WIDTHS):
            if group.has(CHUNK_ID):
                ids = np.ascontiguousarray(group.values(CHUNK_ID, f"V{ChunkId.width}"))
                parts.append(ids.view(np.uint8).reshape(-1, ChunkId.width))
    return np.concatenate(parts)
