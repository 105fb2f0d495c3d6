"""Nodes get other paths and chunks other coordinates; bytes stay where they are."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    FrazilError,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.model.values import SessionMode
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.rectilinear import RECTILINEAR


@pytest.fixture
def newest() -> Repository:
    """A repository with an array `/g/a` of the letters A to F, one in each chunk."""
    made = Repository.create(MemoryStorage())
    session = made.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "other/zarr.json": group_document(),
            "g/a/zarr.json": array_document(6),
            **{f"g/a/c/{i}": bytes([65 + i]) for i in range(6)},
        },
    )
    session.commit("start")
    return made


def values(store: FrazilStore, path: str) -> bytes:
    """What zarr reads."""
    return np.asarray(zarr.open_array(store, path=path, mode="r")[:]).tobytes()


# --- nodes ---


def test_moves_keep_ids_and_data(newest: Repository) -> None:
    before = newest.readonly_session("main")
    session = newest.rearrange_session("main")
    assert session.mode == SessionMode.rearrange
    session.move("/g", "/elsewhere")
    session.commit("moved")
    after = newest.readonly_session("main")
    assert after.get_node_id("/elsewhere/a") == before.get_node_id("/g/a")
    assert contents(after)["elsewhere/a/c/3"] == b"D"
    diff = newest.diff(from_snapshot_id=before.snapshot_id, to_branch="main")
    assert diff.moved_nodes == [("/g", "/elsewhere"), ("/g/a", "/elsewhere/a")]


@pytest.mark.parametrize(
    ("source", "target", "error", "kind"),
    [
        ("/nope", "/x", NodeNotFoundError, ErrorKind.NODE_NOT_FOUND),
        ("/g", "/g", SessionStateError, ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT),
        ("/g", "/g/a/b", SessionStateError, ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT),
        ("/", "/x", SessionStateError, ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT),
        ("/g/a", "/g", AlreadyExistsError, ErrorKind.MOVE_WONT_OVERWRITE),
        ("/g/a", "/x/y", SessionStateError, ErrorKind.MOVE_DESTINATION_PARENT_MISSING),
        ("/other", "/g/a/b", SessionStateError, ErrorKind.MOVE_DESTINATION_PARENT_NOT_GROUP),
        ("relative", "/x", InvalidInputError, ErrorKind.INVALID_PATH),
    ],
)
def test_impossible_moves_say_why(
    newest: Repository, source: str, target: str, error: type[FrazilError], kind: ErrorKind
) -> None:
    session = newest.rearrange_session("main")
    with pytest.raises(error) as caught:
        session.move(source, target)
    assert caught.value.kind == kind
    assert not session.has_uncommitted_changes


def test_each_session_kind_refuses_the_others_edits(newest: Repository) -> None:
    with pytest.raises(SessionStateError) as caught:
        newest.writable_session("main").move("/g", "/h")
    assert caught.value.kind == ErrorKind.NON_REARRANGE_SESSION
    with pytest.raises(ReadOnlyError):
        newest.readonly_session("main").move("/g", "/h")
    session = newest.rearrange_session("main")
    with pytest.raises(SessionStateError) as caught:
        write_keys(session, {"g/a/c/0": b"x"})
    assert caught.value.kind == ErrorKind.REARRANGE_SESSION_ONLY
    session.move("/g", "/h")
    session.commit("moved")
    with pytest.raises(ReadOnlyError):
        write_keys(session, {"h/a/c/0": b"x"})


# --- chunks ---


def test_shift_moves_chunks_and_empties_what_they_left(newest: Repository) -> None:
    session = newest.writable_session("main")
    session.shift_array("/g/a", (2,))
    session.commit("shifted")
    assert values(newest.readonly_session("main").store, "g/a") == b"\0\0ABCD"


def test_reindex_with_and_without_backward(newest: Repository) -> None:
    session = newest.writable_session("main")
    session.reindex_array("/g/a", lambda c: [c[0] + 1] if c[0] < 5 else None)
    assert values(session.store, "g/a") == b"AABCDE"
    session.discard_changes()
    session.reindex_array(
        "/g/a",
        lambda c: [c[0] + 1] if c[0] < 5 else None,
        lambda c: [c[0] - 1] if c[0] > 0 else None,
    )
    assert values(session.store, "g/a") == b"\0ABCDE"


@pytest.mark.parametrize(
    ("offset", "left"),
    [((1, 0), {"1/0": b"a", "1/1": b"b"}), ((-1, 1), {"0/1": b"c"}), ((0, -2), {})],
)
def test_chunks_that_leave_the_grid_on_any_side_are_dropped(
    newest: Repository, offset: tuple[int, int], left: dict[str, bytes]
) -> None:
    session = newest.writable_session("main")
    write_keys(session, {"b/zarr.json": array_document(2, 2)})
    write_keys(session, {"b/c/0/0": b"a", "b/c/0/1": b"b", "b/c/1/0": b"c", "b/c/1/1": b"d"})
    session.commit("two by two")
    session = newest.writable_session("main")
    session.shift_array("/b", offset)
    session.commit("shifted")
    found = contents(newest.readonly_session("main"))
    assert {key[4:]: found[key] for key in found if key.startswith("b/c/")} == left


def test_no_shift_is_no_change(newest: Repository) -> None:
    session = newest.writable_session("main")
    session.shift_array("/g/a", (0,))
    assert not session.has_uncommitted_changes


def test_a_shift_has_as_many_dimensions_as_the_array(newest: Repository) -> None:
    session = newest.writable_session("main")
    with pytest.raises(InvalidInputError, match="has 1 dimensions, the offset has 2") as caught:
        session.shift_array("/g/a", (1, 0))
    assert caught.value.kind == ErrorKind.INVALID_CHUNK_INDEX
    assert not session.has_uncommitted_changes


def test_chunks_are_not_sent_where_the_array_has_none(newest: Repository) -> None:
    session = newest.writable_session("main")
    with pytest.raises(InvalidInputError):
        session.reindex_array("/g/a", lambda c: [c[0] + 1])
    assert values(session.store, "g/a") == b"ABCDEF"


def test_chunks_of_different_lengths_stay_where_they_are(newest: Repository) -> None:
    session = newest.writable_session("main")
    write_keys(session, {"r/zarr.json": RECTILINEAR})
    with pytest.raises(InvalidInputError, match="rectilinear, not regular"):
        session.shift_array("/r", (1, 0))
    with pytest.raises(InvalidInputError, match="rectilinear, not regular"):
        session.reindex_array("/r", lambda c: c)
