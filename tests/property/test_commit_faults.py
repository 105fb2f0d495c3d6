"""A commit is all or nothing whichever request fails, or takes effect and loses its reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil.errors import ConflictError, FrazilError, InvalidInputError, StorageError
from frazil.model.values import BasicConflictSolver
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import PLAIN, Attributes, Bytes, LostRace, Storage, Version, Written
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from tests.support import actions
from tests.support.actions import (
    CASES,
    HISTORY,
    INLINE,
    LATER,
    Act,
    Prepare,
    State,
    base_of,
    edited,
    state_of,
)
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.nodes import contents, group_document, write_keys

TROUBLES = (Trouble.FAIL, Trouble.LOSE_REPLY)
INTERRUPTS = (Trouble.INTERRUPT, Trouble.LATE_INTERRUPT)
MOST_CALLS = 60

by_trouble = pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
by_trouble_or_interrupt = pytest.mark.parametrize(
    "trouble", TROUBLES + INTERRUPTS, ids=lambda trouble: trouble.name
)
by_times = pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.soak)])
by_spec = pytest.mark.parametrize("spec", [1, 2], ids=["v1", "v2"])


@dataclass
class Trial:
    """One action on one repository, with trouble at one of its calls."""

    inner: Storage
    act: Act
    faulty: FaultyStorage
    before: State
    error: FrazilError | None = None

    @property
    def is_hit(self) -> bool:
        """Whether the action made the call that was to fail."""
        return bool(self.faulty.plan) and len(self.faulty.calls) >= self.faulty.plan[0].call

    def run(self) -> State:
        """Act, and see what is there."""
        try:
            self.act()
        except FrazilError as error:
            self.error = error
        check_repository(Repository.open(self.inner))
        return state_of(self.inner)


def trial(inner: Storage, prepare: Prepare, spec: int, *plan: Fault) -> Trial:
    """Prepare an action in a repository of its own; calls are counted from its beginning."""
    base_of(inner, spec)
    faulty = FaultyStorage(inner)
    act = prepare(Repository.open(faulty))
    before = state_of(inner)
    faulty.forget_calls()
    faulty.plan = plan
    return Trial(inner, act, faulty, before)


def good_end(prepare: Prepare, spec: int) -> State:
    """What the action comes to when nothing goes wrong."""
    made = trial(MemoryStorage(), prepare, spec)
    after = made.run()
    assert made.error is None
    return after


def calls() -> Iterator[int]:
    """Numbers of calls; every action is over before they are."""
    yield from range(1, MOST_CALLS)
    pytest.fail("the action never ends")


@by_trouble
@pytest.mark.parametrize(("prepare", "spec"), CASES)
def test_an_action_happens_or_does_not(prepare: Prepare, spec: int, trouble: Trouble) -> None:
    new = good_end(prepare, spec)
    for call in calls():
        made = trial(MemoryStorage(), prepare, spec, Fault(trouble, call=call))
        after = made.run()
        assert after in (made.before, new)
        if made.error is None:
            assert after == new, "acknowledged, but not there"
        if not made.is_hit:
            assert call > 1
            return


@by_trouble
@by_spec
def test_a_failed_commit_leaves_garbage_only(spec: int, trouble: Trouble, tmp_path: Path) -> None:
    for call in calls():
        storage = LocalStorage(tmp_path / f"{call}", durability="none")
        made = trial(storage, actions.commit, spec, Fault(trouble, call=call))
        after = made.run()
        repository = Repository.open(storage)
        assert garbage_of(repository)
        repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
        assert garbage_of(repository) == set()
        assert state_of(storage) == after
        if not made.is_hit:
            return


# --- trying again ---


def tip_messages(storage: Storage) -> list[str]:
    """The history of main, oldest first."""
    return check_repository(Repository.open(storage)).messages()


@by_times
@by_trouble_or_interrupt
@by_spec
def test_a_commit_tried_again_lands_once(spec: int, trouble: Trouble, times: int) -> None:
    """Also if the solver would let the session overwrite its own commit."""
    for call in calls():
        made = Retried(spec, Fault(trouble, call=call, times=times))
        landed = made.until_done(
            lambda session: session.commit("third", rebase_with=BasicConflictSolver())
        )
        repository = Repository.open(made.inner)
        assert tip_messages(made.inner) == [*HISTORY, "third"]
        assert landed == repository.lookup_branch("main")
        assert contents(repository.readonly_session("main")) == made.wanted
        if not made.errors:
            return


@by_times
@by_trouble_or_interrupt
def test_an_amend_tried_again_lands_once(trouble: Trouble, times: int) -> None:
    for call in calls():
        made = Retried(2, Fault(trouble, call=call, times=times))
        landed = made.until_done(lambda session: session.amend("better"))
        repository = Repository.open(made.inner)
        assert tip_messages(made.inner) == [*HISTORY[:-1], "better"]
        assert landed == repository.lookup_branch("main")
        assert contents(repository.readonly_session("main")) == made.wanted
        if not made.errors:
            return


class Retried:
    """A session whose user tries again until the storage works."""

    def __init__(self, spec: int, *plan: Fault) -> None:
        self.spec = spec
        self.inner = MemoryStorage()
        base_of(self.inner, spec)
        self.faulty = FaultyStorage(self.inner)
        self.session = edited(Repository.open(self.faulty))
        self.wanted = contents(self.session)
        self.faulty.forget_calls()
        self.faulty.plan = plan
        self.errors: list[BaseException] = []

    def until_done(self, act: Callable[[Session], str]) -> str:
        """Act until it goes well, which must be soon."""
        for _ in range(5):
            try:
                return act(self.session)
            except (StorageError, KeyboardInterrupt) as error:
                self.errors.append(error)
        pytest.fail(f"still failing: {self.errors[-1]!r}")

    def lose_sight_of_commit(self) -> None:
        """Commit; the reply to the last write is lost, and so is all that follows."""
        rehearsal = Retried(self.spec)
        rehearsal.session.commit("third")
        last = [operation for operation, _ in rehearsal.faulty.calls].index("put_if") + 1
        self.faulty.plan = (
            Fault(Trouble.LOSE_REPLY, call=last),
            Fault(Trouble.FAIL, call=last + 1, times=100),
        )
        try:
            self.session.commit("third")
        finally:
            self.faulty.plan = ()


@by_spec
def test_the_lost_reply_of_the_last_write_is_a_success(spec: int) -> None:
    made = Retried(spec, Fault(Trouble.LOSE_REPLY, "put_if"))
    landed = made.session.commit("third")
    assert landed == Repository.open(made.inner).lookup_branch("main")
    assert made.session.read_only
    assert tip_messages(made.inner) == [*HISTORY, "third"]


class Overtaken(FaultyStorage):
    """Loses the reply to the first conditional write; somebody commits before it is looked at."""

    def __init__(self, inner: Storage, answer: Callable[[], LostRace]) -> None:
        super().__init__(inner)
        self._answer: Callable[[], LostRace] | None = answer

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        outcome = super().put_if(key, data, expected, attributes)
        if self._answer is None:
            return outcome
        answer, self._answer = self._answer, None
        return answer()


def commit_on_top(inner: Storage) -> None:
    """Somebody else is quick."""
    other = Repository.open(inner).writable_session("main")
    write_keys(other, {"b/c/1": INLINE})
    other.commit("other")


def answer_late(inner: Storage, says: str) -> LostRace:
    """The reply got lost; a store that looks what became of it finds somebody else's write."""
    commit_on_top(inner)
    if says == "error":
        raise StorageError("reply lost")
    return LostRace("somewhere")


