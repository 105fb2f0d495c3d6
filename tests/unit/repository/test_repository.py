"""The public door: creating, opening, refs, settings, history and time travel."""

from __future__ import annotations

import os
import pickle
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    FrazilError,
    InvalidInputError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.config import ManifestConfig, RepositoryConfig, StorageSettings
from frazil.model.history import RepoAvailability
from frazil.model.manifest_config import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.model.updates import UpdateType
from frazil.model.values import RepoStatus, SpecVersion
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_repository
from tests.support.ages import AT_ONCE
from tests.support.generations import (
    ALL,
    IDS,
    Spec,
    generation_of,
    keeps_config,
    needs_tag_deletion,
)
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment

ENTRIES = ("repo", "state.json")


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def commit(repository: Repository, number: int = 0, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    write_keys(session, {"zarr.json": group_document(number=number)})
    return session.commit(f"commit {number}")


def keys(storage: MemoryStorage) -> set[str]:
    return {item.key for item in storage.list("")}


# --- creating and opening ---


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_created_repositories_are_found_again(tmp_path: Path, spec: Spec) -> None:
    place = LocalStorage(str(tmp_path / "r"))
    assert not Repository.exists(place)
    assert not (tmp_path / "r").exists(), "asking must not create anything"
    with pytest.raises(RepositoryNotFoundError, match="doesn't exist"):
        Repository.open(place)
    made = Repository.create(place, spec_version=spec)
    assert Repository.exists(place)
    assert Repository.fetch_spec_version(place) == SpecVersion(generation_of(spec).number)
    assert made.lookup_branch("main") == str(INITIAL_SNAPSHOT_ID)
    again = Repository.open(str(tmp_path / "r"))
    assert again.spec_version == made.spec_version == SpecVersion(generation_of(spec).number)
    assert pickle.loads(pickle.dumps(again)).list_branches() == {"main"}


def test_creating_over_something_is_refused(tmp_path: Path) -> None:
    Repository.create(tmp_path / "r")
    with pytest.raises(InvalidInputError, match="already exists") as caught:
        Repository.create(tmp_path / "r")
    assert caught.value.kind == ErrorKind.PARENT_DIRECTORY_NOT_CLEAN
    for spec in ALL:
        with pytest.raises(ConflictError):
            Repository.create(
                tmp_path / "r",
                RepositoryConfig(max_concurrent_requests=1) if keeps_config(spec) else None,
                spec_version=spec,
                check_clean_root=False,
            )
    assert Repository.fetch_config(tmp_path / "r") is None
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError) as caught:
        Repository.create(tmp_path / "full")
    assert caught.value.kind == ErrorKind.PARENT_DIRECTORY_NOT_CLEAN
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine"
    Repository.create(tmp_path / "full", check_clean_root=False)


def test_open_or_create_does_either(tmp_path: Path) -> None:
    first = commit(Repository.open_or_create(tmp_path / "r"))
    assert Repository.open_or_create(tmp_path / "r").lookup_branch("main") == first


def test_deleting_needs_the_place_named_twice(tmp_path: Path) -> None:
    Repository.create(tmp_path / "r")
    with pytest.raises(InvalidInputError, match="confirm"):
        Repository.delete(tmp_path / "r", confirm="yes")
    assert Repository.exists(tmp_path / "r")
    assert Repository.delete(tmp_path / "r", confirm=str(tmp_path / "r")) > 0
    assert not Repository.exists(tmp_path / "r")


