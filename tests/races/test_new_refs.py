"""A ref to a snapshot that a collection deletes right before the ref is made: it is refused.

So is a commit that uses the chunks of such a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from frazil import FrazilError, Repository, RepositoryConfig
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment

MAKING: dict[str, Callable[[Repository, str], None]] = {
    "branch": lambda repo, at: repo.create_branch("new", at),
    "tag": lambda repo, at: repo.create_tag("new", at),
    "reset": lambda repo, at: repo.reset_branch("other", at),
}


def prepared(spec: Spec) -> tuple[MemoryStorage, str]:
    """A repository, and a snapshot in it that no ref leads to."""
    storage = MemoryStorage()
    Repository.create(storage, spec_version=spec)
    repo = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=0))
    for branch in ("main", "other", "gone"):
        if branch != "main":
            repo.create_branch(branch, repo.lookup_branch("main"))
        session = repo.writable_session(branch)
        write_keys(session, {f"{branch}/zarr.json": group_document()})
        made = session.commit(branch)
    repo.delete_branch("gone")
    return storage, made


@pytest.mark.parametrize("making", MAKING)
@pytest.mark.parametrize("spec", [1, 2, "g2", "g3"])
def test_a_ref_to_what_is_collected_at_that_moment_is_refused(spec: Spec, making: str) -> None:
    place, lost = prepared(spec)

    def collect() -> None:
        later = datetime.now(UTC) + timedelta(hours=1)
        done = Repository.open(place).garbage_collect(later, unsafe_minimum_age=AT_ONCE)
        assert done.snapshots_deleted == 1

    storage = InterruptedStorage(place)
    repo = Repository.open(storage)
    prefix = {1: "refs/", 2: "repo", "g2": "r/", "g3": "refs/"}[spec]
    storage.moments.append(Moment("put_if", prefix, collect))
    with pytest.raises(FrazilError):
        MAKING[making](repo, lost)
    assert storage.is_over
    after = Repository.open(place)
    assert lost not in {after.lookup_branch(name) for name in after.list_branches()}
    assert "new" not in after.list_tags()
    for name in sorted(after.list_branches()):
        assert contents(after.readonly_session(name))


@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_of_chunks_that_are_collected_at_that_moment_is_refused(spec: Spec) -> None:
    """The collection was planned before the commit began, whose files it does not know."""
    place, _ = prepared(spec)
    repo = Repository.open(place, RepositoryConfig(inline_chunk_threshold_bytes=0))
    session = repo.writable_session("other")
    write_keys(session, {"a/zarr.json": array_document(2), "a/c/0": b"ab"})
    picked = session.commit("picked")
    tip = repo.lookup_branch("main")
    repo.delete_branch("other")
    later = datetime.now(UTC) + timedelta(hours=1)
    space = Repository.open(place).space
    plan = space.plan_garbage(later, unsafe_minimum_age=AT_ONCE)

    def collect() -> None:
        space.collect_planned(plan, unsafe_minimum_age=AT_ONCE)

    line = InterruptedStorage(place)
    prefix = "refs/" if spec == 1 else "repo"
    line.moments.append(Moment("put_if", prefix, collect))
    with pytest.raises(FrazilError):
        Repository.open(line).versions.cherry_pick(picked, "main")
    assert line.is_over
    assert Repository.open(place).lookup_branch("main") == tip