by_answer = pytest.mark.parametrize("says", ["lost race", "error"])


@by_answer
@by_spec
def test_a_commit_that_others_built_upon_is_not_made_twice(spec: int, says: str) -> None:
    inner = MemoryStorage()
    base_of(inner, spec)
    storage = Overtaken(inner, lambda: answer_late(inner, says))
    session = edited(Repository.open(storage))
    session.commit("third", rebase_with=BasicConflictSolver())
    assert tip_messages(inner) == [*HISTORY, "third", "other"]


@by_answer
@pytest.mark.parametrize(
    ("prepare", "line"),
    [
        (actions.amend, "CommitAmended"),
        (actions.create_branch, "BranchCreated"),
        (actions.create_tag, "TagCreated"),
        (actions.delete_branch, "BranchDeleted"),
        (actions.expire, "ExpirationRan"),
        (actions.flush, "NewDetachedSnapshot"),
        (actions.reset_branch, "BranchReset"),
    ],
)
def test_a_change_that_others_built_upon_is_not_made_twice(
    prepare: Prepare, line: str, says: str
) -> None:
    inner = MemoryStorage()
    base_of(inner, 2)
    repository = Repository.open(inner)
    if prepare is actions.expire:
        actions.drop_old(repository)
    storage = Overtaken(inner, lambda: answer_late(inner, says))
    prepare(Repository.open(storage))()
    checked = check_repository(repository)
    assert checked.messages()[-1] == "other"
    lines = [type(update.kind).__name__ for update in context_of(repository).refs.updates()]
    assert lines.count(line) == (2 if prepare is actions.create_branch else 1)


