"""The part of the test suite of commit protocols that is about branches, tags and history."""

from __future__ import annotations

import pytest

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.ids import MAIN, SnapshotId
from frazil.model.history import JSON
from frazil.storage.base import Storage
from frazil.testing.commit_scenes import (
    FIELD,
    CommitHandle,
    InterposedStorage,
    ScenesOfCommits,
    handle,
    succeeds,
)
from frazil.testing.storage import RACERS, race


class BranchContract(ScenesOfCommits):
    """Branches are made once, moved from where they were seen, and deleted."""

    def test_a_branch_starts_where_it_is_told(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        first = ours.commit("first")
        ours.commit("second")
        ours.refs.create_branch("dev", first)
        assert theirs.refs.branch_tip("dev") == first
        assert {*theirs.refs.branches()} == {MAIN, "dev"}
        theirs.commit("on dev", "dev")
        assert ours.messages("dev") == ["on dev", "first"]
        assert ours.messages() == ["second", "first"]

    def test_a_branch_is_not_made_twice(self, ours: CommitHandle, theirs: CommitHandle) -> None:
        first = ours.refs.branch_tip(MAIN)
        second = ours.commit("second")
        ours.refs.create_branch("dev", first)
        with pytest.raises((ConflictError, AlreadyExistsError)):
            theirs.refs.create_branch("dev", second)
        assert ours.refs.branch_tip("dev") == first

    def test_one_of_many_who_make_a_branch_wins(self, place: Storage) -> None:
        handles = [handle(place) for _ in range(RACERS)]
        targets = [handles[0].commit(f"target {number}") for number in range(RACERS)]
        won = race(lambda n: succeeds(lambda: handles[n].refs.create_branch("dev", targets[n])))
        assert won.count(True) == 1
        assert handles[0].refs.branch_tip("dev") == targets[won.index(True)]

    def test_a_branch_needs_a_snapshot(self, ours: CommitHandle) -> None:
        with pytest.raises(SnapshotNotFoundError):
            ours.refs.create_branch("dev", SnapshotId.random())
        with pytest.raises(RefNotFoundError):
            ours.refs.branch_tip("dev")
        assert {*ours.refs.branches()} == {MAIN}

    def test_a_reset_moves_a_branch_from_where_it_was_seen(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        first, second = ours.commit("first"), ours.commit("second")
        ours.refs.reset_branch(MAIN, first, second)
        assert theirs.messages() == ["first"]
        with pytest.raises(ConflictError) as caught:
            theirs.refs.reset_branch(MAIN, second, second)
        assert caught.value.kind is ErrorKind.BRANCH_UPDATE_CONFLICT
        assert caught.value.actual_parent == str(first)
        theirs.refs.reset_branch(MAIN, second, None)
        assert ours.messages() == ["second", "first"]

    def test_a_reset_that_is_overtaken_is_refused(
        self, place: Storage, theirs: CommitHandle
    ) -> None:
        line = InterposedStorage(place)
        ours = handle(line)
        first, second = ours.commit("first"), ours.commit("second")
        line.before = lambda: theirs.commit("theirs")
        with pytest.raises(ConflictError):
            ours.refs.reset_branch(MAIN, first, second)
        assert theirs.messages() == ["theirs", "second", "first"]

    def test_a_reset_needs_a_branch_and_its_snapshots(self, ours: CommitHandle) -> None:
        tip, unknown = ours.commit("first"), SnapshotId.random()
        with pytest.raises(RefNotFoundError):
            ours.refs.reset_branch("none", tip, None)
        with pytest.raises(SnapshotNotFoundError):
            ours.refs.reset_branch(MAIN, unknown, None)
        with pytest.raises(SnapshotNotFoundError):
            ours.refs.reset_branch(MAIN, tip, None, frozenset({unknown}))
        assert ours.messages() == ["first"]

    def test_a_deleted_branch_is_gone_and_its_name_is_free(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        first, second = ours.commit("first"), ours.commit("second")
        ours.refs.create_branch("dev", first)
        late = theirs.publication("late", "dev")
        ours.refs.delete_branch("dev", first)
        assert {*theirs.refs.branches()} == {MAIN}
        for refused in (
            lambda: theirs.refs.branch_tip("dev"),
            lambda: theirs.refs.publish(late),
            lambda: theirs.refs.delete_branch("dev"),
        ):
            with pytest.raises(RefNotFoundError):
                refused()
        ours.refs.create_branch("dev", second)
        with pytest.raises(ConflictError):
            theirs.refs.publish(late)
        assert theirs.messages("dev") == ["second", "first"]

    def test_a_branch_that_moved_is_not_deleted(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        first = ours.commit("first")
        ours.refs.create_branch("dev", first)
        theirs.commit("theirs", "dev")
        with pytest.raises(ConflictError):
            ours.refs.delete_branch("dev", first)
        assert ours.messages("dev") == ["theirs", "first"]
        ours.refs.delete_branch("dev")
        assert {*theirs.refs.branches()} == {MAIN}

    def test_main_stays(self, ours: CommitHandle) -> None:
        with pytest.raises(SessionStateError) as caught:
            ours.refs.delete_branch(MAIN)
        assert caught.value.kind is ErrorKind.CANNOT_DELETE_MAIN
        assert MAIN in ours.refs.branches()


class TagContract(ScenesOfCommits):
    """A tag is made once, and never again under the same name."""

    def test_a_tag_stays_where_it_was_made(self, ours: CommitHandle, theirs: CommitHandle) -> None:
        first = ours.commit("first")
        ours.refs.create_tag("v1", first)
        second = ours.commit("second")
        assert theirs.refs.tag_target("v1") == first
        assert dict(theirs.refs.tags()) == {"v1": first}
        with pytest.raises(AlreadyExistsError):
            theirs.refs.create_tag("v1", second)
        assert ours.refs.tag_target("v1") == first

    def test_one_of_many_who_make_a_tag_wins(self, place: Storage) -> None:
        handles = [handle(place) for _ in range(RACERS)]
        targets = [handles[0].commit(f"target {number}") for number in range(RACERS)]
        won = race(lambda n: succeeds(lambda: handles[n].refs.create_tag("v1", targets[n])))
        assert won.count(True) == 1
        assert handles[0].refs.tag_target("v1") == targets[won.index(True)]

    def test_a_tag_needs_a_snapshot(self, ours: CommitHandle) -> None:
        with pytest.raises(SnapshotNotFoundError):
            ours.refs.create_tag("v1", SnapshotId.random())
        with pytest.raises(RefNotFoundError):
            ours.refs.tag_target("v1")
        assert dict(ours.refs.tags()) == {}

    def test_the_name_of_a_deleted_tag_is_not_used_again(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        first = ours.commit("first")
        ours.refs.create_tag("v1", first)
        if not ours.context.generation.deletes_tags:
            with pytest.raises(FormatError):
                ours.refs.delete_tag("v1")
            assert theirs.refs.tag_target("v1") == first
            return
        ours.refs.delete_tag("v1")
        assert dict(theirs.refs.tags()) == {}
        for refused in (
            lambda: theirs.refs.tag_target("v1"),
            lambda: theirs.refs.delete_tag("v1"),
        ):
            with pytest.raises(RefNotFoundError):
                refused()
        with pytest.raises(AlreadyExistsError):
            theirs.refs.create_tag("v1", first)


class HistoryContract(ScenesOfCommits):
    """History is told from the newest snapshot to the first, and knows nothing else."""

    def test_unknown_snapshots_are_refused(self, ours: CommitHandle) -> None:
        unknown = SnapshotId.random()
        for refused in (
            lambda: ours.refs.entry(unknown),
            lambda: ours.refs.require_known(unknown),
            lambda: [*ours.refs.ancestry(unknown)],
        ):
            with pytest.raises(SnapshotNotFoundError):
                refused()

    def test_times_find_snapshots(self, ours: CommitHandle) -> None:
        first, second = ours.commit("first"), ours.commit("second")
        entries = [ours.refs.entry(one) for one in (first, second)]
        assert ours.refs.last_before(second, entries[1].flushed_at) == second
        assert ours.refs.last_before(second, entries[1].flushed_at - 1) == first
        assert ours.refs.last_before(second, 0) is None

    def test_all_snapshots_are_below_the_heads(self, ours: CommitHandle) -> None:
        first, second = ours.commit("first"), ours.commit("second")
        ours.refs.create_branch("dev", first)
        third = ours.commit("on dev", "dev")
        known = {entry.id for head in ours.refs.heads() for entry in ours.refs.ancestry(head)}
        assert {first, second, third} <= known


class ConfigContract(ScenesOfCommits):
    """The stored configuration is edited, never replaced unseen."""

    def test_edits_in_threads_lose_nothing(self, place: Storage, ours: CommitHandle) -> None:
        if not ours.context.generation.keeps_config:
            assert ours.refs.stored_config() is None
            with pytest.raises(FormatError):
                ours.refs.edit_config(lambda _: {})
            return

        def count(stored: JSON | None) -> JSON:
            found = dict(stored or {})
            found[FIELD] = (found.get(FIELD) or 0) + 1
            return found

        handles = [handle(place) for _ in range(RACERS)]
        race(lambda number: handles[number].refs.edit_config(count))
        stored = ours.refs.stored_config()
        assert isinstance(stored, dict)
        assert stored[FIELD] == RACERS

    def test_an_edit_moves_no_branch(self, ours: CommitHandle, theirs: CommitHandle) -> None:
        if ours.context.generation.keeps_config:
            ours.commit("first")
            ours.refs.edit_config(lambda stored: {**dict(stored or {}), FIELD: 7})
            ours.commit("second")
            assert theirs.messages() == ["second", "first"]
