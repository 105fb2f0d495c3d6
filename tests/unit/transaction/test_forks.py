"""Forks that come back after others have committed: nothing is laid over their changes."""

from __future__ import annotations

import pickle

import pytest

from frazil.errors import ConflictError, RebaseFailedError
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.session import ForkSession, Session
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import array_document, contents, group_document, write_keys

by_spec = pytest.mark.parametrize("spec", [1, 2], ids=["v1", "v2"])


def made(spec: int) -> Repository:
    """A repository with an array of two chunks."""
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    documents = {"zarr.json": group_document(), "a/zarr.json": array_document(8)}
    write_keys(session, {**documents, "a/c/0": b"0", "a/c/1": b"1"})
    session.commit("one")
    return repository


def forked(session: Session, **values: bytes) -> ForkSession:
    """What a worker sends back."""
    fork: ForkSession = pickle.loads(pickle.dumps(session.fork()))
    write_keys(fork, {f"a/c/{name[1:]}": value for name, value in values.items()})
    return pickle.loads(pickle.dumps(fork))  # type: ignore[no-any-return]


def others_commit(repository: Repository, key: str) -> None:
    session = repository.writable_session("main")
    write_keys(session, {key: b"theirs"})
    session.commit("theirs")


@by_spec
@pytest.mark.parametrize("has_changes", [False, True])
@pytest.mark.parametrize("how", ["rebased", "another session"])
def test_a_fork_is_not_laid_over_a_commit_it_has_not_seen(
    spec: int, how: str, has_changes: bool
) -> None:
    repository = made(spec)
    session = repository.writable_session("main")
    if has_changes:
        write_keys(session, {"b/zarr.json": array_document(2)})
    fork = forked(session, _0=b"ours")
    others_commit(repository, "a/c/0")
    if how == "rebased":
        session.rebase(ConflictDetector())
    else:
        session = repository.writable_session("main")
    with pytest.raises(RebaseFailedError):
        session.merge(fork)
    assert contents(session)["a/c/0"] == b"theirs"


@by_spec
def test_a_fork_comes_back_to_a_session_that_was_rebased(spec: int) -> None:
    repository = made(spec)
    session = repository.writable_session("main")
    write_keys(session, {"b/zarr.json": array_document(2)})
    fork = forked(session, _0=b"ours")
    write_keys(fork, {"b/c/0": b"new"})
    others_commit(repository, "a/c/1")
    session.rebase(ConflictDetector())
    session.merge(fork)
    session.commit("merged")
    found = contents(repository.readonly_session("main"))
    assert (found["a/c/0"], found["a/c/1"], found["b/c/0"]) == (b"ours", b"theirs", b"new")


@by_spec
def test_a_fork_of_a_history_that_is_gone_is_refused(spec: int) -> None:
    repository = made(spec)
    root = list(repository.ancestry(branch="main"))[-1].id
    fork = forked(repository.writable_session("main"), _0=b"ours")
    repository.reset_branch("main", root)
    session = repository.writable_session("main")
    with pytest.raises(ConflictError):
        session.merge(fork)


@by_spec
def test_conflicts_are_found_by_the_commit_when_the_session_stayed(spec: int) -> None:
    repository = made(spec)
    session = repository.writable_session("main")
    fork = forked(session, _0=b"ours")
    others_commit(repository, "a/c/0")
    session.merge(fork)
    with pytest.raises(RebaseFailedError):
        session.commit("merged", rebase_with=ConflictDetector())


@by_spec
def test_a_fork_of_an_array_that_was_replaced_is_refused(spec: int) -> None:
    repository = made(spec)
    session = repository.writable_session("main")
    fork = forked(session, _0=b"ours")
    other = repository.writable_session("main")
    other.state.delete_node("/a")
    write_keys(other, {"a/zarr.json": array_document(8), "a/c/1": b"theirs"})
    other.commit("replaced")
    session.rebase(ConflictDetector())
    with pytest.raises(RebaseFailedError):
        session.merge(fork)
