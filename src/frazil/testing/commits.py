"""The test suite of commit protocols, for every generation and storage.

A subclass supplies the fixture `storage`, an empty place that belongs to the one test, and may
narrow `spec`, which names the generation.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.commit.base import Publication
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    RefNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.ids import MAIN, SnapshotId
from frazil.storage.base import Storage
from frazil.testing.commit_refs import BranchContract, ConfigContract, HistoryContract, TagContract
from frazil.testing.commit_scenes import (
    MOST_CALLS,
    CommitHandle,
    InterposedStorage,
    ScenesOfCommits,
    handle,
)
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.testing.storage import RACERS, race


class PublishingContract(ScenesOfCommits):
    """A branch moves from the tip a commit was built upon, or not at all."""

    def test_a_new_repository_has_one_branch_and_one_snapshot(self, ours: CommitHandle) -> None:
        tip = ours.refs.branch_tip(MAIN)
        assert dict(ours.refs.branches()) == {MAIN: tip}
        assert dict(ours.refs.tags()) == {}
        assert [entry.parent_id for entry in ours.refs.ancestry(tip)] == [None]
        ours.refs.require_online()
        assert ours.refs.writable_tip(MAIN) == tip

    def test_others_see_a_publication(self, ours: CommitHandle, theirs: CommitHandle) -> None:
        theirs.refs.branch_tip(MAIN)
        first, second = ours.commit("first"), ours.commit("second")
        assert theirs.refs.branch_tip(MAIN) == second
        assert theirs.messages() == ["second", "first"]
        entry = theirs.refs.entry(second)
        assert (entry.id, entry.parent_id) == (second, first)

    def test_a_publication_upon_an_old_tip_is_refused(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        late = ours.publication("late")
        tip = theirs.commit("theirs")
        with pytest.raises(ConflictError) as caught:
            ours.refs.publish(late)
        assert caught.value.expected_parent == str(late.base)
        assert caught.value.actual_parent == str(tip)
        assert theirs.messages() == ["theirs"]
        ours.commit("again")
        assert theirs.messages() == ["again", "theirs"]

    def test_a_publication_that_is_overtaken_at_the_last_moment_is_refused(
        self, place: Storage, theirs: CommitHandle
    ) -> None:
        line = InterposedStorage(place)
        ours = handle(line)
        late = ours.publication("late")
        line.before = lambda: theirs.commit("theirs")
        with pytest.raises(ConflictError):
            ours.refs.publish(late)
        assert theirs.messages() == ["theirs"]

    def test_one_of_many_publications_wins(self, place: Storage) -> None:
        handles = [handle(place) for _ in range(RACERS)]
        offers = [one.publication(f"of {number}") for number, one in enumerate(handles)]

        def publish(number: int) -> bool:
            try:
                handles[number].refs.publish(offers[number])
            except ConflictError:
                return False
            return True

        won = race(publish)
        assert won.count(True) == 1
        assert handles[0].messages() == [f"of {won.index(True)}"]

    def test_publishing_twice_is_publishing_once(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        publication = ours.publication("once")
        ours.refs.publish(publication)
        theirs.refs.publish(publication)
        assert theirs.messages() == ["once"]

    def test_nothing_moves_before_the_files_are_ready(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        publication = ours.publication("ready")
        seen: list[SnapshotId] = []
        ours.refs.publish(publication, lambda: seen.append(theirs.refs.branch_tip(MAIN)))
        assert {*seen} == {publication.base}
        assert theirs.refs.branch_tip(MAIN) == publication.entry.id

    def test_nothing_moves_when_the_files_are_never_ready(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        def fail() -> None:
            raise StorageError("the disk is full", kind=ErrorKind.IO)

        with pytest.raises(StorageError, match="the disk is full"):
            ours.refs.publish(ours.publication("never"), fail)
        assert theirs.messages() == []

    def test_a_branch_that_is_not_there_cannot_be_published_to(self, ours: CommitHandle) -> None:
        publication = replace(ours.publication("nowhere"), branch="none")
        with pytest.raises(RefNotFoundError):
            ours.refs.publish(publication)
        assert "none" not in ours.refs.branches()

    def test_a_snapshot_that_is_required_must_be_there(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        kept, publication = ours.commit("kept"), ours.publication("new")
        lost = replace(publication, requires=frozenset({SnapshotId.random()}))
        with pytest.raises(SnapshotNotFoundError):
            ours.refs.publish(lost)
        assert theirs.refs.branch_tip(MAIN) == kept
        ours.refs.publish(replace(publication, requires=frozenset({kept})))
        assert theirs.messages() == ["new", "kept"]

    def test_only_a_repo_object_can_amend(self, ours: CommitHandle, theirs: CommitHandle) -> None:
        first = ours.commit("first")
        parent = ours.refs.entry(first).parent_id
        assert parent is not None
        better = Publication(MAIN, first, ours.prepare(parent, "better"), amends=True)
        if ours.context.generation.repo_object:
            ours.refs.publish(better)
            assert theirs.messages() == ["better"]
        else:
            with pytest.raises(FormatError):
                ours.refs.publish(better)
            assert theirs.messages() == ["first"]

    def test_a_detached_snapshot_moves_no_branch(
        self, ours: CommitHandle, theirs: CommitHandle
    ) -> None:
        tip = ours.commit("first")
        entry = ours.prepare(tip, "detached")
        ours.refs.register_detached(entry)
        assert theirs.refs.branch_tip(MAIN) == tip
        assert theirs.refs.entry(entry.id).message == "detached"
        theirs.refs.create_branch("kept", entry.id)
        assert theirs.messages("kept") == ["detached", "first"]
        with pytest.raises(SnapshotNotFoundError):
            ours.refs.register_detached(
                ours.prepare(tip, "broken"), frozenset({SnapshotId.random()})
            )


class FailureContract(ScenesOfCommits):
    """Requests that fail leave the old state or the new one, and replies may be lost."""

    def test_a_publication_whose_reply_is_lost_has_succeeded(
        self, place: Storage, theirs: CommitHandle
    ) -> None:
        line = FaultyStorage(place)
        ours = handle(line)
        publication = ours.publication("ours")
        line.forget_calls()
        line.plan = (Fault(Trouble.LOSE_REPLY, "put_if"),)
        ours.refs.publish(publication)
        assert theirs.messages() == ["ours"]

    def test_a_publication_that_others_have_built_upon_is_known_as_ours(
        self, place: Storage, theirs: CommitHandle
    ) -> None:
        line = InterposedStorage(place)
        ours = handle(line)
        publication = ours.publication("ours")
        line.after = lambda: theirs.commit("theirs")
        ours.refs.publish(publication)
        assert theirs.messages() == ["theirs", "ours"]

    @pytest.mark.parametrize(
        "trouble",
        [Trouble.FAIL, Trouble.LOSE_REPLY, Trouble.INTERRUPT, Trouble.LATE_INTERRUPT],
        ids=lambda trouble: trouble.name.lower(),
    )
    def test_whatever_fails_the_publication_happens_once_or_can_be_repeated(
        self, place: Storage, theirs: CommitHandle, trouble: Trouble
    ) -> None:
        expected: list[str] = []
        for call in range(1, MOST_CALLS):
            line = FaultyStorage(place)
            ours = handle(line)
            publication = ours.publication(f"number {call}")
            expected.insert(0, publication.entry.message)
            line.forget_calls()
            line.plan = (Fault(trouble, call=call),)
            try:
                ours.refs.publish(publication)
            except (StorageError, KeyboardInterrupt):
                assert theirs.messages() in (expected, expected[1:])
                handle(place).refs.publish(publication)
            assert theirs.messages() == expected
            if len(line.calls) < call:
                return
        pytest.fail(f"a publication made more than {MOST_CALLS} storage calls")


class CommitContract(
    PublishingContract,
    FailureContract,
    BranchContract,
    TagContract,
    HistoryContract,
    ConfigContract,
):
    """Every commit protocol passes these tests on every storage; supply a fixture `storage`."""
