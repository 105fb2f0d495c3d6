"""Refs of v2: every change is one replacement of the repo object, or is refused by its state."""

from __future__ import annotations

import pytest

from frazil.commit.base import OVERWRITTEN, Publication, now_micros
from frazil.commit.by_repo_object import RepoObjectRefs, require_flag, require_moves
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.formats.repo_info import REPO_KEY
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.history import SnapshotEntry, UpdateType
from frazil.model.updates import CREATE_TAG, MOVE_NODE
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of

ROOT = INITIAL_SNAPSHOT_ID


@pytest.fixture
def storage() -> FaultyStorage:
    """A place with an empty repository, which counts what is asked of it."""
    made = FaultyStorage(MemoryStorage())
    Repository.create(made)
    return made


@pytest.fixture
def refs(storage: FaultyStorage) -> RepoObjectRefs:
    return RepoObjectRefs(storage, RepositoryConfig(num_updates_per_repo_info_file=3))


def publication(
    base: SnapshotId, *, amends: bool = False, requires: frozenset[SnapshotId] = frozenset()
) -> Publication:
    """A commit on main upon a snapshot."""
    entry = SnapshotEntry(SnapshotId.random(), base, now_micros(), "made", {})
    return Publication("main", base, entry, amends, requires)


def published(refs: RepoObjectRefs, base: SnapshotId = ROOT) -> SnapshotId:
    made = publication(base)
    refs.publish(made)
    return made.entry.id


# --- commits ---


def test_a_commit_moves_its_branch_and_is_in_history(refs: RepoObjectRefs) -> None:
    first = published(refs)
    second = published(refs, first)
    assert refs.branch_tip("main") == second
    assert [entry.id for entry in refs.ancestry(second)] == [second, first, ROOT]
    assert refs.last_before(second, refs.entry(first).flushed_at) == first
    assert refs.last_before(second, 0) is None


def test_a_commit_that_landed_already_is_not_made_again(refs: RepoObjectRefs) -> None:
    made = publication(ROOT)
    refs.publish(made)
    later = published(refs, made.entry.id)
    refs.publish(made)
    assert refs.branch_tip("main") == later
    assert len([*refs.updates()]) == 3


def test_a_commit_upon_another_tip_tells_both(refs: RepoObjectRefs) -> None:
    tip = published(refs)
    with pytest.raises(ConflictError) as caught:
        refs.publish(publication(ROOT))
    assert caught.value.expected_parent == str(ROOT)
    assert caught.value.actual_parent == str(tip)
    assert refs.branch_tip("main") == tip


def test_a_commit_whose_chunks_are_of_a_lost_snapshot_is_refused(refs: RepoObjectRefs) -> None:
    lost = SnapshotId.random()
    with pytest.raises(SnapshotNotFoundError, match=f"nothing was published.*{lost}"):
        refs.publish(publication(ROOT, requires=frozenset({ROOT, lost})))
    assert refs.branch_tip("main") == ROOT


def test_an_amended_commit_is_logged_as_one(refs: RepoObjectRefs) -> None:
    first = published(refs)
    made = publication(first, amends=True)
    refs.publish(made)
    kind = next(refs.updates()).kind
    assert kind == UpdateType.CommitAmended("main", first, made.entry.id)


def test_a_snapshot_without_branch_is_registered_once(refs: RepoObjectRefs) -> None:
    entry = publication(ROOT).entry
    refs.register_detached(entry)
    refs.register_detached(entry)
    assert refs.entry(entry.id).message == "made"
    assert refs.branch_tip("main") == ROOT
    assert len([*refs.updates()]) == 2
    with pytest.raises(SnapshotNotFoundError):
        refs.register_detached(publication(ROOT).entry, frozenset({SnapshotId.random()}))


# --- branches and tags ---


def test_a_branch_is_reset_or_deleted_only_where_it_is_thought_to_be(refs: RepoObjectRefs) -> None:
    tip = published(refs)
    refs.create_branch("dev", tip)
    with pytest.raises(ConflictError) as caught:
        refs.reset_branch("dev", ROOT, expected=ROOT)
    assert caught.value.kind is ErrorKind.BRANCH_UPDATE_CONFLICT
    with pytest.raises(ConflictError):
        refs.delete_branch("dev", expected=ROOT)
    refs.reset_branch("dev", ROOT, expected=tip)
    assert refs.branches() == {"main": tip, "dev": ROOT}
    refs.delete_branch("dev", expected=ROOT)
    assert refs.branches() == {"main": tip}
    with pytest.raises(RefNotFoundError, match="'dev'"):
        refs.delete_branch("dev")


