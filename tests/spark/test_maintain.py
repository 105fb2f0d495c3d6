"""Upkeep on Spark: what it finds and does is what the driver-side versions find and do."""

from __future__ import annotations

import os
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import frazil
from frazil.errors import InvalidInputError
from frazil.ids import ChunkId
from frazil.maintenance.collecting import carry_out
from frazil.maintenance.walk import WalkLimits, chunks_by, native_chunks
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.spark import (
    FrazilTable,
    collect_garbage,
    compact_chunks,
    find_garbage,
    storage,
    verify,
)
from frazil.spark.runner import SparkRunner
from frazil.storage.assets import chunk_key
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE

SOON = timedelta(minutes=5)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A repository with two commits of 8 chunks each, and one that nothing leads to."""
    path = tmp_path / "repo"
    repository = frazil.Repository.create(path)
    rng = np.random.default_rng(1)
    for number in range(3):
        session = repository.writable_session("main")
        session.pack_writes = False
        if not number:
            zarr.create_array(
                session.store, name="v", shape=(1024,), chunks=(128,), dtype="f8", compressors=None
            )
        zarr.open_array(session.store, path="v", mode="a")[...] = rng.normal(size=1024)
        session.commit(f"number {number}")
    ids = [info.id for info in repository.ancestry(branch="main")]
    repository.reset_branch("main", ids[1])
    return path


def later() -> datetime:
    """A time after everything that the tests wrote."""
    return datetime.now(UTC) + SOON


def test_garbage_is_what_the_driver_finds(spark: SparkSession, made: Path) -> None:
    repository = frazil.Repository.open(made)
    expected = repository.garbage_collect(later(), dry_run=True, unsafe_minimum_age=AT_ONCE)
    found = find_garbage(
        str(made), later(), spark=spark, unsafe_minimum_age=AT_ONCE
    ).frame.collect()
    kinds = [row["key"].partition("/")[0] for row in found]
    assert kinds.count("chunks") == expected.chunks_deleted == 8
    assert kinds.count("manifests") == expected.manifests_deleted == 1
    assert kinds.count("snapshots") == expected.snapshots_deleted == 1
    assert sum(row["size_bytes"] for row in found) == expected.bytes_deleted
    assert all((made / row["key"]).exists() for row in found)
    assert {row["reason"].rpartition(": ")[2] for row in found} >= {"chunks", "manifests"}
    young = find_garbage(
        str(made), datetime.now(UTC) - SOON, spark=spark, unsafe_minimum_age=AT_ONCE
    ).frame
    assert young.count() == 0


def test_garbage_is_collected_when_told(spark: SparkSession, made: Path) -> None:
    before = sorted(made.rglob("*"))
    planned = collect_garbage(str(made), later(), spark=spark, unsafe_minimum_age=AT_ONCE)
    assert planned.chunks_deleted == 8
    assert sorted(made.rglob("*")) == before
    done = collect_garbage(
        str(made), later(), spark=spark, dry_run=False, unsafe_minimum_age=AT_ONCE
    )
    assert (done.chunks_deleted, done.bytes_deleted) == (8, planned.bytes_deleted)
    assert len(list((made / "chunks").iterdir())) == 16
    assert verify(str(made), spark=spark, all_history=True).count() == 0
    again = collect_garbage(str(made), later(), spark=spark, unsafe_minimum_age=AT_ONCE)
    assert again.chunks_deleted == 0


def test_what_executors_find_and_is_told_as_removed_is_what_was_removed(
    spark: SparkSession, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody makes a branch of what was garbage when it was looked for."""
    monkeypatch.setattr("frazil.spark.table.MANY_REFS", 0)
    repository = frazil.Repository.open(made)
    reached = {info.id for info in repository.ancestry(branch="main")}
    (lost,) = {file.name for file in (made / "snapshots").iterdir()} - reached
    orphan = made / "chunks" / str(ChunkId.random())
    orphan.write_bytes(b"left over")
    before = {*made.glob("*/*")}
    table = FrazilTable.for_path(spark, str(made))
    assert table.remove_orphan_files(later(), dry_run=True).count() == 0  # all is too young

    def after_others(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        repository.create_branch("again", lost)
        return carry_out(*args, **options)

    monkeypatch.setattr("frazil.spark.upkeep.garbage.carry_out", after_others)
    removed = table.remove_orphan_files(later(), unsafe_minimum_age="0h").collect()
    assert before - {*made.glob("*/*")} == {orphan}
    told = [row["orphan_file_location"].rpartition("/")[2] for row in removed]
    assert told == [orphan.name]


def test_expiry_by_executors(
    spark: SparkSession, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.spark.table.MANY_REFS", 0)
    table = FrazilTable.for_path(spark, str(made))
    (planned,) = table.expire_snapshots(later(), dry_run=True, unsafe_minimum_age=AT_ONCE).collect()
    assert len(list((made / "chunks").iterdir())) == 24
    (done,) = table.expire_snapshots(later(), unsafe_minimum_age="0h").collect()
    assert done == planned
    assert (done.deleted_data_files_count, done.deleted_manifest_files_count) == (16, 2)
    assert len(list((made / "chunks").iterdir())) == 8
    assert verify(str(made), spark=spark, all_history=True).count() == 0


def test_garbage_by_an_inventory(spark: SparkSession, made: Path) -> None:
    files = sorted((made / "chunks").iterdir())
    old, young = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC) + timedelta(days=1)
    listed = spark.createDataFrame(
        pa.table(
            {
                "path": [f"s3://bucket/{file.relative_to(made)}" for file in files],
                "length": [file.stat().st_size for file in files],
                "modificationTime": pa.array([old] * len(files), pa.timestamp("us", "UTC")),
            }
        )
    )
    found = find_garbage(
        str(made), later(), spark=spark, inventory=listed, unsafe_minimum_age=AT_ONCE
    ).frame.collect()
    chunks = [row for row in found if row["key"].startswith("chunks/")]
    assert len(chunks) == 8
    assert all(row["age_seconds"] >= 30 * 86_400 for row in chunks)
    with pytest.raises(InvalidInputError, match="no column"):
        find_garbage(
            str(made),
            later(),
            spark=spark,
            inventory=listed.drop("length"),
            unsafe_minimum_age=AT_ONCE,
        )
    fresh = listed.withColumn("modificationTime", f.lit(young))
    table = FrazilTable.for_path(spark, str(made))
    removed = table.remove_orphan_files(
        later(), dry_run=True, inventory=fresh, unsafe_minimum_age=AT_ONCE
    ).collect()
    assert {row["orphan_file_location"].rpartition("/")[2] for row in removed} == {
        row["key"].rpartition("/")[2] for row in found if row not in chunks
    }


def test_an_inventory_with_wrong_times_deletes_nothing_young(
    spark: SparkSession, made: Path
) -> None:
    """Times without a zone, for example, are read in that of the session."""
    old, young = (made / "chunks" / str(ChunkId.random()) for _ in range(2))
    for file in (old, young):
        file.write_bytes(b"of a session that is not committed")
    aged = datetime.now(UTC).timestamp() - 2 * 86_400
    os.utime(old, (aged, aged))
    files = sorted((made / "chunks").iterdir())
    said = datetime.now(UTC) - timedelta(days=30)
    listed = spark.createDataFrame(
        pa.table(
            {
                "key": [f"chunks/{file.name}" for file in files],
                "size": [file.stat().st_size for file in files],
                "last_modified": pa.array([said] * len(files), pa.timestamp("us", "UTC")),
            }
        )
    )
    done = collect_garbage(str(made), later(), spark=spark, inventory=listed, dry_run=False)
    assert done.chunks_deleted == 1
    assert (old.exists(), young.exists()) == (False, True)


def test_verification_names_what_is_wrong(spark: SparkSession, made: Path) -> None:
    url = str(made)
    assert verify(url, spark=spark).count() == 0
    rows = FrazilTable.for_path(spark, url).metadata_table("chunks").collect()
    first, second = sorted({row["location"] for row in rows})[:2]
    (made / first).unlink()
    (made / second).write_bytes(b"short")
    found = {row["target"]: row for row in verify(url, spark=spark).collect()}
    assert {key: row["code"] for key, row in found.items()} == {
        first: "chunk-missing",
        second: "chunk-short",
    }
    assert found[second]["detail"] == "it has 5 bytes, 1024 are needed"
    assert all((row["path"], row["references"]) == ("/v", 1) for row in found.values())
    manifest = next(iter({row["manifest"] for row in rows}))
    (made / manifest).write_bytes(b"not a manifest")
    found_all = verify(url, spark=spark, all_history=True).collect()
    assert ("file-short", manifest) in {(row["code"], row["target"]) for row in found_all}


def test_virtual_sources_that_changed(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "b", "c"):
        (data / name).write_bytes(np.arange(8).tobytes())
    config = frazil.RepositoryConfig()
    prefix = f"file://{data}/"
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(data)))
    )
    repository = frazil.Repository.create(tmp_path / "repo", config=config)
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(24,), chunks=(8,), dtype="i8", compressors=None
    )
    for number, name in enumerate(("a", "b", "c")):
        session.store.set_virtual_ref(
            f"v/c/{number}",
            f"{prefix}{name}",
            offset=0,
            length=64,
            checksum=datetime.now(UTC) + timedelta(seconds=2),
        )
    session.commit("virtual")
    url = str(tmp_path / "repo")
    given = {"authorize-virtual-chunk-access": prefix}
    assert verify(url, spark=spark, virtual=True, options=given).count() == 0
    (data / "b").unlink()
    (data / "c").write_bytes(b"x")
    found = verify(url, spark=spark, virtual=True, options=given).collect()
    assert {row["target"].rpartition("/")[2] for row in found} == {"b", "c"}
    assert verify(url, spark=spark, virtual=True).count() == 3


