"""Snapshots and repo objects of every shape, as hypothesis makes them up."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from frazil.formats.repo_info import snapshot_table
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.history import (
    MAX_MICROS,
    ManifestFile,
    RepoAvailability,
    RepoInfo,
    Snapshot,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    UpdateKind,
    UpdateLog,
    UpdateType,
)
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node, path_order

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
times = st.integers(0, MAX_MICROS)
snapshot_ids = st.binary(min_size=12, max_size=12).map(SnapshotId)
manifest_ids = st.binary(min_size=12, max_size=12).map(ManifestId)
node_ids = st.binary(min_size=8, max_size=8).map(NodeId)
statuses = st.builds(
    StoredStatus,
    st.sampled_from([RepoAvailability.online, RepoAvailability.read_only]),
    times,
    st.none() | texts,
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=20,
)
metadata = st.dictionaries(texts, json_values, max_size=4)

names = st.text("ab.-é #", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, max_size=3).map(lambda parts: "/" + "/".join(parts))


@st.composite
def dimensions(draw: st.DrawFn) -> Dimension:
    """A dimension cut into chunks of equal length, which both specs can hold."""
    length = draw(st.integers(0, 1000) | st.integers(2**40, 2**64 - 1))
    chunk = draw(st.integers(max(1, length // (2**32 - 1) + 1), max(2, length)))
    return Dimension(length, -(-length // chunk))


@st.composite
def arrays(draw: st.DrawFn, path: str) -> ArrayNode:
    """An array with any number of manifests."""
    shape = tuple(draw(st.lists(dimensions(), max_size=4)))
    extents = st.tuples(*(_extent(dim) for dim in shape))
    dimension_names = st.tuples(*[st.none() | texts.filter(bool)] * len(shape))
    return ArrayNode(
        draw(node_ids),
        path,
        draw(st.binary(max_size=40)),
        shape,
        draw(st.none() | dimension_names),
        tuple(draw(st.lists(st.builds(ManifestRef, manifest_ids, extents), max_size=3))),
    )


def _extent(dimension: Dimension) -> st.SearchStrategy[tuple[int, int]]:
    ends = st.integers(0, dimension.num_chunks)
    return st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair)))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A snapshot with its nodes and manifests in order."""
    nodes: list[Node] = []
    for path in sorted(draw(st.sets(paths, max_size=8)), key=path_order):
        if draw(st.booleans()):
            nodes.append(GroupNode(draw(node_ids), path, draw(st.binary(max_size=40))))
        else:
            nodes.append(draw(arrays(path)))
    files = st.builds(
        ManifestFile, manifest_ids, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
    )
    return Snapshot(
        id=draw(snapshot_ids),
        parent_id=draw(st.none() | snapshot_ids),
        nodes=tuple(nodes),
        flushed_at=draw(times),
        message=draw(texts),
        metadata=draw(metadata),
        manifest_files=tuple(
            sorted(draw(st.lists(files, max_size=4, unique_by=lambda f: f.id)), key=lambda f: f.id)
        ),
    )


def _update_kinds() -> st.SearchStrategy[UpdateKind]:
    """Every kind of update, its fields filled by their names."""
    cells: dict[str, st.SearchStrategy[Any]] = {
        "name": texts,
        "branch": texts,
        "previous_snap_id": snapshot_ids,
        "new_snap_id": snapshot_ids,
        "from_version": st.integers(0, 255),
        "to_version": st.integers(0, 255),
        "status": statuses,
        "id": st.integers(0, 2**16 - 1),
        "new_value": st.none() | st.booleans(),
    }
    records: list[Any] = [
        UpdateType.RepoInitialized,
        UpdateType.RepoMigrated,
        UpdateType.ConfigChanged,
        UpdateType.MetadataChanged,
        UpdateType.TagCreated,
        UpdateType.TagDeleted,
        UpdateType.BranchCreated,
        UpdateType.BranchDeleted,
        UpdateType.BranchReset,
        UpdateType.NewCommit,
        UpdateType.CommitAmended,
        UpdateType.NewDetachedSnapshot,
        UpdateType.GCRan,
        UpdateType.ExpirationRan,
        UpdateType.FeatureFlagChanged,
        UpdateType.RepoStatusChanged,
    ]
    return st.one_of(
        [
            st.builds(record, **{item.name: cells[item.name] for item in fields(record)})
            for record in records
        ]
    )


update_kinds = _update_kinds()
update_entries = st.builds(UpdateEntry, update_kinds, times, st.none() | texts)


@st.composite
def histories(draw: st.DrawFn, *, min_size: int = 1) -> list[SnapshotEntry]:
    """Snapshots of which each one but the roots has an earlier one as its parent."""
    ids = draw(st.lists(snapshot_ids, min_size=min_size, max_size=8, unique=True))
    pruned = st.lists(snapshot_ids, max_size=2).map(tuple)
    return [
        SnapshotEntry(
            snapshot_id,
            draw(st.none() | st.sampled_from(ids[:n])) if n else None,
            draw(times),
            draw(texts),
            draw(metadata),
            draw(pruned),
        )
        for n, snapshot_id in enumerate(ids)
    ]


@st.composite
def repo_infos(draw: st.DrawFn) -> RepoInfo:
    """A repo object with a history, refs, updates and all the rest."""
    entries = draw(histories())
    targets = st.sampled_from([entry.id for entry in entries])
    flags = st.none() | st.frozensets(st.integers(0, 2**16 - 1), max_size=4)
    return RepoInfo(
        spec_version=draw(st.sampled_from([1, 2])),
        tags=draw(st.dictionaries(texts, targets, max_size=4)),
        branches=draw(st.dictionaries(texts, targets, max_size=4)),
        deleted_tags=draw(st.frozensets(texts, max_size=4)),
        snapshots=snapshot_table(entries),
        status=draw(statuses),
        metadata=draw(metadata),
        latest_updates=UpdateLog.of(draw(st.lists(update_entries, max_size=8))),
        repo_before_updates=draw(st.none() | texts),
        config=draw(st.none() | st.dictionaries(keys, json_values, max_size=3)),
        enabled_feature_flags=draw(flags),
        disabled_feature_flags=draw(flags),
    )
