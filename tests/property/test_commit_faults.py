"""A commit is all or nothing whichever request fails, or takes effect and loses its reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from frazil.errors import AlreadyExistsError, ConflictError, FrazilError, StorageError
from frazil.model.config import RepositoryConfig
from frazil.model.values import BasicConflictSolver, ConflictDetector
from frazil.repository import Repository
from frazil.session.session import Session
from frazil.storage.base import (
    PLAIN,
    Attributes,
    Bytes,
    LostRace,
    Storage,
    Version,
    Written,
)
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.support.checks import check_repository, garbage_of
from tests.support.faulty import Fault, FaultyStorage, Trouble
from tests.support.nodes import array_document, contents, group_document, write_keys

TROUBLES = (Trouble.FAIL, Trouble.LOSE_REPLY)
MOST_CALLS = 60
CASES = [
    pytest.param(action, spec, id=f"{action.__name__}-v{spec}")
    for action in ACTIONS
    for spec in (1, 2)
    if spec == 2 or action not in V2_ONLY
]


@dataclass
class Trial:
    """One action on one repository, with trouble at one of its calls."""

    inner: Storage
    act: Act
    faulty: FaultyStorage
    before: State
    error: FrazilError | None = None
    after: State = field(default_factory=dict)

    @property
    def is_hit(self) -> bool:
        """Whether the action made the call that was to fail."""
        return bool(self.faulty.plan) and len(self.faulty.calls) >= self.faulty.plan[0].call

    def run(self) -> None:
        """Act, and see what is there."""
        try:
            self.act()
        except FrazilError as error:
            self.error = error
        self.after = state_of(self.inner)
        check_repository(Repository.open(self.inner))


def trial(inner: Storage, prepare: Prepare, spec: int, *plan: Fault) -> Trial:
    """Prepare an action in a repository of its own; calls are counted from its beginning."""
    base_of(inner, spec)
    faulty = FaultyStorage(inner)
    act = prepare(Repository.open(faulty))
    before = state_of(inner)
    faulty.forget_calls()
    faulty.plan = plan
    return Trial(inner, act, faulty, before)


def trials(prepare: Prepare, spec: int, trouble: Trouble, times: int = 1) -> Iterator[Trial]:
    """The action once for each call it makes, with trouble there."""
    for call in range(1, MOST_CALLS):
        made = trial(MemoryStorage(), prepare, spec, Fault(trouble, call=call, times=times))
        made.run()
        if not made.is_hit:
            return
        yield made
    pytest.fail("the action never ends")


def good_end(prepare: Prepare, spec: int) -> State:
    """What the action comes to when nothing goes wrong."""
    made = trial(MemoryStorage(), prepare, spec)
    made.run()
    assert made.error is None
    return made.after


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
@pytest.mark.parametrize(("prepare", "spec"), CASES)
def test_an_action_happens_or_does_not(prepare: Prepare, spec: int, trouble: Trouble) -> None:
    new = comparable(good_end(prepare, spec))
    hits = 0
    for made in trials(prepare, spec, trouble):
        hits += 1
        seen = comparable(made.after)
        assert seen in (comparable(made.before), new)
        if made.error is None:
            assert seen == new, "acknowledged, but not there"
    assert hits


# --- trying again ---


def tip_messages(storage: Storage) -> list[str]:
    """The history of main, oldest first."""
    return check_repository(Repository.open(storage)).messages()


HISTORY = ["Repository initialized", "first", "second"]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_tried_again_lands_once(spec: int, trouble: Trouble, times: int) -> None:
    """Also if the solver would let the session overwrite its own commit."""
    for call in range(1, MOST_CALLS):
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
    pytest.fail("the commit never ends")


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_an_amend_tried_again_lands_once(trouble: Trouble, times: int) -> None:
    for call in range(1, MOST_CALLS):
        made = Retried(2, Fault(trouble, call=call, times=times))
        landed = made.until_done(lambda session: session.amend("better"))
        repository = Repository.open(made.inner)
        assert tip_messages(made.inner) == [*HISTORY[:-1], "better"]
        assert landed == repository.lookup_branch("main")
        assert contents(repository.readonly_session("main")) == made.wanted
        if not made.errors:
            return
    pytest.fail("the amend never ends")


class Retried:
    """A session whose user tries again until the storage works."""

    def __init__(self, spec: int, *plan: Fault) -> None:
        self.inner = MemoryStorage()
        base_of(self.inner, spec)
        self.faulty = FaultyStorage(self.inner)
        self.session = edited(Repository.open(self.faulty))
        self.wanted = contents(self.session)
        self.faulty.forget_calls()
        self.faulty.plan = plan
        self.errors: list[StorageError] = []

    def until_done(self, act: Callable[[Session], str]) -> str:
        """Act until it goes well, which must be soon."""
        for _ in range(5):
            try:
                return act(self.session)
            except StorageError as error:
                self.errors.append(error)
        pytest.fail(f"still failing: {self.errors[-1]}")


@pytest.mark.parametrize("spec", [1, 2])
def test_the_lost_reply_of_the_last_write_is_a_success(spec: int) -> None:
    made = Retried(spec, Fault(Trouble.LOSE_REPLY, "put_if"))
    landed = made.session.commit("third")
    assert landed == Repository.open(made.inner).lookup_branch("main")
    assert made.session.read_only
    assert tip_messages(made.inner) == [*HISTORY, "third"]


class Overtaken(FaultyStorage):
    """Loses the reply to the first conditional write; somebody commits before it is looked at."""

    def __init__(self, inner: Storage, answer: Callable[[], LostRace | None]) -> None:
        super().__init__(inner)
        self._answer: Callable[[], LostRace | None] | None = answer

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        outcome = super().put_if(key, data, expected, attributes)
        if self._answer is None:
            return outcome
        answer, self._answer = self._answer, None
        return answer() or outcome


def commit_on_top(inner: Storage) -> None:
    """Somebody else is quick."""
    other = Repository.open(inner).writable_session("main")
    write_keys(other, {"b/c/1": INLINE})
    other.commit("other")


@pytest.mark.parametrize("says", ["lost race", "error"])
@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_that_others_built_upon_is_not_made_twice(spec: int, says: str) -> None:
    """A store that reads back after a lost reply finds somebody else's write by then."""
    inner = MemoryStorage()
    base_of(inner, spec)

    def answer() -> LostRace | None:
        commit_on_top(inner)
        if says == "error":
            raise StorageError("reply lost")
        return LostRace("somewhere")

    session = edited(Repository.open(Overtaken(inner, answer)))
    session.commit("third", rebase_with=BasicConflictSolver())
    assert tip_messages(inner) == [*HISTORY, "third", "other"]