@pytest.mark.parametrize("spec", [1, 2, "g1", "g2", "g3"])
def test_nobody_opens_a_repository_that_is_being_deleted(spec: Spec) -> None:
    place = MemoryStorage()
    Repository.create(place, spec_version=spec)

    def die() -> None:
        raise KeyboardInterrupt

    dying = InterruptedStorage(place, [Moment("delete_many", "", die, call=2)])
    with pytest.raises(KeyboardInterrupt):
        Repository.delete(dying, confirm=place.url)
    assert not place.is_empty()
    assert not Repository.exists(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_can_be_read_but_not_written(tmp_path: Path) -> None:
    commit(Repository.create(tmp_path))
    tmp_path.chmod(0o555)
    repository = Repository.open(tmp_path)
    assert contents(repository.readonly_session("main"))
    with pytest.raises(ReadOnlyError):
        repository.writable_session("main")


@pytest.mark.parametrize("damage", [b"", b"garbage", b"ICE\xf0\x9f\xa7\x8aCHUNK" + b"\0" * 40])
def test_a_damaged_repo_object_is_named(damage: bytes) -> None:
    storage = MemoryStorage()
    Repository.create(storage)
    storage.put("repo", damage)
    with pytest.raises(FormatError, match="repo"):
        Repository.open(storage)


def test_a_newer_spec_says_so() -> None:
    storage = MemoryStorage()
    Repository.create(storage)
    blob = bytearray(storage.get("repo") or b"")
    blob[36] = 3
    storage.put("repo", bytes(blob))
    with pytest.raises(FormatError) as caught:
        Repository.open(storage)
    assert caught.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION


def test_a_missing_chunk_object_is_named(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(1), "a/c/0": b"x" * 1000})
    session.commit("data")
    (chunk,) = (tmp_path / "chunks").iterdir()
    chunk.unlink()
    with pytest.raises(StorageError, match=chunk.name):
        contents(Repository.open(tmp_path).readonly_session("main"))


# --- configuration ---


def test_saved_configuration_is_found_and_overridden(tmp_path: Path) -> None:
    for spec in filter(keeps_config, ALL):
        place = tmp_path / str(spec)
        made = Repository.create(
            place, config=RepositoryConfig(inline_chunk_threshold_bytes=7), spec_version=spec
        )
        assert Repository.open(place).config.inline_chunk_threshold_bytes == 7
        made.reopen(config=RepositoryConfig(max_concurrent_requests=3)).save_config()
        stored = Repository.fetch_config(place)
        assert stored is not None
        assert (stored.inline_chunk_threshold_bytes, stored.max_concurrent_requests) == (7, 3)
        mine = RepositoryConfig(inline_chunk_threshold_bytes=9)
        assert Repository.open(place, config=mine).config.inline_chunk_threshold_bytes == 9
        assert Repository.open(place).config.inline_chunk_threshold_bytes == 7


def test_stored_settings_cannot_make_commits_unsafe() -> None:
    storage = MemoryStorage()
    unsafe = StorageSettings(unsafe_use_conditional_update=False)
    Repository.create(storage, config=RepositoryConfig(storage=unsafe))
    opened = Repository.open(storage)
    assert opened.config.storage is not None
    assert opened.config.storage.unsafe_use_conditional_update is None
    asked = Repository.open(storage, config=RepositoryConfig(storage=unsafe))
    assert asked.config.storage is not None
    assert asked.config.storage.unsafe_use_conditional_update is False


# --- branches and tags ---


def test_branches_move_and_tags_do_not(repository: Repository) -> None:
    first = commit(repository, 1)
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    second = commit(repository, 2, "dev")
    assert repository.list_branches() == {"main", "dev"}
    assert repository.list_tags() == {"v1"}
    assert repository.lookup_branch("main") == repository.lookup_tag("v1") == first
    assert repository.lookup_branch("dev") == second
    repository.reset_branch("main", second, from_snapshot_id=first)
    with pytest.raises(ConflictError, match="branch update conflict"):
        repository.reset_branch("main", first, from_snapshot_id=first)
    repository.delete_branch("dev")
    with pytest.raises(RefNotFoundError):
        repository.lookup_branch("dev")
    repository.create_branch("dev", first)


def test_open_or_create_opens_what_appeared_meanwhile() -> None:
    storage = MemoryStorage()
    meanwhile = Moment("head", "refs/", lambda: Repository.create(storage))
    opened = Repository.open_or_create(InterruptedStorage(storage, [meanwhile]))
    assert opened.list_branches() == {"main"}


