"""The common part of commit protocols in which snapshot files name their parents."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from frazil.commit.base import Publication, RefStore, has_landed
from frazil.commit.closing import upgraded_meanwhile
from frazil.commit.refusals import elsewhere, gone, no_snapshot
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    FrazilError,
    RefNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.formats.generation import Generation
from frazil.formats.ref_files import branch_key
from frazil.formats.repo_info import REPO_KEY
from frazil.ids import MAIN, SnapshotId
from frazil.model.history import Micros, SnapshotEntry
from frazil.storage.assets import Assets
from frazil.storage.base import Storage


@dataclass(frozen=True, slots=True)
class ExpiryLimit:
    """Which snapshots are old: those before a time, but for the last ones of each branch.

    Branches are looked at when the history is cut, so that one that was made a moment ago counts.
    """

    before: Micros
    retain_last: int = 1

    def cutoff(self, histories: Iterable[Iterable[Micros]]) -> Micros:
        """The time before which snapshots go.

        `histories` are those of branches, newest first, without snapshots that stay anyway.
        """
        if self.retain_last == 1:  # the tip of a branch stays anyway
            return self.before
        # All snapshots of a branch that has fewer than these stay, so its oldest one counts.
        oldest = (deque(islice(times, self.retain_last), maxlen=1) for times in histories)
        return min((self.before, *(time for found in oldest for time in found)))


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry has taken, or would take, out of the history."""

    released: frozenset[SnapshotId]
    cutoff: Micros
    """the time before which snapshots went"""
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovedBranch:
    """A branch that was just moved, and the snapshots that this relies on."""

    base: SnapshotId
    """where it was"""
    new: SnapshotId
    parent: SnapshotId | None
    """of the new tip, when it was written"""
    requires: frozenset[SnapshotId]


class FileRefs(RefStore):
    """Refs kept in files of some kind, history through the parent links of snapshot files."""

    names_any_file = True
    """whether a ref can be made to any snapshot file, not only to listed ones"""

    def __init__(self, storage: Storage, assets: Assets) -> None:
        self._storage = storage
        self._assets = assets

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        found = self._assets.snapshot(snapshot_id)
        return found.entry(found.parent_id)

    def is_there(self, snapshot_id: SnapshotId) -> bool:
        return self._assets.has_snapshot(snapshot_id)

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        return self._walk(self.entry(snapshot_id))

    def _walk(self, entry: SnapshotEntry) -> Iterator[SnapshotEntry]:
        seen: set[SnapshotId] = set()
        while True:
            yield entry
            seen.add(entry.id)
            if entry.parent_id is None:
                return
            if entry.parent_id in seen:
                raise FormatError("history runs in a circle", snapshot=entry.id)
            entry = self.entry(entry.parent_id)

    def roots(self) -> set[SnapshotId]:
        """The snapshots whose histories must stay."""
        return {*self.branches().values(), *self.tags().values()}

    def present_roots(self) -> set[SnapshotId]:
        """The same, for a collection that deletes everything else.

        Raises:
            ConflictError: the repository is of another generation by now, and its refs elsewhere.
            FormatError: there is none, so that everything would be deleted.
        """
        found = self.roots()
        self.require_current()  # afterwards: an upgrade deletes refs only once the new ones exist
        if not found:
            raise no_roots()
        return found

    def expire_at_once(
        self, limit: ExpiryLimit, *, branches: bool, tags: bool, dry_run: bool = False
    ) -> Expired | None:
        """Release all that is old in one step; None where files must be rewritten.

        `branches` and `tags` tell whether refs to such snapshots are deleted; main stays.
        """
        return None

    def require_tag_deletion(self) -> None:
        """Refuse to delete tags if the format has no way to record that."""
        if not self.generation.deletes_tags:
            raise FormatError(
                f"repositories of {self.generation.title} cannot delete tags",
                kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
            )

    @abstractmethod
    def entry_key(self) -> str:
        """The key of the file that tells where the main branch is."""

    @abstractmethod
    def create_main(self, first: SnapshotEntry) -> bool:
        """Create the main branch; False means that a repository exists already."""

    def deleted_tags(self) -> list[tuple[str, SnapshotId | None]]:
        """Tombstoned tags and what they pointed to."""
        return []

    @abstractmethod
    def require_current(self) -> None:
        """Refuse when the repository is of another generation than this handle by now."""

    def _require_standing(self) -> None:
        """The same for a new ref, which a concurrent upgrade may not have seen."""
        self.require_current()

    def require_online(self) -> None:
        """Repositories without status are always online, if they can be written at all."""
        self.require_current()
        if not self.generation.is_writable:
            raise FormatError(
                "the files of this repository are in a form that can be read but not continued;"
                " upgrade it first",
                kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
                dialect=self.generation.dialect,
            )

    def _landed_all_the_same(
        self,
        publication: Publication,
        error: FrazilError,
        keys: Callable[[], Iterable[str]],
    ) -> bool:
        """Check whether a commit that failed, or lost a race, has taken effect all the same.

        A reply may have been lost, and others may have committed on top since. `keys` are the
        objects that then must be durable.

        Raises:
            StorageError: the outcome is unknown, so the session must remember the commit.
        """
        try:
            landed = has_landed(self, publication.branch, publication.entry.id, publication.base)
            self._storage.make_durable(keys() if landed else [])
        except FrazilError as failure:
            is_told = isinstance(failure, ConflictError | RefNotFoundError)
            if is_told or isinstance(error, StorageError):
                raise error from None
            raise StorageError(
                "the history could not be read, so it is unknown whether this commit took effect; "
                "commit again to find out",
                kind=ErrorKind.OBJECT_STORE,
                snapshot=publication.entry.id,
            ) from failure
        return landed

    def _require_kept(self, snapshots: Iterable[SnapshotId]) -> None:
        """Refuse unless storage, not only a cache, still has the files of these snapshots."""
        for snapshot_id in snapshots:
            if not self._assets.has_snapshot(snapshot_id):
                raise gone(snapshot_id)

    def _confirm(self, move: MovedBranch, take_back: Callable[[], None]) -> None:
        """Check again after a branch was moved, and move it back if a snapshot is gone.

        No list of snapshots is replaced together with the branch. So the snapshots that a move
        requires are looked for before the move and again after it. A collection deletes snapshot
        files first, then reads the refs, then deletes chunks: at least one of the two notices the
        other.

        Raises:
            SnapshotNotFoundError: a snapshot that the move requires was collected meanwhile.
        """
        try:
            self._require_kept(move.requires)
        except SnapshotNotFoundError as error:
            if self._was_seen(move):
                return
            try:
                take_back()
            except (ConflictError, RefNotFoundError, StorageError) as failure:
                error.add_note(f"what was published could not be taken back: {failure}")
            raise

    def _confirm_made(self, target: SnapshotId, take_back: Callable[[], bool]) -> None:
        """Check again after a ref was created, and delete it if its snapshot is gone.

        `take_back` gives False when the ref is not as it was made. Then it has been seen: an
        upgrade has taken it over, or a purge has moved it to what replaces its snapshot.

        Raises:
            SnapshotNotFoundError: its snapshot was collected meanwhile.
            ConflictError: the repository was upgraded meanwhile, without this ref.
        """
        try:
            self._require_kept([target])
            self._require_standing()
        except (SnapshotNotFoundError, ConflictError):
            if take_back():
                raise

    def _was_seen(self, move: MovedBranch) -> bool:
        """Whether a garbage collection saw the moved branch, and so kept what it refers to.

        Only then could the previous tip be collected, or the new one get another parent.
        """
        if not self._assets.has_snapshot(move.new):
            return False
        return (
            not self._assets.has_snapshot(move.base)
            or self._assets.stored_snapshot(move.new).parent_id != move.parent
        )

    def _require_snapshot(self, snapshot_id: SnapshotId) -> None:
        try:
            self._assets.snapshot(snapshot_id)
        except SnapshotNotFoundError as error:
            raise no_snapshot(snapshot_id) from error


