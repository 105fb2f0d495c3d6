"""The new entry point of an upgrade, and what is left of the old repository beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.commit.base import create_object
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.config_file import CONFIG_KEY, YAML_FILE
from frazil.commit.repo_object import create_repo_object
from frazil.errors import ErrorKind, ReadOnlyError, SnapshotNotFoundError
from frazil.formats.config_codec import config_from_map, config_map_to_yaml, config_to_map
from frazil.formats.generation import Generation
from frazil.formats.legacy.refs import RefPrefix
from frazil.formats.ref_files import REFS, branch_key, encode_ref, tag_key, tombstone_key
from frazil.formats.repo_info import REPO_KEY
from frazil.ids import INITIAL_SNAPSHOT_ID, MAIN, SnapshotId
from frazil.maintenance.deleting import BATCH
from frazil.maintenance.upgrade import RefSet, is_whole, migrated, read_fenced
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, Snapshot
from frazil.opening import detect_generation, open_context
from frazil.storage.base import (
    JSON_FILE,
    PLAIN,
    Attributes,
    Fetched,
    LostRace,
    Storage,
    Unchanged,
    require_deleted,
)
from frazil.storage.legacy.opening import find_legacy
from frazil.transaction.context import Context, make_context
from frazil.upgrading.chunks import legacy_container
from frazil.upgrading.claims import Claim, too_late
from frazil.upgrading.source import (
    ChunkMode,
    UpgradeSource,
    cannot,
    keep_once,
    preserved_keys,
    restore_original,
    source_of,
)

COLON_REFS: Final = tuple(
    f"{REFS}{kind}{mark}" for kind in ("branch", "tag") for mark in (":", "%3A")
)
"""How keys of refs begin that were made before names had dots."""


def new_config(source: UpgradeSource, mode: ChunkMode) -> JSON | None:
    """The configuration of the new repository: the old one, and where old chunks are if needed."""
    stored = source.refs.stored_config()
    if mode is not ChunkMode.VIRTUAL or source.shares_folders:
        return stored
    config = RepositoryConfig() if stored is None else config_from_map(stored)
    config.set_virtual_chunk_container(legacy_container(source))
    return config_to_map(config)


def publish(
    source: UpgradeSource,
    target: Generation,
    refs: RefSet,
    entries: Mapping[SnapshotId, Snapshot],
    config: JSON | None,
    claim: Claim,
) -> None:
    """Write the entry point of the new repository; `refs` have the new ids of snapshots.

    Raises:
        ConflictError: another process has made another one meanwhile.
        SessionStateError: another process has undone the upgrade.
    """
    if target.repo_object:
        claim.hold()
        _publish_repo_object(source, refs, entries, config, claim)
    else:
        _publish_files(source, refs, config, claim)


def _publish_repo_object(
    source: UpgradeSource,
    refs: RefSet,
    entries: Mapping[SnapshotId, Snapshot],
    config: JSON | None,
    claim: Claim,
) -> None:
    info = migrated(
        refs, {one: found.entry(found.parent_id) for one, found in entries.items()}, config
    )
    level = source.context.config.compression_level()
    made = create_repo_object(source.place, info, level)
    if isinstance(made, LostRace) and not is_whole(source.place, info):
        raise too_late(claim)
    source.place.make_durable([REPO_KEY])


def _publish_files(source: UpgradeSource, refs: RefSet, config: JSON | None, claim: Claim) -> None:
    encoded = source.place.percent_encodes_names
    main, data = branch_key(MAIN, encoded=encoded), encode_ref(refs.branches[MAIN])

    def replace(key: str, data: bytes, attributes: Attributes = JSON_FILE) -> None:
        """Write a file that is not read before the main branch exists."""
        place, found = source.place, source.place.fetch(key)
        assert not isinstance(found, Unchanged)
        # Another process may have published all; from then on files may be changed by commits,
        # which only their versions show. So the version is read before the claim is checked.
        claim.hold()
        if place.head(main) is not None or (found is not None and found.data == data):
            return
        if source.shares_folders and found is not None:
            keep_once(place, key, found)
        version = None if found is None else found.version
        if isinstance(place.put_if(key, data, version, attributes), LostRace):
            claim.hold()
            if place.get(key) != data:
                raise too_late(claim)
        place.make_durable([key])

    if config is not None:
        replace(CONFIG_KEY, config_map_to_yaml(config), YAML_FILE)
    deleted = {name: id or refs.branches[MAIN] for name, id in refs.deleted_tags.items()}
    for name, id in {**refs.tags, **deleted}.items():
        replace(tag_key(name, encoded=encoded), encode_ref(id))
    claim.hold()
    for name in refs.deleted_tags:
        create_object(source.place, tombstone_key(name, encoded=encoded), b"", PLAIN)
    for name, id in refs.branches.items():
        if name != MAIN:
            replace(branch_key(name, encoded=encoded), encode_ref(id))
    claim.hold()
    made = create_object(source.place, main, data, JSON_FILE)
    if isinstance(made, LostRace) and source.place.get(main) != data:
        raise too_late(claim)


def hide_old_refs(source: UpgradeSource, target: Generation) -> None:
    """Move old refs aside whose names readers of spec 1 refuse.

    Writers of the old generation then find no branch, which stops them like a fence.
    """
    refs = source.refs
    if target.repo_object or not isinstance(refs, NumberedRefs) or not source.shares_folders:
        return
    if refs.layout.prefix is RefPrefix.COLON:
        keys = [item.key for item in source.place.list(REFS) if item.key.startswith(COLON_REFS)]
    else:
        # Whatever is in the folder of a branch makes readers of spec 1 list the branch.
        keys = refs.deleted_branch_keys()
    for key in keys:
        found = source.place.fetch(key)
        if isinstance(found, Fetched):
            keep_once(source.place, key, found)
    require_deleted(source.place.delete_many(keys))


def renamed(refs: RefSet, root: SnapshotId | None) -> RefSet:
    """Refs with the new ids of snapshots; `root` is the one that gets the id of all roots."""

    def new(id: SnapshotId) -> SnapshotId:
        return INITIAL_SNAPSHOT_ID if id == root else id

    return RefSet(
        {name: new(id) for name, id in refs.branches.items()},
        {name: new(id) for name, id in refs.tags.items()},
        {name: None if id is None else new(id) for name, id in refs.deleted_tags.items()},
    )


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The old repository at a place, and the new one if it is published."""

    source: UpgradeSource
    new: Context | None

    def require_readable(self) -> RepositoryContents:
        """Make sure that the old history is there; tell what it would be in the new repository."""
        source = self.source
        try:
            refs = source.read_refs()
            history = source.history({*refs.branches.values(), *refs.tags.values()}, {})
        except SnapshotNotFoundError as error:
            raise cannot("the files of the older generation have been cleaned up") from error
        root = source.root_of(refs, history)
        new = renamed(refs, root)
        ids = {INITIAL_SNAPSHOT_ID if one == root else one for one in history}
        return RepositoryContents(dict(new.branches), dict(new.tags), set(new.deleted_tags), ids)


