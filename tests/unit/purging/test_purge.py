"""Erasing from all of history: nothing is left, and everything else reads as before."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import zarr

import frazil
from frazil.bulk.write import write_region
from frazil.commit.base import Publication, now_micros
from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.flatbuf.tuning import KEPT_NODES
from frazil.formats.envelope import FileKind, unseal
from frazil.fsck import fsck, repair
from frazil.ids import ManifestId, SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.history import Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, ManifestRef
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, write_keys
from tests.support.old_repositories import make_small
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys, later, written_at

SECRET = 0x5EC2E75EC2E7
"""A number that is found again wherever its bytes are."""
TELLING = "whose name this is"
NEEDLE = np.array([SECRET], "<i8").tobytes()


def make(storage: Storage, spec: int, *, packing: bool = False, inline: int = 0) -> Repository:
    """Two branches, a tag and five commits, two of which hold the secret."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    for name in ("open", "group/secret"):
        options = {"shape": (8,), "chunks": (2,), "dtype": "<i8", "compressors": None}
        zarr.create_array(session.store, name=name, **options)  # type: ignore[arg-type]
    write_region(session, "open", ..., np.arange(1, 9), packing=packing)
    first = session.commit("open only")
    session = repo.writable_session("main")
    write_region(session, "group/secret", ..., SECRET, packing=packing)
    second = session.commit("the secret", {"about": first})
    repo.create_tag("v1", second)
    repo.create_branch("dev", second)
    session = repo.writable_session("dev")
    write_region(session, "open", slice(0, 2), 77, packing=packing)
    session.commit("on a branch", {"from": second})
    session = repo.writable_session("main")
    write_region(session, "group/secret", slice(0, 4), SECRET, packing=packing)
    session.commit("more of it")
    session = repo.writable_session("main")
    write_region(session, "open", slice(6, 8), 88, packing=packing)
    session.commit("the end")
    return repo


def blobs(storage: Storage) -> Iterator[tuple[str, bytes]]:
    for item in storage.list(""):
        data = storage.get(item.key)
        assert data is not None
        yield item.key, data


def read(repo: Repository, name: str, **where: str) -> npt.NDArray[np.int64]:
    if not where:
        where = {"branch": "main"}
    return np.asarray(repo.readonly_session(**where).array(name)[:])  # type: ignore[arg-type]


def assert_whole(repo: Repository) -> None:
    """Fail if a rule of the format is broken."""
    check_repository(repo)
    report = fsck(repo.storage)
    assert report.is_clean, [*map(str, report.findings)]


