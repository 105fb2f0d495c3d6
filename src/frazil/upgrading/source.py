"""An old repository as an upgrade reads it: refs, history, and the files themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from frazil.commit.base import MAIN
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_state_file import StateFileRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import FormatError, SnapshotNotFoundError
from frazil.formats.legacy.codec import decode_ref
from frazil.formats.legacy.names import plain_name
from frazil.formats.legacy.records import LegacyGeneration
from frazil.formats.legacy.ref_names import check_ref_name, parse_ref_key
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.fencing import OldRefs
from frazil.model.history import Micros
from frazil.storage.base import Storage
from frazil.storage.legacy.files import LegacyFiles
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.legacy.objects import legacy_files
from frazil.transaction.context import Context
from frazil.upgrading.records import cannot


@dataclass(frozen=True, slots=True)
class Link:
    """What the order of conversion needs of a snapshot."""

    id: SnapshotId
    parent_id: SnapshotId | None
    written_at: Micros
    is_empty: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The repository that is to be upgraded."""

    context: Context
    files: LegacyFiles
    refs: FileRefs

    @property
    def place(self) -> Storage:
        """Where its entry point is, and where the new files go."""
        return self.context.place

    @property
    def age(self) -> LegacyGeneration:
        """Its generation."""
        return self.files.age

    @property
    def shares_folders(self) -> bool:
        """Whether its files are where those of spec 1 are."""
        return self.files.names_are_ids

    # --- refs ---

    def read_refs(self) -> OldRefs:
        """All refs as they are now; those that an upgrade has changed already, as they were.

        Raises:
            FormatError: there is no main branch.
            InvalidInputError: a ref has a name that the new repository cannot have.
        """
        deleted = dict(self.refs.deleted_tags())
        found = OldRefs(dict(self.refs.branches()), self._tags(), deleted)
        if MAIN not in found.branches:
            raise FormatError("the repository has no main branch", url=self.place.url)
        for name in found.branches:
            check_ref_name("branch", name)
        for name in (*found.tags, *found.deleted_tags):
            for part in name.split("/"):
                check_ref_name("tag", part)
        return found

    def _tags(self) -> dict[str, SnapshotId]:
        tags = dict(self.refs.tags())
        if not isinstance(self.refs, NumberedRefs) or not self.shares_folders:
            return tags
        layout = self.refs.layout
        for item in self.place.list(PRESERVED + layout.root):
            key = item.key.removeprefix(PRESERVED)
            known = parse_ref_key(self.age, key, encoded=layout.encoded)
            blob = self.place.get(item.key)
            if known is not None and known.kind == "tag" and known.name in tags and blob:
                tags[known.name] = decode_ref(blob, key=item.key, generation=self.age).snapshot
        return tags

    def tips(self, refs: OldRefs) -> set[SnapshotId]:
        """The snapshots from which all others are found."""
        found = {*refs.branches.values(), *refs.tags.values()}
        return found | self.refs.roots() if isinstance(self.refs, StateFileRefs) else found

    # --- history ---

    def history(
        self, tips: Iterable[SnapshotId], known: dict[SnapshotId, Link]
    ) -> dict[SnapshotId, Link]:
        """The snapshots that some tips descend from, parents before children.

        Those in `known` are not read again.

        Raises:
            SnapshotNotFoundError: one of them is missing.
            FormatError: they descend from each other in a circle.
        """
        ordered: dict[SnapshotId, Link] = {}
        for tip in sorted(tips):
            chain: dict[SnapshotId, Link] = {}
            current: SnapshotId | None = tip
            while current is not None and current not in ordered:
                if current in chain:
                    raise FormatError("history runs in a circle", snapshot=current)
                chain[current] = known.get(current) or self._link(current)
                current = chain[current].parent_id
            ordered.update(reversed(chain.items()))
        return ordered

    def _link(self, id: SnapshotId) -> Link:
        snapshot = self.files.snapshot(id)
        if snapshot is None:
            raise SnapshotNotFoundError("a snapshot of the history is missing", snapshot=id)
        return Link(id, snapshot.parent_id, snapshot.flushed_at, not snapshot.nodes)

    def root_of(self, refs: OldRefs, history: dict[SnapshotId, Link]) -> SnapshotId | None:
        """The first snapshot of main, if it has no nodes: new repositories give it a fixed id."""
        root = refs.branches[MAIN]
        while (parent := history[root].parent_id) is not None:
            root = parent
        if root != INITIAL_SNAPSHOT_ID and INITIAL_SNAPSHOT_ID in history:
            return None
        return root if history[root].is_empty else None

    def stored_id(self, id: SnapshotId) -> str:
        """How the old files spell the id of a snapshot."""
        if isinstance(self.refs, StateFileRefs):
            item = self.refs.state.find(id)
            return str(id) if item is None else item.name
        name = self.files.names.name("snapshots", id)
        return name or plain_name(self.age, "snapshots", id)


def source_of(context: Context) -> Source:
    """The old repository that a context is of.

    Raises:
        SessionStateError: it is none.
    """
    files = legacy_files(context.storage)
    if files is None or not isinstance(context.refs, FileRefs):
        raise cannot("this repository is not from before spec version 1")
    return Source(context, files, context.refs)