def test_splitting_a_wide_sparse_array_takes_no_time_for_its_empty_cells() -> None:
    storage = MemoryStorage()
    session = Repository.create(storage).writable_session("main")
    side = 2**20
    write_keys(session, {"a/zarr.json": array_document(side, side), "a/c/0/0": b"x"})
    write_keys(session, {f"a/c/{side - 1}/{side - 1}": b"y"})
    session.commit("one manifest")
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 1}}
    )
    config = RepositoryConfig(manifest=ManifestConfig(splitting=splitting))
    repository = Repository.open(storage, config)
    session = repository.writable_session("main")
    write_keys(session, {"a/c/0/1": b"z"})
    snapshot = session.commit("three manifests")
    assert len(repository.list_manifest_files(snapshot)) == 3
    found = contents(repository.readonly_session("main"))
    assert sorted(found.values())[:3] == [b"x", b"y", b"z"]


def test_deleted_tags_never_come_back(repository: Repository) -> None:
    first = commit(repository)
    repository.create_tag("v1", first)
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("v1", first)
    needs_tag_deletion(repository)
    repository.delete_tag("v1")
    assert repository.list_tags() == set()
    with pytest.raises(RefNotFoundError):
        repository.lookup_tag("v1")
    with pytest.raises(RefNotFoundError):
        repository.delete_tag("v1")
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("v1", first)


def test_main_cannot_be_deleted(repository: Repository) -> None:
    with pytest.raises(SessionStateError) as caught:
        repository.delete_branch("main")
    assert caught.value.kind == ErrorKind.CANNOT_DELETE_MAIN


@pytest.mark.parametrize("name", ["h#x", "uni-é", "pct%20", "a b", "..", "dot.ted", "~[x]"])
def test_odd_ref_names_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    for spec in (1, 2):
        repository = Repository.create(tmp_path / str(spec), spec_version=spec)
        first = commit(repository)
        repository.create_branch(name, first)
        repository.create_tag(name, first)
        again = Repository.open(tmp_path / str(spec))
        assert name in again.list_branches()
        assert name in again.list_tags()
        assert again.lookup_branch(name) == again.lookup_tag(name) == first


def test_v1_refuses_names_with_a_slash() -> None:
    repository = Repository.create(MemoryStorage(), spec_version=1)
    with pytest.raises(InvalidInputError) as caught:
        repository.create_branch("a/b", repository.lookup_branch("main"))
    assert caught.value.kind == ErrorKind.INVALID_REF_NAME


@pytest.mark.parametrize("snapshot", ["ZZZZZZZZZZZZZZZZZZZG", "nonsense", ""])
def test_refs_to_unknown_snapshots_are_refused(repository: Repository, snapshot: str) -> None:
    with pytest.raises(FrazilError):
        repository.create_branch("dev", snapshot)
    with pytest.raises(FrazilError):
        repository.create_tag("v1", snapshot)
    with pytest.raises(FrazilError):
        repository.readonly_session(snapshot_id=snapshot)
    assert repository.list_branches() == {"main"}


# --- history ---


def test_time_travel_by_id_prefix_tag_branch_and_time(repository: Repository) -> None:
    ids = []
    for number in range(3):
        ids.append(commit(repository, number))
        time.sleep(0.002)
    repository.create_tag("v1", ids[1])
    assert [info.message for info in repository.ancestry(branch="main")] == [
        "commit 2",
        "commit 1",
        "commit 0",
        "Repository initialized",
    ]
    for text, expected in (
        ("main", ids[2]),
        ("v1", ids[1]),
        (ids[0], ids[0]),
        (ids[0][:9].lower(), ids[0]),
    ):
        assert repository.resolve(text) == expected
    for unknown in ("nothing-of-that-name", "a/b", "ZZZZZ"):
        with pytest.raises((RefNotFoundError, InvalidInputError)):
            repository.resolve(unknown)
    assert repository.resolve("{2100-01-01}") == ids[2]
    when = repository.lookup_snapshot(ids[1]).written_at
    assert repository.readonly_session("main", as_of=when).snapshot_id == ids[1]
    just_before = when - timedelta(microseconds=1)
    assert repository.readonly_session("main", as_of=just_before).snapshot_id == ids[0]
    with pytest.raises(SnapshotNotFoundError) as caught:
        repository.readonly_session("main", as_of=datetime(2000, 1, 1, tzinfo=UTC))
    assert caught.value.kind == ErrorKind.NO_SNAPSHOT_AT_TIME
    with pytest.raises(ValueError, match="time zone"):
        repository.readonly_session("main", as_of=datetime(2000, 1, 1))


