"""Names of files of old generations that do not follow from ids."""

from __future__ import annotations

from typing import Final, cast

from frazil.errors import FormatError
from frazil.formats.legacy.names import Kind
from frazil.formats.legacy.records import Names
from frazil.ids import ChunkId, ManifestId, ObjectId, SnapshotId

CLASSES: Final[dict[Kind, type[ObjectId]]] = {
    "snapshots": SnapshotId,
    "manifests": ManifestId,
    "chunks": ChunkId,
    "transactions": SnapshotId,
}


class NameBook:
    """Names of ids for which they do not follow from the id.

    They are recorded while files that mention them are read. Names that no file mentioned are
    looked up in a listing.
    """

    def __init__(self) -> None:
        self._names: dict[Kind, dict[ObjectId, str]] = {kind: {} for kind in CLASSES}
        self._files: dict[tuple[Kind, ObjectId], str] = {}

    def name(self, kind: Kind, id: ObjectId) -> str | None:
        """What files call an id, if it was recorded."""
        return self._names[kind].get(id)

    def file(self, kind: Kind, id: ObjectId) -> str | None:
        """The file name that a listing had for an id, if it was an unexpected one."""
        return self._files.get((kind, id))

    def note(self, kind: Kind, id: ObjectId, name: str) -> None:
        """Note what files call an id.

        Raises:
            FormatError: they call it otherwise too, so that two objects would have one name.
        """
        known = self._names[kind].setdefault(id, name)
        if known != name:
            raise FormatError("two objects whose names lead to one id", names=(known, name))

    def note_file(self, kind: Kind, id: ObjectId, file: str) -> None:
        """Note under which file name an object was found."""
        self._files[kind, id] = file

    def note_all(self, names: Names) -> None:
        """Note the names that a file mentions."""
        for snapshot, name in names.snapshots.items():
            self.note("snapshots", snapshot, name)
        for manifest, name in names.manifests.items():
            self.note("manifests", manifest, name)
        for chunk, name in names.chunks.items():
            self.note("chunks", chunk, name)

    def names(self) -> Names:
        """All names that were recorded."""
        return Names(
            cast("dict[SnapshotId, str]", self._names["snapshots"]),
            cast("dict[ManifestId, str]", self._names["manifests"]),
            cast("dict[ChunkId, str]", self._names["chunks"]),
        )
