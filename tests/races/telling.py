"""What statistics tell after actors have met: nothing untrue, and nothing that was erased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from frazil.bulk.fetch import NATIVE
from frazil.errors import FormatError
from frazil.ids import ChunkId
from frazil.statistics.files import list_files, loaded
from frazil.statistics.lookup import lookup
from frazil.storage.assets import chunk_key
from tests.races.actors import Actor
from tests.races.worlds import Place, open_for_all


def told_wrongly(place: Place, actors: Sequence[Actor]) -> list[str]:
    """What is wrong with the statistics of a place, if there are any."""
    if not list_files(place.memory):
        return []
    return [*_untrue(place, actors), *(_erased(place) if _only_purged(actors) else [])]


def _untrue(place: Place, actors: Sequence[Actor]) -> list[str]:
    """Chunks of which something is told that is not so."""
    session = open_for_all(place.memory).readonly_session("main")
    bad = []
    for node in session.state.arrays():
        coords = np.indices(node.grid).reshape(len(node.grid), math.prod(node.grid)).T
        found = lookup(session.state, node, coords)
        array = session.array(node.path)
        try:
            values, sizes = np.asarray(array[...]), cast("tuple[int, ...]", array.chunks)
        except FormatError:
            if not any("rechunk" in actor.operation.name for actor in actors):
                raise
            continue  # who writes bytes of a chunk does not know of new codecs
        for row, at in enumerate(coords.tolist()):
            if not found.has_extremes[row] or found.missing[row]:
                continue
            box = (slice(n * size, (n + 1) * size) for n, size in zip(at, sizes, strict=True))
            part = values[tuple(box)]
            if (found.min[row], found.max[row]) != (part.min(), part.max()):
                bad.append(f"statistics of {node.path} {at} tell {found.min[row]}, not {part}")
    return bad


def _only_purged(actors: Sequence[Actor]) -> bool:
    """Whether bytes are gone for no other reason than that somebody erased them."""
    names = [actor.operation.name for actor in actors]
    is_erased = any(actor.operation.name.startswith("purge") and actor.done for actor in actors)
    others = ("collect", "expire", "aside", "trash", "upgrade")
    return is_erased and not any(word in name for name in names for word in others)


def _erased(place: Place) -> list[str]:
    """Chunks that are gone, and of which something is told."""
    bad = []
    for item, rows in loaded(place.memory, list_files(place.memory)):
        for owner in rows["owner"][rows["kind"] == NATIVE, :12]:
            key = chunk_key(ChunkId(owner.tobytes()))
            if place.memory.head(key) is None:
                bad.append(f"{item.key} tells of {key}, which was erased")
    return bad
