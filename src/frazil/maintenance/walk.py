"""Walks from snapshots to manifests to chunk references, in parallel, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from frazil.arrays import U8
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import InternalError
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.lineage import ids_where, reachable
from frazil.maintenance.listing import batched
from frazil.maintenance.tuning import DECODED_REF_BYTES
from frazil.model.history import ManifestFile
from frazil.run import Runner
from frazil.storage.assets import Assets
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """What a walk may have in memory at one time."""

    max_snapshots_in_memory: int = 50
    max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024
    max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024
    max_concurrent_manifest_fetches: int = 500


def reachable_manifests(context: Context, limits: WalkLimits) -> dict[ManifestId, ManifestFile]:
    """The manifests of all snapshots that branches and tags reach."""
    match context.refs:
        case RepoObjectRefs() as refs:
            info = refs.info()
            tips = [*info.branches.values(), *info.tags.values()]
            reached = ids_where(info.snapshots, reachable(info.snapshots, tips))
            return manifests_of(context.assets, reached, limits)
        case FileRefs() as refs:
            history = read_file_history(context.assets, limits.max_snapshots_in_memory)
            known = history.reachable(refs.roots()).values()
            return {file.id: file for one in known for file in one.manifest_files}
        case _:
            raise InternalError("unknown way to keep refs")


def manifests_of(
    assets: Assets, snapshots: Iterable[SnapshotId], limits: WalkLimits
) -> dict[ManifestId, ManifestFile]:
    """The manifests of some snapshots, once each."""
    return {
        file.id: file
        for group in batched(snapshots, limits.max_snapshots_in_memory)
        for found in fan_out(assets.fresh_manifest_files, group)
        for file in found
    }


def over_manifests(
    files: Iterable[ManifestFile], limits: WalkLimits, look: Callable[[ManifestId], T]
) -> Iterator[T]:
    """What `look` finds in manifests, which are read side by side."""
    for group in portions_by_size(files, limits):
        yield from fan_out(look, [file.id for file in group])


def portions_by_size(
    files: Iterable[ManifestFile], limits: WalkLimits
) -> Iterator[Sequence[ManifestFile]]:
    """Manifests in groups that may be in memory at one time."""
    group: list[ManifestFile] = []
    packed = decoded = 0
    for file in files:
        packed += file.size_bytes
        decoded += file.num_chunk_refs * DECODED_REF_BYTES
        is_full = (
            packed > limits.max_compressed_manifest_mem_bytes
            or decoded > limits.max_decoded_manifest_mem_bytes
            or len(group) >= limits.max_concurrent_manifest_fetches
        )
        if group and is_full:
            yield group
            group = []
            packed, decoded = file.size_bytes, file.num_chunk_refs * DECODED_REF_BYTES
        group.append(file)
    if group:
        yield group


FindChunks: TypeAlias = Callable[[Assets, Iterable[ManifestFile], WalkLimits], RowSet]
"""Tells which chunk objects some manifests refer to."""


def native_chunks(assets: Assets, files: Iterable[ManifestFile], limits: WalkLimits) -> RowSet:
    """The chunk objects that some manifests refer to."""
    return _united(over_manifests(files, limits, assets.fresh_native_chunks))


def chunks_by(runner: Runner | None, context: Context) -> FindChunks:
    """What tells that, with a runner that has others read the manifests."""
    if runner is None:
        return native_chunks

    def find(_: Assets, files: Iterable[ManifestFile], __: WalkLimits) -> RowSet:
        sizes = {file.id: file.size_bytes for file in files}
        work, total = partial(_chunks_of, context), sum(sizes.values())
        return _united(ids for _, ids in runner.run(work, [*sizes], size_bytes=total))

    return find


def _chunks_of(context: Context, manifest_id: ManifestId) -> U8:
    return np.unique(context.assets.fresh_native_chunks(manifest_id), axis=0)


def _united(parts: Iterable[U8]) -> RowSet:
    found = RowSet()
    for ids in parts:
        found.add(ids)
    return found