@by_trouble
@by_spec
def test_creating_happens_or_does_not(spec: int, trouble: Trouble) -> None:
    for call in calls():
        inner = MemoryStorage()
        faulty = FaultyStorage(inner, [Fault(trouble, call=call)])
        try:
            Repository.create(faulty, spec_version=spec)
        except StorageError:
            pass
        else:
            assert Repository.exists(inner)
            if len(faulty.calls) < call:
                return
        if Repository.exists(inner):
            with pytest.raises(InvalidInputError, match="already exists"):
                Repository.create(inner, spec_version=spec)
        else:
            Repository.create(inner, spec_version=spec, check_clean_root=False)
        repository = Repository.open(inner)
        assert tip_messages(inner) == HISTORY[:1]
        edited_from_scratch = repository.writable_session("main")
        write_keys(edited_from_scratch, {"zarr.json": group_document()})
        edited_from_scratch.commit("works")


# --- commits of unknown outcome ---


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def doubtful(request: pytest.FixtureRequest) -> Retried:
    """A session whose commit has landed, and which could not find that out."""
    made = Retried(request.param)
    with pytest.raises(StorageError):
        made.lose_sight_of_commit()
    assert tip_messages(made.inner) == [*HISTORY, "third"]
    return made


def test_a_landed_commit_is_found_when_tried_again(doubtful: Retried) -> None:
    landed = doubtful.session.commit("third")
    assert landed == Repository.open(doubtful.inner).lookup_branch("main")
    assert doubtful.session.read_only


def test_a_landed_commit_is_found_below_others(doubtful: Retried) -> None:
    tip = Repository.open(doubtful.inner).lookup_branch("main")
    commit_on_top(doubtful.inner)
    assert doubtful.session.commit("third", rebase_with=BasicConflictSolver()) == tip
    assert tip_messages(doubtful.inner) == [*HISTORY, "third", "other"]


def test_a_landed_commit_is_not_rebased_upon_itself(doubtful: Retried) -> None:
    with pytest.raises(ConflictError, match="seemed to fail"):
        doubtful.session.rebase(BasicConflictSolver())
    doubtful.session.commit("third")
    assert tip_messages(doubtful.inner) == [*HISTORY, "third"]


def test_changes_after_a_landed_commit_are_not_mixed_up_with_it(doubtful: Retried) -> None:
    write_keys(doubtful.session, {"a/c/3": INLINE})
    with pytest.raises(ConflictError, match="in a new session"):
        doubtful.session.commit("fourth", rebase_with=BasicConflictSolver())
    assert tip_messages(doubtful.inner) == [*HISTORY, "third"]


@by_spec
def test_a_commit_that_did_not_land_is_rebased(spec: int) -> None:
    made = Retried(spec, Fault(Trouble.FAIL, "put_if"))
    with pytest.raises(StorageError):
        made.session.commit("third")
    commit_on_top(made.inner)
    made.session.commit("third", rebase_with=BasicConflictSolver())
    assert tip_messages(made.inner) == [*HISTORY, "other", "third"]
