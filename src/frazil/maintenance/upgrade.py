"""From v1 to v2: everything refs and history know goes into a repo object (reference 8).

No snapshot, manifest or chunk is touched. One conditional write is the change; what comes
before leaves the repository as it was, and what comes after only tidies up, so an upgrade may
be interrupted anywhere and run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.commit.base import MAIN, attempts, later_than
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import REPO_KEY, RepoObjectRefs, create_repo_object
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    ReadOnlyError,
    SessionStateError,
    StorageError,
)
from frazil.formats.generation import V1, V2
from frazil.formats.ref_files import REFS, branch_key
from frazil.formats.repo_info import decode_repo_info, snapshot_table
from frazil.ids import SnapshotId
from frazil.maintenance.file_history import PREFETCH, read_file_history
from frazil.maintenance.synthetic_log import OldHistory, synthetic_log
from frazil.model.history import (
    JSON,
    RepoAvailability,
    RepoInfo,
    RepoMigrated,
    SnapshotEntry,
    Status,
    UpdateEntry,
    UpdateLog,
)
from frazil.session.context import Context
from frazil.storage.assets import snapshot_key
from frazil.storage.base import LostRace, Storage

UPGRADE: Final = ErrorKind.INVALID_REPOSITORY_MIGRATION


@dataclass(frozen=True, slots=True)
class OldRefs:
    """The refs of a v1 repository at one moment."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId | None]


def upgrade_v1_to_v2(
    context: Context,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> None:
    """Make a v1 repository a v2 one; open it anew afterwards.

    A dry run does everything but writing. On a repository whose upgrade was interrupted after
    the change itself, only the unused files are deleted.

    Raises:
        SessionStateError: there is nothing to upgrade.
        ReadOnlyError: the storage cannot be written to.
        ConflictError: the repository kept changing, or somebody else has just upgraded it.
    """
    if not context.storage.can_write:
        raise ReadOnlyError(
            "cannot upgrade: the storage is read-only", kind=ErrorKind.READ_ONLY_STORAGE
        )
    match context.refs:
        case RefFileRefs() as refs:
            _upgrade(context, refs, dry_run=dry_run, at_once=prefetch_concurrency or PREFETCH)
        case RepoObjectRefs() as refs:
            _check_leftovers(context, refs.info())
        case _:
            raise SessionStateError("only a version 1 repository can be upgraded", kind=UPGRADE)
    if delete_unused_v1_files and not dry_run:
        _delete_old_files(context.storage)


def _upgrade(context: Context, refs: RefFileRefs, *, dry_run: bool, at_once: int) -> None:
    for _ in attempts(context.config.update_retries()):
        old = read_refs(refs)
        info = plan_upgrade(context, refs, old, at_once)
        if dry_run:
            return
        # Building takes long on a long history. A commit since then must not be lost.
        if read_refs(refs) != old:
            continue
        level = context.config.compression_level()
        if isinstance(create_repo_object(context.storage, info, level), LostRace):
            raise ConflictError(
                message="somebody else has upgraded this repository; open it again",
                kind=ErrorKind.REPO_INFO_UPDATED,
            )
        if is_whole(context.storage, info) and read_refs(refs) == old:
            return
        # Nobody can have used it yet: a commit to the old refs came in at the same moment.
        context.storage.delete_many([REPO_KEY])


def read_refs(refs: RefFileRefs) -> OldRefs:
    """All refs as they are now."""
    return OldRefs(dict(refs.branches()), dict(refs.tags()), dict(refs.deleted_tags()))


def plan_upgrade(context: Context, refs: RefFileRefs, old: OldRefs, at_once: int) -> RepoInfo:
    """The repo object that says the same as the files of a v1 repository."""
    history = read_file_history(context.storage, at_once)
    known = history.reachable([*old.tags.values(), *old.branches.values()])
    entries = {one: found.entry for one, found in known.items()}
    return migrated(old, entries, refs.stored_config())


def migrated(
    old: OldRefs, entries: Mapping[SnapshotId, SnapshotEntry], config: JSON | None
) -> RepoInfo:
    """The repo object of a repository that had none; `entries` are all snapshots that refs reach.

    Raises:
        FormatError: there is no main branch.
    """
    if MAIN not in old.branches:
        raise FormatError("the repository has no main branch")
    lineages = {name: [*_lineage(entries, tip)] for name, tip in sorted(old.branches.items())}
    past = OldHistory(
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
    updates.append(UpdateEntry(RepoMigrated(V1.spec, V2.spec), now))
    return RepoInfo(
        spec_version=V2.spec,
        tags=old.tags,
        branches=old.branches,
        deleted_tags=frozenset(old.deleted_tags),
        snapshots=snapshot_table(entries.values()),
        status=Status(RepoAvailability.online, past.root_time),
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
    """Refuse unless only unused files of an interrupted upgrade are left.

    Raises:
        SessionStateError: there are none, or an old client has gone on using them.
    """
    storage = context.storage
    if next(iter(storage.list(REFS)), None) is None and storage.head(CONFIG_KEY) is None:
        raise SessionStateError(
            "invalid repository version: only a version 1 repository can be upgraded, and this "
            "one has version 2 already",
            kind=UPGRADE,
        )
    old = RefFileRefs(storage, context.assets, context.config)
    for name, tip in [*old.branches().items(), *old.tags().items()]:
        if tip not in info.snapshots and storage.head(snapshot_key(tip)) is not None:
            raise SessionStateError(
                "an old client has changed this repository after its upgrade; deleting the old "
                "refs would lose that",
                kind=UPGRADE,
                ref=name,
                snapshot=tip,
            )


def _delete_old_files(storage: Storage) -> None:
    """Delete refs and configuration of v1, the main branch first.

    Without it old clients find no repository, and cannot commit to what is about to go.

    Raises:
        StorageError: some files cannot be deleted; the repository is upgraded all the same.
    """
    main = branch_key(MAIN, encoded=storage.percent_encodes_names)
    failed = [*storage.delete_many([main]).failed]
    if not failed:
        failed += storage.delete_many([item.key for item in storage.list(REFS)]).failed
    if not failed:
        failed += storage.delete_many([CONFIG_KEY]).failed
    if failed:
        raise StorageError(
            f"the repository is upgraded, but unused files could not be deleted: {failed[0][1]}",
            key=failed[0][0],
            files=len(failed),
        )
