"""Finds the commits that changed an array, and the chunks that each of them wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from frazil.arrays import Coords
from frazil.ids import NodeId
from frazil.model.history import SnapshotEntry, TransactionLog, to_datetime
from frazil.transaction.opened import context_of
from frazil.web.library import ServedRepository
from frazil.web.settings import RequestLimits


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """One commit that touched an array; `chunks` is None where it may have changed all of them."""

    entry: SnapshotEntry
    what: str
    chunks: Coords | None

    def as_data(self) -> dict[str, Any]:
        """For the page: when, by which commit, how much."""
        return {
            "id": str(self.entry.id),
            "time": to_datetime(self.entry.flushed_at).isoformat(),
            "message": self.entry.message[:300],
            "what": self.what,
            "chunks": None if self.chunks is None else len(self.chunks),
        }


@dataclass(frozen=True, slots=True)
class Touches:
    """The commits that touched an array, newest first."""

    found: tuple[Touch, ...]
    is_cut: bool
    """whether older commits were not looked at"""


def touches(
    shown: ServedRepository, snapshot_id: str, node_id: NodeId, limits: RequestLimits
) -> Touches:
    """Follow the ancestry of a snapshot back to where the array was made."""
    context = context_of(shown.repository)
    found: list[Touch] = []
    for number, entry in enumerate(context.refs.ancestry(shown.parse(snapshot_id))):
        if number >= limits.logs:
            return Touches(tuple(found), is_cut=True)
        made, parts = False, []
        for log_id in (entry.id, *reversed(entry.pruned_ancestor_tx_logs)):
            log = context.assets.log(log_id)
            if log is not None and (part := _part(log, node_id)) is not None:
                parts.append(part)
                made = made or part[0] == "created"
        if parts:
            found.append(_joined(entry, parts))
        if made:
            break
    return Touches(tuple(found), is_cut=False)


def _part(log: TransactionLog, node_id: NodeId) -> tuple[str, Coords | None] | None:
    chunks = log.updated_chunks.get(node_id)
    if node_id in log.new_arrays:
        return "created", chunks
    if node_id in log.updated_arrays:
        return "metadata", chunks
    if chunks is not None and len(chunks):
        return "chunks", chunks
    moved = any(move.node_id == node_id for move in log.moved_nodes)
    return ("moved", chunks) if moved else None


def _joined(entry: SnapshotEntry, parts: list[tuple[str, Coords | None]]) -> Touch:
    words = dict.fromkeys(what for what, _ in parts)
    written = [chunks for _, chunks in parts if chunks is not None and len(chunks)]
    one = np.unique(np.concatenate(written), axis=0) if written else np.zeros((0, 0), np.uint32)
    return Touch(entry, ", ".join(words), one)
