"""Write, audit, publish: nothing reaches the branch before its checks have passed."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import (
    AuditFailedError,
    ConflictError,
    ErrorKind,
    FrazilError,
    InvalidInputError,
    SessionStateError,
)
from frazil.repository.audit import AUDIT, KeepBranch
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.races.test_deleting import copy_of
from tests.support.checks import check_repository
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, group_document, write_keys
from tests.support.stepping import InterruptedStorage


@pytest.fixture(params=ALL, ids=IDS)
def repo(request: pytest.FixtureRequest) -> frazil.Repository:
    made = frazil.Repository.create(frazil.in_memory_storage(), spec_version=request.param)
    with made.transaction("main", message="make") as store:
        zarr.create_array(store, name="t", shape=(4,), chunks=(2,), dtype="f8")[...] = 1.0
    return made


def write(session: Session, place: Any, value: float) -> None:  # noqa: ANN401 - what numpy takes
    zarr.open_array(session.store, path="t", mode="r+")[place] = value


def read(repo: frazil.Repository, branch: str = "main") -> list[float]:
    store = repo.readonly_session(branch).store
    found: list[float] = np.asarray(zarr.open_array(store, path="t", mode="r")[:]).tolist()
    return found


def no_negatives(session: Session) -> bool:
    return bool((np.asarray(session.array("t")[:]) >= 0).all())


def test_what_passes_is_published_in_one_commit(repo: frazil.Repository) -> None:
    before = repo.lookup_branch("main")
    with repo.audit.staged("main", [no_negatives], message="day 2", metadata={"day": 2}) as session:
        write(session, 0, 5.0)
        assert read(repo) == [1.0] * 4
    assert read(repo) == [5.0, 1.0, 1.0, 1.0]
    newest, older, *_ = repo.ancestry(branch="main")
    assert (newest.message, older.id) == ("day 2", before)
    assert (session.snapshot_id, session.read_only) == (newest.id, True)
    report = newest.metadata[AUDIT]
    assert isinstance(report, dict)
    assert report["passed"] is True
    assert [check["name"] for check in report["checks"]] == ["no_negatives"]
    assert newest.metadata["day"] == 2
    assert repo.list_branches() == {"main"}
    check_repository(repo)


def test_what_fails_leaves_the_branch_and_tells_which_check(repo: frazil.Repository) -> None:
    before = repo.lookup_branch("main")

    def is_small(session: Session) -> str | None:
        worst = float(np.asarray(session.array("t")[:]).max())
        return f"the largest value is {worst}" if worst > 10 else None

    def asserted(session: Session) -> None:
        assert session.array("t").shape == (5,), "five cells are needed"

    with (
        pytest.raises(AuditFailedError, match="is_small: the largest value is 99") as caught,
        repo.audit.staged("main", [no_negatives, is_small, asserted], "audit-1") as session,
    ):
        write(session, 1, 99.0)
    error = caught.value
    assert error.kind == ErrorKind.AUDIT_FAILED
    assert [each.name for each in error.report.failed] == ["is_small", "asserted"]
    assert error.report.failed[1].message.startswith("five cells are needed")
    assert repo.lookup_branch("main") == before
    kept = next(iter(repo.ancestry(branch="audit-1")))
    assert kept.metadata[AUDIT]["passed"] is False
    assert read(repo, "audit-1")[1] == 99.0
    check_repository(repo)


@pytest.mark.parametrize(
    ("keep", "passes", "stays"),
    [
        ("never", False, False),
        ("on_failure", True, False),
        ("always", True, True),
        ("always", False, True),
    ],
)
def test_audit_branches_stay_as_asked(
    repo: frazil.Repository, keep: KeepBranch, passes: bool, stays: bool
) -> None:
    try:
        with repo.audit.staged(
            "main", [lambda _: passes], "audit", keep_audit_branch=keep
        ) as session:
            write(session, 0, 2.0)
    except AuditFailedError:
        assert not passes
    assert ("audit" in repo.list_branches()) == stays


def test_an_error_in_the_block_leaves_nothing(repo: frazil.Repository) -> None:
    before = repo.lookup_branch("main")

    def fail(session: Session) -> None:
        write(session, 0, 2.0)
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"), repo.audit.staged("main") as session:
        fail(session)
    assert (repo.lookup_branch("main"), repo.list_branches()) == (before, {"main"})


def test_an_error_in_a_check_is_the_callers_and_publishes_nothing(repo: frazil.Repository) -> None:
    before = repo.lookup_branch("main")

    def broken(_: Session) -> bool:
        raise LookupError("no such column")

    with pytest.raises(LookupError), repo.audit.staged("main", [broken], "audit") as session:
        write(session, 0, 2.0)
    assert repo.lookup_branch("main") == before
    assert "audit" in repo.list_branches()


def test_no_changes_are_refused_as_in_any_commit(repo: frazil.Repository) -> None:
    with pytest.raises(SessionStateError, match="no changes"), repo.audit.staged("main"):
        pass
    assert repo.list_branches() == {"main"}


def test_several_commits_on_the_audit_branch_are_published_together(
    repo: frazil.Repository,
) -> None:
    with repo.audit.staged("main", [no_negatives]) as session:
        audit = session.branch
        assert audit is not None
        write(session, 0, 3.0)
        session.commit("first half")
        second = repo.writable_session(audit)
        write(second, 3, 4.0)
        second.commit("second half")
    assert read(repo) == [3.0, 1.0, 1.0, 4.0]
    messages = [info.message for info in repo.ancestry(branch="main")]
    assert messages[:2] == ["second half", "first half"]


def other_commit(repo: frazil.Repository, place: int, value: float) -> str:
    session = repo.writable_session("main")
    write(session, place, value)
    return session.commit("another's")


def test_a_branch_that_moved_is_left_alone(repo: frazil.Repository) -> None:
    made: list[str] = []

    def overtaken(session: Session) -> None:
        write(session, 0, 3.0)
        made.append(other_commit(repo, 3, 8.0))

    with pytest.raises(ConflictError), repo.audit.staged("main", [], "audit") as session:
        overtaken(session)
    assert [repo.lookup_branch("main")] == made
    assert read(repo, "audit")[0] == 3.0


def test_a_branch_that_moved_is_built_upon_and_checked_again(repo: frazil.Repository) -> None:
    seen: list[list[float]] = []

    def look(session: Session) -> None:
        seen.append(np.asarray(session.array("t")[:]).tolist())

    with repo.audit.staged("main", [look], rebase_with=frazil.ConflictDetector()) as session:
        write(session, 0, 3.0)
        other_commit(repo, 3, 8.0)
    assert seen == [[3.0, 1.0, 1.0, 1.0], [3.0, 1.0, 1.0, 8.0]]
    assert read(repo) == [3.0, 1.0, 1.0, 8.0]
    assert session.snapshot_id == repo.lookup_branch("main")
    assert [i.message for i in repo.ancestry(branch="main")][:2] == ["staged changes", "another's"]
    check_repository(repo)


def test_what_conflicts_with_a_branch_that_moved_stays_on_the_audit_branch(
    repo: frazil.Repository,
) -> None:
    def overtaken(session: Session) -> None:
        write(session, 0, 3.0)
        other_commit(repo, 1, 8.0)

    solver = frazil.ConflictDetector()
    with (
        pytest.raises(frazil.RebaseFailedError),
        repo.audit.staged("main", [], "audit", rebase_with=solver) as session,
    ):
        overtaken(session)
    assert read(repo) == [1.0, 8.0, 1.0, 1.0]
    assert read(repo, "audit") == [3.0, 1.0, 1.0, 1.0]


def test_what_staged_work_relied_on_must_not_have_changed(repo: frazil.Repository) -> None:
    def derived(session: Session) -> None:
        session.rely_on("t")
        zarr.create_array(session.store, name="sum", shape=(1,), dtype="f4")[:] = 4.0
        other_commit(repo, 3, 8.0)

    solver = frazil.ConflictDetector()
    with (
        pytest.raises(frazil.RebaseFailedError),
        repo.audit.staged("main", [], rebase_with=solver) as session,
    ):
        derived(session)
    assert read(repo) == [1.0, 1.0, 1.0, 8.0]
    assert next(i.message for i in repo.ancestry(branch="main")) == "another's"


def test_checks_get_datasets_if_they_want(repo: frazil.Repository) -> None:
    pytest.importorskip("xarray")
    session = repo.writable_session("main")
    group = zarr.open_group(session.store, mode="r+")
    group.create_array("u", shape=(2,), chunks=(2,), dtype="f8", dimension_names=("x",))[:] = 2.0
    del group["t"]
    session.commit("named axes")
    check = frazil.Check(lambda data: (data["u"] < 5).all(), name="small", takes="dataset")
    with (
        pytest.raises(AuditFailedError, match="small"),
        repo.audit.staged("main", [check]) as session,
    ):
        session.array("u")[:] = 7.0
    with repo.audit.staged("main", [check]) as session:
        session.array("u")[:] = 3.0
    assert np.asarray(repo.readonly_session("main").array("u")[:]).tolist() == [3.0, 3.0]


def test_wrong_arguments_are_refused_before_anything_is_made(repo: frazil.Repository) -> None:
    with pytest.raises(InvalidInputError, match="SQL"), repo.audit.staged("main", ["SELECT 1"]):  # type: ignore[list-item]
        pass
    with pytest.raises(InvalidInputError), repo.audit.staged("main", keep_audit_branch="maybe"):  # type: ignore[arg-type]
        pass
    with pytest.raises(frazil.RefNotFoundError), repo.audit.staged("nope"):
        pass
    assert repo.list_branches() == {"main"}


def staged_once(spec: int, keep: KeepBranch, failing_from: int | None) -> tuple[FaultyStorage, int]:
    """Publish something; count calls after its check, and fail from one of them on."""
    storage = FaultyStorage(frazil.in_memory_storage())
    repo = frazil.Repository.create(storage, spec_version=spec)
    with repo.transaction("main", message="make") as store:
        zarr.create_array(store, name="t", shape=(4,), chunks=(2,), dtype="f8")[...] = 1.0

    def check(session: Session) -> None:
        storage.forget_calls()
        if failing_from is not None:
            storage.plan = (Fault(Trouble.FAIL, call=failing_from, times=1000),)

    with repo.audit.staged("main", [check], keep_audit_branch=keep) as session:
        write(session, 0, 5.0)
    storage.plan = ()
    return storage, len(storage.calls)


@pytest.mark.parametrize("spec", [1, 2])
def test_what_was_published_stays_so_when_only_the_clean_up_fails(
    spec: int, caplog: pytest.LogCaptureFixture
) -> None:
    _, until_published = staged_once(spec, "always", None)
    storage, _ = staged_once(spec, "never", until_published + 1)
    repo = frazil.Repository.open(storage.inner)
    assert read(repo) == [5.0, 1.0, 1.0, 1.0]
    assert "could not be cleaned up" in caplog.text
    assert len(repo.list_branches()) == 2


@pytest.mark.parametrize("keep", ["on_failure", "never"])
@pytest.mark.parametrize("spec", [1, 2])
def test_what_others_commit_to_the_audit_branch_is_not_deleted_with_it(
    spec: int, keep: KeepBranch
) -> None:
    template = MemoryStorage()
    session = frazil.Repository.create(template, spec_version=spec).writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(4)})
    session.commit("one")
    outcomes = set()
    for call in count(1):
        place = copy_of(template)
        told: list[str] = []

        def come(place: MemoryStorage = place, told: list[str] = told) -> None:
            with suppress(FrazilError):
                session = frazil.Repository.open(place).writable_session("audit")
                write_keys(session, {"a/c/1": b"theirs"})
                told.append(session.commit("theirs"))

        line = InterruptedStorage(place)
        repo = frazil.Repository.open(line)
        line.before(call, come)
        with (
            suppress(FrazilError),
            repo.audit.staged("main", audit_branch="audit", keep_audit_branch=keep) as session,
        ):
            write_keys(session, {"a/c/0": b"ours"})
        if not line.is_over:
            break
        outcomes.add(bool(told))
        there = frazil.Repository.open(place)
        told_by = [info.message for name in there.list_branches() for info in
                   there.ancestry(branch=name)]  # fmt: skip
        assert not told or "theirs" in told_by, call
    assert outcomes == {True, False}