def test_compaction(spark: SparkSession, made: Path) -> None:
    repository = frazil.Repository.open(made)
    before = zarr.open_array(repository.readonly_session("main").store, path="v")[...]
    planned = compact_chunks(str(made), spark=spark, dry_run=True)
    assert (planned.chunks, planned.objects_before, planned.snapshot_id) == (8, 8, None)
    done = compact_chunks(str(made), spark=spark, message="pack")
    assert (done.chunks, done.objects_after) == (8, 1)
    assert next(iter(repository.ancestry(branch="main"))).message == "pack"
    after = zarr.open_array(repository.readonly_session("main").store, path="v")[...]
    np.testing.assert_array_equal(after, before)
    assert compact_chunks(str(made), spark=spark).snapshot_id is None


def test_storage_by_array_snapshot_and_branch(spark: SparkSession, made: Path) -> None:
    url = str(made)
    by_array = storage(url, spark=spark).collect()
    assert [(row["node_path"], row["chunks"], row["native_bytes"]) for row in by_array] == [
        ("/v", 8, 8192)
    ]
    by_snapshot = {
        row["snapshot_id"]: row for row in storage(url, "snapshot", spark=spark).collect()
    }
    assert sorted(row["native_bytes"] for row in by_snapshot.values()) == [8192, 8192]
    by_branch = storage(url, "branch", spark=spark).collect()
    assert [(row["branch"], row["native_bytes"]) for row in by_branch] == [("main", 16384)]
    with pytest.raises(InvalidInputError, match="by must be"):
        storage(url, "moon", spark=spark)


