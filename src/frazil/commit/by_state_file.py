"""Commit protocol of G1: one state file with all refs and snapshots, swapped as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NoReturn

from frazil.commit.base import Publication, attempts, refuse_main
from frazil.commit.closing import fenced_error
from frazil.commit.file_refs import Expired, ExpiryLimit, FileRefs, no_config, refuse_newer
from frazil.commit.refusals import (
    branch_exists,
    elsewhere,
    gone,
    moved,
    no_ref,
    no_snapshot,
    tag_exists,
)
from frazil.errors import AlreadyExistsError, ConflictError, ErrorKind, InternalError, StorageError
from frazil.formats.generation import Generation
from frazil.formats.legacy import g1_state
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.g1_state import G1State, StateSnapshot, new_item, properties_of
from frazil.formats.legacy.names import bytes_of_name, id_of_name, plain_name
from frazil.formats.legacy.refs import check_ref_name
from frazil.formats.ref_files import RefKind
from frazil.ids import MAIN, ObjectId, SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, Micros, SnapshotEntry
from frazil.storage.assets import Assets
from frazil.storage.base import Storage
from frazil.storage.legacy.g1 import StateFile, VersionedState


class StateFileRefs(FileRefs):
    """Refs and history as the state file lists them."""

    names_any_file = False

    def __init__(
        self,
        storage: Storage,
        assets: Assets,
        config: RepositoryConfig,
        generation: Generation,
        file: StateFile,
    ) -> None:
        super().__init__(storage, assets)
        self.generation = generation
        self._retries = config.update_retries()
        self.file: Final = file
        """the state file itself"""

    # --- reading ---

    @property
    def state(self) -> G1State:
        """The state as it is now."""
        return self.file.read().state

    def branches(self) -> Mapping[str, SnapshotId]:
        return self._refs("branch")

    def tags(self) -> Mapping[str, SnapshotId]:
        return self._refs("tag")

    def _refs(self, kind: RefKind) -> dict[str, SnapshotId]:
        found = sorted(self.state.refs.items())
        return {name: ref.id for name, ref in found if ref.type == kind}

    def roots(self) -> set[SnapshotId]:
        """All that are listed: a snapshot lives until it expires, though no ref may lead to it."""
        return {item.id for item in self.state.snapshots}

    def heads(self) -> set[SnapshotId]:
        """Snapshots without children: a state lists all snapshots, but need not have refs."""
        listed = self.state.snapshots
        return {item.id for item in listed} - {item.parent_id for item in listed}

    def snapshot_id(self, text: str) -> SnapshotId:
        state = self.state
        if any(item.name == text for item in state.snapshots):
            return id_of_name(SnapshotId, text)
        if bytes_of_name(text) is not None:  # another spelling of the same 16 bytes
            found = id_of_name(SnapshotId, text)
            item = state.find(found)
            if item is None or bytes_of_name(item.name) != bytes_of_name(text):
                raise no_snapshot(text)
            return found
        return SnapshotId.parse(text)

    def branch_tip(self, name: str) -> SnapshotId:
        return self._target(self.state, name, "branch")

    def tag_target(self, name: str) -> SnapshotId:
        return self._target(self.state, name, "tag")

    def _target(self, state: G1State, name: str, kind: RefKind) -> SnapshotId:
        found = state.refs.get(name)
        if found is None or found.type != kind:
            raise no_ref(kind, name)
        return found.id

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        return _entry(_listed(self.state, snapshot_id))

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        state = self.state
        _listed(state, snapshot_id)
        return map(_entry, state.ancestry(snapshot_id))

    def deleted_tags(self) -> list[tuple[str, SnapshotId | None]]:
        return [(name, None) for name in self.state.deleted_tags]

    def stored_config(self) -> JSON | None:
        return None

    # --- changing ---

    def require_current(self) -> None:
        _refuse_moved(self.state)
        refuse_newer(self._storage)

    def publish(self, publication: Publication, ready: Callable[[], None] = lambda: None) -> None:
        if publication.amends:
            raise self._unsupported("amend")
        branch, base, entry = publication.branch, publication.base, publication.entry

        def change(state: G1State) -> G1State | None:
            tip = self._target(state, branch, "branch")
            if tip == entry.id:
                return None  # an earlier attempt landed; only its reply was lost
            if tip != base:
                raise moved(base, tip, branch)
            _require(state, publication.requires)
            return g1_state.add_snapshot(state, _new(state, entry), branch)

        try:
            self._edit(change, ready)
        except (ConflictError, StorageError) as error:
            if not self._landed_all_the_same(publication, error, lambda: [self.file.read().key]):
                raise

    def register_detached(
        self, entry: SnapshotEntry, requires: frozenset[SnapshotId] = frozenset()
    ) -> None:
        def change(state: G1State) -> G1State | None:
            if state.find(entry.id) is not None:
                return None
            _require(state, requires)
            added = (*state.snapshots, _new(state, entry))
            return replace(state, snapshots=added, generation=state.generation + 1)

        self._edit(change)

    def entry_key(self) -> str:
        return self.file.read().key

    def create_main(self, first: SnapshotEntry) -> bool:
        item = _item(first, None)
        name = plain_name(LegacyGeneration.G1, "snapshots", ObjectId.random())
        state = g1_state.first_state(name, item, MAIN)
        if not self.file.replaces:
            state = replace(state, commit_mode=g1_state.CLAIMS)
        return self.file.create(state)

    def create_branch(self, name: str, target: SnapshotId) -> None:
        try:
            self._create(name, "branch", target)
        except AlreadyExistsError as error:
            if error.kind == ErrorKind.TAG_ALREADY_EXISTS:
                raise
            raise branch_exists(name, self.branch_tip(name)) from error

    def create_tag(self, name: str, target: SnapshotId) -> None:
        try:
            self._create(name, "tag", target)
        except AlreadyExistsError as error:
            if error.kind == ErrorKind.BRANCH_ALREADY_EXISTS:
                raise
            raise tag_exists(name) from error

    def _create(self, name: str, kind: RefKind, target: SnapshotId) -> None:
        check_ref_name(kind, name)
        self._edit(
            lambda state: g1_state.create_ref(state, name, kind, _listed(state, target).name)
        )

    def reset_branch(
        self,
        name: str,
        target: SnapshotId,
        expected: SnapshotId | None,
        requires: frozenset[SnapshotId] = frozenset(),
    ) -> None:
        def change(state: G1State) -> G1State | None:
            wanted = _listed(state, target)
            _require(state, requires)
            tip = self._target(state, name, "branch")
            if expected is not None and tip != expected:
                raise elsewhere(name, expected, tip)
            return None if tip == target else g1_state.move_branch(state, name, wanted.name)

        self._edit(change)

    def delete_branch(self, name: str, expected: SnapshotId | None = None) -> None:
        refuse_main(name)
        self._delete(name, "branch", expected)

    def delete_tag(self, name: str) -> None:
        self._delete(name, "tag")

    def _delete(self, name: str, kind: RefKind, expected: SnapshotId | None = None) -> None:
        def change(state: G1State) -> G1State:
            found = self._target(state, name, kind)
            if expected is not None and found != expected:
                raise moved(expected, found, name)
            return g1_state.delete_ref(state, name, kind)

        self._edit(change)

    def edit_config(self, change: Callable[[JSON | None], JSON]) -> NoReturn:
        raise no_config(self.generation)

    def expire_at_once(
        self, limit: ExpiryLimit, *, branches: bool, tags: bool, dry_run: bool = False
    ) -> Expired:
        done = Expired(frozenset(), limit.before)

        def change(state: G1State) -> G1State | None:
            nonlocal done
            cutoff = limit.cutoff(_branch_times(state))
            after, done = _expired(state, cutoff, branches=branches, tags=tags)
            is_idle = dry_run or not (done.released or done.branches or done.tags)
            return None if is_idle else replace(after, generation=state.generation + 1)

        self._edit(change)
        return done

    def _edit(
        self, change: Callable[[G1State], G1State | None], ready: Callable[[], None] = lambda: None
    ) -> None:
        """Swap the state for what `change` makes of it; None leaves it as it is."""
        for _ in attempts(self._retries):
            held: VersionedState = self.file.read()
            _refuse_moved(held.state)
            state = change(held.state)
            if state is None or self.file.swap(held, state, ready):
                return
        raise InternalError("attempts ended without an error", kind=ErrorKind.UNKNOWN)


def _branch_times(state: G1State) -> Iterator[Iterator[Micros]]:
    """When the snapshots of each branch were written, newest first."""
    for ref in state.refs.values():
        if ref.type == "branch":
            yield (item.timestamp_ms * 1000 for item in state.ancestry(ref.id))


def _expired(
    state: G1State, cutoff: Micros, *, branches: bool, tags: bool
) -> tuple[G1State, Expired]:
    """A state without the snapshots that are older than a time, and what was left out."""
    limit = -(-cutoff // 1000)
    known, before = state.by_id(), state.refs
    for name, ref in before.items():
        item = known.get(ref.id)
        is_wanted = branches if ref.type == "branch" else tags
        if is_wanted and name != MAIN and item is not None and item.timestamp_ms < limit:
            state = g1_state.delete_ref(state, name, ref.type)
    state, released = g1_state.without_expired(state, limit)
    lost = sorted(before.keys() - state.refs.keys())
    return state, Expired(
        released,
        cutoff,
        tuple(name for name in lost if before[name].type == "branch"),
        tuple(name for name in lost if before[name].type == "tag"),
    )


def _listed(state: G1State, snapshot_id: SnapshotId) -> StateSnapshot:
    found = state.find(snapshot_id)
    if found is None:
        raise no_snapshot(snapshot_id)
    return found


def _require(state: G1State, snapshots: Iterable[SnapshotId]) -> None:
    """Refuse unless all these snapshots are still listed."""
    for snapshot_id in snapshots:
        if state.find(snapshot_id) is None:
            raise gone(snapshot_id)


def _new(state: G1State, entry: SnapshotEntry) -> StateSnapshot:
    return _item(entry, None if entry.parent_id is None else _listed(state, entry.parent_id))


def _item(entry: SnapshotEntry, parent: StateSnapshot | None) -> StateSnapshot:
    properties = properties_of(entry.message, entry.metadata)
    return new_item(entry.id, parent, timestamp_ms=entry.flushed_at // 1000, properties=properties)


def _entry(item: StateSnapshot) -> SnapshotEntry:
    time = item.timestamp_ms * 1000
    return SnapshotEntry(item.id, item.parent_id, time, item.message, item.metadata)


def _refuse_moved(state: G1State) -> None:
    """Refuse to write once an upgrade has begun: readers ignore the old files from then on."""
    if state.moved_to is not None:
        raise fenced_error(state.moved_to)