def assert_open_is_as_before(repo: Repository) -> None:
    assert read(repo, "open").tolist() == [1, 2, 3, 4, 5, 6, 88, 88]
    assert read(repo, "open", tag="v1").tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert read(repo, "open", branch="dev").tolist() == [77, 77, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("inline", [0, 512])
def test_an_array_is_gone_from_every_snapshot(
    storage: MemoryStorage, spec: int, packing: bool, inline: int
) -> None:
    repo = make(storage, spec, packing=packing, inline=inline)
    before = [info.message for info in repo.ancestry(branch="main")]
    old = {info.id for info in repo.ancestry(branch="main")}
    node_id = repo.readonly_session("main").get_node_id("/group/secret")
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.paths == ("/group/secret",)
    assert len(report.snapshots) == 5
    assert (report.bytes_erased == 0) == (inline > 0)
    assert [info.message for info in repo.ancestry(branch="main")] == before
    assert_open_is_as_before(repo)
    for where in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        with pytest.raises(NodeNotFoundError):
            read(repo, "group/secret", **where)
    assert_whole(repo)
    with pytest.raises(NodeNotFoundError):
        repo.space.purge("group/secret", dry_run=True)
    new = {info.id for info in repo.ancestry(branch="main")}
    assert len(new & old) == 1  # that of the empty repository
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
        assert str(node_id) not in key


def test_metadata_that_names_old_snapshots_names_the_new_ones(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    repo.space.purge("/group/secret", confirm="/group/secret", unsafe_minimum_age=AT_ONCE)
    newest = next(iter(repo.ancestry(branch="dev")))
    assert newest.metadata["from"] == repo.lookup_tag("v1") == newest.parent_id


def test_a_dry_run_changes_nothing(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    before = dict(blobs(storage))
    told = repo.space.purge("group", dry_run=True)
    assert dict(blobs(storage)) == before
    assert (told.applied, told.is_proved) == (False, False)
    done = repo.space.purge("group", confirm="/group", unsafe_minimum_age=AT_ONCE)
    assert done.paths == told.paths == ("/group", "/group/secret")
    assert set(done.snapshots) == set(told.snapshots)
    assert (done.objects_deleted, done.bytes_erased) == (told.objects_deleted, told.bytes_erased)
    assert (told.objects_deleted, told.bytes_erased) == (6, 96)


@pytest.mark.parametrize("confirm", [None, "", "group", "/"])
def test_it_must_be_confirmed(storage: MemoryStorage, spec: int, confirm: str | None) -> None:
    repo = make(storage, spec)
    before = dict(blobs(storage))
    with pytest.raises(InvalidInputError, match="cannot be undone") as caught:
        repo.space.purge("group/secret", confirm=confirm, unsafe_minimum_age=AT_ONCE)
    assert caught.value.kind == ErrorKind.NOT_CONFIRMED
    assert dict(blobs(storage)) == before


def test_objects_that_hold_other_chunks_are_overwritten(storage: MemoryStorage, spec: int) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    options = {"shape": (4,), "chunks": (2,), "dtype": "<i8", "compressors": None}
    zarr.create_array(session.store, name="a", **options)  # type: ignore[arg-type]
    write_region(session, "a", ..., [SECRET, SECRET, 3, 4], packing=True)
    session.commit("packed")
    session = repo.writable_session("main")
    write_region(session, "a", slice(2, 4), [5, 6], packing=True)
    session.commit("half of it")
    [pack, *_] = sorted(keys(storage, "chunks/"), key=lambda key: -len(storage.get(key) or b""))
    report = repo.space.purge("a", [slice(0, 2)], confirm="a", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert (report.objects_overwritten, report.bytes_erased) == (1, 16)
    assert storage.get(pack) == bytes(16) + np.array([3, 4], "<i8").tobytes()
    assert read(repo, "a").tolist() == [0, 0, 5, 6]
    middle = list(repo.ancestry(branch="main"))[1]
    assert read(repo, "a", snapshot_id=middle.id).tolist() == [0, 0, 3, 4]
    assert_whole(repo)


@pytest.mark.parametrize("inline", [0, 512])
@pytest.mark.parametrize("packing", [False, True])
def test_a_region_is_blank_in_every_snapshot(
    storage: MemoryStorage, spec: int, inline: int, packing: bool
) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4, 6), chunks=(2, 3), dtype="<i8")
    start = np.arange(1, 25).reshape(4, 6)
    start[1, 2:4] = SECRET
    write_region(session, "a", ..., start, packing=packing)
    first = session.commit("first")
    session = repo.writable_session("main")
    write_region(session, "a", (0, slice(None)), 50, packing=packing)
    second = session.commit("second")
    report = repo.space.purge(
        "/a", (slice(1, 2), slice(2, None)), confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    assert report.is_proved
    assert report.chunks_blanked > 0
    for old, base in ((first, start), (second, np.where(np.arange(4)[:, None] == 0, 50, start))):
        expected = base.copy()
        expected[1, 2:] = 0
        new = report.snapshots[old]
        assert new is not None
        assert read(repo, "a", snapshot_id=new).tolist() == expected.tolist()
    assert_whole(repo)
    again = repo.space.purge(
        "/a", (slice(1, 2), slice(2, None)), confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    assert again.is_proved


@pytest.mark.parametrize(
    "region", [[slice(0, 2, 2)], [slice(-1, None)], [slice(3, 3)], [slice(0, 1)] * 3]
)
def test_regions_that_make_no_sense_are_refused(
    storage: MemoryStorage, region: list[slice]
) -> None:
    repo = make(storage, 2)
    before = dict(blobs(storage))
    with pytest.raises(InvalidInputError):
        repo.space.purge("open", region, confirm="open", unsafe_minimum_age=AT_ONCE)
    assert dict(blobs(storage)) == before


def test_arrays_that_were_deleted_or_moved_are_found(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    session = repo.rearrange_session("main")
    session.move("/group/secret", "/hidden")
    session.commit("move")
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r+").__delitem__("hidden")
    session.commit("delete")
    report = repo.space.purge("/hidden", confirm="/hidden", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.paths == ("/group/secret", "/hidden")
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_open_is_as_before(repo)
    assert_whole(repo)


def test_expired_snapshots_and_what_was_put_aside_are_searched(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    last = repo.lookup_branch("main")
    gone = {"delete_expired_tags": True, "delete_expired_branches": True}
    repo.expire_snapshots(written_at(repo, last), **gone)
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    assert any(NEEDLE in data for key, data in blobs(storage) if key.startswith("trash/"))
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(repo)


def test_snapshots_outside_of_history_go_with_it(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    last = repo.lookup_branch("main")
    repo.expire_snapshots(written_at(repo, last), delete_expired_tags=True)
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.loose_snapshots > 0
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(repo)


def test_who_works_on_an_old_snapshot_cannot_commit(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    session = Repository.open(storage).writable_session("main")
    write_region(session, "open", 0, 5)
    repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    with pytest.raises(ConflictError):
        session.commit("late")
    with pytest.raises(ConflictError):
        session.commit("late", rebase_with=ConflictDetector())
    with repo.transaction("main", message="after") as store:
        zarr.open_array(store, path="open", mode="r+")[0] = 9
    assert read(repo, "open")[0] == 9
    assert_whole(repo)


def test_a_commit_upon_what_was_just_erased_shares_its_chunks(storage: MemoryStorage) -> None:
    make(storage, 1)

    def commit() -> None:
        session = Repository.open(storage).writable_session("dev")
        write_region(session, "group/secret", slice(0, 2), SECRET)
        session.commit("meanwhile")

    # By then dev has moved already, and main has not.
    moments = [Moment("put_if", "refs/branch.main", commit)]
    slow = Repository.open(InterruptedStorage(storage, moments))
    assert slow.space.purge(
        "group/secret", [slice(1, 7)], confirm="group/secret", unsafe_minimum_age=AT_ONCE
    ).is_proved
    repo = Repository.open(storage)
    assert read(repo, "group/secret", branch="dev").tolist() == [SECRET, *[0] * 6, SECRET]
    assert next(iter(repo.ancestry(branch="dev"))).message == "meanwhile"
    assert_whole(repo)


def test_commits_made_meanwhile_are_looked_through_too(storage: MemoryStorage, spec: int) -> None:
    make(storage, spec)

    def commit() -> None:
        session = Repository.open(storage).writable_session("main")
        write_region(session, "group/secret", slice(0, 2), SECRET)
        session.commit("meanwhile")

    operation, prefix = ("copy_if", "repo") if spec == 2 else ("put_if", "refs/branch.main")
    moments = [Moment(operation, prefix, commit)]
    repo = Repository.open(InterruptedStorage(storage, moments))
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    after = Repository.open(storage)
    assert next(iter(after.ancestry(branch="main"))).message == "meanwhile"
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(after)


@pytest.mark.parametrize("call", range(0, 42, 6))
def test_a_purge_that_dies_can_be_made_again(storage: MemoryStorage, spec: int, call: int) -> None:
    make(storage, spec)
    for operation in ("put", "copy_if", "put_if", "delete_many"):
        faulty = FaultyStorage(storage, [Fault(Trouble.FAIL, operation, call=call + 1)])
        try:
            Repository.open(faulty).space.purge(
                "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
            )
        except StorageError:
            assert_open_is_as_before(Repository.open(storage))
        except NodeNotFoundError:
            break
    repo = Repository.open(storage)
    with contextlib.suppress(NodeNotFoundError):  # if it was done before
        assert repo.space.purge(
            "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
        ).is_proved
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_open_is_as_before(repo)


def test_others_that_refer_to_the_same_bytes_are_told(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    session = repo.writable_session("main")
    options = {"shape": (8,), "chunks": (2,), "dtype": "<i8", "compressors": None}
    zarr.create_array(session.store, name="copy", **options)  # type: ignore[arg-type]
    state = session.state
    state.set_table(state.array("/copy"), state.table(state.array("/group/secret")))
    session.commit("a copy by reference")
    told = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert told.still_referenced == ("/copy",)
    assert read(repo, "copy").tolist() == [SECRET] * 8
    assert_whole(repo)


def test_backups_stay_unless_they_shall_go(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.backups > 0
    assert keys(storage, "overwritten/")
    newest, *older = repo.ops_log()
    assert isinstance(newest.kind, frazil.UpdateType.GCRan)
    assert len(older) > 5
    old = keys(storage, "overwritten/")
    repo.space.purge("open", confirm="open", delete_backups=True, unsafe_minimum_age=AT_ONCE)
    (fresh,) = keys(storage, "overwritten/") - old  # of the repository as it is now
    assert keys(storage, "overwritten/") == {fresh}
    assert frazil.Repository.open(storage).list_branches() == {"main", "dev"}


def test_the_repository_can_be_repaired_afterwards(storage: MemoryStorage) -> None:
    make(storage, 2).space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    storage.put("repo", b"garbage")
    repair(storage, apply=True)
    repo = Repository.open(storage)
    assert_open_is_as_before(repo)
    assert_whole(repo)


def test_damaged_snapshots_that_repair_kept_go_too(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    key = f"snapshots/{repo.lookup_branch('main')}"
    storage.put(key, b"damaged")
    repair(storage, apply=True)
    (kept,) = (key for key in keys(storage, "overwritten/") if "damaged" in key)
    repo = Repository.open(storage)
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert repo.space.purge(
        "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
    ).is_proved
    assert kept not in keys(storage, "overwritten/")


@pytest.mark.parametrize("old", ["g1", "g2", "g3"])
def test_what_an_upgrade_left_must_be_cleaned_up_first(storage: MemoryStorage, old: Spec) -> None:
    upgrade_older(make_small(storage, old), to=2)
    repo = Repository.open(storage)
    before = dict(blobs(storage))
    with pytest.raises(SessionStateError, match="upgrade"):
        repo.space.purge("x", confirm="x", unsafe_minimum_age=AT_ONCE)
    assert dict(blobs(storage)) == before
    frazil.clean_upgrade(storage, unsafe_minimum_age=AT_ONCE)
    assert (
        Repository.open(storage).space.purge("x", confirm="x", unsafe_minimum_age=AT_ONCE).is_proved
    )


def share_a_manifest(repo: Repository) -> None:
    """Commit the same arrays with all their references in one manifest."""
    context = context_of(repo)
    base = context.refs.branch_tip("main")
    old = context.assets.snapshot(base)
    state = repo.readonly_session("main").state
    arrays = {node.id: node for node in old.nodes if isinstance(node, ArrayNode)}
    tables = {one: state.table(node) for one, node in arrays.items()}
    file = context.assets.save_manifest(ManifestId.random(), tables)
    nodes = tuple(
        replace(node, manifests=(ManifestRef(file.id, tables[node.id].extents),))
        if isinstance(node, ArrayNode)
        else node
        for node in old.nodes
    )
    parent = base if context.generation.stores_parent else None
    new = Snapshot(SnapshotId.random(), parent, nodes, now_micros(), "one manifest", {}, (file,))
    log = TransactionLog(new.id)
    context.assets.save_snapshot(new)
    context.assets.save_log(log)
    context.refs.publish(Publication("main", base, new.entry(base)))


def make_large(spec: int) -> tuple[Repository, MemoryStorage]:
    """A snapshot with a telling attribute, and two without it whose files reuse its bytes."""
    storage = MemoryStorage()
    repo = Repository.create(storage, spec_version=spec)
    session = repo.writable_session("main")
    for number in range(KEPT_NODES + 10):
        zarr.create_group(session.store, path=f"g{number}")
    options = {"shape": (2,), "chunks": (2,), "dtype": "<i8"}
    zarr.create_array(session.store, name="s/x", attributes={"of": TELLING}, **options)  # type: ignore[arg-type]
    session.commit("made")
    for path in ("s/x", "g1"):
        session = repo.writable_session("main")
        del zarr.open_group(session.store, mode="r+")[path]
        session.commit(f"deleted {path}")
    assert len(telling(storage)) == 3
    return repo, storage


def telling(storage: Storage) -> list[str]:
    """Keys of snapshot files that have the attribute in them, listed or not."""
    found = ((key, blob) for key, blob in blobs(storage) if "snapshots/" in key)
    return [k for k, b in found if TELLING.encode() in unseal(b, FileKind.SNAPSHOT, key=k).body]


@pytest.mark.parametrize("path", ["s/x", "s"])
def test_bytes_that_a_later_snapshot_took_over_go_too(spec: int, path: str) -> None:
    repo, storage = make_large(spec)
    assert repo.space.purge(path, confirm=path, unsafe_minimum_age=AT_ONCE).is_proved
    assert not telling(storage)
    assert_whole(repo)
    with pytest.raises(NodeNotFoundError):
        repo.space.purge(path, dry_run=True)


def test_bytes_of_a_node_that_only_expired_snapshots_had_go_too() -> None:
    repo, storage = make_large(2)
    repo.expire_snapshots(later())
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert len(telling(storage)) == 1
    before = dict(blobs(storage))
    assert len(repo.space.purge("s/x", dry_run=True).snapshots) == 1
    assert dict(blobs(storage)) == before
    assert repo.space.purge("s/x", confirm="s/x", unsafe_minimum_age=AT_ONCE).is_proved
    assert not telling(storage)
    assert_whole(repo)


def test_what_was_merged_stays_merged(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    repo.create_branch("other", next(info.id for info in repo.ancestry(branch="main")))
    for name in ("passing", "merged"):
        session = repo.writable_session("other")
        zarr.create_array(session.store, name=name, shape=(2,), dtype="<i8")
        session.commit(f"made {name}")
    for branch, name in (("other", "passing"), ("main", "open")):
        session = repo.writable_session(branch)
        del zarr.open_group(session.store, mode="r+")[name]
        session.commit(f"deleted {name}")
    repo.versions.merge("other", "main")
    session = repo.writable_session("main")
    del zarr.open_group(session.store, mode="r+")["merged"]
    session.commit("deleted what was merged")
    assert repo.space.purge("passing", confirm="passing", unsafe_minimum_age=AT_ONCE).is_proved
    assert repo.versions.merge("other", "main").status == "up-to-date"
    assert "merged" not in zarr.open_group(repo.readonly_session("main").store, mode="r")
    assert_whole(repo)


@pytest.mark.parametrize("deletes", [False, True])
def test_a_manifest_of_several_arrays_keeps_the_others(
    storage: MemoryStorage, spec: int, deletes: bool
) -> None:
    repo = make(storage, spec, inline=512)
    share_a_manifest(repo)
    if deletes:  # the manifest then still holds what no snapshot reads
        session = repo.writable_session("main")
        del zarr.open_group(session.store, mode="r+")["group/secret"]
        session.commit("deleted")
    for region in ([slice(0, 8)], None):
        assert repo.space.purge(
            "group/secret", region, confirm="group/secret", unsafe_minimum_age=AT_ONCE
        ).is_proved
        for key, data in blobs(storage):
            assert NEEDLE not in data, key
        assert_open_is_as_before(repo)
        assert_whole(repo)


def test_a_closed_repository_is_left_alone(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))
    before = dict(blobs(storage))
    assert len(repo.space.purge("group/secret", dry_run=True).snapshots) == 5
    with pytest.raises(ReadOnlyError):
        repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    with pytest.raises(ReadOnlyError), repo.audit.staged("main"):
        pass
    assert dict(blobs(storage)) == before


def test_virtual_chunks_lose_their_references_and_keep_their_sources(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(np.array([1, SECRET, 3, 4], "<i8").tobytes())
    prefix = f"file://{tmp_path}/"
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    access = {prefix: frazil.LocalFileSystemAccess}
    repo = Repository.create(MemoryStorage(), config, authorize_virtual_chunk_access=access)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(4,), chunks=(2,), dtype="<i8", compressors=None
    )
    for chunk in (0, 1):
        place = f"{prefix}source"
        session.store.set_virtual_ref(f"v/c/{chunk}", place, offset=16 * chunk, length=16)
    session.commit("virtual")
    report = repo.space.purge("v", [slice(1, 2)], confirm="v", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.virtual_sources == (f"{prefix}source",)
    assert read(repo, "v").tolist() == [1, 0, 3, 4]
    session = repo.readonly_session("main")
    assert session.chunk_type("/v", [0]) != frazil.ChunkType.virtual
    assert session.chunk_type("/v", [1]) == frazil.ChunkType.virtual
    assert repo.space.purge("v", confirm="v", unsafe_minimum_age=AT_ONCE).is_proved
    assert NEEDLE in source.read_bytes()
    check_repository(repo)


def test_a_refusal_for_what_somebody_just_wrote_comes_before_history_changes() -> None:
    """A commit to the array while it is purged makes a file that is too young to erase."""
    age = timedelta(seconds=0.2)
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)

    def write(repo: Repository, name: str, values: dict[str, bytes]) -> None:
        session = repo.writable_session("main")
        write_keys(session, values)
        session.commit(name)

    refused = 0
    for call in range(1, 200, 5):
        storage = InterruptedStorage(MemoryStorage())
        repo = Repository.create(storage, config=config)
        write(repo, "first", {"a/zarr.json": array_document(4), "a/c/0": b"secret"})
        time.sleep(age.total_seconds())
        other = Repository.open(storage.inner, config)
        storage.before(call, partial(write, other, "second", {"a/c/1": b"more"}))
        try:
            repo.space.purge("/a", confirm="/a", unsafe_minimum_age=age)
        except SessionStateError:
            assert next(other.ancestry(branch="main")).message == "second"
            found = contents(other.readonly_session("main"))
            assert (found["a/c/0"], found["a/c/1"]) == (b"secret", b"more")
            refused += 1
        except NodeNotFoundError:
            break  # history has gone over, and the other finds nothing to write to
    assert refused


def made_in_four(place: Storage, spec: int) -> tuple[Repository, str]:
    """A repository with an array and a chunk more in each of three commits; the last of them."""
    repo = Repository.create(
        place, config=RepositoryConfig(inline_chunk_threshold_bytes=0), spec_version=spec
    )
    write_keys(session := repo.writable_session("main"), {"a/zarr.json": array_document(4)})
    session.commit("made")
    for number in range(3):
        session = repo.writable_session("main")
        write_keys(session, {f"a/c/{number}": bytes([number]) * 8})
        last = session.commit(f"chunk {number}")
    repo.create_tag("newest", last)
    return repo, last


@pytest.mark.parametrize(
    ("spec", "operation", "prefix"),
    [
        (1, "put", "snapshots/"),
        (1, "put_if", "refs/branch."),
        (1, "put_if", "refs/tag."),
        (2, "put", "snapshots/"),
        (2, "put_if", "repo"),
    ],
)
def test_what_expires_during_an_erasure_stays_expired(
    spec: int, operation: str, prefix: str
) -> None:
    place = MemoryStorage()
    _, last = made_in_four(place, spec)

    def expire() -> None:
        other = Repository.open(place)
        assert other.expire_snapshots(written_at(other, last))

    meddled = InterruptedStorage(place, [Moment(operation, prefix, expire)])
    Repository.open(meddled).space.purge(
        "/a", [slice(0, 1)], confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    assert meddled.is_over
    found = Repository.open(place)
    for ref in ({"branch": "main"}, {"tag": "newest"}):
        left = [entry.message for entry in found.ancestry(**ref)]
        assert left == ["chunk 2", "Repository initialized"]
    assert "a/c/0" not in contents(found.readonly_session("main"))
    check_repository(found)


def test_an_expiry_brings_nothing_back_that_was_erased_meanwhile() -> None:
    template = MemoryStorage()
    _, last = made_in_four(template, 1)
    for call in range(1, 200):
        place = MemoryStorage()
        for key in keys(template):
            place.put(key, template.get(key) or b"")
        meddled = InterruptedStorage(place)
        expiring = Repository.open(meddled)
        when = written_at(expiring, last)

        def erase(place: Storage = place) -> None:
            Repository.open(place).space.purge("/a", confirm="/a", unsafe_minimum_age=AT_ONCE)

        meddled.before(call, erase)
        with contextlib.suppress(SnapshotNotFoundError):
            expiring.expire_snapshots(when)
        if not meddled.is_over:
            break
        with pytest.raises(NodeNotFoundError):
            Repository.open(place).space.purge("/a", dry_run=True)
    assert call > 10