def test_no_ref_leads_to_a_snapshot_that_history_lacks(refs: RepoObjectRefs) -> None:
    unknown = SnapshotId.random()
    for make in (
        lambda: refs.create_branch("dev", unknown),
        lambda: refs.create_tag("v1", unknown),
        lambda: refs.reset_branch("main", unknown, None),
        lambda: refs.ancestry(unknown),
        lambda: refs.require_known(unknown),
    ):
        with pytest.raises(SnapshotNotFoundError, match=str(unknown)):
            make()
    assert (refs.branches(), refs.tags()) == ({"main": ROOT}, {})


def test_names_that_are_taken_or_were_are_told_apart(refs: RepoObjectRefs) -> None:
    refs.create_tag("v1", ROOT)
    with pytest.raises(AlreadyExistsError) as caught:
        refs.create_branch("main", ROOT)
    assert caught.value.kind is ErrorKind.BRANCH_ALREADY_EXISTS
    with pytest.raises(AlreadyExistsError) as caught:
        refs.create_tag("v1", ROOT)
    assert caught.value.kind is ErrorKind.TAG_ALREADY_EXISTS
    refs.delete_tag("v1")
    with pytest.raises(AlreadyExistsError, match="cannot be used again") as caught:
        refs.create_tag("v1", ROOT)
    assert caught.value.kind is ErrorKind.TAG_PREVIOUSLY_DELETED
    with pytest.raises(RefNotFoundError, match="'v1'"):
        refs.tag_target("v1")


# --- what is known without asking ---


def test_what_was_read_last_is_told_without_a_request(
    refs: RepoObjectRefs, storage: FaultyStorage
) -> None:
    assert refs.tip_as_known("main") is None
    tip = refs.branch_tip("main")
    storage.forget_calls()
    assert refs.tip_as_known("main") == tip
    assert refs.entry_as_known(tip).id == tip
    refs.require_known(tip)
    assert not storage.calls
    others = published(RepoObjectRefs(storage, RepositoryConfig()))
    assert refs.tip_as_known("main") == tip
    assert refs.entry_as_known(others).parent_id == tip  # asked for after all


# --- flags ---


def test_a_flag_is_on_off_or_at_its_default(refs: RepoObjectRefs) -> None:
    for value, wanted in (
        (False, (frozenset(), frozenset({CREATE_TAG}))),
        (True, (frozenset({CREATE_TAG}), frozenset())),
        (None, (frozenset(), frozenset())),
    ):
        refs.set_flag(CREATE_TAG, value)
        assert refs.flags() == wanted
    require_flag(CREATE_TAG, None, None)
    with pytest.raises(SessionStateError, match="flag=create_tag") as caught:
        require_flag(CREATE_TAG, frozenset(), frozenset({CREATE_TAG}))
    assert caught.value.kind is ErrorKind.FEATURE_FLAG_DISABLED


def test_moves_are_refused_where_their_flag_is_off_and_never_where_there_are_no_flags(
    refs: RepoObjectRefs,
) -> None:
    require_moves(refs)
    refs.set_flag(MOVE_NODE, False)
    with pytest.raises(SessionStateError, match="move_node"):
        require_moves(refs)
    require_moves(context_of(Repository.create(MemoryStorage(), spec_version=1)).refs)


# --- the operations log ---


def test_the_log_ends_where_a_backup_was_cleaned_away(
    refs: RepoObjectRefs, storage: FaultyStorage
) -> None:
    for number in range(7):
        refs.create_tag(f"t{number}", ROOT)
    whole = [update.kind for update in refs.updates()]
    assert whole == [
        *(UpdateType.TagCreated(f"t{number}") for number in range(6, -1, -1)),
        UpdateType.RepoInitialized(),
    ]
    storage.delete_many([item.key for item in storage.list(OVERWRITTEN)])
    left = [update.kind for update in refs.updates()]
    assert left == whole[: len(left)]
    assert 1 <= len(left) <= 3


def test_a_log_that_leads_back_to_itself_ends_in_an_error(
    refs: RepoObjectRefs, storage: FaultyStorage
) -> None:
    for number in range(7):
        refs.create_tag(f"t{number}", ROOT)
    name = refs.info().repo_before_updates
    assert name is not None
    storage.put(OVERWRITTEN + name, storage.get(REPO_KEY) or b"")
    with pytest.raises(FormatError, match=f"in a circle.*{name}"):
        [*refs.updates()]
