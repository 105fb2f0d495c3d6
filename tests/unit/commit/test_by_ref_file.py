"""Refs of v1 are files: whoever comes second to make, move or delete one is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from frazil import upgrade_repository
from frazil.commit.by_ref_file import RefFileRefs
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    RefNotFoundError,
    SnapshotNotFoundError,
)
from frazil.formats.ref_files import Fence, branch_key, encode_fence
from frazil.ids import SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment


@pytest.fixture
def inner() -> Storage:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=1)
    for message in ("first", "second"):
        session = repository.writable_session("main")
        write_keys(session, {"a/zarr.json": array_document(9, attributes={"at": message})})
        session.commit(message)
    repository.create_tag("release", repository.lookup_branch("main"))
    return storage


def overtaken(
    inner: Storage, prefix: str, rival: Callable[[Repository], object], operation: str = "put_if"
) -> Repository:
    """A repository whose next conditional write below a prefix comes after somebody else's."""
    other = Repository.open(inner)
    moments: list[Moment] = []
    repository = Repository.open(storage := InterruptedStorage(inner, moments))
    storage.moments.append(Moment(operation, prefix, lambda: rival(other)))
    return repository


def ids(storage: Storage) -> list[str]:
    return [info.id for info in Repository.open(storage).ancestry(branch="main")]


def test_of_two_who_make_a_tag_the_second_is_told(inner: Storage) -> None:
    newest, older, _ = ids(inner)
    repository = overtaken(inner, "refs/tag.mine", lambda other: other.create_tag("mine", older))
    with pytest.raises(AlreadyExistsError) as caught:
        repository.create_tag("mine", newest)
    assert caught.value.kind is ErrorKind.TAG_ALREADY_EXISTS
    assert Repository.open(inner).lookup_tag("mine") == older


def test_of_two_who_delete_a_tag_the_second_is_told(inner: Storage) -> None:
    repository = overtaken(inner, "refs/tag.release", lambda other: other.delete_tag("release"))
    with pytest.raises(RefNotFoundError):
        repository.delete_tag("release")
    assert Repository.open(inner).list_tags() == set()


def test_of_two_who_make_a_branch_the_second_is_told(inner: Storage) -> None:
    newest, older, _ = ids(inner)
    rival = partial(Repository.create_branch, branch="dev", snapshot_id=older)
    repository = overtaken(inner, "refs/branch.dev", rival)
    with pytest.raises(ConflictError) as caught:
        repository.create_branch("dev", newest)
    assert caught.value.kind is ErrorKind.BRANCH_UPDATE_CONFLICT
    assert caught.value.actual_parent == older
    assert Repository.open(inner).lookup_branch("dev") == older


def test_a_branch_that_moved_is_not_reset(inner: Storage) -> None:
    newest, older, oldest = ids(inner)
    rival = partial(Repository.reset_branch, branch="main", snapshot_id=oldest)
    repository = overtaken(inner, "refs/branch.main", rival)
    with pytest.raises(ConflictError):
        repository.reset_branch("main", older)
    assert Repository.open(inner).lookup_branch("main") == oldest
    with pytest.raises(ConflictError) as caught:
        Repository.open(inner).reset_branch("main", older, from_snapshot_id=newest)
    assert caught.value.kind is ErrorKind.BRANCH_UPDATE_CONFLICT
    assert Repository.open(inner).lookup_branch("main") == oldest


def test_a_commit_does_not_bury_another(inner: Storage) -> None:
    def commit(other: Repository) -> str:
        session = other.writable_session("main")
        write_keys(session, {"theirs/zarr.json": array_document(1)})
        return session.commit("theirs")

    repository = overtaken(inner, "refs/branch.main", commit)
    session = repository.writable_session("main")
    write_keys(session, {"ours/zarr.json": array_document(1)})
    with pytest.raises(ConflictError):
        session.commit("ours")
    history = Repository.open(inner).ancestry(branch="main")
    assert next(iter(history)).message == "theirs"


def test_two_who_save_configurations_both_have_their_say(inner: Storage) -> None:
    def save(other: Repository) -> None:
        config = RepositoryConfig(inline_chunk_threshold_bytes=77)
        Repository.open(inner, config=config).save_config()

    other = Repository.open(inner)
    storage = InterruptedStorage(inner, [])
    repository = Repository.open(storage, config=RepositoryConfig(get_partial_values_concurrency=3))
    storage.moments.append(Moment("put_if", "config", lambda: save(other)))
    repository.save_config()
    config = Repository.open(inner).config
    assert not storage.moments
    assert config.inline_chunk_threshold_bytes == 77
    assert config.get_partial_values_concurrency == 3


@pytest.mark.parametrize("name", ["", "a/b"])
def test_names_that_are_no_file_names_are_refused(inner: Storage, name: str) -> None:
    repository = Repository.open(inner)
    tip = repository.lookup_branch("main")
    for attempt in (
        lambda: repository.create_tag(name, tip),
        lambda: repository.create_branch(name, tip),
        lambda: repository.lookup_tag(name),
        lambda: repository.lookup_branch(name),
    ):
        with pytest.raises(Exception, match="invalid ref name"):
            attempt()


def test_main_stays(inner: Storage) -> None:
    with pytest.raises(Exception, match="main"):
        Repository.open(inner).delete_branch("main")
    assert "main" in Repository.open(inner).list_branches()


