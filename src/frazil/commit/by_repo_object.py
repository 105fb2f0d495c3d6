"""Commit protocol of v2: one `repo` object is replaced by compare-and-swap.

The object that is replaced is first copied below `overwritten/`, which keeps the operations log
complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from frazil.commit.base import (
    MAIN,
    OVERWRITTEN,
    Publication,
    RefStore,
    attempts,
    backup_name,
    check_clock,
    create_object,
    later_than,
    now_micros,
    refuse_main,
)
from frazil.commit.base import REPO_KEY as REPO_KEY
from frazil.commit.closing import require_own_status
from frazil.commit.refusals import elsewhere, gone, moved, no_ref, no_snapshot
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    FrazilError,
    ReadOnlyError,
    RepositoryNotFoundError,
    SessionStateError,
    StorageError,
)
from frazil.formats.generation import V2
from frazil.formats.repo_info import decode_repo_info, encode_repo_info, write_repo_info
from frazil.ids import SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.history import (
    JSON,
    Metadata,
    Micros,
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    SnapshotTable,
    StoredStatus,
    UpdateEntry,
    UpdateKind,
    UpdateLog,
    UpdateType,
    with_update,
)
from frazil.model.outward import snapshot_infos
from frazil.model.snapshots import HistoryPage
from frazil.model.updates import CREATE_TAG, DELETE_TAG, FLAGS, MOVE_NODE, is_enabled
from frazil.model.values import SnapshotInfo
from frazil.storage.assets import file_attributes
from frazil.storage.base import Fetched, LostRace, Storage, Unchanged, Version, Written


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the repo object: what happened, and the fields that differ."""

    kind: UpdateKind
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A write of the repo object, known by the name it gave to its backup."""

    backup: str
    time: Micros

    def is_in(self, info: RepoInfo) -> bool:
        """Tell whether this write is part of the history of a repo object.

        Each entry of the operations log names the backup that the next write made, so a write
        is found by the name of its backup.
        """
        log = info.latest_updates
        for row in range(len(log)):
            line = log[row]
            if line.backup_path == self.backup:
                return True
            if line.updated_at < self.time:
                return False
        return info.repo_before_updates == self.backup


def create_repo_object(storage: Storage, info: RepoInfo, level: int) -> Written | LostRace:
    """Write the first repo object; losing means that a repository exists already."""
    blob = encode_repo_info(info, level=level)
    return create_object(storage, REPO_KEY, blob, file_attributes("repo-info", 2))


class RepoObjectRefs(RefStore):
    """Refs, history and all else that v2 keeps in the repo object."""

    generation = V2

    def __init__(
        self,
        storage: Storage,
        config: RepositoryConfig,
        known: tuple[Version, RepoInfo] | None = None,
    ) -> None:
        self._storage = storage
        self._level = config.compression_level()
        self._retries = config.update_retries()
        self._log_limit = config.updates_per_repo_info_file()
        self._known = known

    # --- the object itself ---

    def info(self) -> RepoInfo:
        """The repo object as it is now."""
        return self._read()[1]

    def _read(self) -> tuple[Version, RepoInfo]:
        """Read the object, or learn that it is still the one we know."""
        known = self._known
        found = self._storage.fetch(REPO_KEY, known[0] if known else None)
        match found:
            case Unchanged():
                assert known is not None
                return known
            case Fetched(data, version):
                fresh = (version, decode_repo_info(data, key=REPO_KEY))
                self._known = fresh
                return fresh
            case None:
                raise RepositoryNotFoundError("the repo object is gone", url=self._storage.url)

    def edit(
        self,
        change: Callable[[RepoInfo], Edit | None],
        *,
        any_status: bool = False,
        ready: Callable[[], None] | None = None,
        trusts_known: bool = False,
    ) -> None:
        """Apply a pure change until it wins; the change may run many times.

        Nothing is written to the object before `ready` has returned. A caller that passes `ready`
        has compared the clock of this machine with the store's. With `trusts_known` the object is
        not read again before the first attempt, only after a refused write.

        `change` gets the present state and returns None when there is nothing to do. It takes
        effect once, also when the reply to a write is lost and others have written since.
        """
        lost: _Replacement | None = None
        known = self._known if trusts_known else None
        tries = attempts(self._retries)
        while True:
            try:
                next(tries)
            except ConflictError:
                if lost is not None and lost.is_in(self.info()):
                    return  # our write took effect; only its reply was lost
                raise
            trusted, known = known, None
            version, info = trusted or self._read()
            if lost is not None and lost.is_in(info):
                return
            try:
                if not any_status:
                    require_online(info)
                edit = change(info)
            except FrazilError:
                if trusted is None:
                    raise
                continue  # refuse only by the present state, not by a cached one
            if edit is None:
                return
            lost = self._replace(version, info, edit, ready)
            if lost is None:
                return

    def _replace(
        self, version: Version, info: RepoInfo, edit: Edit, ready: Callable[[], None] | None
    ) -> _Replacement | None:
        """Write the changed object; None says that it is there."""
        began = now_micros()
        now = later_than(UpdateLog.of(info.latest_updates).newest_at)
        ours = _Replacement(backup_name(REPO_KEY, now), now)
        new = with_update(info, edit.kind, now, ours.backup, self._log_limit, **edit.fields)
        blob, new = write_repo_info(new, level=self._level)
        if isinstance(
            self._storage.copy_if(REPO_KEY, OVERWRITTEN + ours.backup, version), LostRace
        ):
            self._known = None
            return ours
        if ready is None:
            check_clock(self._time_at(OVERWRITTEN + ours.backup), began)
        try:
            outcome = self._storage.put_when(
                REPO_KEY, blob, version, ready or _nothing, file_attributes("repo-info", 2)
            )
        except StorageError as error:
            self._known = None
            if not self._has_landed(ours, error):
                raise
            return None
        match outcome:
            case Written(written):
                self._known = (written, new)
                return None
            case LostRace():
                self._known = None
                return ours

    def _time_at(self, fresh: str) -> datetime:
        """The store's time; an object that was just copied tells it with one request."""
        # On local disk a copy is a second name, which has the time of the first.
        seen = None if self._storage.answers_inline else self._storage.head(fresh)
        return self._storage.clock() if seen is None else seen.created_at

    def _has_landed(self, ours: _Replacement, error: StorageError) -> bool:
        """See whether a write that failed has taken effect all the same."""
        try:
            _, info = self._read()
            self._storage.make_durable([REPO_KEY])
        except StorageError:
            raise error from None
        return ours.is_in(info)

    # --- reading ---

    def branches(self) -> Mapping[str, SnapshotId]:
        return self.info().branches

    def tags(self) -> Mapping[str, SnapshotId]:
        return self.info().tags

    def branch_tip(self, name: str) -> SnapshotId:
        return _branch(self.info(), name)

    def tag_target(self, name: str) -> SnapshotId:
        found = self.info().tags.get(name)
        if found is None:
            raise no_ref("tag", name)
        return found

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        return _entry(self.info(), snapshot_id)

    def entry_as_known(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        if self._known is not None and snapshot_id in self._known[1].snapshots:
            return self._known[1].snapshots[snapshot_id]
        return self.entry(snapshot_id)

    def tip_as_known(self, branch: str) -> SnapshotId | None:
        return None if self._known is None else self._known[1].branches.get(branch)

    def require_known(self, snapshot_id: SnapshotId) -> None:
        # A caller that has just asked for a branch has read the object that names its tip.
        if self._known is None or snapshot_id not in self._known[1].snapshots:
            self.entry(snapshot_id)

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        return (entry for page in self._pages(snapshot_id) for entry in page.entries)

    def history(self, snapshot_id: SnapshotId) -> Iterator[SnapshotInfo]:
        return snapshot_infos(self._pages(snapshot_id))

    def last_before(self, snapshot_id: SnapshotId, limit: Micros) -> SnapshotId | None:
        return self._snapshots_with(snapshot_id).last_before(snapshot_id, limit)

    def _pages(self, snapshot_id: SnapshotId) -> Iterator[HistoryPage]:
        return self._snapshots_with(snapshot_id).pages(snapshot_id)

    def _snapshots_with(self, snapshot_id: SnapshotId) -> SnapshotTable:
        snapshots = self.info().snapshots
        if snapshot_id not in snapshots:
            raise no_snapshot(snapshot_id)
        return snapshots

    def stored_config(self) -> JSON | None:
        return self.info().config

    # --- changing ---

    def require_online(self) -> None:
        require_online(self.info())

    def writable_tip(self, branch: str) -> SnapshotId:
        info = self.info()
        require_online(info)
        return _branch(info, branch)

    def publish(self, publication: Publication, ready: Callable[[], None] = lambda: None) -> None:
        entry, branch = publication.entry, publication.branch

        def change(info: RepoInfo) -> Edit | None:
            tip = _branch(info, branch)
            if entry.id in info.snapshots:
                return None  # an earlier attempt landed; only its reply was lost
            if tip != publication.base:
                raise moved(publication.base, tip, branch)
            _require(info, publication.requires)
            kind: UpdateKind = UpdateType.NewCommit(branch, entry.id)
            if publication.amends:
                kind = UpdateType.CommitAmended(branch, tip, entry.id)
            branches = {**info.branches, branch: entry.id}
            return Edit(kind, {"snapshots": info.snapshots.with_entry(entry), "branches": branches})

        # A publication has just read the object. Where reading it costs a request, it is read
        # again only after a lost race.
        self.edit(change, ready=ready, trusts_known=not self._storage.answers_inline)

    def register_detached(
        self, entry: SnapshotEntry, requires: frozenset[SnapshotId] = frozenset()
    ) -> None:
        def change(info: RepoInfo) -> Edit | None:
            if entry.id in info.snapshots:
                return None
            _require(info, requires)
            return Edit(
                UpdateType.NewDetachedSnapshot(entry.id),
                {"snapshots": info.snapshots.with_entry(entry)},
            )

        self.edit(change)

    def create_branch(self, name: str, target: SnapshotId) -> None:
        def change(info: RepoInfo) -> Edit:
            if name in info.branches:
                raise AlreadyExistsError(
                    f"branch {name!r} already exists", kind=ErrorKind.BRANCH_ALREADY_EXISTS
                )
            _entry(info, target)
            return Edit(
                UpdateType.BranchCreated(name),
                {"branches": {**info.branches, name: target}},
            )

        self.edit(change)

    def reset_branch(
        self,
        name: str,
        target: SnapshotId,
        expected: SnapshotId | None,
        requires: frozenset[SnapshotId] = frozenset(),
    ) -> None:
        def change(info: RepoInfo) -> Edit:
            tip = _branch(info, name)
            _entry(info, target)
            _require(info, requires)
            if expected is not None and tip != expected:
                raise elsewhere(name, expected, tip)
            return Edit(
                UpdateType.BranchReset(name, tip),
                {"branches": {**info.branches, name: target}},
            )

        self.edit(change)

    def delete_branch(self, name: str, expected: SnapshotId | None = None) -> None:
        refuse_main(name)

        def change(info: RepoInfo) -> Edit:
            tip = _branch(info, name)
            if expected is not None and tip != expected:
                raise moved(expected, tip, name)
            rest = {other: id_ for other, id_ in info.branches.items() if other != name}
            return Edit(UpdateType.BranchDeleted(name, tip), {"branches": rest})

        self.edit(change)

    def create_tag(self, name: str, target: SnapshotId) -> None:
        def change(info: RepoInfo) -> Edit:
            require_flag(CREATE_TAG, info.enabled_feature_flags, info.disabled_feature_flags)
            if name in info.deleted_tags:
                raise AlreadyExistsError(
                    f"tag {name!r} was deleted before, and tag names cannot be used again",
                    kind=ErrorKind.TAG_PREVIOUSLY_DELETED,
                )
            if name in info.tags:
                raise AlreadyExistsError(
                    f"tag {name!r} already exists", kind=ErrorKind.TAG_ALREADY_EXISTS
                )
            _entry(info, target)
            return Edit(UpdateType.TagCreated(name), {"tags": {**info.tags, name: target}})

        self.edit(change)

    def delete_tag(self, name: str) -> None:
        def change(info: RepoInfo) -> Edit:
            require_flag(DELETE_TAG, info.enabled_feature_flags, info.disabled_feature_flags)
            target = info.tags.get(name)
            if target is None:
                raise no_ref("tag", name)
            rest = {other: id_ for other, id_ in info.tags.items() if other != name}
            return Edit(
                UpdateType.TagDeleted(name, target),
                {"tags": rest, "deleted_tags": info.deleted_tags | {name}},
            )

        self.edit(change)

    def edit_config(self, change: Callable[[JSON | None], JSON]) -> None:
        self.edit(lambda info: Edit(UpdateType.ConfigChanged(), {"config": change(info.config)}))

    # --- abilities of the repo object ---

    def status(self) -> StoredStatus:
        return self.info().status

    def set_status(self, status: StoredStatus) -> None:
        def change(info: RepoInfo) -> Edit:
            require_own_status(info)
            return Edit(UpdateType.RepoStatusChanged(status), {"status": status})

        self.edit(change, any_status=True)

    def metadata(self) -> Metadata:
        return self.info().metadata

    def set_metadata(self, metadata: Metadata, *, merge: bool) -> Metadata:
        result: Metadata = metadata

        def change(info: RepoInfo) -> Edit:
            nonlocal result
            result = {**info.metadata, **metadata} if merge else dict(metadata)
            return Edit(UpdateType.MetadataChanged(), {"metadata": result})

        self.edit(change)
        return result

    def flags(self) -> tuple[frozenset[int], frozenset[int]]:
        info = self.info()
        return info.enabled_feature_flags or frozenset(), info.disabled_feature_flags or frozenset()

    def set_flag(self, flag: int, value: bool | None) -> None:
        def change(info: RepoInfo) -> Edit:
            enabled = (info.enabled_feature_flags or frozenset()) - {flag}
            disabled = (info.disabled_feature_flags or frozenset()) - {flag}
            if value is True:
                enabled |= {flag}
            elif value is False:
                disabled |= {flag}
            return Edit(
                UpdateType.FeatureFlagChanged(flag, value),
                {"enabled_feature_flags": enabled, "disabled_feature_flags": disabled},
            )

        self.edit(change)

    def updates(self) -> Iterator[UpdateEntry]:
        info = self.info()
        yield from info.latest_updates
        while info.repo_before_updates is not None:
            name = info.repo_before_updates
            blob = self._storage.get(OVERWRITTEN + name)
            if blob is None:
                return  # backups may be cleaned away; the log then ends here
            older = decode_repo_info(blob, key=OVERWRITTEN + name)
            if not older.latest_updates:
                raise FormatError("a backup has no operations log", key=OVERWRITTEN + name)
            newest, *rest = older.latest_updates
            if newest.updated_at >= info.latest_updates[-1].updated_at:
                raise FormatError("the operations log runs in a circle", key=OVERWRITTEN + name)
            # In that backup this entry was the newest, which names no backup.
            yield replace(newest, backup_path=name)
            yield from rest
            info = older


def _nothing() -> None:
    """What a write waits for when there is nothing to wait for."""


def _branch(info: RepoInfo, name: str) -> SnapshotId:
    found = info.branches.get(name)
    if found is None:
        raise no_ref("branch", name)
    return found


def _entry(info: RepoInfo, snapshot_id: SnapshotId) -> SnapshotEntry:
    found = info.snapshots.get(snapshot_id)
    if found is None:
        raise no_snapshot(snapshot_id)
    return found


def _require(info: RepoInfo, snapshots: Set[SnapshotId]) -> None:
    """Refuse unless all these snapshots are still known."""
    for snapshot_id in snapshots:
        if snapshot_id not in info.snapshots:
            raise gone(snapshot_id)


def require_online(info: RepoInfo) -> None:
    """Refuse changes unless the repository is online."""
    status = info.status
    if status.availability != RepoAvailability.online:
        reason = f": {status.reason}" if status.reason else ""
        raise ReadOnlyError(
            f"repository status is {status.availability.name.replace('_', '-')}{reason}",
            kind=ErrorKind.READ_ONLY_REPOSITORY,
        )


def require_flag(flag: int, enabled: Set[int] | None, disabled: Set[int] | None) -> None:
    """Refuse an action whose feature flag is off."""
    if not is_enabled(flag, enabled, disabled):
        raise SessionStateError(
            "this action is switched off by a feature flag of the repository",
            kind=ErrorKind.FEATURE_FLAG_DISABLED,
            flag=FLAGS[flag],
        )


def require_moves(refs: RefStore) -> None:
    """Refuse to move nodes where the flag for that is off; before spec 2 there are no flags."""
    if isinstance(refs, RepoObjectRefs):
        require_flag(MOVE_NODE, *refs.flags())


def first_repo_info(entry: SnapshotEntry, table: SnapshotTable, config: JSON | None) -> RepoInfo:
    """The repo object of a repository that has just been created."""
    now = now_micros()
    return RepoInfo(
        spec_version=2,
        tags={},
        branches={MAIN: entry.id},
        deleted_tags=frozenset(),
        snapshots=table,
        status=StoredStatus(RepoAvailability.online, now),
        metadata={},
        latest_updates=UpdateLog.of([UpdateEntry(UpdateType.RepoInitialized(), now)]),
        config=config,
    )
