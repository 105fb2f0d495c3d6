"""What a runner does in another process: work and items go there as bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import zarr

import frazil
from frazil.bulk.write import write_region
from frazil.progress import Progress
from tests.support.runners import Elsewhere


def written(path: Path) -> frazil.Repository:
    """Two arrays of small chunks, once overwritten."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = frazil.Repository.create(path, config=config)
    for value in (1, 2):
        session = repository.writable_session("main")
        for name in ("a", "b"):
            zarr.create_array(
                session.store, name=name, shape=(64,), chunks=(8,), dtype="f8", overwrite=True
            )
            write_region(session, name, ..., np.arange(1.0, 65) * value, packing=False)
        session.commit(f"write {value}")
    return repository


def test_compaction_by_a_runner(tmp_path: Path) -> None:
    repository = written(tmp_path / "repo")
    runner = Elsewhere()
    told: list[Progress] = []
    done = repository.space.compact(metadata={"a": 1}, runner=runner, progress=told.append)
    assert (done.arrays, done.chunks, done.objects_before, done.objects_after) == (2, 16, 16, 2)
    assert runner.items == 2
    assert told == [Progress("packs", done, 2) for done in range(3)]
    tip = next(iter(repository.ancestry(branch="main")))
    counts = {"rewritten-chunks": 16, "rewritten-bytes": done.bytes_rewritten}
    assert {"a": 1, **counts, "where": "elsewhere"}.items() <= tip.metadata.items()
    store = repository.readonly_session("main").store
    for name in ("a", "b"):
        array = zarr.open_array(store, path=name, mode="r")
        np.testing.assert_array_equal(array[...], np.arange(1.0, 65) * 2)


def test_garbage_found_by_a_runner(tmp_path: Path) -> None:
    repository = written(tmp_path / "repo")
    repository.expire_snapshots(datetime.now(UTC) + timedelta(hours=1))
    later, at_once = datetime.now(UTC) + timedelta(hours=1), timedelta(0)
    here = repository.space.collect_garbage(later, unsafe_minimum_age=at_once, dry_run=True)
    runner = Elsewhere()
    found = repository.space.collect_garbage(
        later, unsafe_minimum_age=at_once, dry_run=True, runner=runner
    )
    assert found.files == here.files
    assert found.summary == here.summary
    assert found.summary.chunks_deleted == 16
    assert runner.items > 0
    done = repository.space.collect_garbage(later, unsafe_minimum_age=at_once, runner=runner)
    assert done.files == here.files
    assert done.trash is None
    assert repository.audit.fsck(deep=True).is_clean
    again = repository.space.collect_garbage(later, unsafe_minimum_age=at_once, dry_run=True)
    assert again.files == ()
