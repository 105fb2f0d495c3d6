"""The one commit of a write: documents, labels and chunk references of all tasks.

A write may name a series (`txnAppId`) and its number there. Before the commit, also before each
retry, the history is searched for that number, so that repeating the write changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from frazil.arrays import Mask
from frazil.bulk.grid import array_layout
from frazil.bulk.write import write_region
from frazil.cf.decoding import Rules
from frazil.errors import ConflictError, ErrorKind, invalid_option, unsuitable
from frazil.ids import SnapshotId
from frazil.model.combining import concat
from frazil.model.marks import TXN_APP, TXN_VERSION, marks_of
from frazil.model.nodes import ArrayNode
from frazil.model.values import (
    BasicConflictSolver,
    ConflictDetector,
    ConflictSolver,
    VersionSelection,
)
from frazil.repository import Repository
from frazil.run import JobReport, copy_groups
from frazil.session import Session
from frazil.spark.options.table import WriteRequest
from frazil.spark.reading.variables import variable_of
from frazil.spark.writing.chunk_writer import ChunkWriter, WrittenChunks, duplicate_error
from frazil.spark.writing.placing import chunk_numbers
from frazil.spark.writing.plan import ChunkGroup, WritePlan, reshaped
from frazil.spark.writing.planner import documents_of
from frazil.statistics.publishing import publish_rows
from frazil.statistics.recording import Recorder
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState

REBASE_TRIES: Final = 100
"""Rebases of one write before it gives up."""
_SOLVERS: Final[Mapping[str, ConflictSolver | None]] = {
    "detect": ConflictDetector(),
    "none": None,
    "ours": BasicConflictSolver(on_chunk_conflict=VersionSelection.UseOurs),
    "theirs": BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs),
}


@dataclass(frozen=True, slots=True)
class Txn:
    """A write as a member of a series."""

    app_id: str
    version: int

    def is_in(self, repository: Repository, branch: str) -> bool:
        """Whether the history of a branch has this write or a later one of the series."""
        for commit in repository.ancestry(branch=branch):
            newest = marks_of(commit.metadata).series.get(self.app_id)
            if newest is not None:
                return newest >= self.version
        return False


def txn_of(request: WriteRequest) -> Txn | None:
    """The series and number that a request gives to a write.

    Raises:
        InvalidInputError: there is only one of the two.
    """
    app_id, version = request.txn_app, request.txn_version
    if (app_id is None) != (version is None):
        raise invalid_option("options 'txnAppId' and 'txnVersion' go together")
    return None if app_id is None or version is None else Txn(app_id, version)


def commit_write(
    plan: WritePlan,
    written: Sequence[WrittenChunks],
    *,
    txn: Txn | None = None,
    facts: Mapping[str, Any] | None = None,
) -> JobReport:
    """Put what tasks have stored into one commit.

    Raises:
        InvalidInputError: two tasks stored the same chunk.
        ConflictError: the branch has moved in a way that the write does not go with.
    """
    repository = plan.pinned.location.open()
    tip = repository.tip(plan.branch, snapshot_id=plan.pinned.snapshot_id)
    session = replace(tip, began=plan.began).writable_session()
    _rely(plan, session)
    paths = tuple(array.path for array in plan.arrays)
    if plan.is_void or (txn is not None and txn.is_in(repository, plan.branch)):
        return JobReport(None, paths)
    done = [*written, *_cleared(plan, written)]
    chunks = sum(len(each.table) for each in done)
    size = sum(int(each.table.length.sum()) for each in done)
    _apply(plan, session.state, done)
    _write_labels(plan, session)
    if txn is None and not session.has_uncommitted_changes:
        return JobReport(None, paths)
    metadata = {
        **plan.request.properties,
        "frazil.job": "write",
        "chunks": chunks,
        "bytes": size,
        **(facts or {}),
    }
    if txn is not None:
        metadata |= {TXN_APP: txn.app_id, TXN_VERSION: txn.version}
    message = plan.request.message or f"write {', '.join(a.name for a in plan.arrays)}"
    snapshot = _commit(repository, session, plan, message, metadata, txn)
    if snapshot is None:
        return JobReport(None, paths)
    recorder = Recorder()
    for each in done:
        recorder.add(each.known)
    publish_rows(context_of(repository), recorder.held, SnapshotId.parse(snapshot))
    return JobReport(snapshot, paths, chunks, size)


def _commit(
    repository: Repository,
    session: Session,
    plan: WritePlan,
    message: str,
    metadata: dict[str, Any],
    txn: Txn | None,
) -> str | None:
    solver = _SOLVERS[plan.request.rebase]
    if txn is None:
        return session.commit(message, metadata, rebase_with=solver)
    for _ in range(REBASE_TRIES):
        try:
            return session.commit(message, metadata, allow_empty=True)  # for its mark
        except ConflictError as conflict:
            if conflict.kind != ErrorKind.COMMIT_CONFLICT:
                raise
            if solver is None:
                if not txn.is_in(repository, plan.branch):
                    raise
                return None  # the same write, committed by another process
        # Searched again in the history that the next attempt builds upon.
        try:
            session.rebase(solver)
        except ConflictError:
            if not txn.is_in(repository, plan.branch):
                raise
            return None  # the same write, committed by another process
        if txn.is_in(repository, plan.branch):
            return None
    return session.commit(message, metadata, allow_empty=True)


def _rely(plan: WritePlan, session: Session) -> None:
    """Declare what the plan relies on: labels, lengths, and arrays that grow or are deleted."""
    session.rely_on(*(axis.path for axis in plan.axes), *plan.relied)
    dims = [axis.name for axis in plan.axes]
    if plan.deleted or any(axis.size > axis.old_size for axis in plan.axes):
        session.rely_on_dimensions(plan.group, *dims, members=True)
    elif plan.has_new_arrays:
        session.rely_on_dimensions(plan.group, *dims)


# --- what a session gets ---


def _apply(plan: WritePlan, state: WorkingState, written: Sequence[WrittenChunks]) -> None:
    for path in plan.deleted:
        state.delete_node(path)
    copy_groups(state, state, plan.group)
    for path, document in (_others(plan, state) | documents_of(plan)).items():
        state.set_metadata(path, document)
    for number, array in enumerate(plan.arrays):
        mine = [each for each in written if each.array == number]
        if not mine:
            continue
        node = state.array(array.path)
        _require_once(array.path, mine)
        state.set_table(node, concat([each.table for each in mine], len(array.dims)))
        absent = [each.absent for each in mine if len(each.absent)]
        if absent and not array.is_new:
            state.delete_chunks(node, np.concatenate(absent))


def _others(plan: WritePlan, state: WorkingState) -> dict[str, bytes]:
    """Documents of the group's other arrays, which must grow together with those written."""
    grown = {axis.name: axis for axis in plan.axes if axis.size > axis.old_size}
    if not grown:
        return {}
    mine = {array.path for array in plan.arrays} | {axis.path for axis in plan.axes}
    prefix = plan.group.rstrip("/") + "/"
    found: dict[str, bytes] = {}
    for name in state.tree.children(plan.group):
        node = state.tree.get(prefix + name)
        if not isinstance(node, ArrayNode) or node.path in mine or not node.dimension_names:
            continue
        lengths = [dim.array_length for dim in node.shape]
        shape = [
            grown[dim].size if dim in grown and size == grown[dim].old_size else size
            for dim, size in zip(node.dimension_names, lengths, strict=True)
        ]
        if shape != lengths:
            _require_fillable(node)
            found[node.path] = reshaped(node.user_data, shape)
    return found


