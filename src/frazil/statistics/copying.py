"""Copies the statistics of a version to a clone of it, for the chunks that are copied."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from frazil.arrays import ByteStrings
from frazil.bulk.fetch import ChunkReferences
from frazil.model.chunks import ChunkTable
from frazil.statistics.files import read_index, store
from frazil.statistics.records import decoding_of, identified, row_keys
from frazil.storage.base import Storage
from frazil.transaction.working import WorkingState


def copy_statistics(state: WorkingState, tables: Mapping[str, ChunkTable], target: Storage) -> int:
    """Copy what is known of the chunks in some tables of arrays; tell how many rows there were."""
    wanted: dict[bytes, list[ByteStrings]] = {}
    for path, table in tables.items():
        decoding = decoding_of(state.array(path))
        if decoding is not None and len(table):
            expand = state.context.containers.expand
            rows, known = identified(ChunkReferences.of(table), decoding.layout.grid, expand)
            wanted.setdefault(decoding.id, []).append(row_keys(rows[known]))
    copied = 0
    for decoding_id, parts in wanted.items():
        index = read_index(state.context.place, decoding_id)
        chosen = index.rows[np.isin(index.keys, np.concatenate(parts))]
        store(target, decoding_id, chosen)
        copied += len(chosen)
    return copied
