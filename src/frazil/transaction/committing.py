"""From a working state to durable files: manifests, snapshot and transaction log of a commit.

A commit is safe because of the order: these files are written and made durable before the one
conditional write that moves the branch, which is in `publishing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

from frazil.commit.base import check_clock, later_than, now_micros
from frazil.errors import ErrorKind, FormatError
from frazil.formats.manifest import Manifest
from frazil.formats.snapshot_nodes import NodeTable
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.history import ManifestFile, Metadata, Micros, Snapshot, TransactionLog
from frazil.model.marks import inherited, replacing
from frazil.model.nodes import ArrayNode, Extents, ManifestRef, Node, path_order
from frazil.model.splitting import automatic_sizes
from frazil.storage.assets import log_key, manifest_key, snapshot_key
from frazil.storage.pool import start_in_pool
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.chunk_changes import ChunkChanges
from frazil.transaction.draft import Draft, PlannedManifest, check_sound, draft, summarise, unite
from frazil.transaction.long_open import chunk_keys, is_long_open, require_chunks
from frazil.transaction.tuning import MANY_REFS
from frazil.transaction.working import WorkingState

RESERVED: Final = "__icechunk"
"""Key of commit metadata that the format keeps for itself."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot whose files are all stored; no ref points to it yet."""

    snapshot: Snapshot
    log: TransactionLog
    numbers: NodeIds = field(default_factory=dict)
    """ids in the files, which stand for numbers, by the session's ids of new nodes"""


def commit_metadata(
    state: WorkingState, given: Metadata | None, own: Metadata, *, replaces: bool = False
) -> dict[str, Any]:
    """Metadata of a commit, with the marks of its parent or of the commit that it replaces."""
    metadata = {**state.context.default_commit_metadata, **(given or {})}
    if own:
        ours = metadata.get(RESERVED)
        metadata[RESERVED] = {**(ours if isinstance(ours, dict) else {}), **own}
    try:
        if metadata:
            json.dumps(metadata, allow_nan=True)
    except (TypeError, ValueError) as error:
        raise TypeError(f"commit metadata must be what JSON can hold: {error}") from error
    base = state.context.refs.entry_as_known(state.base_id).metadata
    return replacing(metadata, base) if replaces else inherited(metadata, base)


def save(
    state: WorkingState, message: str, metadata: Metadata, *, parent: SnapshotId | None
) -> Saved:
    """Write every file of a new snapshot and wait until they are durable."""
    saved, wait = start_save(state, message, metadata, parent=parent)
    wait()
    return saved


def start_save(
    state: WorkingState,
    message: str,
    metadata: Metadata,
    *,
    parent: SnapshotId | None,
    earlier: TransactionLog | None = None,
    rewrite_manifests: bool = False,
) -> tuple[Saved, Callable[[], None]]:
    """Write every file of a new snapshot, without waiting until they are durable.

    Returns `(saved, wait)`. Call `wait()` before publishing the snapshot. `earlier` is the log of
    a commit that is replaced; it is merged into the new log.
    """
    context = state.context
    numbers: NodeIds = {}
    if context.generation.numbers_nodes:
        state, numbers = numbered(state)
    check_sound(state.base.nodes, state.changes)
    plan = draft(
        state.tree,
        state.changes,
        partial(state.load_tables, limit=context.config.manifest_fetch_limit()),
        lambda node: _split_sizes(state, node, rewrite=rewrite_manifests),
        patch=partial(_patch, state),
        rewrite=rewrite_manifests,
    )
    snapshot_id, began = SnapshotId.random(), now_micros()
    log = summarise(state.changes, snapshot_id, state.base.nodes)
    if earlier is not None:
        log = unite(earlier, log)
    written, puts = _pack(state, plan.manifests, log)
    snapshot = Snapshot(
        id=snapshot_id,
        parent_id=parent if context.generation.stores_parent else None,
        nodes=plan.nodes,
        flushed_at=later_than(state.base.flushed_at),
        message=message,
        metadata=metadata,
        manifest_files=_manifest_files(plan, state.manifest_files, written),
    )
    puts.append(partial(context.assets.save_file, snapshot))
    context.storage.each(lambda put: put(), puts)
    wait = context.assets.start_durable(_keys(plan, snapshot_id, state.changes))
    if context.storage.answers_inline and not is_long_open(context, state.changes):
        _check_clock(state, snapshot_id, began)
        return Saved(snapshot, log, numbers), wait
    clock = start_in_pool(partial(_check_clock, state, snapshot_id, began))
    changes = state.changes

    def ready() -> None:
        clock.result()
        wait()
        require_chunks(context, changes)

    return Saved(snapshot, log, numbers), ready


def _patch(
    state: WorkingState, node: ArrayNode, ref: ManifestRef, table: ChunkTable
) -> Manifest | None:
    fresh = ManifestId.random()
    return state.manifest(ref).patched(fresh, node.id, table, key=manifest_key(fresh))


def _split_sizes(state: WorkingState, node: ArrayNode, *, rewrite: bool) -> tuple[int, ...]:
    """The configured split sizes of an array; without a rule, sizes by its number of references."""
    config = state.context.config
    if not state.context.generation.keeps_extents:
        return node.grid
    if config.tells_splitting():
        return config.split_sizes(node.path, node.dimension_names, node.grid)
    boxes = [ref.extents for ref in node.manifests if ref.extents]
    references = sum(_count(state.manifest_files.get(ref.id), ref) for ref in node.manifests)
    changes = state.changes.chunks.get(node.id)
    added = changes.columns()[0] if changes else None
    if added is not None and len(added):
        references += len(added)
        boxes.append(added.extents)
    present = () if rewrite else [ref.extents for ref in node.manifests]
    return automatic_sizes(node.grid, references, _around(boxes), present)


