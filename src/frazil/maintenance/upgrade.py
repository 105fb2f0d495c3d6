"""From v1 to v2: everything refs and history know goes into a repo object.

No snapshot, manifest or chunk is touched. First there is a repo object that takes no changes,
so that clients of version 2 wait. Then every ref file is fenced, which stops those of version 1;
what they have committed until then is in the repo object that takes changes, which comes last.
An upgrade may be interrupted anywhere and run again.

A file that was a ref gets a content that no client of version 1, ours or the official one, can
commit upon: it names a snapshot that does not exist. Each file is replaced only in the version that
was read, so that a commit comes either before its fence, and is taken over, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from frazil.commit.base import attempts, create_object, later_than
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.closing import UNDER_WAY, being_undone, is_under_way, taken_over
from frazil.commit.config_file import CONFIG_KEY
from frazil.commit.repo_object import create_repo_object
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InternalError,
    ReadOnlyError,
    RepositoryNotFoundError,
    SessionStateError,
    StorageError,
)
from frazil.formats.generation import V1, V2
from frazil.formats.ref_files import (
    REFS,
    TOMBSTONE,
    Fence,
    branch_key,
    decode_fence,
    decode_ref,
    encode_fence,
    parse_ref_key,
    tag_key,
    tombstone_key,
)
from frazil.formats.repo_info import REPO_KEY, decode_repo_info, encode_repo_info, snapshot_table
from frazil.ids import MAIN, SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.reconstructed_log import RefLineages, synthetic_log
from frazil.maintenance.tuning import FILES_AT_ONCE
from frazil.model.config import StorageRetriesSettings
from frazil.model.history import (
    JSON,
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    UpdateLog,
    UpdateType,
)
from frazil.storage.assets import file_attributes, snapshot_key
from frazil.storage.base import JSON_FILE, Fetched, LostRace, Storage, Written
from frazil.storage.legacy.opening import find_legacy
from frazil.transaction.context import Context

RETRIES: Final = StorageRetriesSettings()


@dataclass(frozen=True, slots=True)
class RefSet:
    """Branches, tags and deleted tags of a repository at one moment."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId | None]


def fence_refs(storage: Storage) -> RefSet:
    """Fence all ref files of version 1, and tell what they said last."""
    seen: set[str] = set()
    while True:
        # Refs that are made meanwhile are found by looking again.
        keys = {item.key for item in storage.list(REFS)}
        if keys == seen:
            return read_fenced(storage)
        seen = keys
        encoded = storage.percent_encodes_names
        refs = sorted({parse_ref_key(key, encoded=encoded) for key in keys})
        for kind, name in sorted(refs, key=lambda ref: ref != ("branch", MAIN)):
            if kind == "branch":
                fence_branch(storage, branch_key(name, encoded=encoded))
            else:
                # A tag never moves; it can only be deleted, by creating this file.
                key = tombstone_key(name, encoded=encoded)
                create_object(storage, key, encode_fence(Fence.UPGRADED, None), JSON_FILE)
                seen.add(key)


def fence_branch(storage: Storage, key: str, why: Fence = Fence.UPGRADED) -> None:
    """Let a ref file lead nowhere, and tell what it said.

    Raises:
        ConflictError: it is fenced for another reason.
    """
    for _ in attempts(RETRIES):
        found = storage.fetch(key)
        if not isinstance(found, Fetched):
            return
        match decode_fence(found.data):
            case None:
                content = encode_fence(why, decode_ref(found.data, key=key))
            case (Fence.UNDONE, _) if why is not Fence.UNDONE:
                raise being_undone(storage)
            case (Fence.UPGRADED, _) if why is not Fence.UPGRADED:
                raise taken_over(storage, key)
            case _:
                return
        if not isinstance(storage.put_if(key, content, found.version, JSON_FILE), LostRace):
            return


def read_fenced(storage: Storage) -> RefSet:
    """What ref files of version 1 say, or said before they were fenced."""
    encoded = storage.percent_encodes_names
    keys = (item.key for item in storage.list(REFS))
    branches: dict[str, SnapshotId] = {}
    tags: dict[str, SnapshotId] = {}
    deleted: dict[str, SnapshotId | None] = {}
    for kind, name in sorted({parse_ref_key(key, encoded=encoded) for key in keys}):
        if kind == "branch":
            tip = _target(storage, branch_key(name, encoded=encoded))
            if tip is not None:
                branches[name] = tip
            continue
        target = _target(storage, tag_key(name, encoded=encoded))
        tombstone = storage.get(tombstone_key(name, encoded=encoded))
        if tombstone is not None and decode_fence(tombstone) is None:
            deleted[name] = target
        elif target is not None:
            tags[name] = target
    return RefSet(branches, tags, deleted)


