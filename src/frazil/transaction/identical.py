"""Writes that change nothing: a chunk whose bytes are those it has keeps its reference.

Off unless a session or the configuration asks for it, because what is there must be read. Only
bytes that lie in the repository are compared, never those of virtual chunks.
"""

from __future__ import annotations

import numpy as np

from frazil import config
from frazil.errors import StorageError
from frazil.model.chunks import VirtualRef
from frazil.model.nodes import ArrayNode, Coordinates
from frazil.storage.base import Bytes
from frazil.transaction.working import WorkingState


def skips_identical(state: WorkingState, choice: bool | None = None) -> bool:
    """Whether writes to a session leave chunks alone that are equal already."""
    wanted = state.skip_identical if choice is None else choice
    return config.current().skip_identical_chunks if wanted is None else wanted


def is_equal(one: Bytes, other: Bytes) -> bool:
    """Whether two pieces of memory hold the same bytes."""
    if len(one) != len(other):
        return False
    return bool((np.frombuffer(one, np.uint8) == np.frombuffer(other, np.uint8)).all())


def holds(state: WorkingState, node: ArrayNode, coords: Coordinates, data: Bytes) -> bool:
    """Whether a chunk has exactly these bytes; an object that cannot be read has not."""
    ref = state.chunk_ref(node, coords)
    if ref is None or isinstance(ref, VirtualRef) or ref.length != len(data):
        return False
    try:
        return is_equal(state.context.read_chunk(ref), data)
    except StorageError:
        return False
