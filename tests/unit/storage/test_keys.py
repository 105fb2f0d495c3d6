"""Which keys, prefixes and byte ranges storages accept."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.storage.keys import byte_span, check_key, check_prefix, check_range


@pytest.mark.parametrize("key", ["repo", "chunks/ABC", "a/..b", "a/b..", "a/...", "ä ö/%2F"])
def test_names_in_folders_are_keys(key: str) -> None:
    check_key(key)
    check_prefix(f"{key}/")


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\0b"])
def test_what_could_name_something_else_is_no_key(key: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_key(key)
    assert caught.value.kind == ErrorKind.INVALID_KEY


@pytest.mark.parametrize("prefix", ["a", "/", "../", "a//", "a/../"])
def test_a_prefix_is_a_folder_or_nothing(prefix: str) -> None:
    check_prefix("")
    with pytest.raises(InvalidInputError) as caught:
        check_prefix(prefix)
    assert caught.value.kind == ErrorKind.BAD_KEY_PREFIX


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, (0, 10)),
        (3, None, (3, 10)),
        (3, 7, (3, 7)),
        (3, 70, (3, 10)),
        (10, None, (10, 10)),
        (None, 4, (0, 4)),
        (-4, None, (6, 10)),
        (-40, None, (0, 10)),
        (5, 5, (5, 5)),
    ],
)
def test_a_range_lies_in_its_object(
    start: int | None, end: int | None, expected: tuple[int, int]
) -> None:
    assert byte_span(10, start, end) == expected


@pytest.mark.parametrize(("start", "end"), [(5, 4), (None, -1), (-3, 5)])
def test_a_range_that_no_object_has_is_refused(start: int | None, end: int | None) -> None:
    with pytest.raises(InvalidInputError):
        check_range(start, end)


def test_a_range_beyond_the_end_is_an_error_of_the_object() -> None:
    with pytest.raises(StorageError) as caught:
        byte_span(10, 11, None)
    assert caught.value.kind == ErrorKind.INVALID_OBJECT_SIZE