def test_diff_needs_a_chain(repository: Repository) -> None:
    first, second = commit(repository, 1), commit(repository, 2)
    assert repository.diff(from_snapshot_id=first, to_branch="main").updated_groups == {"/"}
    for start, end in ((second, first), (second, second)):
        with pytest.raises(InvalidInputError) as caught:
            repository.diff(from_snapshot_id=start, to_snapshot_id=end)
        assert caught.value.kind == ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF
    with pytest.raises(ValueError, match="exactly one"):
        repository.diff(from_branch="main", from_tag="x", to_branch="main")


def test_history_does_not_open_every_snapshot_file(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path)
    ids = [commit(repository, number) for number in range(5)]
    for old in ids[:-1]:
        (tmp_path / "snapshots" / old).unlink()
    again = Repository.open(tmp_path)
    assert len(list(again.ancestry(branch="main"))) == 6
    assert contents(again.readonly_session("main"))


def test_operations_log_reaches_across_backups() -> None:
    storage = MemoryStorage()
    repository = Repository.create(
        storage, config=RepositoryConfig(num_updates_per_repo_info_file=3)
    )
    ids = [commit(repository, number) for number in range(8)]
    repository.create_tag("v1", ids[0])
    kinds = [update.kind for update in Repository.open(storage).ops_log()]
    assert isinstance(kinds[0], UpdateType.TagCreated)
    commits = [kind.new_snap_id for kind in kinds if isinstance(kind, UpdateType.NewCommit)]
    assert commits == ids[::-1]
    assert isinstance(kinds[-1], UpdateType.RepoInitialized)
    times = [update.updated_at for update in repository.ops_log()]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)


# --- what only v2 has ---


def test_read_only_status_refuses_every_change(newest: Repository) -> None:
    first = commit(newest)
    open_session = newest.writable_session("main")
    write_keys(open_session, {"zarr.json": group_document(late=1)})
    newest.set_status(RepoStatus(RepoAvailability.read_only, limited_availability_reason="audit"))
    for change in (
        lambda: newest.writable_session("main"),
        lambda: open_session.commit("late"),
        lambda: newest.create_branch("dev", first),
        lambda: newest.create_tag("v1", first),
        lambda: newest.set_metadata({"x": 1}),
        lambda: newest.garbage_collect(datetime.now(UTC), unsafe_minimum_age=AT_ONCE),
        lambda: newest.expire_snapshots(datetime.now(UTC)),
    ):
        with pytest.raises(ReadOnlyError, match="audit"):
            change()
    assert contents(newest.readonly_session("main"))
    newest.set_status(RepoStatus(RepoAvailability.online))
    open_session.commit("at last")


def test_feature_flags_switch_actions_off(newest: Repository) -> None:
    first = commit(newest)
    newest.set_feature_flag("create_tag", False)
    with pytest.raises(SessionStateError) as caught:
        newest.create_tag("v1", first)
    assert caught.value.kind == ErrorKind.FEATURE_FLAG_DISABLED
    assert [flag.name for flag in newest.disabled_feature_flags()] == ["create_tag"]
    newest.set_feature_flag("create_tag", None)
    newest.create_tag("v1", first)
    mover = newest.rearrange_session("main")
    newest.set_feature_flag("move_node", False)
    with pytest.raises(SessionStateError):
        newest.rearrange_session("main")
    with pytest.raises(SessionStateError):
        mover.commit("moved", allow_empty=True)
    with pytest.raises(InvalidInputError):
        newest.set_feature_flag("warp_drive", True)