class BranchFileRefs(FileRefs):
    """Refs that are stored one by one: a commit writes only the files of its branch."""

    @abstractmethod
    def _move(
        self,
        branch: str,
        base: SnapshotId,
        new: SnapshotId,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Move a branch from `base` to `new`, once `ready` has returned."""

    @abstractmethod
    def _keys_of(self, branch: str) -> list[str]:
        """The files that tell where a branch is."""

    def _reset(self, name: str, tip: SnapshotId, target: SnapshotId) -> None:
        self._move(name, tip, target)

    def publish(self, publication: Publication, ready: Callable[[], None] = lambda: None) -> None:
        if publication.amends:
            raise self._unsupported("amend")
        branch, base, new = publication.branch, publication.base, publication.entry.id
        self._require_kept(publication.requires)
        try:
            self._move(branch, base, new, ready)
        except (ConflictError, StorageError) as error:
            if not self._landed_all_the_same(publication, error, lambda: self._keys_of(branch)):
                raise
        made = MovedBranch(base, new, publication.entry.parent_id, publication.requires)
        self._confirm(made, lambda: self._move(branch, new, base))

    def reset_branch(
        self,
        name: str,
        target: SnapshotId,
        expected: SnapshotId | None,
        requires: frozenset[SnapshotId] = frozenset(),
    ) -> None:
        self.require_online()
        self._require_snapshot(target)
        self._require_kept(requires)
        tip = self.branch_tip(name)
        if expected is not None and tip != expected:
            raise elsewhere(name, expected, tip)
        if tip != target:
            self._reset(name, tip, target)
            made = MovedBranch(tip, target, self.entry(target).parent_id, requires | {target})
            self._confirm(made, lambda: self._move(name, target, tip))

    def register_detached(
        self, entry: SnapshotEntry, requires: frozenset[SnapshotId] = frozenset()
    ) -> None:
        """Only check what the snapshot needs: there is no list of snapshots to add it to.

        Its file exists already. A collection or a purge looks for new snapshot files after it has
        moved old ones aside, so at least one of the two notices the other.
        """
        parent = () if entry.parent_id is None else (entry.parent_id,)
        self._require_kept({*requires, *parent})


def refuse_newer(storage: Storage, *, than_spec_1: bool = True) -> None:
    """Refuse to write files of an older generation, which readers ignore, beside a newer one."""
    keys = [REPO_KEY]
    if than_spec_1:
        keys.append(branch_key(MAIN, encoded=storage.percent_encodes_names))
    if any(storage.head(key) is not None for key in keys):
        raise upgraded_meanwhile(storage)


def no_config(generation: Generation) -> FormatError:
    """The error for a generation that cannot store a configuration."""
    return FormatError(
        f"repositories of {generation.title} cannot keep a configuration; "
        "give it whenever you open this one",
        kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
    )


def no_roots() -> FormatError:
    """The error for a collection that finds neither branch nor tag."""
    return FormatError(
        "nothing is deleted: the repository has neither branches nor tags, by which all of it "
        "would be garbage"
    )
