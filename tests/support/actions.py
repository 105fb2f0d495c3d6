"""Things one does to a repository, each prepared first and done later, for tests of crashes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from frazil.model.config import RepositoryConfig
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.session.session import Session
from frazil.storage.base import Storage
from tests.support.nodes import array_document, contents, group_document, write_keys

Act: TypeAlias = Callable[[], object]
Prepare: TypeAlias = Callable[[Repository], Act]
State: TypeAlias = dict[str, object]

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=4)
INLINE, NATIVE = b"in", b"native chunk"
HISTORY = ["Repository initialized", "first", "second"]
LATER = timedelta(days=1)


def base_of(storage: Storage, spec: int) -> Repository:
    """A repository with two commits, a branch, a tag and some garbage."""
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
    return repository


def state_of(storage: Storage) -> State:
    """All that a user can see, opened anew."""
    if not Repository.exists(storage):
        return {}
    repository = Repository.open(storage)
    branches, tags = repository.list_branches(), repository.list_tags()
    histories = {
        name: [info.message for info in repository.ancestry(branch=name)] for name in branches
    }
    return {
        "branches": histories,
        "tags": {name: repository.lookup_tag(name) for name in tags},
        "contents": {name: contents(repository.readonly_session(name)) for name in branches},
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
    session = edited(repository)
    return lambda: session.amend("second, better")


def flush(repository: Repository) -> Act:
    session = edited(repository)
    return lambda: session.flush("aside")


def rewrite(repository: Repository) -> Act:
    return lambda: repository.rewrite_manifests("rewritten", branch="main")


def create_branch(repository: Repository) -> Act:
    tip = repository.lookup_branch("main")
    return lambda: repository.create_branch("new", tip)


def reset_branch(repository: Repository) -> Act:
    tip = repository.lookup_branch("main")
    return lambda: repository.reset_branch("old", tip)


def delete_branch(repository: Repository) -> Act:
    return lambda: repository.delete_branch("old")


def create_tag(repository: Repository) -> Act:
    tip = repository.lookup_branch("main")
    return lambda: repository.create_tag("release", tip)


def expire(repository: Repository) -> Act:
    repository.delete_branch("old")
    return lambda: repository.expire_snapshots(datetime.now(UTC) + LATER)


def collect(repository: Repository) -> Act:
    repository.delete_branch("old")
    return lambda: repository.garbage_collect(datetime.now(UTC) + LATER)


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


def comparable(state: State) -> State:
    """Without ids, which differ from run to run."""
    tags = state["tags"]
    assert isinstance(tags, dict)
    return {**state, "tags": sorted(tags)}
