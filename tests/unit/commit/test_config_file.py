"""The configuration file is replaced only if nobody else has changed it."""

from __future__ import annotations

import json

import pytest

from frazil.commit.base import OVERWRITTEN
from frazil.commit.config_file import CONFIG_KEY, edit_config_file, read_config
from frazil.errors import ConflictError, ReadOnlyError
from frazil.model.config import StorageRetriesSettings
from frazil.model.history import JSON
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.stepping import InterruptedStorage, Moment

FIRST, SECOND, THIRD = (
    "inline_chunk_threshold_bytes",
    "get_partial_values_concurrency",
    "max_concurrent_requests",
)
FEW = StorageRetriesSettings(max_tries=4, initial_backoff_ms=1, max_backoff_ms=2)


def add(storage: Storage, name: str, *, as_json: bool = False, keeps_backup: bool = True) -> None:
    """Add a field to the file."""

    def change(old: JSON | None) -> JSON:
        assert old is None or isinstance(old, dict)
        return {**(old or {}), name: 1}

    edit_config_file(
        storage,
        change,
        FEW,
        require=lambda: None,
        keeps_backup=keeps_backup,
        as_json=as_json,
    )


def fields(storage: Storage) -> set[str]:
    """Those that the file sets."""
    found = read_config(storage)
    assert isinstance(found, dict)
    return {name for name, value in found.items() if value is not None}


def test_a_change_keeps_the_other_fields_and_what_it_replaced() -> None:
    storage = MemoryStorage()
    assert read_config(storage) is None
    add(storage, FIRST)
    first = storage.get(CONFIG_KEY)
    add(storage, SECOND)
    assert fields(storage) == {FIRST, SECOND}
    [backup] = storage.list(OVERWRITTEN)
    assert storage.get(backup.key) == first


def test_backups_are_kept_only_where_they_belong() -> None:
    storage = MemoryStorage()
    add(storage, FIRST, keeps_backup=False)
    add(storage, SECOND, keeps_backup=False)
    assert [*storage.list(OVERWRITTEN)] == []


def test_json_can_be_read_as_yaml() -> None:
    storage = MemoryStorage()
    add(storage, FIRST, as_json=True)
    assert json.loads(storage.get(CONFIG_KEY) or b"")[FIRST] == 1
    assert fields(storage) == {FIRST}


@pytest.mark.parametrize(
    ("operation", "existed"), [("copy_if", True), ("put_if", True), ("put_if", False)]
)
def test_changes_of_others_are_not_lost(operation: str, existed: bool) -> None:
    storage = MemoryStorage()
    if existed:
        add(storage, FIRST)
    moment = Moment(operation, "", lambda: add(storage, SECOND))
    add(InterruptedStorage(storage, [moment]), THIRD)
    assert fields(storage) == {SECOND, THIRD, *([FIRST] if existed else [])}


def test_one_who_always_loses_gives_up() -> None:
    storage = MemoryStorage()
    moments = [
        Moment("put_if", CONFIG_KEY, lambda: add(storage, SECOND), call) for call in range(1, 9)
    ]
    with pytest.raises(ConflictError):
        add(InterruptedStorage(storage, moments), THIRD)
    assert fields(storage) == {SECOND}


@pytest.mark.parametrize("asked", [1, 2])
def test_the_repository_is_asked_before_and_after(asked: int) -> None:
    """An upgrade may have copied the file just before it was written."""
    storage, calls = MemoryStorage(), list[int]()

    def require() -> None:
        calls.append(1)
        if len(calls) == asked:
            raise ReadOnlyError("closed")

    with pytest.raises(ReadOnlyError):
        edit_config_file(storage, lambda _: {FIRST: 1}, FEW, require=require, keeps_backup=True)
    assert (read_config(storage) is None) == (asked == 1)
