"""Refs of version 1 that an upgrade takes over, so that nobody changes them any more.

A file that was a ref gets a content that no client of version 1, ours or the official one, can
commit upon: it names a snapshot that there is not. Each file is replaced only in the version that
was read, so that a commit comes either before its fence, and is taken over, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.commit.base import MAIN, attempts, create_object
from frazil.commit.by_ref_file import JSON_FILE
from frazil.formats.ref_files import (
    REFS,
    Fence,
    branch_key,
    decode_fence,
    decode_ref,
    encode_fence,
    parse_ref_key,
    tag_key,
    tombstone_key,
)
from frazil.ids import SnapshotId
from frazil.model.config import StorageRetriesSettings
from frazil.storage.base import Fetched, LostRace, Storage

RETRIES: Final = StorageRetriesSettings()


@dataclass(frozen=True, slots=True)
class OldRefs:
    """The refs of a repository of an older version at one moment."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId | None]


def fence_refs(storage: Storage) -> OldRefs:
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
                _fence(storage, branch_key(name, encoded=encoded))
            else:
                # A tag never moves; it can only be deleted, by creating this file.
                key = tombstone_key(name, encoded=encoded)
                create_object(storage, key, encode_fence(Fence.UPGRADED, None), JSON_FILE)
                seen.add(key)


def _fence(storage: Storage, key: str) -> None:
    for _ in attempts(RETRIES):
        found = storage.fetch(key)
        if not isinstance(found, Fetched) or decode_fence(found.data) is not None:
            return
        content = encode_fence(Fence.UPGRADED, decode_ref(found.data, key=key))
        if not isinstance(storage.put_if(key, content, found.version, JSON_FILE), LostRace):
            return


def read_fenced(storage: Storage) -> OldRefs:
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
    return OldRefs(branches, tags, deleted)


def _target(storage: Storage, key: str) -> SnapshotId | None:
    blob = storage.get(key)
    if blob is None:
        return None
    fence = decode_fence(blob)
    if fence is None:
        return decode_ref(blob, key=key)
    return fence[1] if fence[0] is Fence.UPGRADED else None