def test_repository_metadata_is_replaced_or_overlaid(newest: Repository) -> None:
    newest.set_metadata({"title": "Ocean", "n": [1, 2.5, None, {"deep": True}]})
    assert newest.update_metadata({"n": 1}) == {"title": "Ocean", "n": 1}
    assert newest.metadata == {"title": "Ocean", "n": 1}


def test_v1_says_what_it_cannot_do() -> None:
    old = Repository.create(MemoryStorage(), spec_version=1)
    for ask in (
        lambda: old.status,
        lambda: old.metadata,
        lambda: old.set_metadata({}),
        lambda: old.feature_flags(),
        lambda: list(old.ops_log()),
        lambda: old.rearrange_session("main"),
    ):
        with pytest.raises(FormatError, match="upgrade") as caught:
            ask()
        assert caught.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION


def test_a_handle_sees_what_others_do(repository: Repository) -> None:
    other = Repository.open(repository.storage)
    first = commit(other)
    other.create_tag("v1", first)
    assert repository.lookup_branch("main") == first
    assert repository.list_tags() == {"v1"}


async def test_every_blocking_call_has_an_async_twin(newest: Repository) -> None:
    first = commit(newest)
    await newest.create_tag_async("v1", first)
    assert await newest.list_tags_async() == {"v1"}
    session = await newest.writable_session_async("main")
    write_keys(session, {"zarr.json": group_document(x=2)})
    second = await session.commit_async("async")
    assert [info.id async for info in newest.async_ancestry(branch="main")][:2] == [second, first]


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_an_interrupted_creation_can_be_repeated(spec: Spec) -> None:
    storage = MemoryStorage()
    configs: list[RepositoryConfig | None] = [None, None]
    if keeps_config(spec):
        configs = [RepositoryConfig(max_concurrent_requests=n) for n in (3, 4)]
    Repository.create(storage, configs[0], spec_version=spec)
    entries = [key for key in keys(storage) if key in ENTRIES or key.startswith(("refs/", "r/"))]
    storage.delete_many(entries)
    assert not Repository.exists(storage)
    assert keys(storage), "the first snapshot must be left behind"
    made = Repository.create(storage, configs[1], spec_version=spec)
    assert made.list_branches() == {"main"}
    if keeps_config(spec):
        assert Repository.open(storage).config.max_concurrent_requests == 4


def test_a_handle_from_before_an_upgrade_writes_nothing_unseen() -> None:
    storage = MemoryStorage()
    old = Repository.create(storage, spec_version=1)
    first = commit(old)
    upgrade_repository(Repository.open(storage), delete_unused_v1_files=False)
    for change in (
        lambda: old.create_branch("dev", first),
        lambda: old.create_tag("v1", first),
        lambda: old.save_config(),
        lambda: commit(old, 2),
    ):
        with pytest.raises(ConflictError, match="upgraded"):
            change()


def test_equal_sessions_and_stores_have_equal_hashes(newest: Repository) -> None:
    one, two = newest.readonly_session("main"), newest.readonly_session("main")
    assert one == two
    assert hash(one) == hash(two)
    assert one.store == one.store
    assert hash(one.store) == hash(one.store)


def test_all_snapshots_are_listed_once_however_many_refs_lead_there(repository: Repository) -> None:
    wanted = {repository.lookup_branch("main")}
    for number in range(6):
        session = repository.writable_session("main")
        write_keys(session, {f"g{number}/zarr.json": group_document()})
        made = session.commit(f"commit {number}")
        wanted.add(made)
        repository.create_tag(f"tag-{number}", made)
        repository.create_branch(f"branch-{number}", made)
        session = repository.writable_session(f"branch-{number}")
        write_keys(session, {f"side-{number}/zarr.json": group_document()})
        wanted.add(session.commit("aside"))
    listed = [each.id for each in repository.list_snapshots()]
    assert sorted(listed) == sorted(wanted)
    times = [each.written_at for each in repository.list_snapshots()]
    assert times == sorted(times, reverse=True)