def test_chunks_in_use_are_told_to_the_driver_by_twelve_bytes_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A repository may have a hundred million of them, and the driver a few GiB."""
    count = 100_000
    repository = frazil.Repository.create(tmp_path / "repo")
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="v", shape=(count,), chunks=(1,), dtype="u1")
    ids = np.random.default_rng(3).integers(0, 256, (count // 2, 12), np.uint8)
    refs = [((n,), NativeRef(ChunkId(bytes(ids[n // 2])), n % 2 * 9, 9)) for n in range(count)]
    session.state.set_table(session.state.array("/v"), ChunkTable.from_refs(1, refs))
    # A commit looks at one of its chunks to tell the age of its session.
    repository.storage.put(chunk_key(ChunkId(bytes(ids[0]))), bytes(18))
    session.commit("references")
    files = session.state.base.manifest_files
    expected = native_chunks(context_of(repository).assets, files, WalkLimits())
    assert len(expected) == count // 2
    look = chunks_by(SparkRunner(spark), context_of(repository))
    tracemalloc.start()
    found = look(context_of(repository).assets, files, WalkLimits())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(found.rows(), expected.rows())
    assert peak < 60 * count // 2
    nothing = look(context_of(repository).assets, (), WalkLimits())
    assert len(nothing) == 0
