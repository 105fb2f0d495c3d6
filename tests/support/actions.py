"""Things one does to a repository, each prepared first and done later, for tests of crashes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeAlias

import pytest

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.model.config import RepositoryConfig
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, contents, group_document, write_keys

Act: TypeAlias = Callable[[], object]
Prepare: TypeAlias = Callable[[Repository], Act]
State: TypeAlias = dict[str, object]

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=4)
INLINE, NATIVE = b"in", b"native chunk"
HISTORY = ["Repository initialized", "first", "second"]
LATER = timedelta(days=1)


def base_of(storage: Storage, spec: int) -> Repository:
    """A repository with two commits, two branches and a chunk that nobody needs."""
    for key, content in _base_objects(spec).items():
        storage.put(key, content)
    return Repository.open(storage, config=CONFIG)


@cache
def _base_objects(spec: int) -> dict[str, bytes]:
    storage = MemoryStorage()
    _make_base(storage, spec)
    return {item.key: bytes(storage.get(item.key) or b"") for item in storage.list()}


def _make_base(storage: Storage, spec: int) -> None:
    repository = Repository.create(storage, config=CONFIG, spec_version=spec)
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "a/zarr.json": array_document(4),
            "a/c/0": NATIVE,
            "a/c/1": INLINE,
        },
    )
    first = session.commit("first")
    session = repository.writable_session("main")
    write_keys(session, {"a/c/1": NATIVE, "b/zarr.json": array_document(4), "b/c/0": NATIVE})
    session.commit("second")
    repository.create_branch("old", first)
    abandoned = repository.writable_session("main")
    write_keys(abandoned, {"a/c/3": NATIVE})


def state_of(storage: Storage) -> State:
    """All that a user can see, opened anew; without ids and times, which differ in each run."""
    if not Repository.exists(storage):
        return {}
    repository = Repository.open(storage)
    branches, tags = repository.list_branches(), repository.list_tags()
    refs = context_of(repository).refs
    known = refs.info().snapshots.values() if isinstance(refs, RepoObjectRefs) else ()
    return {
        "branches": {
            name: [info.message for info in repository.ancestry(branch=name)] for name in branches
        },
        "tags": {name: next(repository.ancestry(tag=name)).message for name in tags},
        "contents": {name: contents(repository.readonly_session(name)) for name in branches},
        "snapshots": sorted(entry.message for entry in known),
    }


def edited(repository: Repository) -> Session:
    """A session with something to write of every kind."""
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "a/c/0": NATIVE * 2,
            "a/c/2": INLINE,
            "g/zarr.json": group_document(made="here"),
            "g/n/zarr.json": array_document(2),
            "g/n/c/1": NATIVE,
        },
    )
    return session


# --- the actions ---


def commit(repository: Repository) -> Act:
    """A commit."""
    session = edited(repository)
    return lambda: session.commit("third")


def commit_rebased(repository: Repository) -> Act:
    """A commit that has to go past somebody else's first."""
    session = edited(repository)
    other = repository.writable_session("main")
    write_keys(other, {"b/c/1": INLINE})
    other.commit("other")
    return lambda: session.commit("third", rebase_with=ConflictDetector())


def amend(repository: Repository) -> Act:
    """A commit that replaces the newest one."""
    session = edited(repository)
    return lambda: session.amend("second, better")


def flush(repository: Repository) -> Act:
    """A snapshot that no branch points to."""
    session = edited(repository)
    return lambda: session.flush("aside")


def rewrite(repository: Repository) -> Act:
    """The same hierarchy with new manifests."""
    return lambda: repository.rewrite_manifests("rewritten", branch="main")


def create_branch(repository: Repository) -> Act:
    """A new branch."""
    tip = repository.lookup_branch("main")
    return lambda: repository.create_branch("new", tip)


def reset_branch(repository: Repository) -> Act:
    """A branch pointed elsewhere."""
    tip = repository.lookup_branch("main")
    return lambda: repository.reset_branch("old", tip)


def delete_branch(repository: Repository) -> Act:
    """A branch less."""
    return lambda: repository.delete_branch("old")


def create_tag(repository: Repository) -> Act:
    """A new tag."""
    tip = repository.lookup_branch("main")
    return lambda: repository.create_tag("release", tip)


def drop_old(repository: Repository) -> None:
    """Leave only the main branch."""
    if "old" in repository.list_branches():
        repository.delete_branch("old")


def expire(repository: Repository) -> Act:
    """A history cut down to its tip."""
    drop_old(repository)
    return lambda: repository.expire_snapshots(datetime.now(UTC) + LATER)


def collect(repository: Repository) -> Act:
    """Garbage collection, with a snapshot among the garbage."""
    drop_old(repository)
    return lambda: repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)


ACTIONS = (
    commit,
    commit_rebased,
    amend,
    flush,
    rewrite,
    create_branch,
    reset_branch,
    delete_branch,
    create_tag,
    expire,
    collect,
)
V2_ONLY = (amend,)
CASES = [
    pytest.param(action, spec, id=f"{action.__name__}-v{spec}")
    for action in ACTIONS
    for spec in (1, 2)
    if spec == 2 or action not in V2_ONLY
]
"""every action that a spec version knows"""
