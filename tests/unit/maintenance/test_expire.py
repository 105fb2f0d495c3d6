"""Expiry of real repositories; `test_lineage` has the rules."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import pytest

from frazil.errors import ErrorKind, FormatError, FrazilError, ReadOnlyError, RefNotFoundError
from frazil.maintenance.expire import ExpiredWithFiles, expire, expire_with_files
from frazil.model.history import RepoAvailability
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_repository
from tests.races.test_deleting import copy_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.generations import EXPIRING, Spec, spec_id
from tests.support.nodes import group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment, SteppingStorage
from tests.unit.maintenance.samples import keys, later, make, messages, put, values, written_at


@pytest.fixture(params=EXPIRING, ids=spec_id)
def spec(request: pytest.FixtureRequest) -> Spec:
    found: Spec = request.param
    return found


def grown(storage: MemoryStorage, spec: Spec) -> tuple[Repository, list[str]]:
    """Main with six commits, `side` from the third, tag `old` and branch `still` at the second."""
    repo = make(storage, spec)
    commits = [put(repo, index, index + 1) for index in range(3)]
    repo.create_tag("old", commits[1])
    repo.create_branch("still", commits[1])
    repo.create_branch("side", commits[2])
    put(repo, 7, 9, "side")
    commits += [put(repo, index, index + 1) for index in range(3, 6)]
    return repo, commits


def below(spec: Spec, *kept: str) -> tuple[str, ...]:
    """What the oldest snapshot that stays comes from: the root, or in G1 what a ref kept."""
    return kept if spec == "g1" else ("Repository initialized",)


def test_old_commits_leave_the_history_and_data_stays(storage: MemoryStorage, spec: Spec) -> None:
    repo, commits = grown(storage, spec)
    before = {branch: values(repo, branch) for branch in repo.list_branches()}
    released = repo.expire_snapshots(written_at(repo, commits[4]))
    assert commits[3] in released
    assert not released & set(commits[4:])
    for handle in (repo, Repository.open(storage)):
        assert messages(handle) == ["5=6", "4=5", *below(spec, "1=2")]
        assert messages(handle, "side") == ["7=9", *below(spec, "1=2")]
        assert messages(handle, "still") == ["1=2", *below(spec)]
        assert handle.lookup_tag("old") == commits[1]
        assert {branch: values(handle, branch) for branch in handle.list_branches()} == before
    check_repository(repo)


def test_expired_refs_go_when_asked_for(storage: MemoryStorage, spec: Spec) -> None:
    repo, commits = grown(storage, spec)
    repo.expire_snapshots(
        written_at(repo, commits[4]),
        delete_expired_branches=True,
        delete_expired_tags=True,
    )
    assert repo.list_branches() == {"main"}
    assert repo.list_tags() == set()
    with pytest.raises(RefNotFoundError):
        repo.lookup_tag("old")
    check_repository(repo)


def test_main_stays_however_old_it_is(storage: MemoryStorage, spec: Spec) -> None:
    repo, commits = grown(storage, spec)
    repo.expire_snapshots(later(), delete_expired_branches=True, delete_expired_tags=True)
    assert repo.lookup_branch("main") == commits[-1]
    assert messages(repo) == ["5=6", *below(spec)]
    assert values(repo) == [1, 2, 3, 4, 5, 6, 0, 0]


@pytest.mark.parametrize("is_thorough", [False, True], ids=["refs stay", "refs go"])
def test_a_plan_tells_what_then_happens_and_changes_nothing(
    storage: MemoryStorage, spec: Spec, is_thorough: bool
) -> None:
    repo, commits = grown(storage, spec)
    options = {
        "delete_expired_branches": is_thorough,
        "delete_expired_tags": is_thorough,
    }
    for commit in commits:
        cutoff = written_at(repo, commit)
        before, refs = keys(storage), repo.list_branches() | repo.list_tags()
        plan = expire(context_of(repo), cutoff, **options, dry_run=True)
        assert keys(storage) == before
        assert {str(one) for one in plan.released} == repo.expire_snapshots(cutoff, **options)
        lost = refs - repo.list_branches() - repo.list_tags()
        assert lost == {*plan.branches, *plan.tags}


def test_doing_it_twice_changes_nothing(storage: MemoryStorage, spec: Spec) -> None:
    repo, commits = grown(storage, spec)
    cutoff = written_at(repo, commits[4])
    repo.expire_snapshots(cutoff)
    once = messages(repo)
    assert repo.expire_snapshots(cutoff) == set()
    assert messages(repo) == once


def test_commits_go_on_afterwards(storage: MemoryStorage, spec: Spec) -> None:
    repo, commits = grown(storage, spec)
    session = repo.writable_session("main")
    repo.expire_snapshots(written_at(repo, commits[5]))
    assert session.snapshot_id == commits[5]
    put(repo, 6, 70)
    assert messages(repo) == ["6=70", "5=6", *below(spec, "1=2")]
    check_repository(repo)


def test_a_commit_meanwhile_is_not_lost() -> None:
    inner = MemoryStorage()
    repo, commits = grown(inner, 2)
    cutoff = written_at(repo, commits[5])
    race = Moment("put_if", "repo", lambda: put(repo, 6, 70))
    released = Repository.open(InterruptedStorage(inner, [race])).expire_snapshots(cutoff)
    assert set(commits[:5]) - {commits[1]} < released
    assert messages(repo) == ["6=70", "5=6", "Repository initialized"]
    kinds = [type(update.kind).__name__ for update in repo.ops_log()]
    assert kinds[:2] == ["ExpirationRan", "NewCommit"]
    check_repository(repo)


def test_a_branch_that_got_a_commit_meanwhile_is_not_deleted() -> None:
    inner = MemoryStorage()
    repo, commits = grown(inner, 1)
    cutoff = written_at(repo, commits[5])
    race = Moment("list", "snapshots/", lambda: put(repo, 6, 70, "side"))
    slow = Repository.open(InterruptedStorage(inner, [race]))
    slow.expire_snapshots(cutoff, delete_expired_branches=True)
    assert repo.list_branches() == {"main", "side"}
    assert values(repo, "side")[6] == 70


def counts(done: ExpiredWithFiles) -> tuple[int, ...]:
    """What went; in version 1 some snapshots are written anew first, and have another size."""
    files = done.files
    metadata = files.snapshots_deleted, files.manifests_deleted, files.transaction_logs_deleted
    return *metadata, files.chunks_deleted


@pytest.mark.parametrize("lost", [False, True])
def test_a_dry_run_tells_which_files_would_go(
    storage: MemoryStorage, spec: Spec, lost: bool
) -> None:
    repo, commits = grown(storage, spec)
    repo.create_branch("short", commits[0])
    repo.create_tag("alone", put(repo, 6, 7, "short"))
    repo.delete_branch("short")
    expire = partial(
        expire_with_files,
        context_of(repo),
        later(),
        unsafe_minimum_age=AT_ONCE,
        delete_expired_branches=lost,
        delete_expired_tags=lost and spec in (1, 2),
    )
    before = keys(storage)
    told = expire(dry_run=True)
    assert keys(storage) == before
    assert told.files.snapshots_deleted > 0
    done = expire()
    assert told.expired == done.expired
    assert counts(told) == counts(done)
    assert values(repo)[:6] == [1, 2, 3, 4, 5, 6]


def test_a_repository_that_takes_no_changes_refuses(storage: MemoryStorage) -> None:
    repo, _ = grown(storage, 2)
    repo.set_status(RepoStatus(RepoAvailability.read_only))
    with pytest.raises(ReadOnlyError) as raised:
        repo.expire_snapshots(later())
    assert raised.value.kind == ErrorKind.READ_ONLY_REPOSITORY


def test_times_need_a_zone(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    naive = datetime.now(UTC).replace(tzinfo=None)
    with pytest.raises(TypeError):
        repo.expire_snapshots(naive)
    with pytest.raises(TypeError):
        repo.garbage_collect(naive, unsafe_minimum_age=AT_ONCE)


@pytest.mark.parametrize("spec", [1, 2])
def test_a_branch_that_just_got_a_commit_is_not_deleted(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    repo.create_branch("dev", put(repo, 0, 1))
    put(repo, 1, 2, "dev")
    limit = datetime.now(UTC)
    places = {1: ("put_if", "refs/branch.dev"), 2: ("copy_if", "repo")}
    moment = Moment(*places[spec], lambda: put(repo, 2, 3, "dev"))
    slow = Repository.open(InterruptedStorage(storage, [moment]))
    slow.expire_snapshots(limit, delete_expired_branches=True)
    assert values(Repository.open(storage), "dev")[:3] == [1, 2, 3]


NEVER_CHANGED = ("g2", "g2-msgpack", "g3", "3a", "3e-27", "3i")


def doors(repo: Repository) -> dict[str, Callable[[], object]]:
    """All ways to take snapshots out of the history, or to be told which would go."""
    return {
        "expire": lambda: repo.expire_snapshots(later(), delete_expired_branches=True),
        "plan": lambda: expire(context_of(repo), later(), dry_run=True),
        "expire with files": lambda: expire_with_files(
            context_of(repo), later(), unsafe_minimum_age=AT_ONCE
        ),
        "dry run": lambda: expire_with_files(context_of(repo), later(), dry_run=True),
        "what it would free": lambda: repo.space.shares("array", older_than=later()),
    }


@pytest.mark.parametrize("old", NEVER_CHANGED)
def test_files_that_must_not_change_are_never_rewritten_by_expiry(old: Spec) -> None:
    storage = MemoryStorage()
    made, _ = grown(storage, old)
    before = {key: storage.get(key) for key in keys(storage)}
    history, seen = messages(made), values(made)
    repo = Repository.open(storage)
    for name, act in doors(repo).items():
        with pytest.raises(FormatError, match=r"must not change; upgrade the repository") as raised:
            act()
        assert raised.value.kind == ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION, name
        assert {key: storage.get(key) for key in keys(storage)} == before, name
    upgraded = upgrade_repository(repo)
    assert messages(upgraded) == history
    assert upgraded.expire_snapshots(later())
    assert messages(upgraded) == [history[0], history[-1]]
    assert values(upgraded) == seen


@pytest.mark.parametrize("old", ["g2", "g3"])
def test_expiry_is_refused_before_storage_is_asked_for_anything(old: Spec) -> None:
    storage = MemoryStorage()
    grown(storage, old)
    asked: list[str] = []
    watched = SteppingStorage(storage, lambda operation, key: asked.append(f"{operation} {key}"))
    repo = Repository.open(watched)
    asked.clear()
    for name, act in doors(repo).items():
        with pytest.raises(FormatError):
            act()
        assert not asked, name


# --- the last snapshots of each branch are kept ---


KEPT = 3


def prepared(spec: Spec) -> tuple[MemoryStorage, str]:
    """A repository with six commits, and the third of them."""
    storage = MemoryStorage()
    repo = Repository.create(storage, spec_version=spec)
    ids = []
    for number in range(6):
        session = repo.writable_session("main")
        write_keys(session, {f"g{number}/zarr.json": group_document()})
        ids.append(session.commit(str(number)))
    return storage, ids[2]


@pytest.mark.parametrize("spec", [1, 2, "g1"])
def test_a_branch_that_is_made_meanwhile_keeps_as_many_as_others(spec: Spec) -> None:
    template, third = prepared(spec)
    later = datetime.now(UTC) + timedelta(hours=1)
    made = 0
    for call in count(1):
        storage = copy_of(template)
        done: list[bool] = []

        def come(storage: MemoryStorage = storage, done: list[bool] = done) -> None:
            with suppress(FrazilError):
                Repository.open(storage).create_branch("old", third)
                done.append(True)

        slow = InterruptedStorage(storage)
        repo = Repository.open(slow)
        slow.before(call, come)
        repo.space.expire(later, retain_last=KEPT)
        if not slow.is_over:
            break
        assert messages(Repository.open(storage), "main")[:KEPT] == ["5", "4", "3"]
        if done:
            made += 1
            assert messages(Repository.open(storage), "old")[:KEPT] == ["2", "1", "0"], call
    assert made > 2


@pytest.mark.parametrize("spec", [1, 2, "g1"])
def test_an_expiry_tells_the_time_that_it_went_by(spec: Spec) -> None:
    storage, _ = prepared(spec)
    repo = Repository.open(storage)
    oldest = [*repo.ancestry(branch="main")][KEPT - 1]
    later = datetime.now(UTC) + timedelta(hours=1)
    for dry_run in (True, False):
        told = repo.space.expire(later, retain_last=KEPT, dry_run=dry_run)
        assert told.older_than == oldest.written_at
    assert repo.space.expire(later, dry_run=True).older_than == later
