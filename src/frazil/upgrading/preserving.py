"""Files of G3 whose keys their successors need are kept below a folder of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from frazil.formats.legacy.header import is_flat
from frazil.ids import SnapshotId
from frazil.model.nodes import ArrayNode
from frazil.storage.assets import MANIFESTS, log_key, manifest_key, snapshot_key
from frazil.storage.base import Storage, fan_out
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.upgrading.source import Source


def preserve(place: Storage, keys: Iterable[str]) -> None:
    """Keep files as they are now, unless they are successors already; those that are missing, not.

    What was preserved before may be older: expiry rewrites snapshots.
    """

    def one(key: str) -> str | None:
        if key.startswith(MANIFESTS):
            # Nobody rewrites them, and their successors have other keys.
            is_wanted = place.head(PRESERVED + key) is None and place.head(key) is not None
        else:
            blob = place.get(key)
            is_wanted = blob is not None and not is_flat(blob)
        if not is_wanted:
            return None
        place.duplicate(key, PRESERVED + key)
        return PRESERVED + key

    kept = fan_out(one, [*keys])
    place.make_durable([key for key in kept if key is not None])


def keys_of(source: Source, ids: Iterable[SnapshotId]) -> Iterator[str]:
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
    """What is kept, by the keys that it had."""
    return [item.key.removeprefix(PRESERVED) for item in place.list(PRESERVED)]


def put_back(place: Storage, key: str) -> bool:
    """Let a file be again what it was; tell whether that made a difference."""
    original, now = place.get(PRESERVED + key), place.get(key)
    if original is None or original == now:
        return False
    place.put(key, original)
    place.make_durable([key])
    return True


def keep_once(place: Storage, key: str) -> None:
    """Keep a file that an upgrade is about to change, unless that was done before."""
    if place.head(PRESERVED + key) is None and place.head(key) is not None:
        place.duplicate(key, PRESERVED + key)
        place.make_durable([PRESERVED + key])
