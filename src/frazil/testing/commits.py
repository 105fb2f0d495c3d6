"""The test suite of commit protocols, for every generation and storage.

A subclass supplies the fixture `storage`, an empty place that belongs to the one test, and may
narrow `spec`, which names the generation. Each handle on the repository is opened apart, as
another process would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from frazil.commit.base import MAIN, Publication, RefStore, now_micros
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.formats.generation import generation_named
from frazil.ids import SnapshotId
from frazil.model.history import JSON, Snapshot, SnapshotEntry
from frazil.opening import create_repository, open_context
from frazil.storage.base import PLAIN, Attributes, Bytes, LostRace, Storage, Version, Written
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.testing.storage import RACERS, race
from frazil.transaction.context import Context

SPECS = ("g1", "g2", "g3", "v1", "v2")
"""One generation for each commit protocol, and both that use numbered files."""
FIELD = "inline_chunk_threshold_bytes"
MOST_CALLS = 60
"""More storage calls than any step of a commit protocol makes."""


class InterposedStorage(FaultyStorage):
    """A storage that runs a competitor once, just before or after a conditional write."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None
    """when set, the reply to the write is lost as well"""

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write conditionally, with what others do around it."""
        if self.before is not None:
            action, self.before = self.before, None
            action()
        done = super().put_if(key, data, expected, attributes)
        if self.after is not None:
            action, self.after = self.after, None
            action()
            raise StorageError("planned loss of the reply", kind=ErrorKind.OBJECT_STORE, key=key)
        return done


@dataclass(frozen=True, slots=True, repr=False)
class CommitHandle:
    """A repository as one process sees it."""

    context: Context

    @property
    def refs(self) -> RefStore:
        """Its branches and tags."""
        return self.context.refs

    def prepare(self, base: SnapshotId, message: str) -> SnapshotEntry:
        """Write the files of a snapshot that is to follow `base`, and give its history entry."""
        parent = self.refs.entry(base)
        stores_parent = self.context.generation.stores_parent
        snapshot = Snapshot(
            id=SnapshotId.random(),
            parent_id=base if stores_parent else None,
            nodes=(),
            flushed_at=max(now_micros(), parent.flushed_at + 1000),
            message=message,
            metadata={},
            manifest_files=(),
        )
        self.context.assets.make_durable([self.context.assets.save_snapshot(snapshot)])
        return SnapshotEntry(snapshot.id, base, snapshot.flushed_at, message, {})

    def publication(self, message: str, branch: str = MAIN) -> Publication:
        """A publication upon the present tip of a branch, ready to be published."""
        base = self.refs.branch_tip(branch)
        return Publication(branch, base, self.prepare(base, message))

    def commit(self, message: str, branch: str = MAIN) -> SnapshotId:
        """Publish an empty snapshot upon the present tip of a branch."""
        publication = self.publication(message, branch)
        self.refs.publish(publication)
        return publication.entry.id

    def messages(self, branch: str = MAIN) -> list[str]:
        """The history of a branch, newest first, without the first snapshot."""
        refs = self.refs
        return [entry.message for entry in refs.ancestry(refs.branch_tip(branch))][:-1]


def handle(storage: Storage) -> CommitHandle:
    """Open the repository at a place."""
    return CommitHandle(open_context(storage, None, None))


class ScenesOfCommits:
    """The fixtures that all parts of the contract share."""

    @pytest.fixture(params=SPECS)
    def spec(self, request: pytest.FixtureRequest) -> str:
        """Name of a generation."""
        return str(request.param)

    @pytest.fixture
    def place(self, storage: Storage, spec: str) -> Storage:
        """A storage that holds a new repository."""
        generation = generation_named(spec)
        assert generation is not None
        create_repository(storage, None, generation, check_clean_root=True)
        return storage

    @pytest.fixture
    def ours(self, place: Storage) -> CommitHandle:
        """The handle that a test uses."""
        return handle(place)

    @pytest.fixture
    def theirs(self, place: Storage) -> CommitHandle:
        """The handle of a concurrent writer."""
        return handle(place)


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


def succeeds(work: Callable[[], object]) -> bool:
    """Whether an operation succeeds, rather than losing a race."""
    try:
        work()
    except (ConflictError, AlreadyExistsError):
        return False
    return True


class CommitContract(
    PublishingContract,
    FailureContract,
    BranchContract,
    TagContract,
    HistoryContract,
    ConfigContract,
):
    """Every commit protocol passes these tests on every storage; supply a fixture `storage`."""
