"""`repo.versions`: whole branches and commits, named as people name them."""

from __future__ import annotations

import pytest

from frazil.errors import (
    ConflictError,
    InvalidInputError,
    MergeConflictError,
    NodeNotFoundError,
    NotFoundError,
    ReadOnlyError,
)
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import ReadOnlyStorage
from tests.support.nodes import array_document, contents, write_keys


def commit(repository: Repository, branch: str, chunk: int, value: bytes) -> str:
    session = repository.writable_session(branch)
    write_keys(session, {f"a/c/{chunk}": value})
    return session.commit(f"{branch} {chunk}")


@pytest.fixture
def repository() -> Repository:
    """An array of four chunks; `dev` has written the second, `main` the first."""
    made = Repository.create(MemoryStorage())
    session = made.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(4)})
    made.create_branch("dev", session.commit("begun"))
    commit(made, "dev", 1, b"d")
    commit(made, "main", 0, b"m")
    return made


def chunks(repository: Repository, version: str = "main") -> dict[str, bytes]:
    session = repository.readonly_session(snapshot_id=repository.resolve(version))
    return {key[-1]: value for key, value in contents(session).items() if "/c/" in key}


@pytest.mark.parametrize("name", ["branch", "tag", "id", "beginning of an id"])
def test_a_version_is_merged_by_any_of_its_names(repository: Repository, name: str) -> None:
    tip = repository.lookup_branch("dev")
    repository.create_tag("wanted", tip)
    source = {"branch": "dev", "tag": "wanted", "id": tip, "beginning of an id": tip[:9]}[name]
    report = repository.versions.merge(source, message="both", metadata={"by": "me"})
    assert chunks(repository) == {"0": b"m", "1": b"d"}
    made = repository.lookup_snapshot(repository.lookup_branch("main"))
    assert (made.message, made.metadata["by"]) == ("both", "me")
    assert report.snapshot_id == made.id


def test_unknown_versions_are_refused_before_anything_is_done(repository: Repository) -> None:
    tip = repository.lookup_branch("main")
    versions = repository.versions
    for work in (
        lambda: versions.merge("none"),
        lambda: versions.merge("dev", base="none"),
        lambda: versions.cherry_pick("none"),
        lambda: versions.revert("none"),
        lambda: versions.squash("main", "none"),
        lambda: versions.fast_forward("main", "none"),
        lambda: versions.diff_values("none", "main"),
    ):
        with pytest.raises(NotFoundError):
            work()
    assert repository.lookup_branch("main") == tip


def test_a_conflict_stops_a_merge_unless_the_policy_decides(repository: Repository) -> None:
    commit(repository, "dev", 0, b"x")
    tip = repository.lookup_branch("main")
    with pytest.raises(MergeConflictError) as caught:
        repository.versions.merge("dev")
    assert [each.path for each in caught.value.report.unresolved] == ["/a"]
    assert repository.lookup_branch("main") == tip
    repository.versions.merge("dev", policy="theirs")
    assert chunks(repository)["0"] == b"x"


def test_a_dry_run_moves_no_branch(repository: Repository) -> None:
    before = repository.lookup_branch("main"), repository.lookup_branch("dev")
    _, begun, root = [info.id for info in repository.ancestry(branch="main")]
    repository.create_branch("behind", begun)
    versions = repository.versions
    versions.merge("dev", dry_run=True)
    versions.cherry_pick("dev", dry_run=True)
    versions.revert("main", dry_run=True)
    versions.squash("main", root, dry_run=True)
    versions.fast_forward("behind", "main", dry_run=True)
    assert (repository.lookup_branch("main"), repository.lookup_branch("dev")) == before
    assert repository.lookup_branch("behind") == begun


def test_one_commit_is_repeated_and_taken_back(repository: Repository) -> None:
    repository.versions.cherry_pick("dev", onto="main")
    assert chunks(repository) == {"0": b"m", "1": b"d"}
    newest = next(repository.ancestry(branch="main"))
    assert newest.message == "dev 1"  # its own message
    repository.versions.revert("main", message="undone")
    assert chunks(repository) == {"0": b"m"}
    assert next(repository.ancestry(branch="main")).message == "undone"


def test_commits_become_one_and_others_stay(repository: Repository) -> None:
    begun = [info.id for info in repository.ancestry(branch="main")][1]
    commit(repository, "main", 2, b"n")
    commit(repository, "main", 3, b"o")
    wanted = chunks(repository)
    repository.create_tag("before", repository.lookup_branch("main"))
    repository.versions.squash("main", begun, message="one")
    assert [info.message for info in repository.ancestry(branch="main")][:2] == ["one", "begun"]
    assert chunks(repository) == chunks(repository, "before") == wanted
    with pytest.raises(InvalidInputError):
        repository.versions.squash("main", "dev")


def test_a_branch_moves_forward_only(repository: Repository) -> None:
    begun = [info.id for info in repository.ancestry(branch="main")][1]
    repository.create_branch("behind", begun)
    repository.versions.fast_forward("behind", "main")
    assert repository.lookup_branch("behind") == repository.lookup_branch("main")
    with pytest.raises(ConflictError):
        repository.versions.fast_forward("main", "dev")


def test_values_of_versions_that_are_no_ancestors_are_compared(repository: Repository) -> None:
    found = repository.versions.diff_values("main", "dev")
    assert "/a" in str(found)
    same = repository.versions.diff_values("main", repository.lookup_branch("main"))
    assert "/a" not in str(same)
    with pytest.raises(NodeNotFoundError, match="none"):
        repository.versions.diff_values("main", "dev", paths=["/none"])


def test_a_place_that_can_only_be_read_compares_and_merges_nothing(repository: Repository) -> None:
    reading = Repository.open(ReadOnlyStorage(repository.storage))
    reading.versions.diff_values("main", "dev")
    with pytest.raises(ReadOnlyError):
        reading.versions.merge("dev")
