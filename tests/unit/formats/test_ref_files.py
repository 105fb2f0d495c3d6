"""The ref files of v1."""

from __future__ import annotations

from contextlib import suppress

import pytest

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.ref_files import (
    NOWHERE,
    branch_key,
    decode_fence,
    decode_ref,
    decode_segment,
    encode_ref,
    encode_segment,
    parse_ref_key,
    tag_key,
    tombstone_key,
)
from frazil.ids import INITIAL_SNAPSHOT_ID

KEY = "refs/branch.main/ref.json"
OFFICIAL = bytes.fromhex("7b22736e617073686f74223a2231434543484e4b524550304631525354434d5430227d")


def test_content_is_what_the_official_package_writes() -> None:
    assert encode_ref(INITIAL_SNAPSHOT_ID) == OFFICIAL
    assert decode_ref(OFFICIAL, key=KEY) == INITIAL_SNAPSHOT_ID


@pytest.mark.parametrize(
    "text",
    [
        '{ "snapshot" : "1CECHNKREP0F1RSTCMT0" }\n',
        '{"other": [1], "snapshot": "1cechnkrep0f1rstcmt0"}',
        '\ufeff{"snapshot": "1CECHNKREP0F1RSTCMT0"}',
    ],
)
def test_json_is_read_generously(text: str) -> None:
    encoding = "utf-16" if text.startswith("\ufeff") else "utf-8"
    assert decode_ref(text.lstrip("\ufeff").encode(encoding), key=KEY) == INITIAL_SNAPSHOT_ID


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"[]",
        b"{}",
        b'{"snapshot": 1}',
        b'{"snapshot": "short"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"snapshot": "' + b"A" * 100_000 + b'"}',
    ],
)
def test_rubbish_is_named_with_its_key(blob: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_ref(blob, key=KEY)
    assert KEY in str(caught.value)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("main", "branch.main"),
        ("h#x", "branch.h%23x"),
        ("uni-é", "branch.uni-%C3%A9"),
        ("pct%20", "branch.pct%2520"),
        ("a b:c.d!", "branch.a b:c.d!"),
        ("*?~[]\\", "branch.%2A%3F%7E%5B%5D%5C"),
        ('{}^"<>|`\n\x7f', "branch.%7B%7D%5E%22%3C%3E%7C%60%0A%7F"),
        ("", "branch."),
        ("..", "branch..."),
    ],
)
def test_names_are_encoded_as_object_stores_do(name: str, folder: str) -> None:
    key = branch_key(name, encoded=True)
    assert key == f"refs/{folder}/ref.json"
    assert parse_ref_key(key, encoded=True) == ("branch", name)
    assert parse_ref_key(branch_key(name, encoded=False), encoded=False) == ("branch", name)


def test_plain_stores_keep_names_as_they_are() -> None:
    assert branch_key("h#x %é", encoded=False) == "refs/branch.h#x %é/ref.json"


def test_tags_and_their_tombstones_belong_together() -> None:
    assert tag_key("v1", encoded=True) == "refs/tag.v1/ref.json"
    assert tombstone_key("v1", encoded=True) == "refs/tag.v1/ref.json.deleted"
    for key in (tag_key("v1", encoded=True), tombstone_key("v1", encoded=True)):
        assert parse_ref_key(key, encoded=True) == ("tag", "v1")


def test_a_slash_cannot_be_in_a_name() -> None:
    for make in (branch_key, tag_key, tombstone_key):
        with pytest.raises(InvalidInputError) as caught:
            make("a/../../x", encoded=False)
        assert caught.value.kind == ErrorKind.INVALID_REF_NAME


def test_other_folders_are_no_refs() -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_ref_key("refs/tags.v1/ref.json", encoded=True)
    assert caught.value.kind == ErrorKind.INVALID_REF_TYPE


def test_dots_alone_are_encoded_and_wrong_escapes_stay() -> None:
    assert encode_segment(".") == "%2E"
    assert encode_segment("..") == "%2E%2E"
    assert decode_segment("%2E%2E") == ".."
    assert decode_segment("%ff%zz") == "%ff%zz"


@pytest.mark.parametrize(
    "rest", [b"", b'deleted":', b'deleted":[1]}', b'deleted":"none"}', b'x":' + b"[" * 50_000]
)
def test_a_damaged_fence_is_neither_a_fence_nor_a_ref_that_leads_somewhere(rest: bytes) -> None:
    blob = b'{"snapshot":"00000000000000000000","' + rest
    assert decode_fence(blob) is None
    with suppress(FormatError):
        assert decode_ref(blob, key=KEY) == NOWHERE
