"""A commit moves its branch once, and one that only seemed to fail is found again."""

from __future__ import annotations

import pytest

from frazil.errors import (
    ConflictError,
    ErrorKind,
    SessionStateError,
)
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, contents, group_document, write_keys


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def start(repository: Repository) -> str:
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "g/a/zarr.json": array_document(6),
            **{f"g/a/c/{i}": bytes([65 + i]) for i in range(6)},
        },
    )
    return session.commit("start")


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
