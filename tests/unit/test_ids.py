"""Ids and their text, and node paths."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import (
    ALPHABET,
    INITIAL_SNAPSHOT_ID,
    ChunkId,
    NodeId,
    SnapshotId,
    child_path,
    crockford,
    crockford_many,
    is_below,
    node_path,
    parent_path,
    paths_above,
    require_usable_name,
    texts_of,
    utf8,
)

TO_CROCKFORD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ALPHABET)


@given(st.binary(max_size=40))
def test_text_is_base32_with_another_alphabet(raw: bytes) -> None:
    expected = base64.b32encode(raw).decode().rstrip("=").translate(TO_CROCKFORD)
    assert crockford(raw) == expected


@given(st.lists(st.binary(min_size=12, max_size=12), max_size=5))
def test_many_ids_are_spelled_as_each_is(ids: list[bytes]) -> None:
    raw = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12)
    assert crockford_many(raw) == texts_of(ids) == [crockford(one) for one in ids]


@pytest.mark.parametrize("kind", [SnapshotId, NodeId])
def test_text_is_read_leniently(kind: type[SnapshotId] | type[NodeId]) -> None:
    made = kind.random()
    assert len(made) == kind.width
    assert kind.parse(str(made)) == kind.parse(str(made).lower()) == made
    assert repr(made) == f"{kind.__name__}({made})"


def test_letters_that_look_like_digits_are_those() -> None:
    assert SnapshotId.parse("ICECHNKREPOFLRSTCMTO") == INITIAL_SNAPSHOT_ID


@pytest.mark.parametrize("text", ["", "1CECHNKREP0F1RSTCMT", "1CECHNKREP0F1RSTCMT00", "U" * 20])
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not the text of a 12-byte id") as caught:
        ChunkId.parse(text)
    assert caught.value.kind is ErrorKind.INVALID_SNAPSHOT_ID


def test_paths_are_checked_and_taken_apart() -> None:
    assert [node_path("/"), node_path("/a/"), node_path("/a/b")] == ["/", "/a", "/a/b"]
    for wrong in ("", "a", "//a", "/a//b", "/a/../b", "/."):
        with pytest.raises(InvalidInputError, match="invalid node path"):
            node_path(wrong)
    assert [parent_path("/a/b"), parent_path("/a"), parent_path("/")] == ["/a", "/", "/"]
    assert list(paths_above("/a/b/c")) == ["/a/b", "/a", "/"]
    assert [child_path("/", "a"), child_path("/a", "b")] == ["/a", "/a/b"]
    assert is_below("/a/b", "/a")
    assert is_below("/a", "/")
    assert not is_below("/ab", "/a")
    assert not is_below("/a", "/a")
    assert not is_below("/", "/")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/a/zarr.json", "zarr.json"),
        ("/a\0b", "NUL"),
        ("/a\\b", "backslash"),
        ("/\ud800", "surrogate"),
    ],
)
def test_names_that_some_reader_could_not_reach_are_refused(path: str, problem: str) -> None:
    require_usable_name("/größe/zarr.json5")
    with pytest.raises(InvalidInputError, match=problem):
        require_usable_name(path)


def test_half_of_a_character_is_no_text() -> None:
    assert utf8("ü") == b"\xc3\xbc"
    with pytest.raises(InvalidInputError, match="lone surrogate"):
        utf8("a\udc80")
