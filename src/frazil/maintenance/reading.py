"""Files read straight from the storage.

Maintenance reads nearly every file once, which would only drive useful ones out of the cache,
and it must see snapshots that another process has just rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from frazil.errors import ErrorKind, SnapshotNotFoundError, StorageError
from frazil.formats.snapshot import decode_snapshot
from frazil.ids import ManifestId, SnapshotId
from frazil.model.history import Snapshot
from frazil.storage.assets import manifest_key, snapshot_key
from frazil.storage.base import Storage

T = TypeVar("T")


def snapshot_blob(storage: Storage, snapshot_id: SnapshotId) -> bytes:
    """The bytes of a snapshot file."""
    blob = storage.get(snapshot_key(snapshot_id))
    if blob is None:
        raise SnapshotNotFoundError("no such snapshot", snapshot=snapshot_id)
    return blob


def read_snapshot(storage: Storage, snapshot_id: SnapshotId) -> Snapshot:
    """Read a snapshot."""
    return decode_snapshot(snapshot_blob(storage, snapshot_id), key=snapshot_key(snapshot_id))


def manifest_blob(storage: Storage, manifest_id: ManifestId) -> bytes:
    """The bytes of a manifest file."""
    key = manifest_key(manifest_id)
    blob = storage.get(key)
    if blob is None:
        raise StorageError("no such manifest", kind=ErrorKind.OBJECT_NOT_FOUND, key=key)
    return blob


def portions(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    """Items in groups of at most `size`."""
    rest = iter(items)
    while group := tuple(islice(rest, max(1, size))):
        yield group