def test_what_is_not_there_is_told(inner: Storage) -> None:
    repository = Repository.open(inner)
    for attempt in (
        lambda: repository.lookup_tag("none"),
        lambda: repository.lookup_branch("none"),
        lambda: repository.delete_tag("none"),
        lambda: repository.delete_branch("none"),
    ):
        with pytest.raises(RefNotFoundError):
            attempt()


def test_a_deleted_tag_is_gone_for_good(inner: Storage) -> None:
    repository = Repository.open(inner)
    tip = repository.lookup_branch("main")
    repository.delete_tag("release")
    assert Repository.open(inner).list_tags() == set()
    with pytest.raises(RefNotFoundError):
        repository.lookup_tag("release")
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("release", tip)


def test_a_tag_moves_only_from_where_it_is_thought_to_be(inner: Storage) -> None:
    """As when the snapshot it points to is made anew."""
    newest, older, oldest = map(SnapshotId.parse, ids(inner))
    refs = context_of(Repository.open(inner)).refs
    assert isinstance(refs, RefFileRefs)
    with pytest.raises(ConflictError):
        refs.move_tag("release", oldest, older)
    with pytest.raises(ConflictError):
        refs.move_tag("none", oldest, older)
    assert refs.tag_target("release") == newest
    refs.move_tag("release", older, newest)
    refs.move_tag("release", older, newest)  # again, since a reply may be lost
    assert refs.tag_target("release") == older
    assert "none" not in refs.tags()


def test_a_tag_that_somebody_moves_meanwhile_is_not_moved(inner: Storage) -> None:
    newest, older, oldest = map(SnapshotId.parse, ids(inner))

    def rival(other: Repository) -> None:
        refs = context_of(other).refs
        assert isinstance(refs, RefFileRefs)
        refs.move_tag("release", oldest, newest)

    refs = context_of(overtaken(inner, "refs/tag.release", rival)).refs
    assert isinstance(refs, RefFileRefs)
    with pytest.raises(ConflictError):
        refs.move_tag("release", older, newest)
    assert Repository.open(inner).lookup_tag("release") == str(oldest)


def refs_of(repository: Repository) -> RefFileRefs:
    refs = context_of(repository).refs
    assert isinstance(refs, RefFileRefs)
    return refs


def test_deleted_tags_are_told_with_what_they_pointed_to(inner: Storage) -> None:
    newest, older, _ = ids(inner)
    repository = Repository.open(inner)
    repository.create_tag("other", older)
    assert refs_of(repository).deleted_tags() == []
    repository.delete_tag("release")
    assert refs_of(repository).deleted_tags() == [("release", SnapshotId.parse(newest))]


def test_a_branch_that_an_upgrade_has_begun_to_take_over_takes_no_commit(inner: Storage) -> None:
    """Nothing but the fence tells of it yet."""
    tip = SnapshotId.parse(ids(inner)[0])

    def rival(_: Repository) -> None:
        inner.put(branch_key("main", encoded=True), encode_fence(Fence.UPGRADED, tip))

    session = overtaken(inner, "refs/branch.main", rival, "fetch").writable_session("main")
    write_keys(session, {"ours/zarr.json": array_document(1)})
    with pytest.raises(ConflictError, match="frazil upgrade") as caught:
        session.commit("ours")
    assert caught.value.kind is ErrorKind.REPO_INFO_UPDATED


@pytest.mark.parametrize("make", [Repository.create_branch, Repository.create_tag])
def test_a_ref_to_a_snapshot_that_is_not_there_is_seen_by_nobody(
    inner: Storage, make: Callable[[Repository, str, str], object]
) -> None:
    storage = InterruptedStorage(inner)
    repository = Repository.open(storage)
    with pytest.raises(SnapshotNotFoundError):
        make(repository, "none", str(SnapshotId.random()))
    assert [call for call in storage.calls if call[0] == "put_if"] == []


def test_a_branch_is_deleted_only_where_it_is_thought_to_be(inner: Storage) -> None:
    newest, older, _ = map(SnapshotId.parse, ids(inner))
    repository = Repository.open(inner)
    repository.create_branch("dev", str(newest))
    with pytest.raises(ConflictError):
        refs_of(repository).delete_branch("dev", expected=older)
    assert repository.lookup_branch("dev") == str(newest)
    refs_of(repository).delete_branch("dev", expected=newest)
    assert repository.list_branches() == {"main"}


def test_a_branch_that_moves_while_it_is_deleted_is_gone_all_the_same(inner: Storage) -> None:
    newest, older, _ = ids(inner)
    Repository.open(inner).create_branch("dev", newest)
    rival = partial(Repository.reset_branch, branch="dev", snapshot_id=older)
    overtaken(inner, "refs/branch.dev", rival).delete_branch("dev")
    assert Repository.open(inner).list_branches() == {"main"}


def test_who_deletes_a_tag_while_others_upgrade_is_told_of_the_upgrade(inner: Storage) -> None:
    repository = overtaken(inner, "refs/tag.release", upgrade_repository)
    with pytest.raises(ConflictError) as caught:
        repository.delete_tag("release")
    assert caught.value.kind is ErrorKind.REPO_INFO_UPDATED
    assert Repository.open(inner).list_tags() == {"release"}