def _count(file: ManifestFile | None, ref: ManifestRef) -> int:
    """Number of references of a manifest; an upper bound if the snapshot does not record it."""
    known = 0 if file is None else file.num_chunk_refs
    return known or prod(end - start for start, end in ref.extents)


def _around(boxes: Sequence[Extents]) -> Extents:
    """The smallest box around some."""
    return tuple(
        (min(start for start, _ in axis), max(end for _, end in axis))
        for axis in zip(*boxes, strict=True)
    )


def _pack(
    state: WorkingState, planned: tuple[PlannedManifest, ...], log: TransactionLog
) -> tuple[dict[bytes, ManifestFile], list[Callable[[], object]]]:
    """What a snapshot must record of manifests, and functions that write what is not yet stored.

    With many references each manifest is stored here, as soon as it is encoded, and the log beside
    them. With few, the caller stores all together with the snapshot.
    """
    assets = state.context.assets

    def pack(item: PlannedManifest) -> tuple[ManifestFile, Callable[[], object]]:
        if isinstance(item.content, Manifest):
            return assets.pack_patched(item.content)
        return assets.pack_manifest(item.id, {item.node_id: item.content})

    def write(item: PlannedManifest) -> ManifestFile:
        info, put = pack(item)
        put()
        return info

    save_log = partial(assets.save_file, log)
    references = sum(item.num_refs for item in planned)
    if references < MANY_REFS:
        packed = [pack(item) for item in planned]
        return {info.id: info for info, _ in packed}, [*(put for _, put in packed), save_log]
    saving = start_in_pool(save_log)
    try:
        saved = state.context.each_manifest(write, planned, references)
    finally:
        wait_for([saving])
    saving.result()
    return {info.id: info for info in saved}, []


def _manifest_files(
    plan: Draft, old: Mapping[bytes, ManifestFile], new: Mapping[bytes, ManifestFile]
) -> tuple[ManifestFile, ...]:
    """What the new snapshot must list: exactly the manifests its arrays refer to."""
    nodes = plan.nodes
    wanted: set[bytes] = (
        nodes.manifest_ids()
        if isinstance(nodes, NodeTable)
        else {ref.id for node in nodes if isinstance(node, ArrayNode) for ref in node.manifests}
    )
    missing = [one for one in wanted if one not in new and one not in old]
    if missing:
        raise FormatError(
            "the base snapshot does not list a manifest that one of its arrays refers to",
            kind=ErrorKind.MANIFEST_INFO_NOT_FOUND,
            manifest=missing[0],
        )
    return tuple(new[one] if one in new else old[one] for one in sorted(wanted))


def _keys(plan: Draft, snapshot_id: SnapshotId, changes: ChangeSet) -> Iterator[str]:
    """Every object the commit newly names, chunks first."""
    yield from chunk_keys(changes)
    for planned in plan.manifests:
        yield manifest_key(planned.id)
    yield log_key(snapshot_id)
    yield snapshot_key(snapshot_id)


def _check_clock(state: WorkingState, snapshot_id: SnapshotId, began: Micros) -> None:
    """Compare the clock of this machine with the time the store gave to a new snapshot."""
    seen = state.context.storage.head(snapshot_key(snapshot_id))
    if seen is not None:
        check_clock(seen.created_at, began)


# --- numbers of new nodes ---


NodeIds: TypeAlias = Mapping[NodeId, NodeId]
"""Random ids of new nodes, and the ids that stand for their numbers."""


def numbered(state: WorkingState) -> tuple[WorkingState, NodeIds]:
    """The same state with numbers for its new nodes, and which node has which.

    A session gives new nodes random ids, which no other session can have chosen. Only the files of
    a commit have numbers, which follow the highest one of the base. So a commit that is made again
    on another base gets other numbers.

    Raises:
        FormatError: there are no more numbers.
    """
    numbers = _numbers(state.base.nodes, state.changes)
    if not numbers:
        return state, numbers
    changes = state.changes.renamed(numbers)
    for path, array in state.changes.new_arrays.items():
        if array.id in state.changes.ready:
            # Stored manifests name the array by its old id, so its references are written again.
            node_id, node = numbers[array.id], state.array(path)
            del changes.ready[node_id]
            changes.chunks[node_id] = ChunkChanges(len(node.shape))
            changes.chunks[node_id].set_many(state.table(node))
    return WorkingState(state.context, state.base_id, changes), numbers


def _numbers(nodes: Iterable[Node], changes: ChangeSet) -> NodeIds:
    from frazil.formats.legacy.names import MAX_NODE_NUMBER, numbered_node
    from frazil.formats.legacy.snapshots import next_node_number

    made = [(path, group.id) for path, group in changes.new_groups.items()]
    made += [(path, array.id) for path, array in changes.new_arrays.items()]
    if not made:
        return {}
    first = next_node_number(nodes)
    if first + len(made) > MAX_NODE_NUMBER:
        raise FormatError(
            "this repository has no numbers left for new nodes; upgrade it",
            kind=ErrorKind.SERIALIZATION,
            highest=first - 1,
        )
    made.sort(key=lambda each: path_order(each[0]))
    return {node_id: numbered_node(first + at) for at, (_, node_id) in enumerate(made)}
