"""Locations are stored as the official package stores them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, InvalidInputError
from frazil.storage.locations import key_of, normalised


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("S3://B/K//a/../b?x#f", "s3://B/K//a/../b?x#f"),
        ("https://u:p@h.com:8443/a//b/../c?v=1#f", "https://u:p@h.com:8443/a//b/../c?v=1#f"),
        ("VCC://name/rest", "vcc://name/rest"),
        ("gs://x", "gs://x"),
        ("s3://b k/ x\n", "s3://b k/ x\n"),
        ("file:///a/../b c", "file:///b%20c"),
        ("FILE:///A%20b/./c", "file:///A%20b/c"),
        ("file:/x", "file:///x"),
        ("file:x", "file:///x"),
        ("file://localhost/x", "file:///x"),
        ("file://host/x/y", "file://host/x/y"),
        ("file:///a\\b", "file:///a/b"),
        ("file:///é", "file:///%C3%A9"),
        ("file:///a/%2E%2e/b", "file:///b"),
        ("file:///a//b", "file:///a//b"),
        ("file:///a/b/..", "file:///a/"),
        ("file:///a/b/.", "file:///a/b/"),
        ("file:///..", "file:///"),
        ("file://", "file:///"),
        ("file:///C:/x/../../y", "file:///C:/y"),
        ("file:///a b\tc\n", "file:///a%20bc"),
        ("file:///a|b<c>\"d`{e}^f'", "file:///a|b%3Cc%3E%22d%60%7Be%7D^f'"),
        ("file:///a?b c#d e", "file:///a?b%20c#d%20e"),
        ("http:/x/y", "http://x/y"),
    ],
)
def test_stored_form(given_text: str, stored: str) -> None:
    assert normalised(given_text) == stored
    assert normalised(stored) == stored


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "/x/y",
        "s3:/x/y",
        "s3:x",
        "mailto:foo",
        "s3://",
        "s3:///x",
        "s3://?x",
        " file:///x ",
    ],
)
def test_what_is_no_location(text: str) -> None:
    with pytest.raises(InvalidInputError, match="error parsing virtual ref URL") as caught:
        normalised(text)
    assert caught.value.kind is ErrorKind.INVALID_VIRTUAL_REF


@pytest.mark.parametrize("text", ["vcc://", "vcc:///x"])
def test_a_container_must_be_named(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        normalised(text)
    assert caught.value.kind is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK


@given(st.text(max_size=30))
def test_no_file_location_keeps_dot_segments(path: str) -> None:
    key = key_of(normalised(f"file:///root/{path}"))
    plain = key.split("/")
    assert ".." not in [p for p in plain if "%" not in path]


def test_parts_of_a_location() -> None:
    url = "https://user:pw@host:8443/a//b%20c/d?x=1#f"
    assert key_of(url) == "a//b c/d"
    assert key_of("s3://b/weird%3Fkey%23v2") == "weird?key#v2"
    assert key_of("s3://bucket") == ""
    with pytest.raises(InvalidInputError, match="does not decode"):
        key_of("s3://b/%ff")