@pytest.mark.parametrize("says", ["lost race", "error"])
@pytest.mark.parametrize(
    ("prepare", "spec"),
    [(create_branch, 2), (create_tag, 2), (reset_branch, 2), (delete_branch, 2), (amend, 2)],
)
def test_a_change_of_refs_that_others_built_upon_succeeds(
    prepare: Prepare, spec: int, says: str
) -> None:
    inner = MemoryStorage()
    base_of(inner, spec)

    def answer() -> LostRace | None:
        commit_on_top(inner)
        if says == "error":
            raise StorageError("reply lost")
        return LostRace("somewhere")

    act = prepare(Repository.open(Overtaken(inner, answer)))
    act()
    assert tip_messages(inner)[-1] == "other"
    kinds = [type(line.kind) for line in Repository.open(inner).ops_log()]
    assert len(kinds) == len(list(Repository.open(inner).ops_log()))


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
@pytest.mark.parametrize("spec", [1, 2])
def test_creating_happens_or_does_not(spec: int, trouble: Trouble) -> None:
    for call in range(1, MOST_CALLS):
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
            with pytest.raises(AlreadyExistsError):
                Repository.create(inner, spec_version=spec)
        else:
            Repository.create(inner, spec_version=spec, check_clean_root=False)
        repository = Repository.open(inner)
        assert tip_messages(inner) == HISTORY[:1]
        edited_from_scratch = repository.writable_session("main")
        write_keys(edited_from_scratch, {"zarr.json": group_document()})
        edited_from_scratch.commit("works")
    pytest.fail("creating never ends")
