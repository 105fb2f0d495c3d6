"""Fetching snapshots and small manifests ahead of their first use, where that saves waiting.

The configuration chooses the manifests: by default those of coordinate variables. Local storages
gain nothing from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from frazil.errors import FrazilError
from frazil.formats.snapshot_nodes import first_arrays
from frazil.ids import SnapshotId
from frazil.model.manifest_config import should_preload
from frazil.model.nodes import ManifestRef
from frazil.storage.pool import fan_out, start_in_pool, thread_pool
from frazil.transaction.context import Context
from frazil.transaction.working import WorkingState

log = logging.getLogger(__name__)


def tip_with_snapshot(context: Context, branch: str, ask: Callable[[], SnapshotId]) -> SnapshotId:
    """The answer of `ask` for a branch; meanwhile the last known tip is fetched into the cache.

    Usually the branch has not moved, and one of two waits is saved. Snapshots never change, so a
    cached one cannot be stale.
    """
    likely = context.refs.tip_as_known(branch)
    if likely is None or context.storage.answers_inline or context.assets.keeps(likely):
        return ask()
    begun = start_in_pool(partial(_try_snapshot, context, likely))
    found = ask()
    if found == likely:
        begun.result()
    return found


def _try_snapshot(context: Context, snapshot_id: SnapshotId) -> None:
    try:
        context.assets.snapshot(snapshot_id)
    except FrazilError as error:
        # The error is raised again where the snapshot is really needed.
        log.debug("a snapshot was not fetched ahead: %s", error)


def start_preload(state: WorkingState) -> None:
    """Begin to fetch manifests in the background, without waiting for the end."""
    if state.context.storage.answers_inline or not state.context.config.preload().max_total_refs:
        return
    thread_pool().submit(preload, state)


def preload(state: WorkingState) -> int:
    """Fetch the manifests the configuration asks for, and return their number."""
    try:
        chosen = choose(state)
        fan_out(state.manifest, chosen)
    except FrazilError as error:
        # The error is raised again where the file is really needed.
        log.debug("manifests were not preloaded: %s", error)
        return 0
    return len(chosen)


def prefetch(state: WorkingState, paths: Iterable[str] | None) -> int:
    """Fetch all manifests of some arrays, or of all, and return their number."""
    nodes = state.arrays() if paths is None else (state.array(path) for path in paths)
    chosen = list({ref.id: ref for node in nodes for ref in node.manifests}.values())
    infos = (state.manifest_files.get(ref.id) for ref in chosen)
    references = sum(info.num_chunk_refs for info in infos if info is not None)
    state.context.each_manifest(state.manifest, chosen, references)
    return len(chosen)


def choose(state: WorkingState) -> list[ManifestRef]:
    """The manifests to fetch: of the first arrays, up to a total of references."""
    settings = state.context.config.preload()
    left = settings.max_total_refs or 0
    chosen: list[ManifestRef] = []
    for node in first_arrays(state.base.nodes, settings.max_arrays_to_scan):
        for ref in node.manifests:
            info = state.manifest_files.get(ref.id)
            count = info.num_chunk_refs if info else 0
            if count <= left and should_preload(settings, node.path, count):
                chosen.append(ref)
                left -= count
    return chosen
