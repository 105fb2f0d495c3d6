"""Errors: the tree, the codes, the messages, and the way through process borders."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest

from frazil import errors
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    FrazilError,
    InternalError,
    InvalidInputError,
    NodeNotFoundError,
    NotFoundError,
    ReadOnlyError,
    RebaseFailedError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.model.values import Conflict, ConflictType

EVERY_CLASS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, FrazilError)
]
EXAMPLES = [
    FrazilError("boom"),
    FrazilError("boom", "io"),
    ConflictError("abc", "def"),
    ConflictError(None, None, "somebody was faster", "branch-update-conflict"),
    ConflictError(message="lost", expected_parent="a", actual_parent="b", branch="main"),
    RebaseFailedError("SNAP", [Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[0]])]),
    NotFoundError("missing", "key-not-found"),
    NodeNotFoundError("no node", path="/a"),
    SnapshotNotFoundError("no snapshot"),
    RefNotFoundError("no ref", kind=ErrorKind.TAG_NOT_FOUND, name="v1"),
    RepositoryNotFoundError("no repository", url="memory://"),
    AlreadyExistsError("there", kind=ErrorKind.TAG_ALREADY_EXISTS),
    ReadOnlyError("no", kind=ErrorKind.READ_ONLY_STORE),
    InvalidInputError("bad", kind=ErrorKind.INVALID_PATH, path="x"),
    SessionStateError("not now", kind=ErrorKind.NO_CHANGES_TO_COMMIT),
    StorageError("failed"),
    FormatError("damaged", key="manifests/X", offset=3),
    InternalError("bug"),
]


def test_handlers_for_builtin_errors_catch_ours() -> None:
    for cls in (
        NodeNotFoundError,
        SnapshotNotFoundError,
        RefNotFoundError,
        RepositoryNotFoundError,
    ):
        assert issubclass(cls, NotFoundError)
        assert issubclass(cls, KeyError)
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(RebaseFailedError, ConflictError)


@pytest.mark.parametrize("cls", EVERY_CLASS)
def test_every_class_can_be_raised_with_nothing_said(cls: type[FrazilError]) -> None:
    error = cls()
    assert isinstance(error.kind, ErrorKind)
    assert error.message == str(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
def test_errors_survive_pickling(error: FrazilError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.kind is error.kind
    assert again.facts == error.facts
    assert vars(again) == vars(error)


def _fail(index: int) -> None:
    raise EXAMPLES[index]


def test_errors_cross_process_borders() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for index in (2, 5, 7):
            with pytest.raises(type(EXAMPLES[index])) as caught:
                pool.apply(_fail, (index,))
            assert caught.value.kind is EXAMPLES[index].kind
    assert isinstance(caught.value, NodeNotFoundError)


def test_messages_show_the_facts() -> None:
    error = FormatError("damaged", key="manifests/X", offset=3)
    assert str(error) == "damaged (key=manifests/X, offset=3)"
    assert error.facts == {"key": "manifests/X", "offset": 3}
    assert str(NodeNotFoundError("no node")) == "no node"


def test_repr_shows_class_and_kind() -> None:
    assert repr(FrazilError("boom")) == 'frazil.FrazilError(message="boom", kind="unknown")'
    shown = repr(RefNotFoundError("no branch"))
    assert shown == 'frazil.RefNotFoundError(message="no branch", kind="ref-not-found")'


def test_conflicts_tell_both_parents() -> None:
    error = ConflictError("abc", "def")
    assert (error.expected_parent, error.actual_parent) == ("abc", "def")
    assert 'expected parent: Some("abc")' in str(error)
    failed = RebaseFailedError("SNAP", [])
    assert failed.snapshot == "SNAP"
    assert failed.conflicts == []
    assert failed.kind is ErrorKind.REBASE_FAILED


def test_a_missing_repository_comes_with_advice() -> None:
    assert any("create" in note for note in RepositoryNotFoundError("none").__notes__)


def test_unknown_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="no-such-kind"):
        FrazilError("x", "no-such-kind")


def test_callers_add_what_they_were_doing() -> None:
    error = FormatError("damaged", key="manifests/X").during("fetch_manifest").during("get a/c/0")
    assert str(error) == "damaged (key=manifests/X, during=fetch_manifest < get a/c/0)"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
