"""Keys of a Zarr store: what names metadata, what names a chunk, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.transaction.keys import (
    MAX_INDEX,
    USUAL,
    ChunkKey,
    Key,
    KeyEncoding,
    MetadataKey,
    ZarrV2Key,
    clean_path,
    key_encoding,
    metadata_key,
    parse_key,
)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("zarr.json", MetadataKey("/")),
        ("a/b/zarr.json", MetadataKey("/a/b")),
        ("/a/zarr.json", MetadataKey("/a")),
        ("a/c/0/12", ChunkKey("/a", (0, 12))),
        ("a/c", ChunkKey("/a", ())),
        ("c/0", ChunkKey("/", (0,))),
        ("c/c/1", ChunkKey("/c", (1,))),
        ("a/c/1/c/2", ChunkKey("/a/c/1", (2,))),
        ("a/.zarray", ZarrV2Key("a/.zarray")),
    ],
)
def test_keys_are_told_apart(key: str, expected: Key) -> None:
    assert parse_key(key) == expected


@pytest.mark.parametrize(
    "key",
    ["", "a", "a/c/x", "a/c/-1", "a/c/1/", "a/c/٣", f"a/c/{MAX_INDEX + 1}", "../zarr.json"],
)
def test_other_text_is_no_key(key: str) -> None:
    with pytest.raises(InvalidInputError, match="invalid key") as caught:
        parse_key(key)
    assert caught.value.kind is ErrorKind.INVALID_KEY


def test_paths_are_cleaned_and_do_not_lead_out() -> None:
    cleaned = [clean_path(text) for text in ("", "a/", "a//b", "./a/.", "/a.b")]
    assert cleaned == ["/", "/a", "/a/b", "/a", "/a.b"]
    assert [metadata_key("/"), metadata_key("/a/b")] == ["zarr.json", "a/b/zarr.json"]
    with pytest.raises(InvalidInputError):
        clean_path("a/../b")


@given(
    st.sampled_from(["default", "v2"]),
    st.sampled_from("/."),
    st.lists(st.integers(0, MAX_INDEX), max_size=4).map(tuple),
)
def test_names_of_chunks_come_back(name: str, separator: str, coords: tuple[int, ...]) -> None:
    encoding = KeyEncoding(name, separator)
    spelled = encoding.chunk_name(coords)
    assert encoding.parse(spelled, len(coords)) == coords
    assert encoding.parse(spelled, len(coords) + 2) is None


def test_the_document_of_an_array_says_how_its_chunks_are_called() -> None:
    def document(encoding: object) -> bytes:
        return json.dumps({"chunk_key_encoding": encoding}).encode()

    def configured(name: str, separator: str) -> bytes:
        return document({"name": name, "configuration": {"separator": separator}})

    assert key_encoding(b"{}") == USUAL == KeyEncoding("default", "/")
    assert key_encoding(document({"name": "v2"})) == KeyEncoding("v2", ".")
    assert key_encoding(configured("v2", "/")) == KeyEncoding("v2", "/")
    assert key_encoding(configured("default", ".")) == KeyEncoding("default", ".")
    with pytest.raises(FormatError, match="separator"):
        key_encoding(configured("v2", "-"))