@dataclass(frozen=True, slots=True)
class RepositoryContents:
    """Contents of a repository that an undo could lose."""

    branches: dict[str, SnapshotId]
    tags: dict[str, SnapshotId]
    deleted_tags: set[str]
    snapshots: set[SnapshotId]
    """those that refs lead to"""


def seen_in(new: Context) -> RepositoryContents:
    """What a new repository holds."""
    refs = new.refs
    if isinstance(refs, RepoObjectRefs):
        info = refs.info()
        branches, tags, gone = dict(info.branches), dict(info.tags), set(info.deleted_tags)
    else:
        fenced = read_fenced(new.storage)
        branches, tags = dict(fenced.branches), dict(fenced.tags)
        gone = set(fenced.deleted_tags)
    found: set[SnapshotId] = set()
    for tip in {*branches.values(), *tags.values()}:
        for entry in refs.ancestry(tip):
            if entry.id in found:
                break
            found.add(entry.id)
    return RepositoryContents(branches, tags, gone, found)


def is_upgraded(place: Storage) -> bool:
    """Whether there is a repository of spec 1 or 2."""
    found = detect_generation(place)
    return found is not None and found.generation.dialect is None


def new_at(place: Storage) -> Context | None:
    """The repository of spec 1 or 2 at a place."""
    return open_context(place, None, None) if is_upgraded(place) else None


def hidden_refs(place: Storage) -> list[str]:
    """Old refs that were put aside, by the keys that they had."""
    return [key for key in preserved_keys(place) if key.startswith(COLON_REFS)]


def show_hidden_refs(place: Storage, claim: Claim) -> None:
    """Put refs back that were put aside."""
    for key in hidden_refs(place):
        restore_original(place, key, claim.hold)


def left_at(
    place: Storage, new: Context | None, store_root: Storage | str | None = None
) -> Leftovers:
    """The old repository at a place."""
    old = find_legacy(place)
    if old is None:
        raise cannot("there are no files of an older generation here, or they were cleaned up")
    config = RepositoryConfig() if new is None else new.config
    context = make_context(place, old.generation, config, None, old, store_root)
    return Leftovers(source_of(context), new)


def delete_all(place: Storage, keys: Iterable[str], claim: Claim) -> None:
    """Delete files, in the order given, as long as the claim is ours."""
    todo = [*keys]
    for at in range(0, len(todo), BATCH):
        claim.hold()
        require_deleted(place.delete_many(todo[at : at + BATCH]))


def require_writable_place(place: Storage, action: str) -> None:
    """Refuse an action on a storage that takes no changes."""
    if not place.can_write:
        raise ReadOnlyError(
            f"cannot {action}: the storage is read-only", kind=ErrorKind.READ_ONLY_STORAGE
        )
