"""Every kind of conflict, told apart, and what the solvers do about each."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import ConflictError, RebaseFailedError
from frazil.fsck import fsck
from frazil.model.values import (
    BasicConflictSolver,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, contents, group_document, write_keys

Edit = Callable[[Session], None]


def setting(**values: bytes) -> Edit:
    keys = {name.replace("__", "/").replace("_json", ".json"): v for name, v in values.items()}
    return lambda session: write_keys(session, keys)


def deleting(*keys: str) -> Edit:
    def edit(session: Session) -> None:
        for key in keys:
            KeySpace(session.state).delete(key)

    return edit


def replacing(**values: bytes) -> Edit:
    """Put other nodes in the place of those at some documents."""

    def edit(session: Session) -> None:
        write = setting(**values)
        for name in values:
            KeySpace(session.state).delete(name.replace("__", "/").replace("_json", ".json"))
        write(session)

    return edit


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    made = Repository.create(MemoryStorage(), spec_version=request.param)
    session = made.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "a/zarr.json": array_document(4),
            "a/c/0": b"base",
            "g/b/zarr.json": array_document(4),
        },
    )
    session.commit("base")
    return made


def race(repository: Repository, ours: Edit, theirs: Edit) -> Session:
    """Let somebody commit `theirs` while we hold a session with `ours`."""
    session, other = repository.writable_session("main"), repository.writable_session("main")
    ours(session)
    theirs(other)
    other.commit("theirs")
    with pytest.raises(ConflictError) as caught:
        session.commit("ours")
    assert caught.value.expected_parent == session.snapshot_id
    assert caught.value.actual_parent == repository.lookup_branch("main")
    return session


CONFLICTS = [
    pytest.param(
        setting(n__zarr_json=group_document()),
        setting(n__zarr_json=array_document(1)),
        ConflictType.NewNodeConflictsWithExistingNode,
        "/n",
        id="both create a node",
    ),
    pytest.param(
        setting(n__m__zarr_json=group_document()),
        setting(n__zarr_json=array_document(1)),
        ConflictType.NewNodeInInvalidGroup,
        "/n",
        id="we create below their array",
    ),
    pytest.param(
        setting(a__zarr_json=array_document(5)),
        setting(a__zarr_json=array_document(6)),
        ConflictType.ZarrMetadataDoubleUpdate,
        "/a",
        id="both update an array",
    ),
    pytest.param(
        setting(g__zarr_json=group_document(x=1)),
        setting(g__zarr_json=group_document(x=2)),
        ConflictType.ZarrMetadataDoubleUpdate,
        "/g",
        id="both update a group",
    ),
    pytest.param(
        setting(a__zarr_json=array_document(5)),
        deleting("a/zarr.json"),
        ConflictType.ZarrMetadataUpdateOfDeletedArray,
        "/a",
        id="they delete the array we update",
    ),
    pytest.param(
        setting(g__zarr_json=group_document(x=1)),
        deleting("g/zarr.json"),
        ConflictType.ZarrMetadataUpdateOfDeletedGroup,
        "/g",
        id="they delete the group we update",
    ),
    pytest.param(
        setting(a__c__1=b"ours"),
        deleting("a/zarr.json"),
        ConflictType.ChunksUpdatedInDeletedArray,
        "/a",
        id="they delete the array we write to",
    ),
    pytest.param(
        setting(a__c__1=b"ours"),
        setting(a__zarr_json=array_document(9)),
        ConflictType.ChunksUpdatedInUpdatedArray,
        "/a",
        id="they resize the array we write to",
    ),
    pytest.param(
        setting(a__c__1=b"ours"),
        setting(a__c__1=b"theirs"),
        ConflictType.ChunkDoubleUpdate,
        "/a",
        id="both write a chunk",
    ),
    pytest.param(
        deleting("a/zarr.json"),
        setting(a__c__1=b"theirs"),
        ConflictType.DeleteOfUpdatedArray,
        "/a",
        id="we delete the array they write to",
    ),
    pytest.param(
        deleting("g/zarr.json"),
        setting(g__zarr_json=group_document(x=1)),
        ConflictType.DeleteOfUpdatedGroup,
        "/g",
        id="we delete the group they update",
    ),
    pytest.param(
        deleting("g/zarr.json"),
        setting(g__new__zarr_json=group_document()),
        ConflictType.DeleteOfUpdatedGroup,
        "/g",
        id="we delete the group they put a node into",
    ),
    pytest.param(
        replacing(a__zarr_json=array_document(4, fill_value=1)),
        replacing(a__zarr_json=array_document(4, fill_value=2)),
        ConflictType.DeleteOfUpdatedArray,
        "/a",
        id="both put another array in the place of one",
    ),
    pytest.param(
        deleting("a/zarr.json"),
        replacing(a__zarr_json=array_document(4, fill_value=2)),
        ConflictType.DeleteOfUpdatedArray,
        "/a",
        id="we delete an array that they replaced",
    ),
    pytest.param(
        setting(g__n__zarr_json=array_document(1)),
        deleting("g/zarr.json"),
        ConflictType.NewNodeInInvalidGroup,
        "/g",
        id="we create in a group they delete",
    ),
    pytest.param(
        setting(a__zarr_json=array_document(1)),
        setting(a__c__3=b"theirs"),
        ConflictType.ChunkDoubleUpdate,
        "/a",
        id="we cut off a chunk they wrote",
    ),
    pytest.param(
        setting(a__zarr_json=array_document(4, fill_value=3)),
        setting(a__c__3=b"theirs"),
        ConflictType.ChunksUpdatedInUpdatedArray,
        "/a",
        id="we change what their chunks mean",
    ),
]


@pytest.mark.parametrize(("ours", "theirs", "kind", "path"), CONFLICTS)
def test_conflict_is_reported_and_nothing_is_lost(
    repository: Repository, ours: Edit, theirs: Edit, kind: ConflictType, path: str
) -> None:
    session = race(repository, ours, theirs)
    before, tip = contents(session), repository.lookup_branch("main")
    with pytest.raises(RebaseFailedError) as caught:
        session.commit("ours", rebase_with=ConflictDetector())
    assert caught.value.snapshot == tip
    found = [(conflict.conflict_type, conflict.path) for conflict in caught.value.conflicts]
    assert (kind, path) in found
    assert contents(session) == before
    assert repository.lookup_branch("main") == tip


GOES_TOGETHER = [
    pytest.param(setting(a__c__1=b"ours"), setting(a__c__2=b"theirs"), id="different chunks"),
    pytest.param(
        setting(a__zarr_json=array_document(5)), setting(a__c__2=b"x"), id="metadata and chunks"
    ),
    pytest.param(deleting("a/zarr.json"), deleting("a/zarr.json"), id="both delete"),
    pytest.param(
        setting(n__zarr_json=group_document()),
        setting(m__zarr_json=group_document()),
        id="different new nodes",
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), GOES_TOGETHER)
def test_changes_that_go_together_are_rebased(
    repository: Repository, ours: Edit, theirs: Edit
) -> None:
    session = race(repository, ours, theirs)
    parent = repository.lookup_branch("main")
    new = session.commit("ours", rebase_with=ConflictDetector())
    assert [info.id for info in repository.ancestry(branch="main")][:2] == [new, parent]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(VersionSelection.UseOurs, b"ours"), (VersionSelection.UseTheirs, b"theirs")],
)
def test_solver_picks_a_side_for_chunks_written_twice(
    repository: Repository, policy: VersionSelection, expected: bytes
) -> None:
    session = race(
        repository,
        setting(a__c__1=b"ours", a__c__3=b"only ours"),
        setting(a__c__1=b"theirs", a__c__2=b"only theirs"),
    )
    session.commit("ours", rebase_with=BasicConflictSolver(on_chunk_conflict=policy))
    found = contents(repository.readonly_session("main"))
    assert found["a/c/1"] == expected
    assert found["a/c/2"] == b"only theirs"
    assert found["a/c/3"] == b"only ours"


def test_deleting_a_group_takes_what_they_put_into_it(repository: Repository) -> None:
    session = race(repository, deleting("g/zarr.json"), setting(g__new__zarr_json=group_document()))
    session.commit("ours", rebase_with=BasicConflictSolver())
    assert not [key for key in contents(repository.readonly_session("main")) if key[0] == "g"]


def test_solver_can_refuse_to_delete_what_was_updated(repository: Repository) -> None:
    session = race(repository, deleting("a/zarr.json"), setting(a__c__1=b"theirs"))
    solver = BasicConflictSolver(fail_on_delete_of_updated_array=True)
    with pytest.raises(RebaseFailedError):
        session.rebase(solver)
    session.rebase(BasicConflictSolver())
    session.commit("deleted after all")
    assert "a/zarr.json" not in contents(repository.readonly_session("main"))


def test_one_unsolvable_conflict_blocks_the_solvable_ones(repository: Repository) -> None:
    session = race(
        repository,
        setting(a__c__1=b"ours", g__zarr_json=group_document(x=1)),
        setting(a__c__1=b"theirs", g__zarr_json=group_document(x=2)),
    )
    with pytest.raises(RebaseFailedError) as caught:
        session.rebase(BasicConflictSolver())
    assert len(caught.value.conflicts) == 2
    assert contents(session)["a/c/1"] == b"ours"


def test_rebase_stops_at_the_commit_that_conflicts(repository: Repository) -> None:
    session = repository.writable_session("main")
    write_keys(session, {"a/c/3": b"ours"})
    passed = []
    for index in (1, 3):
        other = repository.writable_session("main")
        write_keys(other, {f"a/c/{index}": b"theirs"})
        passed.append(other.commit(str(index)))
    with pytest.raises(RebaseFailedError) as caught:
        session.rebase(ConflictDetector())
    assert caught.value.snapshot == passed[1]
    assert session.snapshot_id == passed[0]


def test_their_moves_cannot_be_rebased_over() -> None:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "g/zarr.json": group_document()})
    session.commit("base")
    ours = repository.writable_session("main")
    write_keys(ours, {"n/zarr.json": group_document()})
    mover = repository.rearrange_session("main")
    mover.move("/g", "/h")
    mover.commit("move")
    with pytest.raises(RebaseFailedError) as caught:
        ours.rebase(BasicConflictSolver())
    kinds = [conflict.conflict_type for conflict in caught.value.conflicts]
    assert kinds == [ConflictType.MoveOperationCannotBeRebased]


def test_our_move_takes_along_what_they_created_and_refuses_an_occupied_target() -> None:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "g/zarr.json": group_document()})
    session.commit("base")
    mover = repository.rearrange_session("main")
    mover.move("/g", "/h")
    blocked = repository.rearrange_session("main")
    blocked.move("/g", "/taken")
    other = repository.writable_session("main")
    write_keys(other, {"g/new/zarr.json": group_document(), "taken/zarr.json": group_document(x=1)})
    other.commit("theirs")
    mover.commit("moved", rebase_with=ConflictDetector())
    found = contents(repository.readonly_session("main"))
    assert "h/new/zarr.json" in found
    assert "g/new/zarr.json" not in found
    with pytest.raises(RebaseFailedError):
        blocked.commit("over it", rebase_with=BasicConflictSolver())
    assert contents(repository.readonly_session("main"))["taken/zarr.json"] == group_document(x=1)


@pytest.mark.parametrize("solver", [ConflictDetector(), BasicConflictSolver()])
def test_data_written_between_two_overwrites_is_there_or_refused(
    repository: Repository, solver: ConflictSolver
) -> None:
    """A template, another template by somebody who began before it, and data for the first."""
    late = repository.writable_session("main")
    replacing(a__zarr_json=array_document(4, fill_value=5))(late)
    early = repository.writable_session("main")
    replacing(a__zarr_json=array_document(4, fill_value=4))(early)
    early.commit("template")
    data = repository.writable_session("main")
    setting(a__c__0=b"data")(data)
    try:
        late.commit("other template", rebase_with=solver)
    except RebaseFailedError:
        data.commit("data", rebase_with=solver)
        assert contents(repository.readonly_session("main"))["a/c/0"] == b"data"
    else:
        with pytest.raises(RebaseFailedError):
            data.commit("data", rebase_with=solver)
        found = contents(repository.readonly_session("main"))["a/zarr.json"]
        assert json.loads(found)["fill_value"] == 5
    assert not fsck(repository).findings


@pytest.mark.parametrize("solver", [ConflictDetector(), BasicConflictSolver()])
@pytest.mark.parametrize(
    "theirs",
    [
        deleting("a/zarr.json"),
        replacing(a__zarr_json=array_document(4, fill_value=1)),
        deleting("g/zarr.json"),
    ],
    ids=["they delete it", "they replace it", "they delete where it goes"],
)
def test_a_move_is_made_or_refused(theirs: Edit, solver: ConflictSolver) -> None:
    repository = Repository.create(MemoryStorage())
    write_keys(first := repository.writable_session("main"), {"zarr.json": group_document()})
    write_keys(first, {"g/zarr.json": group_document(), "a/zarr.json": array_document(4)})
    first.commit("base")
    mover = repository.rearrange_session("main")
    mover.move("/a", "/g/a")
    theirs(other := repository.writable_session("main"))
    other.commit("theirs")
    with pytest.raises(RebaseFailedError):
        mover.commit("moved", rebase_with=solver)


@pytest.mark.parametrize("solver", [ConflictDetector(), BasicConflictSolver()])
def test_a_chunk_written_to_an_array_that_was_shifted_meanwhile_is_not_left_behind(
    repository: Repository, solver: ConflictSolver
) -> None:
    def shift(session: Session) -> None:
        session.shift_array("/a", (1,))

    session = race(repository, shift, setting(a__c__3=b"theirs"))
    with pytest.raises(RebaseFailedError) as caught:
        session.commit("shifted", rebase_with=solver)
    found = [(conflict.conflict_type, conflict.path) for conflict in caught.value.conflicts]
    assert found == [(ConflictType.ChunksUpdatedInUpdatedArray, "/a")]
    assert contents(repository.readonly_session("main"))["a/c/3"] == b"theirs"


def test_an_array_that_gets_other_axes_has_no_chunks_and_can_be_read(
    repository: Repository,
) -> None:
    session = repository.writable_session("main")
    setting(a__zarr_json=array_document(4, 2))(session)
    setting(a__c__1__1=b"new")(session)
    session.commit("other axes")
    found = contents(Repository.open(repository.storage).readonly_session("main"))
    assert {key: value for key, value in found.items() if key.startswith("a/c")} == {
        "a/c/1/1": b"new"
    }


def test_session_whose_base_was_reset_away_is_refused(repository: Repository) -> None:
    first = [info.id for info in repository.ancestry(branch="main")][-1]
    session = repository.writable_session("main")
    write_keys(session, {"n/zarr.json": group_document()})
    repository.reset_branch("main", first)
    with pytest.raises(ConflictError, match="no longer in the history"):
        session.commit("ours", rebase_with=ConflictDetector())


def expired_twice(newest: Repository, *edits: Edit) -> Session:
    """A session that wrote a/c/1, below edits of which only the last is left in the history."""
    write_keys(session := newest.writable_session("main"), {"a/c/1": b"ours", "a/c/2": b"ours"})
    for edit in edits:
        edit(other := newest.writable_session("main"))
        other.commit("theirs")
    newest.expire_snapshots(datetime.now(UTC) + timedelta(seconds=1))
    assert len(list(newest.ancestry(branch="main"))) == 2
    return session


def test_their_side_is_taken_for_an_array_they_deleted_later_and_expired() -> None:
    repository = Repository.create(MemoryStorage())
    write_keys(first := repository.writable_session("main"), {"a/zarr.json": array_document(4)})
    write_keys(first, {"b/zarr.json": array_document(4)})
    first.commit("first")
    both = setting(a__c__1=b"theirs", a__c__2=b"theirs")
    session = expired_twice(repository, both, deleting("a/zarr.json"), setting(b__c__0=b"theirs"))
    session.commit(
        "ours", rebase_with=BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)
    )
    assert set(contents(repository.readonly_session("main"))) == {
        "b/zarr.json",
        "b/c/0",
    }


def test_a_rebase_that_fails_late_gives_up_none_of_our_chunks() -> None:
    repository = Repository.create(MemoryStorage())
    write_keys(first := repository.writable_session("main"), {"a/zarr.json": array_document(4)})
    first.commit("first")
    session = expired_twice(
        repository,
        setting(a__c__1=b"theirs"),
        deleting("a/zarr.json"),
        setting(n__zarr_json=group_document()),
    )
    with pytest.raises(RebaseFailedError):
        session.rebase(BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs))
    assert contents(session)["a/c/1"] == b"ours"


@pytest.mark.parametrize("is_expired", [False, True])
def test_an_array_replaced_twice_meanwhile_is_replaced_or_refused_as_asked(
    is_expired: bool,
) -> None:
    repository = Repository.create(MemoryStorage())
    write_keys(first := repository.writable_session("main"), {"zarr.json": group_document()})
    setting(a__zarr_json=array_document(4))(first)
    first.commit("first")
    replacing(a__zarr_json=array_document(4, fill_value=5))(
        session := repository.writable_session("main")
    )
    for value in (1, 2):
        replacing(a__zarr_json=array_document(4, fill_value=value), a__c__0=b"theirs")(
            other := repository.writable_session("main")
        )
        other.commit("theirs")
    if is_expired:
        repository.expire_snapshots(datetime.now(UTC) + timedelta(seconds=1))
    with pytest.raises(RebaseFailedError) as caught:
        session.commit("ours", rebase_with=ConflictDetector())
    kinds = {conflict.conflict_type for conflict in caught.value.conflicts}
    assert kinds == {ConflictType.DeleteOfUpdatedArray}
    session.commit("ours", rebase_with=BasicConflictSolver())
    found = contents(repository.readonly_session("main"))
    assert found.keys() == {"zarr.json", "a/zarr.json"}
    assert json.loads(found["a/zarr.json"])["fill_value"] == 5
