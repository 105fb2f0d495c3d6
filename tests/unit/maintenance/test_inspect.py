"""Files as plain data."""

from __future__ import annotations

import json

import pytest
import zarr

from frazil.errors import FormatError, InvalidInputError, SnapshotNotFoundError, StorageError
from frazil.ids import ChunkId
from frazil.maintenance.inspect import inspect_file
from frazil.model.chunks import InlineRef, NativeRef, VirtualRef
from frazil.model.history import RepoAvailability
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.generations import Spec, keeps_config, spec_id
from tests.unit.maintenance.samples import commit_refs, later, make, put

NOBODY = str(ChunkId(bytes(12)))


def test_snapshots_show_their_nodes(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    with repo.transaction("main", message="named", metadata={"by": "me"}) as store:
        zarr.create_array(
            store,
            name="grid",
            shape=(5, 6),
            chunks=(2, 3),
            dtype="i4",
            dimension_names=["y", None],
        )
    tip = put(repo, 3, 1)
    found = repo.inspect_snapshot(tip)
    assert (found["id"], found["commit_message"]) == (tip, "3=1")
    assert found["header"]["file_type"] == "snapshot"
    assert found["header"]["spec_version"] == f"{context_of(repo).generation.spec}.0"
    nodes = {node["path"]: node for node in found["nodes"]}
    assert nodes["/grid"]["shape"] == [
        {"name": "y", "array_length": 5, "num_chunks": 3},
        {"array_length": 6, "num_chunks": 2},
    ]
    assert nodes["/line"]["manifest_refs"] == [
        {
            "id": found["manifests"][0]["id"],
            "extents": [[3, 4] if context_of(repo).generation.keeps_extents else [0, 8]],
        }
    ]
    assert repo.inspect_snapshot(repo.lookup_snapshot(tip).parent_id or "")["metadata"] == {
        "by": "me"
    }


def test_manifests_count_their_references(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    tip = commit_refs(
        repo,
        {
            (0,): InlineRef(b"abc"),
            (1,): NativeRef(ChunkId(bytes(12)), 0, 5),
            (2,): VirtualRef("s3://bucket/a", 0, 100),
            (3,): VirtualRef("s3://bucket/b", 0, 100),
        },
    )
    found = repo.inspect_manifest(repo.list_manifest_files(str(tip))[0].id)
    assert (found["num_arrays"], found["total_chunk_refs"]) == (1, 4)
    assert (found["total_inline"], found["total_native"], found["total_virtual"]) == (1, 1, 2)
    assert found["arrays"][0]["num_chunk_refs"] == 4
    assert found["compression"]["num_compressed_refs"] == 0


def test_logs_show_what_changed(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    log = repo.inspect_transaction_log(put(repo, 3, 1))
    assert [one["chunks"] for one in log["updated_chunks"]] == [[[3]]]
    assert log["new_arrays"] == log["moved_nodes"] == []
    assert "synthetic_composite" not in log


def test_logs_of_lost_ancestors_are_shown_too(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    commits = [put(repo, index, 1) for index in range(3)]
    repo.expire_snapshots(repo.lookup_snapshot(commits[2]).written_at)
    storage.delete_many([f"transactions/{commits[0]}"])
    log = Repository.open(storage).inspect_transaction_log(commits[2])
    assert log["updated_chunks"][0]["chunks"] == [[1], [2]]
    assert log["synthetic_composite"]["missing_tx_logs"] == [commits[0]]
    assert log["synthetic_composite"]["merged_pruned_ancestor_tx_logs"][1:] == [commits[1]]


def test_the_repo_object_shows_refs_and_history(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    tip = put(repo, 0, 1)
    repo.create_tag("v1", tip)
    repo.create_tag("gone", tip)
    repo.delete_tag("gone")
    repo.set_status(RepoStatus(RepoAvailability.read_only, None, "pause"))
    found = repo.inspect_repo_info()
    assert (found["branches"], found["tags"]) == ({"main": tip}, {"v1": tip})
    assert found["deleted_tags"] == ["gone"]
    assert found["spec_version"] == "2.0"
    types = [update["update_type"]["type"] for update in found["latest_updates"]]
    assert types[:3] == ["RepoStatusChangedUpdate", "TagDeletedUpdate", "TagCreatedUpdate"]
    changed = found["latest_updates"][0]["update_type"]["status"]
    assert (changed["availability"], changed["limited_availability_reason"]) == (
        "ReadOnly",
        "pause",
    )
    assert "backup_path" in found["latest_updates"][1]


def test_version_1_has_no_repo_object(storage: MemoryStorage) -> None:
    with pytest.raises(FormatError):
        make(storage, 1).inspect_repo_info()


def test_what_is_not_there_is_said_so(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    with pytest.raises(SnapshotNotFoundError):
        repo.inspect_snapshot(NOBODY)
    with pytest.raises(StorageError):
        repo.inspect_manifest(NOBODY)
    with pytest.raises(StorageError):
        repo.inspect_transaction_log(NOBODY)
    with pytest.raises(InvalidInputError):
        repo.inspect_manifest("nonsense")


COMMON = {"chunk", "snapshot", "manifest"}
KINDS: dict[Spec, set[str]] = {
    "g1": COMMON | {"state"},
    "g2": COMMON | {"ref"},
    "g3": COMMON | {"ref", "config"},
    "3i": COMMON | {"transaction-log", "ref", "config"},
    1: COMMON | {"transaction-log", "ref", "config"},
    2: COMMON | {"transaction-log", "repo-info"},
}


@pytest.mark.parametrize("spec", KINDS, ids=spec_id)
def test_every_file_of_a_repository_can_be_shown_as_json(
    storage: MemoryStorage, spec: Spec
) -> None:
    repo = make(storage, spec)
    tip = put(repo, 0, 1)
    repo.create_tag("gone", tip)
    if context_of(repo).generation.deletes_tags:
        repo.delete_tag("gone")
    if keeps_config(spec):
        repo.save_config()
        repo.save_config()
    if context_of(repo).generation.expires_snapshots:
        repo.expire_snapshots(later())
    kinds = set()
    for item in storage.list(""):
        blob = storage.get(item.key)
        assert blob is not None
        shown = inspect_file(blob, item.key)
        assert json.loads(json.dumps(shown)) == shown
        kinds.add(shown.get("file_type") or shown["header"]["file_type"])
    assert kinds == KINDS[spec]


@pytest.mark.parametrize(
    ("key", "blob"),
    [("snapshots/x", b""), ("repo", b"ICE"), ("refs/branch.main/ref.json", b"[]")],
)
def test_damage_is_named(key: str, blob: bytes) -> None:
    with pytest.raises(FormatError, match=key):
        inspect_file(blob, key)
