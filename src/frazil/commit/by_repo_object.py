"""Commit protocol of v2: refs, history, status and flags in one `repo` object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace

from frazil.commit.base import (
    OVERWRITTEN,
    Publication,
    RefStore,
    refuse_main,
)
from frazil.commit.closing import require_own_status
from frazil.commit.refusals import elsewhere, gone, moved, no_ref, no_snapshot
from frazil.commit.repo_object import Edit, RepoObject, require_online
from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    FormatError,
    SessionStateError,
)
from frazil.formats.generation import V2
from frazil.formats.repo_info import decode_repo_info
from frazil.ids import SnapshotId
from frazil.model.history import (
    JSON,
    Metadata,
    Micros,
    RepoInfo,
    SnapshotEntry,
    SnapshotTable,
    StoredStatus,
    UpdateEntry,
    UpdateKind,
    UpdateType,
)
from frazil.model.outward import snapshot_infos
from frazil.model.snapshots import HistoryPage
from frazil.model.updates import CREATE_TAG, DELETE_TAG, FLAGS, MOVE_NODE, is_enabled
from frazil.model.values import SnapshotInfo


class RepoObjectRefs(RepoObject, RefStore):
    """Refs, history and all else that v2 keeps in the repo object."""

    generation = V2

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
