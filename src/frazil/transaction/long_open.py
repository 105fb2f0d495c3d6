"""Sessions that are open so long that a garbage collection may have deleted their chunks.

Uncommitted chunks look like garbage, and collections spare them for a day only. The commit of an
older session checks that all its chunks exist: before it publishes and, because a collection may
run at the same time, again afterwards. Younger sessions skip both checks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.commit.base import MINIMUM_AGE, Publication
from frazil.errors import ErrorKind, FrazilError, SessionStateError
from frazil.ids import crockford_many
from frazil.model.chunks import ChunkType
from frazil.storage.assets import CHUNKS, manifest_key
from frazil.storage.base import Storage
from frazil.storage.pool import fan_out
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.context import Context

MARGIN: Final = timedelta(hours=4)
"""Safety margin, because clocks differ and commits take time."""
OF_SESSION: Final = ("this session", "write them again")


def was_long_ago(began: float) -> bool:
    """Whether an object written at a time is old enough to be collected."""
    return time.time() - began > (MINIMUM_AGE - MARGIN).total_seconds()


def is_long_open(context: Context, changes: ChangeSet) -> bool:
    """Whether changes are so old that a garbage collection may have deleted their chunks.

    On storages where that is free, the age of a chunk is looked up. Elsewhere the clock of this
    machine decides. It also does for chunks of older snapshots, which the commit requires to exist.
    """
    if was_long_ago(changes.began):
        return True
    may_look = context.storage.answers_inline and not changes.sources
    some = _some_chunk(changes) if may_look else None
    if some is None:
        return False
    seen = context.storage.head(some)
    return seen is None or was_long_ago(seen.created_at.timestamp())


def _some_chunk(changes: ChangeSet) -> str | None:
    native = next(_native_ids(changes), None)
    return None if native is None else f"{CHUNKS}{crockford_many(native[:1])[0]}"


def _native_ids(changes: ChangeSet) -> Iterator[npt.NDArray[np.uint8]]:
    """The ids of chunk objects, for each array that has any; small commits often have none."""
    for changed in changes.chunks.values():
        table, _ = changed.columns()
        if ChunkType.native in table.kind.tobytes():
            yield table.chunk_id[table.kind == ChunkType.native]


def chunk_keys(changes: ChangeSet) -> Iterator[str]:
    """The chunk objects that changes refer to, once for each array."""
    for native in _native_ids(changes):
        distinct = np.unique(np.ascontiguousarray(native).view("S12"))  # as rows it is slow
        for name in crockford_many(distinct.view(np.uint8).reshape(-1, 12)):
            yield f"{CHUNKS}{name}"


def require_chunks(context: Context, changes: ChangeSet) -> None:
    """Refuse changes that were begun long ago if one of their chunks is gone."""
    if not is_long_open(context, changes):
        return
    keys = [*chunk_keys(changes)]
    for ready in changes.ready.values():
        for file in ready.files:
            if context.storage.head(manifest_key(file.id)) is None:
                raise _gone([manifest_key(file.id)], *OF_SESSION)
            needed = context.assets.fresh_native_chunks(file.id)
            keys += [f"{CHUNKS}{name}" for name in crockford_many(needed)]
    require_objects(context.storage, keys, *OF_SESSION)


def require_objects(storage: Storage, keys: Iterable[str], whose: str, cure: str) -> None:
    """Refuse unless all these objects exist; the error says what to do."""
    wanted = [*keys]
    found = fan_out(storage.head, wanted)
    missing = [key for key, item in zip(wanted, found, strict=True) if item is None]
    if missing:
        raise _gone(missing, whose, cure)


def confirm_chunks(context: Context, publication: Publication, changes: ChangeSet) -> None:
    """Check again after a commit of such changes, and undo it if a chunk is gone."""
    try:
        require_chunks(context, changes)
    except SessionStateError as error:
        try:
            context.refs.reset_branch(publication.branch, publication.base, publication.entry.id)
        except FrazilError as failure:
            error.add_note(f"what was published could not be taken back: {failure}")
        raise


def _gone(keys: list[str], whose: str, cure: str) -> SessionStateError:
    return SessionStateError(
        f"{len(keys)} objects that {whose} wrote are gone: it took so long that a "
        f"garbage collection took them for garbage; {cure}",
        kind=ErrorKind.OBJECT_NOT_FOUND,
        key=keys[0],
    )
