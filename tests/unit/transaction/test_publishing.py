"""A commit moves its branch once, and one that only seemed to fail is found again."""

from __future__ import annotations

import pytest

from frazil.errors import (
    ConflictError,
    ErrorKind,
    SessionStateError,
)
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.support.generations import ALL, IDS, Spec
from tests.support.nodes import contents, group_document, start, write_keys


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def test_amend_replaces_the_tip_and_keeps_its_changes(newest: Repository) -> None:
    first = start(newest)
    session = newest.writable_session("main")
    write_keys(session, {"g/a/c/0": b"amended"})
    new = session.amend("better")
    assert next(newest.ancestry(branch="main")).id == new
    assert first not in [info.id for info in newest.ancestry(branch="main")]
    log = newest.diff(from_snapshot_id="1CECHNKREP0F1RSTCMT0", to_snapshot_id=new)
    assert log.new_arrays == {"/g/a"}
    assert contents(newest.readonly_session(snapshot_id=first))["g/a/c/0"] == b"A"


def test_the_first_snapshot_cannot_be_amended(newest: Repository) -> None:
    session = newest.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    with pytest.raises(SessionStateError) as caught:
        session.amend("no")
    assert caught.value.kind == ErrorKind.NO_AMEND_FOR_INITIAL_COMMIT


def test_losing_a_race_keeps_the_session_usable(repository: Repository) -> None:
    start(repository)
    late = repository.writable_session("main")
    write_keys(late, {"g/a/c/0": b"late"})
    quick = repository.writable_session("main")
    write_keys(quick, {"g/a/c/1": b"quick"})
    quick.commit("quick")
    with pytest.raises(ConflictError):
        late.commit("late")
    assert late.has_uncommitted_changes
    assert not late.read_only


def test_a_commit_that_moved_nodes_is_amended_by_a_session_that_moves_them(
    newest: Repository,
) -> None:
    start(newest)
    moving = newest.rearrange_session("main")
    moving.move("/g", "/h")
    moving.commit("moved")
    editing = newest.writable_session("main")
    write_keys(editing, {"zarr.json": group_document(x=1)})
    with pytest.raises(SessionStateError, match="only a rearrange session") as caught:
        editing.amend("no")
    assert caught.value.kind is ErrorKind.REARRANGE_SESSION_ONLY
    moving = newest.rearrange_session("main")
    moving.move("/h", "/i")
    moving.amend("moved again")
    assert {node.path for node in newest.readonly_session("main").state.tree} == {"/", "/i", "/i/a"}


# --- commits of unknown outcome ---


class Interrupted:
    """A session whose commit took effect, though the user pressed Ctrl-C before it was told."""

    def __init__(self, spec: Spec) -> None:
        self.place = MemoryStorage()
        self.first = start(Repository.create(self.place, spec_version=spec))
        line = FaultyStorage(self.place)
        self.session = Repository.open(line).writable_session("main")
        write_keys(self.session, {"g/a/c/0": b"mine"})
        line.forget_calls()
        line.plan = (Fault(Trouble.LATE_INTERRUPT, "put_if"),)
        with pytest.raises(KeyboardInterrupt):
            self.session.commit("mine")
        line.plan = ()

    def messages(self) -> list[str]:
        """Of the commits after the first, newest first."""
        found = Repository.open(self.place).ancestry(branch="main")
        return [info.message for info in found][:-2]

    def build_upon(self) -> None:
        """Let somebody else commit."""
        other = Repository.open(self.place).writable_session("main")
        write_keys(other, {"g/a/c/1": b"theirs"})
        other.commit("theirs")


@pytest.fixture(params=ALL, ids=IDS)
def interrupted(request: pytest.FixtureRequest) -> Interrupted:
    return Interrupted(request.param)


@pytest.mark.parametrize("is_built_upon", [False, True])
def test_a_commit_that_landed_after_all_is_returned_by_the_next(
    interrupted: Interrupted, is_built_upon: bool
) -> None:
    session = interrupted.session
    assert session.has_uncommitted_changes
    if is_built_upon:
        interrupted.build_upon()
    found = session.commit("mine, again")
    assert interrupted.messages() == (["theirs", "mine"] if is_built_upon else ["mine"])
    landed = Repository.open(interrupted.place).lookup_snapshot(found)
    assert (landed.message, landed.parent_id) == ("mine", interrupted.first)
    assert session.read_only
    assert session.snapshot_id == found


def test_changes_made_since_are_not_taken_for_those_that_landed(interrupted: Interrupted) -> None:
    write_keys(interrupted.session, {"g/a/c/2": b"more"})
    with pytest.raises(ConflictError, match="which seemed to fail, is in the history"):
        interrupted.session.commit("more")
    assert interrupted.messages() == ["mine"]


def test_what_landed_is_not_put_on_top_of_itself(interrupted: Interrupted) -> None:
    interrupted.build_upon()
    with pytest.raises(ConflictError, match="nothing to rebase"):
        interrupted.session.rebase(ConflictDetector())
    interrupted.session.commit("mine", rebase_with=ConflictDetector())
    assert interrupted.messages() == ["theirs", "mine"]


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_a_commit_that_did_not_land_is_made_by_the_next(spec: Spec) -> None:
    place = MemoryStorage()
    start(Repository.create(place, spec_version=spec))
    line = FaultyStorage(place)
    session = Repository.open(line).writable_session("main")
    write_keys(session, {"g/a/c/0": b"mine"})
    line.forget_calls()
    line.plan = (Fault(Trouble.INTERRUPT, "put_if"),)
    with pytest.raises(KeyboardInterrupt):
        session.commit("mine")
    line.plan = ()
    session.commit("mine after all")
    found = [info.message for info in Repository.open(place).ancestry(branch="main")]
    assert found[0] == "mine after all"
    assert "mine" not in found
