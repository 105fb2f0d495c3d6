"""Upkeep by the official names: what they return, refuse and warn about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import ReadOnlyError
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import ReadOnlyStorage
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, write_keys

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repository(request: pytest.FixtureRequest) -> Repository:
    """Three commits, each of which overwrites one chunk of ten bytes."""
    made = Repository.create(MemoryStorage(), CONFIG, spec_version=request.param)
    for number in range(3):
        session = made.writable_session("main")
        write_keys(session, {"a/zarr.json": array_document(2), "a/c/0": b"%d" % number * 10})
        session.commit(str(number))
    return made


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def test_ids_of_released_snapshots_are_returned(repository: Repository) -> None:
    newest, *older, _root = repository.ancestry(branch="main")
    assert repository.expire_snapshots(newest.written_at) == {info.id for info in older}
    assert repository.expire_snapshots(newest.written_at) == set()


def test_a_dry_run_counts_what_a_collection_deletes(repository: Repository) -> None:
    repository.expire_snapshots(later())
    planned = repository.garbage_collect(later(), dry_run=True, unsafe_minimum_age=AT_ONCE)
    done = repository.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert planned.chunks_deleted == done.chunks_deleted == 2
    assert planned.snapshots_deleted == done.snapshots_deleted == 2
    assert planned.bytes_deleted == done.bytes_deleted > 20
    again = repository.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert again.chunks_deleted == again.bytes_deleted == 0


def test_young_objects_are_spared(repository: Repository) -> None:
    repository.expire_snapshots(later())
    assert repository.garbage_collect(later()).chunks_deleted == 0
    week = timedelta(days=7)
    assert repository.garbage_collect(later(), unsafe_minimum_age=week).chunks_deleted == 0


def test_a_place_that_can_only_be_read_keeps_everything(repository: Repository) -> None:
    reading = Repository.open(ReadOnlyStorage(repository.storage))
    with pytest.raises(ReadOnlyError):
        reading.expire_snapshots(later())
    with pytest.raises(ReadOnlyError, match="cannot collect garbage"):
        reading.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert reading.chunk_storage_stats().native_bytes == 30


async def test_the_older_name_of_the_statistics_warns(repository: Repository) -> None:
    with pytest.warns(DeprecationWarning, match="use chunk_storage_stats"):
        assert repository.total_chunks_storage() == 30
    with pytest.warns(DeprecationWarning, match="use chunk_storage_stats_async"):
        assert await repository.total_chunks_storage_async() == 30


def test_files_are_shown_as_plain_data(repository: Repository) -> None:
    tip = repository.lookup_branch("main")
    assert repository.inspect_snapshot(tip)["id"] == tip
    [manifest] = repository.list_manifest_files(tip)
    assert manifest.id in str(repository.inspect_manifest(manifest.id))
    assert "updated_chunks" in str(repository.inspect_transaction_log(tip))
