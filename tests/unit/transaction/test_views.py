"""What notebooks show of nodes and chunks: bounded, with foreign text as text, never an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.drawing.markup import Html, joined_html
from frazil.errors import StorageError
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from frazil.transaction import views as module
from frazil.transaction.views import COLOURS, MOST_NODES, chunk_view, node_views, views
from tests.support.nodes import array_document, group_document, write_keys


def session_with(values: dict[str, bytes]) -> Session:
    """A session with some keys; chunks of more than four bytes are objects."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=4)
    session = Repository.create(MemoryStorage(), config).writable_session("main")
    write_keys(session, {"zarr.json": group_document(), **values})
    return session


def nodes_of(session: Session) -> str:
    return joined_html(node_views(session.state))


def chunks_of(session: Session, path: str) -> str:
    return joined_html(chunk_view(session.state, session.state.array(path)))


def test_nodes_are_shown_with_their_shapes_and_types() -> None:
    shown = nodes_of(
        session_with(
            {
                "sst/zarr.json": array_document(1500, 4, dimension_names=["time", None]),
                "sst/deep/zarr.json": group_document(),
                "run/zarr.json": group_document(),
            }
        )
    )
    assert "4 nodes" in shown
    assert "(time: 1,500, 4)" in shown
    assert "/run" in shown
    assert "deep" not in shown  # only what is right below the root


def test_an_empty_repository_is_shown_as_such() -> None:
    session = Repository.create(MemoryStorage()).readonly_session("main")
    shown = nodes_of(session)
    assert "0 nodes" in shown
    assert "nothing below /" in shown


def test_more_nodes_than_fit_are_counted() -> None:
    count = MOST_NODES + 5
    shown = nodes_of(session_with({f"n{n:03}/zarr.json": group_document() for n in range(count)}))
    assert "5 more below /" in shown
    assert f"/n{MOST_NODES - 1:03}<" in shown
    assert f"/n{MOST_NODES:03}" not in shown


def test_names_of_others_are_text() -> None:
    shown = nodes_of(session_with({"<script>/zarr.json": group_document()}))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_chunks_are_coloured_by_where_they_are() -> None:
    session = session_with(
        {"a/zarr.json": array_document(4), "a/c/0": b"in", "a/c/2": b"of its own"}
    )
    shown = chunks_of(session, "/a")
    assert "2 of 4 chunks" in shown
    for colour, word in ((COLOURS[1], "inline"), (COLOURS[2], "native")):
        assert colour in shown
        assert word in shown
    assert "virtual" not in shown


def test_too_many_references_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_with({"a/zarr.json": array_document(4), "a/c/0": b"x", "a/c/1": b"y"})
    session.commit("two chunks")
    monkeypatch.setattr(module, "MOST_REFERENCES", 1)
    assert "2 references are too many for a picture" in chunks_of(session, "/a")


def test_what_cannot_be_read_is_a_remark_and_the_rest_is_shown() -> None:
    def parts() -> Iterator[Html]:
        yield Html("<p>first</p>")
        raise StorageError("an object is missing", key="<snapshots/x>")

    first, remark = views(parts())
    assert first == "<p>first</p>"
    assert "cannot be shown: an object is missing" in remark
    assert "&lt;snapshots/x&gt;" in remark
    assert [*views([])] == []


def test_mistakes_of_ours_are_not_hidden() -> None:
    def parts() -> Iterator[Html]:
        yield Html("")
        raise AssertionError

    with pytest.raises(AssertionError):
        [*views(parts())]
