"""Statistics go with the chunks that are copied to a clone, and no others do."""

from __future__ import annotations

import numpy as np
import zarr

from frazil.model.chunks import ChunkTable
from frazil.repository import Repository
from frazil.statistics.copying import copy_statistics
from frazil.storage.memory import MemoryStorage
from frazil.transaction.working import WorkingState
from frazil.transfer.cloning import clone
from tests.unit.statistics.samples import (
    all_coords,
    files,
    known,
    make,
    require_true,
    row_count,
    write,
)

VALUES = np.arange(1.0, 50.0).reshape(7, 7)
COORDS = all_coords((7, 7), (3, 3))


def at_main(repo: Repository) -> tuple[WorkingState, dict[str, ChunkTable]]:
    """The newest version, and the references of its arrays."""
    state = repo.readonly_session("main").state
    return state, {node.path: state.table(node) for node in state.arrays()}


def test_a_clone_of_all_has_them_and_that_of_a_version_only_its_own(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    write(repo, "a", VALUES)
    repo.audit.analyze()
    write(repo, "a", VALUES + 1)
    repo.audit.analyze()
    whole, part = MemoryStorage(), MemoryStorage()
    clone(repo, whole)
    clone(repo.readonly_session("main"), part)
    assert (row_count(whole), row_count(part)) == (18, 9)
    for place in (whole, part):
        copy = Repository.open(place)
        assert known(copy, "a", COORDS).known.all()
        require_true(known(copy, "a", COORDS), VALUES + 1, COORDS, (3, 3))


def test_only_rows_of_the_given_chunks_are_copied(storage: MemoryStorage) -> None:
    repo = make(storage)
    for name in ("a", "b"):
        write(repo, name, VALUES + len(name))
    repo.audit.analyze()
    state, tables = at_main(repo)
    target = MemoryStorage()
    assert copy_statistics(state, {"/b": tables["/b"]}, target) == 9
    assert row_count(target) == 9
    assert row_count(storage) == 18


def test_arrays_of_one_decoding_share_a_file(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    write(repo, "b", VALUES - 1)
    write(repo, "other", VALUES.astype("i4"))
    repo.audit.analyze()
    target = MemoryStorage()
    assert copy_statistics(*at_main(repo), target) == 27
    assert len(files(target)) == 2


def test_what_was_never_analyzed_or_has_no_chunks_leaves_no_file(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="empty", shape=(4,), chunks=(2,), dtype="f8")
    session.commit("an array without chunks")
    target = MemoryStorage()
    assert copy_statistics(*at_main(repo), target) == 0
    assert not files(target)
