"""Metadata tables, compared with what the repository itself tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import InvalidInputError
from frazil.spark.tables.metadata import TABLES
from tests.support.spark import read_here


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, frazil.Repository, list[str]]:
    """A repository with groups, native, inline and virtual chunks, resets, a branch and a tag."""
    path = tmp_path_factory.mktemp("busy") / "repo"
    source = path.parent / "source.bin"
    source.write_bytes(np.arange(400, dtype="f8").tobytes())
    config = frazil.RepositoryConfig.default()
    prefix = f"file://{path.parent}/"
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(path.parent)))
    )
    repository = frazil.Repository.create(
        path, config, authorize_virtual_chunk_access={prefix: frazil.LocalFileSystemAccess}
    )
    ids = []
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    group = root.create_group("g", attributes={"a": 1})
    big = group.create_array("big", shape=(300, 10), chunks=(100, 10), dtype="f8", compressors=None)
    big[...] = np.arange(3000.0).reshape(300, 10)
    root.create_array("small", shape=(4,), chunks=(2,), dtype="i2")[...] = 7
    ids.append(session.commit("native and inline", {"author": "me", "run": 5}))
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array(
        "virtual", shape=(400,), chunks=(100,), dtype="f8", compressors=None, filters=None
    )
    for number in range(4):
        session.store.set_virtual_ref(
            f"virtual/c/{number}", f"file://{source}", offset=800 * number, length=800
        )
    ids.append(session.commit("virtual"))
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="g/big", mode="a")[150:160] = -1
    del zarr.open_group(session.store, mode="a")["small"]
    ids.append(session.commit("changed"))
    repository.create_branch("dev", ids[1])
    repository.create_tag("v1", ids[0])
    repository.reset_branch("dev", ids[0])
    return path, repository, ids


Busy = tuple[Path, frazil.Repository, list[str]]


def rows(path: Path, table: str, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    found: list[dict[str, Any]] = read_here(f"{path}#{table}", **options).to_pylist()
    return found


def test_snapshots(busy: Busy) -> None:
    path, repository, ids = busy
    found = {row["snapshot_id"]: row for row in rows(path, "snapshots")}
    assert list(found)[:3] == ids[::-1]
    for info in repository.ancestry(branch="main"):
        row = found[info.id]
        assert (row["committed_at"], row["parent_id"], row["message"]) == (
            info.written_at,
            info.parent_id,
            info.message,
        )
        assert (path / str(row["manifest_list"])).is_file()
    assert dict(found[ids[0]]["summary"]) == {"author": "me", "run": "5"}


def test_refs(busy: Busy) -> None:
    path, _, ids = busy
    found = [(row["name"], row["type"], row["snapshot_id"]) for row in rows(path, "refs")]
    assert found == [
        ("dev", "BRANCH", ids[0]),
        ("main", "BRANCH", ids[2]),
        ("v1", "TAG", ids[0]),
    ]


def test_history_tells_resets(busy: Busy) -> None:
    path, _, ids = busy
    main = rows(path, "history")
    assert [row["snapshot_id"] for row in main][1:] == ids
    assert all(row["is_current_ancestor"] for row in main)
    dev = rows(path, "history", branch="dev")
    assert [(row["snapshot_id"], row["is_current_ancestor"]) for row in dev] == [
        (ids[1], False),
        (ids[0], True),
    ]
    assert dev[0]["parent_id"] == ids[0]


def test_nodes_and_arrays(busy: Busy) -> None:
    path, _, _ = busy
    assert {(row["path"], row["type"]) for row in rows(path, "nodes", tag="v1")} == {
        ("/", "group"),
        ("/g", "group"),
        ("/g/big", "array"),
        ("/small", "array"),
    }
    found = {row["path"]: row for row in rows(path, "arrays", snapshot_id=busy[2][1])}
    assert set(found) == {"/g/big", "/small", "/virtual"}
    big = found["/g/big"]
    assert (big["shape"], big["chunk_shape"], big["dtype"]) == ([300, 10], [100, 10], "float64")
    assert (big["chunks_count"], big["native_count"], big["stored_bytes"]) == (3, 3, 24000)
    assert (found["/small"]["inline_count"], found["/virtual"]["virtual_count"]) == (2, 4)


def test_chunks(busy: Busy) -> None:
    path, _, ids = busy
    found = rows(path, "chunks", snapshot_id=ids[1])
    by_place = {(row["node_path"], tuple(row["chunk_index"])): row for row in found}
    assert len(found) == len(by_place) == 3 + 2 + 4
    native = by_place["/g/big", (1, 0)]
    assert (native["kind"], native["offset"], native["length"]) == ("native", 0, 8000)
    assert (path / str(native["location"])).stat().st_size >= 8000
    virtual = by_place["/virtual", (2,)]
    assert (virtual["kind"], virtual["offset"], virtual["length"]) == ("virtual", 1600, 800)
    assert str(virtual["location"]).endswith("source.bin")
    inline = by_place["/small", (0,)]
    assert (inline["kind"], inline["location"], inline["offset"]) == ("inline", None, None)
    assert all((path / str(row["manifest"])).is_file() for row in found)


def test_chunks_of_all_snapshots(busy: Busy) -> None:
    path, _, _ = busy
    found = rows(path, "all_chunks")
    big = {row["location"] for row in found if row["node_path"] == "/g/big"}
    assert len(big) == 4  # three, one of which was written anew
    assert {"/small", "/virtual"} <= {row["node_path"] for row in found}


def test_manifests(busy: Busy) -> None:
    path, repository, ids = busy
    found = rows(path, "manifests")
    files = {info.id: info for info in repository.list_manifest_files(ids[2])}
    assert {str(row["path"]).removeprefix("manifests/") for row in found} == set(files)
    total = sum(int(str(row["chunk_refs_count"])) for row in found)
    assert total == sum(info.num_chunk_refs for info in files.values())
    big = next(row for row in found if row["node_path"] == "/g/big")
    assert (big["extents_start"], big["extents_end"]) == ([0, 0], [3, 1])


def test_virtual_files(busy: Busy) -> None:
    (row,) = rows(busy[0], "virtual_files")
    assert str(row["location"]).endswith("source.bin")
    assert (row["chunks_count"], row["referenced_bytes"]) == (4, 3200)
    assert row["node_paths"] == ["/virtual"]


def test_ops_log(busy: Busy) -> None:
    path, repository, ids = busy
    found = rows(path, "ops_log")
    assert [row["operation"] for row in found] == [
        type(update.kind).__name__ for update in repository.ops_log()
    ]
    assert found[0]["operation"] == "BranchReset"
    assert (found[0]["ref"], found[0]["previous_snapshot_id"]) == ("dev", ids[1])


def test_changes(busy: Busy) -> None:
    path, _, ids = busy
    found = rows(path, "changes", start_snapshot_id=ids[1], end_snapshot_id=ids[2])
    changed = {(row["path"], row["type"], row["_change_type"]) for row in found}
    assert changed == {
        ("/small", "array", "DELETE"),
        ("/g/big", "chunk", "UPDATE_AFTER"),
    }
    assert [row["chunk_index"] for row in found if row["type"] == "chunk"] == [[1, 0]]
    assert {row["_commit_snapshot_id"] for row in found} == {ids[2]}
    every = rows(path, "changes")
    assert {row["_change_ordinal"] for row in every} == {1, 2, 3}
    with pytest.raises(InvalidInputError, match="no ancestor"):
        rows(path, "changes", start_snapshot_id=ids[2], end_snapshot_id=ids[0])


def test_storage(busy: Busy) -> None:
    path, repository, _ = busy
    found = {row["category"]: row for row in rows(path, "storage")}
    files = list((path / "chunks").iterdir())
    assert found["chunks"]["objects_count"] == len(files)
    assert found["chunks"]["size_in_bytes"] == sum(file.stat().st_size for file in files)
    stats = repository.chunk_storage_stats()
    assert found["referenced native"]["size_in_bytes"] == stats.native_bytes


def test_virtual_chunks_are_read_where_that_is_allowed(busy: Busy) -> None:
    path, _, _ = busy
    prefix = f"file://{path.parent}/"
    allowed = read_here(f"{path}#/virtual", authorize_virtual_chunk_access=prefix)
    assert allowed["virtual"].to_pylist() == list(range(400))
    with pytest.raises(frazil.FrazilError, match="authori"):
        read_here(f"{path}#/virtual")


def test_columns_of_a_table_can_be_chosen(busy: Busy) -> None:
    found = read_here(f"{busy[0]}#refs", columns="snapshot_id, name")
    assert found.column_names == ["snapshot_id", "name"]
    with pytest.raises(InvalidInputError, match="no column 'nam'; did you mean 'name'"):
        read_here(f"{busy[0]}#refs", columns="nam")


def test_unknown_tables_are_named_with_those_there_are(busy: Busy) -> None:
    with pytest.raises(InvalidInputError, match=r"no metadata table 'snapshot'.*'snapshots'"):
        read_here(f"{busy[0]}#snapshot")


def test_tables_of_an_empty_repository(tmp_path: Path) -> None:
    for version in (1, 2):
        path = tmp_path / str(version)
        frazil.Repository.create(path, spec_version=version)
        for name in TABLES:
            if name == "ops_log" and version == 1:
                continue  # repositories of spec 1 keep none
            found = read_here(f"{path}#{name}")
            assert found.num_rows == {"snapshots": 1, "refs": 1, "history": 1, "ops_log": 1}.get(
                name, found.num_rows
            )


def test_times_are_instants(busy: Busy) -> None:
    found = rows(busy[0], "snapshots")[0]["committed_at"]
    assert isinstance(found, datetime)
    assert abs(found - datetime.now(UTC)) < timedelta(hours=1)
