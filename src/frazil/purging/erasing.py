"""Destroys bytes: objects that hold nothing else are deleted, others are overwritten in part.

An object may hold many chunks, whose references name offsets. It keeps its name and its length;
what no reference needs in it becomes zeros, so that everything else reads as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import U8
from frazil.ids import NodeId, crockford_many
from frazil.maintenance.deleting import delete_keys
from frazil.maintenance.id_sets import ID_WIDTH, RowSet
from frazil.maintenance.listing import find_ids
from frazil.maintenance.space import NAME_WIDTH, RANGE_WIDTH
from frazil.maintenance.trash import TRASH
from frazil.purging.finding import PurgeMatches, all_ranges
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Attributes, Fetched, LostRace, Storage
from frazil.storage.pool import fan_out

ByteSpans: TypeAlias = npt.NDArray[np.int64]
"""(n, 2): begin and end."""
REPLACED: Final = Attributes(is_chunk=True)
OVERWRITTEN_AT_ONCE: Final = 4
"""Packs in memory at a time."""


@dataclass(slots=True, eq=False)
class Erasure:
    """What becomes of the objects that hold what shall go."""

    deleted: U8
    """ids of objects that nothing else is in"""
    overwritten: dict[bytes, ByteSpans]
    """the bytes that others need, of the other objects"""
    bytes_erased: int
    shared: tuple[NodeId, ...]
    """other arrays that refer to the very bytes that shall go"""


def plan_erasure(storage: Storage, found: PurgeMatches, replaced: Iterable[str]) -> Erasure:
    """Work out what becomes of objects; manifests in `replaced` will be gone."""
    ranges = found.ranges.rows()
    objects = RowSet()
    objects.add(np.ascontiguousarray(ranges[:, :ID_WIDTH]))
    live = RowSet(RANGE_WIDTH)
    shared: set[NodeId] = set()
    for _, node_id, rows in all_ranges(storage, objects, replaced):
        live.add(rows)
        if len(rows) and found.ranges.contains(rows).any():
            shared.add(node_id)
    kept = _spans_by_object(live.rows())
    used = RowSet()
    used.add_ids(kept)
    names = objects.rows()
    lost = ranges[~live.contains(ranges)] if len(ranges) else ranges
    return Erasure(
        deleted=names[~used.contains(names)] if len(names) else names,
        overwritten=kept,
        bytes_erased=int(_columns(lost)[1].sum()),
        shared=tuple(sorted(shared)),
    )


def _columns(ranges: U8) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets and lengths."""
    offset = np.ascontiguousarray(ranges[:, NAME_WIDTH:-8]).view("<u8").ravel()
    length = np.ascontiguousarray(ranges[:, -8:]).view("<u8").ravel()
    return offset.astype(np.int64), length.astype(np.int64)


def _spans_by_object(ranges: U8) -> dict[bytes, ByteSpans]:
    """Ranges as begins and ends, by object."""
    if not len(ranges):
        return {}
    offset, length = _columns(ranges)
    names = np.ascontiguousarray(ranges[:, :ID_WIDTH])
    keys = names.view(f"S{ID_WIDTH}").ravel()
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    spans = np.stack([offset, offset + length], axis=1)
    return {names[at].tobytes(): spans[number == group] for group, at in enumerate(first.tolist())}


def chunk_object_key(name: bytes) -> str:
    """The key of a chunk object."""
    return CHUNKS + crockford_many(np.frombuffer(name, np.uint8).reshape(1, -1))[0]


def erase(storage: Storage, plan: Erasure) -> None:
    """Delete and overwrite objects, and wait until that is durable."""
    delete_keys(storage, [CHUNKS + name for name in crockford_many(plan.deleted)])
    items = list(plan.overwritten.items())
    for at in range(0, len(items), OVERWRITTEN_AT_ONCE):
        group = items[at : at + OVERWRITTEN_AT_ONCE]
        fan_out(lambda item: _overwrite(storage, *item), group)
        storage.make_durable([chunk_object_key(name) for name, _ in group])
    _empty_trash_of(storage, plan)


def _overwrite(storage: Storage, name: bytes, kept: ByteSpans) -> None:
    """Write an object anew, with zeros in place of the bytes that no reference needs.

    Others may be erasing other bytes of it, which must not come back; and it must never be there
    in part, since chunks that stay are in it. So it is only replaced as it was read, as a whole.
    """
    key = chunk_object_key(name)
    while isinstance(found := storage.fetch(key), Fetched):
        data = found.data
        new = bytearray(len(data))
        for start, end in kept.tolist():
            new[start:end] = data[start:end]
        if new == data:
            return
        if not isinstance(storage.put_if(key, bytes(new), found.version, REPLACED), LostRace):
            return


def _empty_trash_of(storage: Storage, plan: Erasure) -> None:
    """Delete what a collection put aside of the same objects."""
    names = {
        *crockford_many(plan.deleted),
        *(chunk_object_key(one)[len(CHUNKS) :] for one in plan.overwritten),
    }
    inside = f"/{CHUNKS}"
    keys = [
        item.key
        for item in storage.list(TRASH)
        if inside in item.key and item.key.rpartition("/")[2] in names
    ]
    delete_keys(storage, keys)


# --- looking again ---


def leftovers(storage: Storage, plan: Erasure) -> tuple[int, list[str]]:
    """Look at all objects again: how many there were, and what of them is still there."""
    found: list[str] = []
    keys = [CHUNKS + name for name in crockford_many(plan.deleted)]
    for key, item in zip(keys, fan_out(storage.head, keys), strict=True):
        if item is not None:
            found.append(f"{key} still exists")
    for name, kept in plan.overwritten.items():
        data = storage.get(chunk_object_key(name))
        if data is None:
            continue
        is_free = np.ones(len(data), np.bool_)
        for start, end in kept.tolist():
            is_free[start:end] = False
        if np.frombuffer(data, np.uint8)[is_free].any():
            found.append(f"{chunk_object_key(name)} still holds bytes that nothing refers to")
    return len(keys) + len(plan.overwritten), found


def unnamed_objects(storage: Storage) -> int:
    """Chunk objects that no manifest names."""
    start = len(CHUNKS)
    listed = RowSet()
    listed.add(find_ids(item.key[start:] for item in storage.list(CHUNKS)))
    named = RowSet()
    for _, _, rows in all_ranges(storage, listed):
        named.add(np.ascontiguousarray(rows[:, :ID_WIDTH]))
    rows = listed.rows()
    return int((~named.contains(rows)).sum()) if len(rows) else 0
