"""What is analyzed, what is known afterwards, and that it is never wrong."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import NodeNotFoundError, ReadOnlyError
from frazil.model.config import RepositoryConfig
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.statistics import analyzing
from frazil.statistics.analyzing import Measure
from frazil.statistics.files import PREFIX
from frazil.statistics.lookup import lookup
from frazil.statistics.tuning import MANY_FILES
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.unit.statistics.samples import all_coords, files, known, make, require_true, write

VALUES = np.arange(49.0).reshape(7, 7)
COORDS = all_coords((7, 7), (3, 3))


def test_only_chunks_without_statistics_are_read(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    write(repo, "a", VALUES)
    write(repo, "group/b", VALUES.astype("i4"))
    told: list[Progress] = []
    planned = repo.audit.analyze(dry_run=True)
    assert (planned.chunks, files(storage)) == (18, [])
    first = repo.audit.analyze(path="group", progress=told.append)
    assert (first.arrays, first.chunks, first.known, first.files) == (1, 9, 0, 1)
    assert told[-1] == Progress("chunks", 9, 9)
    second = repo.audit.analyze()
    assert (second.arrays, second.chunks, second.known, second.failed) == (2, 9, 9, 0)
    assert second.bytes_read + first.bytes_read == planned.bytes_read
    assert repo.audit.analyze().chunks == 0
    found = known(repo, "a", COORDS)
    assert found.known.all()
    require_true(found, VALUES, COORDS, (3, 3))
    with pytest.raises(NodeNotFoundError):
        repo.audit.analyze(path="c")


def test_they_hold_in_every_version_and_are_never_stale(storage: MemoryStorage) -> None:
    repo = make(storage)
    first = write(repo, "a", VALUES)
    repo.audit.analyze()
    session = repo.writable_session("main")
    session.array("a")[:3, :3] = 1000.0
    session.commit("overwritten")
    now = VALUES.copy()
    now[:3, :3] = 1000.0
    found = known(repo, "a", COORDS)
    assert found.known.sum() == 8
    require_true(found, now, COORDS, (3, 3))
    repo.create_branch("old", first)
    assert known(repo, "a", COORDS, "old").known.all()
    repo.audit.analyze("main")
    assert known(repo, "a", COORDS).known.all()
    require_true(known(repo, "a", COORDS), now, COORDS, (3, 3))


def test_a_longer_array_does_not_count_cells_that_were_beyond_its_end(
    storage: MemoryStorage,
) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    repo.audit.analyze()
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a").resize((9, 7))
    session.commit("longer")
    found = known(repo, "a", all_coords((9, 7), (3, 3)))
    now = np.zeros((9, 7))
    now[:7] = VALUES
    assert found.known.sum() == 6
    require_true(found, now, all_coords((9, 7), (3, 3)), (3, 3))


def test_damaged_chunks_are_told_and_the_rest_is_kept(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    keys = [item.key for item in storage.list("chunks/")]
    storage.put(keys[0], b"nonsense")
    storage.delete_many([keys[1]])
    done = repo.audit.analyze()
    assert (done.chunks, done.failed, len(done.problems)) == (7, 2, 2)
    assert all(each.startswith("/a (") for each in done.problems)
    assert known(repo, "a", COORDS).known.sum() == 7


def test_many_files_become_few(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzing, "TASK_CHUNKS", 1)
    monkeypatch.setattr(analyzing, "HELD_ROWS", 1)
    repo = make(storage)
    write(repo, "a", np.arange(60.0), chunks=(3,))
    done = repo.audit.analyze()
    assert done.files == 20 > MANY_FILES
    assert (done.files_merged, len(files(storage))) == (19, 1)
    assert known(repo, "a", all_coords((60,), (3,))).known.all()


def test_virtual_chunks_need_a_checksum(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(np.arange(8, dtype="<i8").tobytes())
    prefix = f"file://{tmp_path}/"
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    access = {prefix: frazil.LocalFileSystemAccess}
    storage = MemoryStorage()
    repo = Repository.create(storage, config, authorize_virtual_chunk_access=access)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="v", shape=(8,), chunks=(2,), dtype="<i8",
                      compressors=None)  # fmt: skip
    unchanged_since = datetime.now(UTC) + timedelta(hours=1)
    for chunk in range(4):
        checksum = None if chunk == 3 else unchanged_since
        session.store.set_virtual_ref(
            f"v/c/{chunk}", f"{prefix}source", offset=16 * chunk, length=16, checksum=checksum
        )
    session.commit("virtual")
    done = repo.audit.analyze()
    assert (done.chunks, done.without, done.failed) == (3, 1, 0)
    coords = all_coords((8,), (2,))
    found = known(repo, "v", coords)
    assert found.known.tolist() == [True, True, True, False]
    require_true(found, np.arange(8), coords, (2,))
    unauthorized = Repository.open(storage)
    assert known(unauthorized, "v", coords).known.sum() == 3


def test_unwritten_changes_of_a_session_are_not_mistaken(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    repo.audit.analyze()
    session = repo.writable_session("main")
    session.array("a")[0, 0] = -5.0
    found = lookup(session.state, session.state.array("/a"), COORDS)
    assert found.known.sum() == 8
    assert not found.known[0]


def test_work_can_be_sent_elsewhere_and_nothing_is_written_where_it_must_not(
    storage: MemoryStorage,
) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    assert isinstance(pickle.loads(pickle.dumps(Measure(context_of(repo)))), Measure)
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))
    with pytest.raises(ReadOnlyError):
        Repository.open(storage).audit.analyze()
    assert not [*storage.list(PREFIX)]
