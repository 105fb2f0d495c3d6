"""Chunk objects of an upgraded repository: linked, copied, or left where they are.

G3 named them as spec 1 does, and they stay. Names of older ones are too long for an id of today,
so each gets a second one, or is referred to as an object of a virtual chunk container.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.formats.generation import Generation
from frazil.ids import ChunkId
from frazil.maintenance.id_sets import RowSet
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType
from frazil.model.config import ObjectStoreConfig, VirtualChunkContainer
from frazil.model.stores import AnyObjectStoreConfig
from frazil.model.strings import StringPool, merge_pools
from frazil.progress import Tell
from frazil.run import LocalRunner, Runner, by_size, run_with_progress
from frazil.storage.assets import CHUNK, CHUNKS, chunk_key
from frazil.storage.base import Storage, absent
from frazil.storage.local import LocalStorage
from frazil.storage.locations import VCC, normalised
from frazil.storage.object import ObjectStorage
from frazil.storage.places import AzurePlace, GcsPlace
from frazil.storage.pool import fan_out
from frazil.storage.s3_place import S3Place
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.upgrading.source import LEGACY_CHUNKS, ChunkMode, UpgradeSource
from frazil.upgrading.tuning import PORTION_BYTES, PORTION_CHUNKS

Relocate: TypeAlias = Callable[[ChunkTable], ChunkTable]
"""Lets references point to where the chunk objects will be."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A chunk object that gets a name of today."""

    source: str
    target: str
    size_bytes: int


MoveChunks: TypeAlias = Callable[[Sequence[Transfer]], None]
"""Links or copies some chunk objects."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """What must be done so that every reference finds its object."""

    wanted: tuple[Transfer, ...] = ()
    missing: int = 0


def transfers_of(source: UpgradeSource, needs: RowSet, mode: ChunkMode) -> Transfers:
    """What to link or copy; objects that have their new name already are left out."""
    raw = needs.rows()
    there = dict(source.files.listed("chunks")) if len(raw) else {}
    ids = [ChunkId(each.tobytes()) for each in raw]
    missing = sum(one not in there for one in ids)
    if source.shares_folders or mode is ChunkMode.VIRTUAL:
        return Transfers(missing=missing)
    done = {item.key: item.size_bytes for item in source.place.list(CHUNKS)}
    wanted = [
        Transfer(there[one].key, chunk_key(one), there[one].size_bytes)
        for one in ids
        if one in there and done.get(chunk_key(one)) != there[one].size_bytes
    ]
    return Transfers(tuple(wanted), missing)


def mover(
    source: UpgradeSource,
    mode: ChunkMode,
    *,
    runner: Runner = LocalRunner(),  # noqa: B008 - a frozen record
    progress: Tell | None = None,
) -> MoveChunks:
    """How chunk objects are linked or copied: in portions, which a runner does."""
    work = partial(move_chunks, source.files.storage, source.place, mode)

    def move(transfers: Sequence[Transfer]) -> None:
        sizes = [1 if mode is ChunkMode.LINK else each.size_bytes for each in transfers]
        portions = [
            [transfers[number] for number in part]
            for part in by_size(sizes, PORTION_BYTES, PORTION_CHUNKS)
        ]
        counts = [*map(len, portions)]
        for _ in run_with_progress(
            runner, work, portions, progress, "chunks", counts=counts, size_bytes=sum(sizes)
        ):
            pass

    return move


def move_chunks(
    root: Storage, place: Storage, mode: ChunkMode, transfers: Sequence[Transfer]
) -> None:
    """Link or copy chunk objects, from one storage to the other where there are two."""

    def one(transfer: Transfer) -> None:
        if root is place:
            may_link = mode is ChunkMode.LINK
            place.duplicate(transfer.source, transfer.target, may_link=may_link)
            return
        data = root.get(transfer.source)
        if data is None:
            raise absent(transfer.source)
        place.put(transfer.target, data, replace(CHUNK, is_unnamed=False))

    fan_out(one, transfers)
    place.make_durable([transfer.target for transfer in transfers])


def require_moved(source: UpgradeSource, transfers: Transfers) -> None:
    """Make sure that every chunk object has its new name."""
    if not transfers.wanted:
        return
    there = {item.key: item.size_bytes for item in source.place.list(CHUNKS)}
    for transfer in transfers.wanted:
        if there.get(transfer.target) != transfer.size_bytes:
            raise StorageError(
                "a chunk object was not copied as a whole; run the upgrade again",
                kind=ErrorKind.OBJECT_NOT_FOUND,
                key=transfer.target,
            )


# --- references to objects where they are ---


def chunk_folder(source: UpgradeSource) -> str:
    """The URL of the folder that old chunk objects are in, with its final slash."""
    root = source.files.storage.url.rstrip("/")
    return normalised(f"{root}/{source.files.folders['chunks']}")


def legacy_container(source: UpgradeSource) -> VirtualChunkContainer:
    """The container through which old chunk objects are read.

    Raises:
        InvalidInputError: no container can read from this kind of storage.
    """
    root = source.files.storage
    root = root.inner if isinstance(root, ReadOnlyStorage) else root
    store = _store_config(root, source.files.folders["chunks"])
    container = VirtualChunkContainer(
        url_prefix=chunk_folder(source), store=store, name=LEGACY_CHUNKS
    )
    container.check()
    return container


def _store_config(storage: Storage, folder: str) -> AnyObjectStoreConfig:
    if isinstance(storage, LocalStorage):
        return ObjectStoreConfig.LocalFileSystem(f"{storage.path}/{folder.rstrip('/')}")
    if isinstance(storage, ObjectStorage):
        match storage.place:
            case S3Place() as place:
                options = place.options
                if options.endpoint_url:
                    return ObjectStoreConfig.S3Compatible(options)
                return ObjectStoreConfig.S3(options)
            case GcsPlace():
                return ObjectStoreConfig.Gcs(None)
            case AzurePlace() as azure:
                return ObjectStoreConfig.Azure({"account": azure.account})
    raise InvalidInputError(
        "chunks at this place cannot be read as virtual ones; link or copy them",
        kind=ErrorKind.NOT_ALLOWED,
        url=storage.url,
    )


def relocation(source: UpgradeSource, target: Generation, mode: ChunkMode) -> Relocate:
    """What to do with the references of a table, so that they point to where objects will be."""
    if source.shares_folders or mode is not ChunkMode.VIRTUAL:
        return lambda table: table
    above = f"{VCC}{LEGACY_CHUNKS}/" if target.repo_object else chunk_folder(source)
    folder = source.files.folders["chunks"]
    for _ in source.files.listed("chunks"):
        pass  # what was listed is known by its real name from here on

    def relocate(table: ChunkTable) -> ChunkTable:
        rows = np.flatnonzero(table.kind == ChunkType.native)
        if not len(rows):
            return table
        found, places = np.unique(table.chunk_id[rows], axis=0, return_inverse=True)
        keys = [source.files.key("chunks", ChunkId(each.tobytes())) for each in found]
        names = [above + key.removeprefix(folder) for key in keys]
        locations, (own, added) = merge_pools([table.locations, StringPool.of(names)])
        kind, chunk_id, location = table.kind.copy(), table.chunk_id.copy(), table.location.copy()
        if own is not None:
            location = np.append(own, np.int32(ABSENT))[location].astype(np.int32)
        places = places.reshape(-1)
        location[rows] = places if added is None else added[places]
        kind[rows] = ChunkType.virtual
        chunk_id[rows] = 0
        return replace(table, kind=kind, chunk_id=chunk_id, location=location, locations=locations)

    return relocate