def _target(storage: Storage, key: str) -> SnapshotId | None:
    blob = storage.get(key)
    if blob is None:
        return None
    fence = decode_fence(blob)
    if fence is None:
        return decode_ref(blob, key=key)
    return None if fence[0] is Fence.DELETED else fence[1]


UPGRADE: Final = ErrorKind.INVALID_REPOSITORY_MIGRATION


def upgrade_v1_to_v2(
    context: Context,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> None:
    """Make a v1 repository a v2 one; open it anew afterwards.

    A dry run does everything but writing. An interrupted upgrade is finished. Without
    `delete_unused_v1_files` the files of the refs stay, but clients refuse them.

    Raises:
        SessionStateError: there is nothing to upgrade.
        ReadOnlyError: the storage cannot be written to.
        ConflictError: the repository kept changing, or another process has just upgraded it.
    """
    if not context.storage.can_write:
        raise ReadOnlyError(
            "cannot upgrade: the storage is read-only", kind=ErrorKind.READ_ONLY_STORAGE
        )
    at_once = prefetch_concurrency or FILES_AT_ONCE
    match context.refs:
        case RefFileRefs() as refs:
            info = plan_repo_object(context, refs, read_fenced(context.storage), at_once)
            if dry_run:
                return
            _announce(context, info)
        case RepoObjectRefs() as refs:
            if not is_under_way(refs.info()):
                _check_leftovers(context, refs.info())
            if dry_run:
                return
        case _:
            raise SessionStateError("only a version 1 repository can be upgraded", kind=UPGRADE)
    new = _take_over(context, at_once)
    if delete_unused_v1_files:
        _delete_old_files(context, new)


def _announce(context: Context, info: RepoInfo) -> None:
    """Create a read-only repo object."""
    status = StoredStatus(RepoAvailability.read_only, info.status.set_at, UNDER_WAY)
    level = context.config.compression_level()
    made = create_repo_object(context.storage, replace(info, status=status), level)
    if isinstance(made, LostRace):
        raise ConflictError(
            message="another process has upgraded this repository; open it again",
            kind=ErrorKind.REPO_INFO_UPDATED,
        )


def _take_over(context: Context, at_once: int) -> RepoObjectRefs:
    """Fence the refs of version 1, and copy what they said last to the repo object."""
    storage, config = context.storage, context.config
    old = RefFileRefs(storage, context.assets, config)
    for _ in attempts(config.update_retries()):
        found = storage.fetch(REPO_KEY)
        if not isinstance(found, Fetched):
            raise RepositoryNotFoundError("the repo object is gone", url=storage.url)
        if not is_under_way(decode_repo_info(found.data, key=REPO_KEY)):
            return RepoObjectRefs(storage, config)
        info = plan_repo_object(context, old, fence_refs(storage), at_once)
        blob = encode_repo_info(info, level=config.compression_level())
        attributes = file_attributes("repo-info", V2.spec)
        written = storage.put_if(REPO_KEY, blob, found.version, attributes)
        if isinstance(written, Written):
            return _with_late_config(old, info, RepoObjectRefs(storage, config))
    raise InternalError("attempts ended without an error")


def _with_late_config(old: RefFileRefs, info: RepoInfo, new: RepoObjectRefs) -> RepoObjectRefs:
    """Take over a configuration that was stored while the refs were fenced.

    What was stored in the repo object since is newer.
    """
    late = old.stored_config()
    if late is not None and late != info.config:
        new.edit_config(lambda now: late if now is None or now == info.config else now)
    return new


def plan_repo_object(context: Context, refs: RefFileRefs, old: RefSet, at_once: int) -> RepoInfo:
    """The repo object that says the same as the files of a v1 repository."""
    history = read_file_history(context.assets, at_once)
    known = history.reachable([*old.tags.values(), *old.branches.values()])
    entries = {one: found.entry for one, found in known.items()}
    return migrated(old, entries, refs.stored_config())


def migrated(
    old: RefSet, entries: Mapping[SnapshotId, SnapshotEntry], config: JSON | None
) -> RepoInfo:
    """The repo object of a repository that had none; `entries`: all snapshots that refs reach."""
    if MAIN not in old.branches:
        raise FormatError("the repository has no main branch")
    lineages = {name: [*_lineage(entries, tip)] for name, tip in sorted(old.branches.items())}
    past = RefLineages(
        main=lineages.pop(MAIN),
        branches=lineages,
        tags=dict(sorted(old.tags.items())),
        deleted_tags={
            name: target for name, target in old.deleted_tags.items() if target is not None
        },
        times={one: entry.flushed_at for one, entry in entries.items()},
    )
    updates = synthetic_log(past)
    now = later_than(updates[-1].updated_at)
    updates.append(UpdateEntry(UpdateType.RepoMigrated(V1.spec, V2.spec), now))
    return RepoInfo(
        spec_version=V2.spec,
        tags=old.tags,
        branches=old.branches,
        deleted_tags=frozenset(old.deleted_tags),
        snapshots=snapshot_table(entries.values()),
        status=StoredStatus(RepoAvailability.online, past.root_time),
        metadata={},
        latest_updates=UpdateLog.of(reversed(updates)),
        config=config,
    )


def _lineage(
    entries: Mapping[SnapshotId, SnapshotEntry], tip: SnapshotId
) -> Iterator[SnapshotEntry]:
    current: SnapshotId | None = tip
    while current is not None:
        yield entries[current]
        current = entries[current].parent_id


def is_whole(storage: Storage, info: RepoInfo) -> bool:
    """Whether the repo object can be read and says what was written."""
    blob = storage.get(REPO_KEY)
    if blob is None:
        return False
    try:
        found = decode_repo_info(blob, key=REPO_KEY)
    except FormatError:
        return False
    return (
        found.branches == info.branches
        and found.tags == info.tags
        and found.snapshots.keys() == info.snapshots.keys()
    )


# --- tidying up ---


def _check_leftovers(context: Context, info: RepoInfo) -> None:
    """Refuse unless only unused files of an interrupted upgrade are left."""
    storage = context.storage
    if next(iter(storage.list(REFS)), None) is None and storage.head(CONFIG_KEY) is None:
        raise SessionStateError(
            "invalid repository version: only a version 1 repository can be upgraded, and this "
            "one has version 2 already",
            kind=UPGRADE,
        )
    if find_legacy(storage) is not None:
        raise SessionStateError(
            "this repository has version 2 already; what is left of the generation that it was "
            "made from goes by `frazil upgrade URL --clean`, and comes back by `--undo`",
            kind=UPGRADE,
        )
    _require_known(storage, info, read_fenced(storage))


def _require_known(storage: Storage, info: RepoInfo, old: RefSet) -> None:
    """Refuse to delete refs of version 1 to snapshots that the repo object does not have."""
    for name, tip in [*old.branches.items(), *old.tags.items()]:
        if tip not in info.snapshots and storage.head(snapshot_key(tip)) is not None:
            raise SessionStateError(
                "an old client has changed this repository after its upgrade; deleting the old "
                "refs would lose that",
                kind=UPGRADE,
                ref=name,
                snapshot=tip,
            )


def _delete_old_files(context: Context, refs: RepoObjectRefs) -> None:
    """Delete refs and configuration of v1, the main branch first.

    Without it old clients find no repository. Only fences are deleted: no commit follows them.

    Raises:
        SessionStateError: an old client has gone on using them.
        StorageError: some files cannot be deleted; the repository is upgraded all the same.
    """
    storage = context.storage
    keys = [item.key for item in storage.list(REFS)]
    _require_known(storage, refs.info(), fence_refs(storage))
    main = branch_key(MAIN, encoded=storage.percent_encodes_names)
    tombs = [item.key for item in storage.list(REFS) if item.key.endswith(TOMBSTONE)]
    # Tombstones are the fences of tags, and go after them.
    first = [key for key in keys if key not in tombs and key != main]
    failed: list[tuple[str, str]] = []
    for portion in ([main], first, tombs, [CONFIG_KEY]):
        if portion and not failed:
            failed += storage.delete_many(portion).failed
    if failed:
        raise StorageError(
            f"the repository is upgraded, but unused files could not be deleted: {failed[0][1]}",
            key=failed[0][0],
            files=len(failed),
        )