def _require_fillable(node: ArrayNode) -> None:
    """Refuse to let an array grow whose new cells would read as values, and not as missing."""
    variable = variable_of(node)
    layout = array_layout(node)
    decoder = variable.decoder(Rules())
    if layout is None or not (decoder.fills or decoder.nan_is_missing):
        return
    first = np.full(1, layout.chain.fill_value, variable.dtype)
    if decoder.decode(first).missing is None:
        raise unsuitable(
            f"{variable} would grow too, and what is not written of it would read as values; "
            "write it as well"
        )


def _require_once(path: str, written: Sequence[WrittenChunks]) -> None:
    """Refuse chunks that two tasks have: their rows were for the same cells."""
    if len(written) < 2:
        return
    coords = np.concatenate([each.coords for each in written])
    if len(np.unique(coords, axis=0)) < len(coords):
        raise duplicate_error(f"several tasks have rows for the same cells of {path!r}")


def _write_labels(plan: WritePlan, session: Session) -> None:
    for axis in plan.axes:
        if axis.size > axis.old_size:
            assert axis.values is not None, "a dimension without labels does not grow"
            write_region(
                session, axis.path, slice(axis.old_size, axis.size), axis.values[axis.old_size :]
            )


# --- a region without rows ---


def _cleared(plan: WritePlan, written: Sequence[WrittenChunks]) -> Iterator[WrittenChunks]:
    """Empty the chunks of a region, or of what is appended, that no row was for."""
    grown = [axis for axis in plan.axes if axis.size > axis.old_size]
    for group in plan.groups:
        arrays = [plan.arrays[number] for number in group.arrays]
        masks = [np.ones(axis.size, bool) for axis in plan.axes]
        if plan.region is not None:
            masks = list(plan.region)
        elif grown and not all(array.is_blank_absent for array in arrays if not array.is_new):
            for axis in grown:
                masks[plan.axes.index(axis)] = np.arange(axis.size) >= axis.old_size
        else:
            continue
        yield from _cleared_group(plan, group, masks, written)


def _cleared_group(
    plan: WritePlan, group: ChunkGroup, masks: Sequence[Mask], written: Iterable[WrittenChunks]
) -> Iterator[WrittenChunks]:
    grid = plan.arrays[group.arrays[0]].grid
    numbers = np.array([0])
    for axis, along in zip(group.axes, grid, strict=True):
        touched = np.unique(along.chunk_of(np.flatnonzero(masks[axis])))
        numbers = (numbers[:, None] * along.count + touched).ravel()
    done = [np.zeros(0, np.int64)]
    done += [chunk_numbers(grid, each.coords) for each in written if each.array == group.arrays[0]]
    left = np.setdiff1d(numbers, np.concatenate(done))
    yield from ChunkWriter(plan, group).clear(left.tolist())
