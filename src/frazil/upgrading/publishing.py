"""The new entry point: refs of spec 1 with the main branch last, or the repo object of spec 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.commit.base import MAIN, create_object
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_ref_file import JSON_FILE
from frazil.commit.by_repo_object import REPO_KEY, create_repo_object
from frazil.commit.config_file import CONFIG_KEY, YAML_FILE
from frazil.formats.config_codec import config_from_map, config_map_to_yaml, config_to_map
from frazil.formats.generation import Generation
from frazil.formats.legacy.refs import RefPrefix
from frazil.formats.ref_files import REFS, branch_key, encode_ref, tag_key, tombstone_key
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.fencing import OldRefs
from frazil.maintenance.upgrade import is_whole, migrated
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, Snapshot
from frazil.storage.base import PLAIN, LostRace, require_deleted
from frazil.upgrading.chunks import legacy_container
from frazil.upgrading.fencing import late
from frazil.upgrading.records import ChunkMode
from frazil.upgrading.source import Source, keep_once

COLON_REFS: Final = tuple(
    f"{REFS}{kind}{mark}" for kind in ("branch", "tag") for mark in (":", "%3A")
)
"""How keys of refs begin that were made before names had dots."""


def new_config(source: Source, mode: ChunkMode) -> JSON | None:
    """The configuration of the new repository: the old one, and where old chunks are if needed."""
    stored = source.refs.stored_config()
    if mode is not ChunkMode.VIRTUAL or source.shares_folders:
        return stored
    config = RepositoryConfig() if stored is None else config_from_map(stored)
    config.set_virtual_chunk_container(legacy_container(source))
    return config_to_map(config)


def publish(
    source: Source,
    target: Generation,
    refs: OldRefs,
    entries: Mapping[SnapshotId, Snapshot],
    config: JSON | None,
) -> None:
    """Let there be a new repository; `refs` have the new ids of snapshots.

    Raises:
        ConflictError: somebody else has made another one meanwhile.
    """
    if target.repo_object:
        _publish_repo_object(source, refs, entries, config)
    else:
        _publish_files(source, refs, config)


def _publish_repo_object(
    source: Source,
    refs: OldRefs,
    entries: Mapping[SnapshotId, Snapshot],
    config: JSON | None,
) -> None:
    info = migrated(
        refs, {one: found.entry(found.parent_id) for one, found in entries.items()}, config
    )
    level = source.context.config.compression_level()
    made = create_repo_object(source.place, info, level)
    if isinstance(made, LostRace) and not is_whole(source.place, info):
        raise late()
    source.place.make_durable([REPO_KEY])


def _publish_files(source: Source, refs: OldRefs, config: JSON | None) -> None:
    encoded = source.place.percent_encodes_names
    if config is not None:
        _replace(source, CONFIG_KEY, config_map_to_yaml(config), is_config=True)
    for name, id in {**refs.tags, **_deleted(refs)}.items():
        _replace(source, tag_key(name, encoded=encoded), encode_ref(id))
    for name in refs.deleted_tags:
        create_object(source.place, tombstone_key(name, encoded=encoded), b"", PLAIN)
    for name, id in refs.branches.items():
        if name != MAIN:
            _replace(source, branch_key(name, encoded=encoded), encode_ref(id))
    key, data = branch_key(MAIN, encoded=encoded), encode_ref(refs.branches[MAIN])
    made = create_object(source.place, key, data, JSON_FILE)
    if isinstance(made, LostRace) and source.place.get(key) != data:
        raise late()


def _deleted(refs: OldRefs) -> dict[str, SnapshotId]:
    """Deleted tags with what they point to; names are blocked by files that must name one."""
    return {name: id or refs.branches[MAIN] for name, id in refs.deleted_tags.items()}


def _replace(source: Source, key: str, data: bytes, *, is_config: bool = False) -> None:
    """Write a file that nobody uses before the main branch is there."""
    place = source.place
    if place.get(key) == data:
        return
    if source.shares_folders:
        keep_once(place, key)
    place.put(key, data, YAML_FILE if is_config else JSON_FILE)
    place.make_durable([key])


def hide_old_refs(source: Source, target: Generation) -> None:
    """Put old refs aside whose names readers of spec 1 stumble over.

    Writers of that age then find no branch, which stops them as well as a fence.
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
        keep_once(source.place, key)
    require_deleted(source.place.delete_many(keys))


def renamed(refs: OldRefs, root: SnapshotId | None) -> OldRefs:
    """Refs with the new ids of snapshots; `root` is the one that gets the id of all roots."""

    def new(id: SnapshotId) -> SnapshotId:
        return INITIAL_SNAPSHOT_ID if id == root else id

    return OldRefs(
        {name: new(id) for name, id in refs.branches.items()},
        {name: new(id) for name, id in refs.tags.items()},
        {name: None if id is None else new(id) for name, id in refs.deleted_tags.items()},
    )
