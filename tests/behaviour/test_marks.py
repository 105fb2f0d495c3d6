"""Work that is done once stays done, whatever becomes of the commits that say so."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import zarr

from frazil.fsck import fsck
from frazil.fsck.findings import Level
from frazil.model.marks import INGEST, TXN_APP, TXN_VERSION, Marks, merged_marks, packed
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.generations import (
    ALL,
    Spec,
    needs_documents,
    needs_expiry,
    needs_repo_object,
    spec_id,
)

FILE = {b"file----": b"done"}
DONE = Marks({"stream": 1}, {"": FILE})


def write(
    repository: Repository,
    message: str,
    value: int,
    branch: str = "main",
    metadata: dict[str, object] | None = None,
) -> str:
    """A commit that writes an array of its own."""
    session = repository.writable_session(branch)
    array = zarr.create_array(session.store, name=message.replace(" ", "-"), shape=(2,), dtype="i4")
    array[:] = value
    return session.commit(message, metadata)


def known(repository: Repository, branch: str = "main") -> Marks:
    """The marks of a branch, as whoever looks back at its history finds them."""
    return merged_marks(entry.metadata for entry in repository.ancestry(branch=branch))


@pytest.fixture(params=ALL, ids=[*map(spec_id, ALL)])
def repository(request: pytest.FixtureRequest) -> Repository:
    """Two batches of a stream and a file, then a commit of something else."""
    spec: Spec = request.param
    made = Repository.create(MemoryStorage(), spec_version=spec)
    write(made, "first", 0)
    ingested: dict[str, object] = {INGEST: {"group": "", "files": 1, "marks": packed(FILE)}}
    write(made, "ingest", 1, metadata=ingested)
    write(made, "batch 0", 2, metadata={TXN_APP: "stream", TXN_VERSION: 0})
    write(made, "batch 1", 3, metadata={TXN_APP: "stream", TXN_VERSION: 1})
    assert known(made) == DONE
    return made


def ids(repository: Repository, branch: str = "main") -> list[str]:
    """Snapshots of a branch, newest first."""
    return [entry.id for entry in repository.ancestry(branch=branch)]


def amend(repository: Repository) -> None:
    needs_repo_object(repository)
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="more", shape=(2,), dtype="i4")
    session.amend("a typo")


def amend_the_ingest(repository: Repository) -> None:
    needs_repo_object(repository)
    repository.reset_branch("main", ids(repository)[2])
    amend(repository)
    write(repository, "batch 1", 3, metadata={TXN_APP: "stream", TXN_VERSION: 1})


def rewrite(repository: Repository) -> None:
    needs_repo_object(repository)
    repository.rewrite_manifests("rewritten", branch="main", commit_method="amend")


def rewrite_anew(repository: Repository) -> None:
    repository.rewrite_manifests("rewritten", branch="main")


def squash(repository: Repository) -> None:
    needs_documents(repository)
    repository.versions.squash("main", ids(repository)[-1])


def squash_the_middle(repository: Repository) -> None:
    needs_documents(repository)
    found = ids(repository)
    repository.versions.squash("main", found[-2], found[1])


def expire(repository: Repository) -> None:
    needs_expiry(repository)
    write(repository, "other", 4)
    write(repository, "newest", 5)
    time.sleep(0.01)
    repository.expire_snapshots(datetime.now(UTC))


def expire_twice(repository: Repository) -> None:
    expire(repository)
    write(repository, "later", 6)
    time.sleep(0.01)
    repository.expire_snapshots(datetime.now(UTC))


def expire_and_amend(repository: Repository) -> None:
    needs_repo_object(repository)
    expire(repository)
    amend(repository)


def merge(repository: Repository) -> None:
    needs_documents(repository)
    repository.create_branch("public", ids(repository)[3])
    write(repository, "elsewhere", 4, "public")
    repository.versions.merge("main", "public")
    repository.reset_branch("main", repository.lookup_branch("public"))


def merge_and_expire(repository: Repository) -> None:
    merge(repository)
    expire(repository)


def cherry_pick(repository: Repository) -> None:
    needs_documents(repository)
    found = ids(repository)
    repository.create_branch("new", found[3])
    for one in reversed(found[:3]):
        repository.versions.cherry_pick(one, "new")
    repository.reset_branch("main", repository.lookup_branch("new"))


def stage(repository: Repository) -> None:
    with repository.audit.staged("main", []) as session:
        zarr.create_array(session.store, name="more", shape=(2,), dtype="i4")


def stage_and_expire(repository: Repository) -> None:
    stage(repository)
    expire(repository)


def revert_another(repository: Repository) -> None:
    needs_documents(repository)
    write(repository, "wrong", 9)
    repository.versions.revert(repository.lookup_branch("main"))


OPERATIONS: list[Callable[[Repository], None]] = [
    amend,
    rewrite,
    rewrite_anew,
    squash,
    squash_the_middle,
    expire,
    expire_twice,
    expire_and_amend,
    merge,
    merge_and_expire,
    cherry_pick,
    stage,
    stage_and_expire,
    revert_another,
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.__name__ for each in OPERATIONS])
def test_marks_stay(repository: Repository, operation: Callable[[Repository], None]) -> None:
    operation(repository)
    again = Repository.open(repository.storage)
    assert known(again) == DONE
    assert [str(f) for f in fsck(again).findings if f.level is not Level.NOTE] == []


def test_the_marks_of_an_ingest_that_was_amended_stay(repository: Repository) -> None:
    amend_the_ingest(repository)
    assert known(repository) == DONE


def test_a_reset_branch_takes_the_batch_again(repository: Repository) -> None:
    repository.reset_branch("main", ids(repository)[1])
    assert known(repository) == Marks({"stream": 0}, {"": FILE})
    write(repository, "other", 4)
    assert known(repository) == Marks({"stream": 0}, {"": FILE})


def test_a_branch_of_older_commits_does_not_have_the_marks_of_newer_ones(
    repository: Repository,
) -> None:
    repository.create_branch("dev", ids(repository)[2])
    write(repository, "dev work", 4, "dev")
    assert known(repository, "dev") == Marks({}, {"": FILE})


def test_commits_hand_on_the_marks_of_series(repository: Repository) -> None:
    write(repository, "other", 4)
    newest = next(iter(repository.ancestry(branch="main")))
    assert merged_marks([newest.metadata]) == Marks({"stream": 1})


def test_a_commit_that_is_picked_after_those_before_it_expired_has_its_own_marks(
    repository: Repository,
) -> None:
    needs_repo_object(repository)
    newest, *_, first, _ = repository.ancestry(branch="main")
    repository.create_branch("new", first.id)
    repository.expire_snapshots(newest.written_at)
    assert known(repository) == DONE
    repository.versions.cherry_pick(newest.id, "new")
    assert known(repository, "new") == Marks({"stream": 1})


def test_merging_a_branch_that_is_behind_does_not_turn_a_series_back(
    repository: Repository,
) -> None:
    """A batch is repeated if the newest commit that tells of its series has a smaller number."""
    needs_documents(repository)
    repository.create_branch("behind", ids(repository)[1])
    write(repository, "elsewhere", 4, "behind")
    repository.versions.merge("behind", "main")
    newest = next(iter(repository.ancestry(branch="main")))
    assert newest.message != "batch 1"
    assert merged_marks([newest.metadata]).series == {"stream": 1}
