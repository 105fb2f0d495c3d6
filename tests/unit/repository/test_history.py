"""Branches, tags, versions by name and time, what changed, and what is true of a repository."""

from __future__ import annotations

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
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.model.config import RepositoryConfig
from frazil.model.history import RepoAvailability
from frazil.model.updates import UpdateType
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.generations import (
    ALL,
    IDS,
    needs_tag_deletion,
)
from tests.support.nodes import contents, group_document, write_keys


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


def test_the_graph_of_one_ref_has_what_it_merged_and_nothing_else(newest: Repository) -> None:
    first = commit(newest, 1)
    for branch in ("dev", "aside"):
        newest.create_branch(branch, first)
        session = newest.writable_session(branch)
        write_keys(session, {f"{branch}/zarr.json": group_document()})
        session.commit(f"on {branch}")
    commit(newest, 2)
    newest.versions.merge("dev", message="merged")
    newest.delete_branch("dev")
    drawn = str(newest.ancestry_graph(branch="main", plain=True))
    assert "merged" in drawn
    assert "on dev" in drawn
    assert "on aside" not in drawn
    assert "on aside" in str(newest.ancestry_graph(plain=True))


def test_a_flag_is_listed_with_its_setting(newest: Repository) -> None:
    names = {flag.name for flag in newest.feature_flags()}
    assert {"create_tag", "delete_tag", "move_node"} <= names
    assert {flag.name for flag in newest.enabled_feature_flags()} == names
    newest.set_feature_flag("delete_tag", False)
    settings = {flag.name: flag.setting for flag in newest.feature_flags()}
    assert settings["delete_tag"] is False
    assert settings["create_tag"] is None
    with pytest.raises(InvalidInputError, match=r"known are .*create_tag") as caught:
        newest.set_feature_flag("warp_drive", True)
    assert caught.value.kind is ErrorKind.INVALID_FEATURE_FLAG


def test_a_notebook_shows_the_newest_commits_and_uses_none_up(newest: Repository) -> None:
    for number in range(3):
        commit(newest, number)
    found = newest.ancestry(branch="main")
    assert "commit 2" in found._repr_html_()  # type: ignore[attr-defined]
    assert [info.message for info in found][:3] == ["commit 2", "commit 1", "commit 0"]
