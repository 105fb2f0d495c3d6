"""An old repository as an upgrade reads it, what an upgrade is asked for, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_state_file import StateFileRefs
from frazil.commit.file_refs import FileRefs
from frazil.drawing.reports import ReportView
from frazil.errors import (
    ErrorKind,
    FormatError,
    InvalidInputError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.formats.generation import BY_SPEC, Generation
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.header import is_flat
from frazil.formats.legacy.names import plain_name
from frazil.formats.legacy.refs import check_ref_name, decode_ref, parse_ref_key
from frazil.ids import INITIAL_SNAPSHOT_ID, MAIN, SnapshotId
from frazil.maintenance.upgrade import RefSet
from frazil.model.history import Micros, Snapshot
from frazil.model.nodes import ArrayNode
from frazil.storage.assets import MANIFESTS, log_key, manifest_key, snapshot_key
from frazil.storage.base import Fetched, LostRace, Storage
from frazil.storage.legacy.files import LegacyFiles
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.legacy.objects import LegacyAssets
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

LEGACY_ID: Final = "legacy_snapshot_id"
"""The property that tells how a snapshot was called before, if its id has changed."""
LEGACY_CHUNKS: Final = "legacy-chunks"
"""The name of the virtual chunk container that reads chunk objects where they always were."""


class ChunkMode(StrEnum):
    """What becomes of chunk objects that cannot stay under their names."""

    LINK = "link"
    """a second name for a file, or a copy that the store makes itself"""
    COPY = "copy"
    """a copy, also on a disk"""
    VIRTUAL = "virtual"
    """they stay, and are referred to as objects of a virtual chunk container"""

    @classmethod
    def of(cls, text: str) -> ChunkMode:
        """The mode of a name."""
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(cls)
            raise InvalidInputError(f"chunks are dealt with by one of {known}: not by {text!r}",
                                    kind=ErrorKind.NOT_ALLOWED) from None  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class UpgradeReport(ReportView):
    """What an upgrade found and did, or would do."""

    url: str
    from_generation: str
    dialect: str
    """the byte layout of the last commit"""
    to_spec: int
    mode: str
    branches: int
    tags: int
    deleted_tags: int
    snapshots: int
    renamed_snapshots: int
    """those whose ids are others than in the old files"""
    manifests: int
    """those to be written, one for each array and old manifest"""
    references: int
    dropped_references: int
    """of other arrays or outside the grid, which old writers left behind"""
    logs_made: int
    """transaction logs that no file had"""
    chunks: int
    """objects to be linked or copied"""
    chunk_bytes: int
    missing_chunks: int
    """referred to, but not there; they stay missing"""
    applied: bool


@dataclass(frozen=True, slots=True, repr=False)
class TidyReport(ReportView):
    """What undoing an upgrade, or cleaning up after one, did or would do."""

    url: str
    generation: str
    restored: int
    """files of the old generation that are put back"""
    deleted: int
    deleted_bytes: int
    applied: bool


def target_generation(to: int) -> Generation:
    """The generation of a spec version that can be upgraded to."""
    if to not in BY_SPEC:
        raise InvalidInputError(
            f"repositories can be upgraded to spec version 1 or 2, not {to}",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    return BY_SPEC[to]


def marker(target: Generation) -> str:
    """The text of a fence that names the new generation."""
    return f"spec-v{target.spec}"


def cannot(message: str, **facts: object) -> SessionStateError:
    """The error for an upgrade that is impossible in the present state."""
    return SessionStateError(message, kind=ErrorKind.INVALID_REPOSITORY_MIGRATION, **facts)


@dataclass(frozen=True, slots=True)
class SnapshotLink:
    """A snapshot and its parent: what the order of conversion needs of it."""

    id: SnapshotId
    parent_id: SnapshotId | None
    written_at: Micros
    is_empty: bool


@dataclass(frozen=True, slots=True)
class UpgradeSource:
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

    def read_refs(self) -> RefSet:
        """All refs as they are now; those that an upgrade has changed already, as they were.

        Raises:
            FormatError: there is no main branch.
            InvalidInputError: a ref has a name that the new repository cannot have.
        """
        deleted = dict(self.refs.deleted_tags())
        found = RefSet(dict(self.refs.branches()), self._tags(), deleted)
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

    def tips(self, refs: RefSet) -> set[SnapshotId]:
        """The snapshots from which all others are found."""
        found = {*refs.branches.values(), *refs.tags.values()}
        return found | self.refs.roots() if isinstance(self.refs, StateFileRefs) else found

    # --- history ---

    def history(
        self, tips: Iterable[SnapshotId], known: dict[SnapshotId, SnapshotLink]
    ) -> dict[SnapshotId, SnapshotLink]:
        """The snapshots that some tips descend from, parents before children.

        Those in `known` are not read again.

        Raises:
            SnapshotNotFoundError: one of them is missing.
            FormatError: they descend from each other in a circle.
        """
        ordered: dict[SnapshotId, SnapshotLink] = {}
        for tip in sorted(tips):
            chain: dict[SnapshotId, SnapshotLink] = {}
            current: SnapshotId | None = tip
            while current is not None and current not in ordered:
                if current in chain:
                    raise FormatError("history runs in a circle", snapshot=current)
                chain[current] = known.get(current) or self._link(current)
                current = chain[current].parent_id
            ordered.update(reversed(chain.items()))
        return ordered

    def snapshot(self, id: SnapshotId) -> Snapshot:
        """A snapshot of the history."""
        found = self.files.snapshot(id)
        if found is None:
            raise SnapshotNotFoundError("a snapshot of the history is missing", snapshot=id)
        return found

    def _link(self, id: SnapshotId) -> SnapshotLink:
        snapshot = self.snapshot(id)
        return SnapshotLink(id, snapshot.parent_id, snapshot.flushed_at, not snapshot.nodes)

    def root_of(self, refs: RefSet, history: dict[SnapshotId, SnapshotLink]) -> SnapshotId | None:
        """The first snapshot of main, if it has no nodes: new repositories give it a fixed id."""
        root = refs.branches[MAIN]
        while (parent := history[root].parent_id) is not None:
            root = parent
        if root != INITIAL_SNAPSHOT_ID and INITIAL_SNAPSHOT_ID in history:
            return None
        return root if history[root].is_empty else None

    def stored_id(self, id: SnapshotId) -> str:
        """The id of a snapshot as the old files spell it."""
        if isinstance(self.refs, StateFileRefs):
            item = self.refs.state.find(id)
            return str(id) if item is None else item.name
        name = self.files.names.name("snapshots", id)
        return name or plain_name(self.age, "snapshots", id)


def source_of(context: Context) -> UpgradeSource:
    """The old repository that a context is of."""
    assets, refs = context.assets, context.refs
    if not isinstance(assets, LegacyAssets) or not isinstance(refs, FileRefs):
        raise cannot("this repository is not from before spec version 1")
    return UpgradeSource(context, assets.files, refs)


# --- files of G3 that are kept ---


def preserve(place: Storage, keys: Iterable[str]) -> None:
    """Keep copies of files, unless they are files of the new generation already, or missing.

    What was preserved before may be older: expiry rewrites snapshots.
    """

    def one(key: str) -> str | None:
        if key.startswith(MANIFESTS):
            # They are never rewritten, and their successors have other keys.
            if place.head(PRESERVED + key) is not None or place.head(key) is None:
                return None
            place.duplicate(key, PRESERVED + key)
        else:
            found = place.fetch(key)
            if not isinstance(found, Fetched) or is_flat(found.data):
                return None
            _keep(place, key, found)
        return PRESERVED + key

    kept = fan_out(one, [*keys])
    place.make_durable([key for key in kept if key is not None])


def changed_files(source: UpgradeSource, ids: Iterable[SnapshotId]) -> Iterator[str]:
    """The files of some snapshots that are overwritten, or would look like garbage later."""
    if not source.shares_folders:
        return
    seen: set[str] = set()
    for id in ids:
        yield snapshot_key(id)
        yield log_key(id)
        snapshot = source.files.snapshot(id)
        for node in snapshot.nodes if snapshot is not None else ():
            if isinstance(node, ArrayNode):
                found = {manifest_key(ref.id) for ref in node.manifests} - seen
                seen |= found
                yield from sorted(found)


def preserved_keys(place: Storage) -> list[str]:
    """The kept copies, by the keys of the originals."""
    return [item.key.removeprefix(PRESERVED) for item in place.list(PRESERVED)]


def restore_original(place: Storage, key: str, hold: Callable[[], None]) -> None:
    """Restore a file; `hold` says right before that this may be done."""
    original, now = place.get(PRESERVED + key), place.get(key)
    if original is None:
        return
    if original != now:
        hold()
        place.put(key, original)
    place.make_durable([key])  # also if another process put it there, and was killed


def keep_once(place: Storage, key: str, found: Fetched) -> None:
    """Keep a file that an upgrade is about to change, unless that was done before."""
    if place.head(PRESERVED + key) is None:
        _keep(place, key, found)
        place.make_durable([PRESERVED + key])


def _keep(place: Storage, key: str, found: Fetched) -> None:
    """Keep a file as it was read: another process may have replaced it since."""
    if isinstance(place.copy_if(key, PRESERVED + key, found.version), LostRace):
        place.put(PRESERVED + key, found.data)
