"""What garbage collection deletes, keeps and survives."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import ErrorKind, FormatError, ReadOnlyError, StorageError
from frazil.ids import ChunkId
from frazil.maintenance import deleting
from frazil.model.chunks import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.model.history import RepoAvailability
from frazil.model.nodes import Coordinates
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.generations import ALL, IDS, Spec, folder, has_logs, keeps_config
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import (
    commit_refs,
    keys,
    later,
    make,
    messages,
    put,
    values,
    written_at,
)

INITIAL = "1CECHNKREP0F1RSTCMT0"


@pytest.fixture(params=ALL, ids=IDS)
def spec(request: pytest.FixtureRequest) -> Spec:
    found: Spec = request.param
    return found


def littered(storage: Storage, spec: Spec) -> Repository:
    """Main is back at its first two commits; three more are garbage, and so is a lost job."""
    repo = make(storage, spec)
    keep = [put(repo, index, index + 1) for index in range(2)][-1]
    for index in range(3):
        put(repo, index, 100 + index)
    repo.reset_branch("main", keep)
    lost = repo.writable_session("main")
    zarr.open_array(lost.store, path="line")[5] = 5  # never committed
    return repo


def test_only_garbage_is_deleted(storage: MemoryStorage, spec: Spec) -> None:
    repo = littered(storage, spec)
    before, garbage = keys(storage), garbage_of(repo)
    sizes = {item.key: item.size_bytes for item in storage.list("")}
    planned = repo.garbage_collect(later(), dry_run=True, unsafe_minimum_age=AT_ONCE)
    assert keys(storage) == before
    done = repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert done == planned
    gone = before - keys(storage)
    assert {context_of(repo).key_in_place(key) for key in garbage} <= gone
    snapshots = 0 if spec == "g1" else 3  # there they stay until they expire
    logs = 3 if has_logs(spec) else 0
    assert (done.snapshots_deleted, done.transaction_logs_deleted) == (snapshots, logs)
    assert (done.manifests_deleted, done.chunks_deleted) == (snapshots, snapshots + 1)
    assert done.bytes_deleted == sum(sizes[key] for key in gone)
    assert values(repo) == [1, 2, 0, 0, 0, 0, 0, 0]
    assert not garbage_of(repo)
    check_repository(repo)


def test_young_objects_stay(storage: MemoryStorage, spec: Spec) -> None:
    repo = littered(storage, spec)
    before = keys(storage)
    done = repo.garbage_collect(datetime.now(UTC) - timedelta(hours=1), unsafe_minimum_age=AT_ONCE)
    assert done.snapshots_deleted == done.chunks_deleted == done.bytes_deleted == 0
    assert before <= keys(storage)


def test_a_collection_is_recorded_even_if_nothing_was_found(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    repo.garbage_collect(later(), dry_run=True, unsafe_minimum_age=AT_ONCE)
    assert type(next(iter(repo.ops_log())).kind).__name__ == "NewCommit"
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert type(next(iter(repo.ops_log())).kind).__name__ == "GCRan"


def test_expired_snapshots_go_and_logs_that_were_taken_over_stay(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    commits = [put(repo, index, index + 1) for index in range(4)]
    repo.expire_snapshots(written_at(repo, commits[3]))
    done = repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert (done.snapshots_deleted, done.transaction_logs_deleted) == (4, 0)
    log = repo.inspect_transaction_log(commits[3])
    assert log["updated_chunks"][0]["chunks"] == [[0], [1], [2], [3]]
    check_repository(repo)


def test_logs_of_expired_snapshots_go_where_nothing_takes_them_over(
    storage: MemoryStorage,
) -> None:
    repo = make(storage, 1)
    commits = [put(repo, index, index + 1) for index in range(4)]
    repo.expire_snapshots(written_at(repo, commits[3]))
    done = repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert (done.snapshots_deleted, done.transaction_logs_deleted) == (4, 4)
    assert values(repo) == [1, 2, 3, 4, 0, 0, 0, 0]


def test_backups_and_strange_names_are_never_touched(storage: MemoryStorage, spec: Spec) -> None:
    repo = littered(storage, spec)
    if keeps_config(spec):
        repo.save_config()
        repo.save_config()
    for key in ("chunks/notes.txt", "snapshots/x", "overwritten/mine", "elsewhere/1"):
        storage.put(key, b"?")
    kept = {key for key in keys(storage) if key.startswith("overwritten/")}
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert kept
    assert kept <= keys(storage)
    assert {"chunks/notes.txt", "snapshots/x", "elsewhere/1"} <= keys(storage)


def test_an_object_lives_while_one_reference_to_it_lives(
    storage: MemoryStorage, spec: Spec
) -> None:
    repo = make(storage, spec)
    pack, lonely = ChunkId.random(), ChunkId.random()
    objects = context_of(repo).storage
    for chunk in (pack, lonely):
        objects.put(f"chunks/{chunk}", bytes(30))
    full: dict[Coordinates, ChunkRef] = {(n,): NativeRef(pack, 10 * n, 10) for n in range(3)}
    before = repo.lookup_branch("main")
    commit_refs(repo, {**full, (3,): NativeRef(lonely, 0, 30)})
    if not context_of(repo).generation.expires_snapshots:
        repo.reset_branch("main", before)
    commit_refs(repo, {(1,): NativeRef(pack, 10, 10), (2,): InlineRef(b"in")})
    if context_of(repo).generation.expires_snapshots:
        repo.expire_snapshots(later())
    done = repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert done.chunks_deleted == 1
    assert keys(objects, "chunks/") == {f"chunks/{pack}"}


def test_foreign_chunks_are_left_alone(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    commit_refs(repo, {(0,): VirtualRef("s3://bucket/file", 0, 10)})
    assert repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE).chunks_deleted == 0


class TestAges:
    """On disk the age of a file can be set."""

    @pytest.fixture
    def repo(self, tmp_path: Path) -> Repository:
        return make(LocalStorage(tmp_path), 2)

    @staticmethod
    def age(tmp_path: Path, key: str, days: int = 10) -> None:
        when = datetime.now(UTC).timestamp() - days * 86400
        os.utime(tmp_path / key, (when, when))

    def test_detached_snapshots_are_kept_while_they_are_young(
        self, repo: Repository, tmp_path: Path
    ) -> None:
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="line")[0] = 4
        flushed = session.flush("job")
        for key in keys(repo.storage):
            if flushed not in key:
                self.age(tmp_path, key)
        week = datetime.now(UTC) - timedelta(days=7)
        done = repo.garbage_collect(week, unsafe_minimum_age=AT_ONCE)
        assert done.snapshots_deleted == done.chunks_deleted == done.manifests_deleted == 0
        line = zarr.open_array(
            repo.readonly_session(snapshot_id=flushed).store, path="line", mode="r"
        )
        assert int(np.asarray(line[0])) == 4
        self.age(tmp_path, f"snapshots/{flushed}")
        assert repo.garbage_collect(week, unsafe_minimum_age=AT_ONCE).snapshots_deleted == 1

    def test_a_young_snapshot_keeps_its_history(self, repo: Repository, tmp_path: Path) -> None:
        first = put(repo, 0, 1)
        old = put(repo, 1, 2)
        young = put(repo, 2, 3)
        repo.reset_branch("main", first)
        for key in keys(repo.storage):
            if young not in key:
                self.age(tmp_path, key)
        week = datetime.now(UTC) - timedelta(days=7)
        done = repo.garbage_collect(week, unsafe_minimum_age=AT_ONCE)
        assert (done.snapshots_deleted, done.transaction_logs_deleted) == (0, 0)
        repo.create_branch("again", young)
        assert [info.id for info in repo.ancestry(branch="again")][:3] == [young, old, first]
        assert values(repo, "again") == [1, 2, 3, 0, 0, 0, 0, 0]
        check_repository(repo)
        repo.delete_branch("again")
        self.age(tmp_path, f"snapshots/{young}")
        assert repo.garbage_collect(week, unsafe_minimum_age=AT_ONCE).snapshots_deleted == 2

    def test_half_written_files_of_dead_writers_go(self, repo: Repository, tmp_path: Path) -> None:
        dead, alive = tmp_path / "snapshots" / "x#1", tmp_path / "snapshots" / "x#2"
        dead.write_bytes(b"torn")
        alive.write_bytes(b"torn")
        self.age(tmp_path, "snapshots/x#1")
        repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert not dead.exists()
        assert alive.exists()


class TestMeanwhile:
    """Others go on working while a collection runs, even with a time in the future."""

    @pytest.mark.parametrize(
        ("operation", "prefix"),
        [
            ("list", "snapshots/"),
            ("list", "chunks/"),
            ("get", "snapshots/"),
            ("get", "manifests/"),
            ("delete_many", "snapshots/"),
            ("delete_many", "manifests/"),
            ("delete_many", "chunks/"),
        ],
    )
    def test_a_whole_commit_survives(
        self, storage: MemoryStorage, spec: Spec, operation: str, prefix: str
    ) -> None:
        repo = littered(storage, spec)
        if spec == "g1" and operation == "delete_many" and prefix != "chunks/":
            pytest.skip("snapshots of generation g1 are no garbage before they expire")
        place = folder(spec, prefix)
        race = InterruptedStorage(storage, [Moment(operation, place, lambda: put(repo, 6, 60))])
        Repository.open(race).garbage_collect(
            later(), max_concurrent_listings=1, unsafe_minimum_age=AT_ONCE
        )
        assert not race.moments
        assert messages(repo)[0] == "6=60"
        assert values(repo) == [1, 2, 0, 0, 0, 0, 60, 0]
        check_repository(repo)

    @pytest.mark.parametrize("prefix", ["get manifests/", "fetch repo", "put_if repo"])
    def test_a_commit_whose_chunks_were_there_before_survives(
        self, storage: MemoryStorage, prefix: str
    ) -> None:
        repo = littered(storage, 2)
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="line")[6] = 60
        race = InterruptedStorage(storage)
        collector = Repository.open(race)
        operation, key = prefix.split()
        race.moments.append(Moment(operation, key, lambda: session.commit("late")))
        collector.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert not race.moments
        assert values(repo)[6] == 60
        check_repository(repo)

    @pytest.mark.parametrize("operation", ["get manifests/", "put_if repo"])
    def test_a_branch_made_at_garbage_stops_it_from_going(
        self, storage: MemoryStorage, operation: str
    ) -> None:
        repo = littered(storage, 2)
        rescued = next(
            info["id"]
            for info in repo.inspect_repo_info()["snapshots"]
            if info["message"] == "1=101"
        )
        race = InterruptedStorage(storage)
        collector = Repository.open(race)
        kind, key = operation.split()
        race.moments.append(Moment(kind, key, lambda: repo.create_branch("saved", rescued)))
        done = collector.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert not race.moments
        assert done.snapshots_deleted == 1
        assert values(repo, "saved") == [100, 101, 0, 0, 0, 0, 0, 0]
        check_repository(repo)

    def test_a_tag_made_at_garbage_stops_it_from_going_in_v1(self, storage: MemoryStorage) -> None:
        repo = littered(storage, 1)
        tip = put(repo, 3, 33)
        repo.reset_branch("main", INITIAL)
        race = InterruptedStorage(storage, [Moment("get", "manifests/", lambda: None)])
        collector = Repository.open(race)
        repo.create_branch("rest", tip)
        race.moments[:] = [Moment("get", "manifests/", lambda: repo.create_tag("saved", tip))]
        collector.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        repo.delete_branch("rest")
        assert repo.lookup_tag("saved") == tip
        check_repository(repo)


class TestFailures:
    @pytest.fixture(autouse=True)
    def _small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(deleting, "BATCH", 2)

    def test_a_failed_delete_leaves_the_following_phases_to_the_next_run(
        self, storage: MemoryStorage, spec: Spec
    ) -> None:
        repo = littered(storage, spec)
        before = keys(storage)
        faulty = FaultyStorage(storage, [Fault(Trouble.FAIL, "delete_many")])
        done = Repository.open(faulty).garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        if spec == "g1":
            pytest.skip("snapshots of generation g1 are no garbage before they expire")
        assert (done.snapshots_deleted, done.objects_failed_to_delete) == (1, 2)
        assert done.skipped_phases == ["transaction_logs", "manifests", "chunks"]
        assert "planned failure" in done.delete_errors[0]
        assert len(before - keys(storage) - {"repo"}) == 1
        check_repository(repo)
        again = repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert (again.snapshots_deleted, again.chunks_deleted) == (2, 4)
        assert not garbage_of(repo)

    def test_failures_in_the_last_phase_skip_nothing(self, storage: MemoryStorage) -> None:
        littered(storage, 2)
        faulty = FaultyStorage(storage, [Fault(Trouble.FAIL, "delete_many", call=7)])
        done = Repository.open(faulty).garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert (done.manifests_deleted, done.chunks_deleted) == (3, 2)
        assert (done.objects_failed_to_delete, done.skipped_phases) == (2, [])

    def test_a_store_that_deletes_nothing_is_an_error(self, storage: MemoryStorage) -> None:
        repo = littered(storage, 2)
        faulty = FaultyStorage(storage, [Fault(Trouble.FAIL, "delete_many", times=100)])
        with pytest.raises(StorageError) as raised:
            Repository.open(faulty).garbage_collect(
                later(), max_consecutive_delete_failures=1, unsafe_minimum_age=AT_ONCE
            )
        assert raised.value.kind == ErrorKind.GC_DELETES_FAILING
        check_repository(repo)

    @pytest.mark.parametrize("operation", ["list", "get", "fetch", "put_if", "copy_if"])
    def test_a_collection_that_dies_leaves_the_repository_whole(
        self, storage: MemoryStorage, operation: str
    ) -> None:
        repo = littered(storage, 2)
        faulty = FaultyStorage(storage)
        collector = Repository.open(faulty)
        faulty.forget_calls()
        faulty.plan = (Fault(Trouble.FAIL, operation, call=1, times=3),)
        with pytest.raises(StorageError):
            collector.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        check_repository(repo)
        repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert not garbage_of(repo)

    def test_a_lost_manifest_stops_it(self, storage: MemoryStorage, spec: Spec) -> None:
        repo = littered(storage, spec)
        tip = repo.lookup_branch("main")
        key = f"manifests/{repo.list_manifest_files(tip)[0].id}"
        storage.delete_many([context_of(repo).key_in_place(key)])
        before = keys(storage)
        with pytest.raises(StorageError):
            Repository.open(storage).garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert keys(storage) == before

    def test_a_damaged_manifest_stops_it(self, storage: MemoryStorage, spec: Spec) -> None:
        repo = littered(storage, spec)
        manifest = repo.list_manifest_files(repo.lookup_branch("main"))[0].id
        key = context_of(repo).key_in_place(f"manifests/{manifest}")
        blob = storage.get(key)
        assert blob is not None
        storage.put(key, blob[:-4])
        before = keys(storage)
        with pytest.raises(FormatError):
            Repository.open(storage).garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
        assert keys(storage) == before


def test_damaged_garbage_is_no_hindrance(storage: MemoryStorage, spec: Spec) -> None:
    repo = littered(storage, spec)
    for kind in ("snapshots", "manifests"):
        storage.put(context_of(repo).key_in_place(f"{kind}/{ChunkId.random()}"), b"torn")
    done = repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    torn = 1 if spec == "g1" else 4
    assert (done.snapshots_deleted, done.manifests_deleted) == (torn, torn)


def test_a_repository_that_takes_no_changes_refuses(storage: MemoryStorage) -> None:
    repo = littered(storage, 2)
    repo.set_status(RepoStatus(RepoAvailability.read_only))
    with pytest.raises(ReadOnlyError):
        repo.garbage_collect(later(), dry_run=True, unsafe_minimum_age=AT_ONCE)


def test_small_limits_change_nothing(storage: MemoryStorage, spec: Spec) -> None:
    repo = littered(storage, spec)
    full = repo.garbage_collect(later(), dry_run=True, unsafe_minimum_age=AT_ONCE)
    tight = repo.garbage_collect(
        later(),
        dry_run=True,
        max_snapshots_in_memory=1,
        max_compressed_manifest_mem_bytes=1,
        max_decoded_manifest_mem_bytes=1,
        max_concurrent_manifest_fetches=1,
        max_concurrent_listings=1,
        unsafe_minimum_age=AT_ONCE,
    )
    assert tight == full
