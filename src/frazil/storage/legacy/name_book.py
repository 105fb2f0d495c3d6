"""Which names the objects of an old repository have.

Names that we give follow from ids. Others are noted down as files that mention them are read,
and what nobody mentioned is looked for in a listing.
"""

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
    """Names of ids for which they do not follow from the id."""

    def __init__(self) -> None:
        self._names: dict[Kind, dict[ObjectId, str]] = {kind: {} for kind in CLASSES}
        self._files: dict[tuple[Kind, ObjectId], str] = {}

    def name(self, kind: Kind, id: ObjectId) -> str | None:
        """What files call an id, if that was noted down."""
        return self._names[kind].get(id)

    def file(self, kind: Kind, id: ObjectId) -> str | None:
        """The file name that a listing had for an id, if it was an unexpected one."""
        return self._files.get((kind, id))

    def note(self, kind: Kind, id: ObjectId, name: str) -> None:
        """Note what files call an id.

        Raises:
            FormatError: they call it otherwise too, so that two objects cannot be told apart.
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
        """All names that were noted down."""
        return Names(
            cast("dict[SnapshotId, str]", self._names["snapshots"]),
            cast("dict[ManifestId, str]", self._names["manifests"]),
            cast("dict[ChunkId, str]", self._names["chunks"]),
        )
