"""The numbered files of branches: found newest first, also where nothing can be listed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from frazil.errors import StorageError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.refs import (
    G2_LIBRARY,
    G2_SEED,
    G3_COLON,
    G3_COLON_OLD,
    G3_DOT,
    LAYOUTS,
    RefLayout,
)
from frazil.storage.base import Storage
from frazil.storage.legacy.branch_files import find_main, layout_at, steps_of
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble

REF = json.dumps({"snapshot": "0123456789ABCDEFGHJ0"}).encode()
FENCE = json.dumps({"snapshot": "0123456789ABCDEFGHJ0", "moved_to": "v2"}).encode()


def encoded(layout: RefLayout) -> RefLayout:
    """A layout as this storage spells names."""
    return replace(layout, encoded=True)


def branch(storage: Storage, layout: RefLayout, *numbers: int, data: bytes = REF) -> None:
    """Write files of main."""
    for number in numbers:
        storage.put(encoded(layout).branch_key("main", number), data)


def numbers(storage: Storage, layout: RefLayout, since: int | None = None) -> list[int]:
    return [step.number for step in steps_of(storage, encoded(layout), "main", since)]


def unlistable(storage: Storage) -> FaultyStorage:
    """The same place where listings fail, as on a web server."""
    return FaultyStorage(storage, [Fault(Trouble.FAIL, "list", times=1000)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_come_newest_first_and_others_are_passed_over(layout: RefLayout) -> None:
    storage = MemoryStorage()
    branch(storage, layout, 0, 9, 31, 32, 100)
    folder = encoded(layout).branch_folder("main")
    for stray in ("notes.txt", "zzzz.json", "0123.json.bak"):
        storage.put(f"{folder}{stray}", b"?")
    storage.put(encoded(layout).branch_key("mainland", 500), REF)
    assert numbers(storage, layout) == [100, 32, 31, 9, 0]
    assert [*steps_of(storage, encoded(layout), "none")] == []


def test_two_lengths_of_names_in_one_folder_are_put_in_order() -> None:
    storage = MemoryStorage()
    branch(storage, G3_COLON_OLD, 0, 1, 2)
    branch(storage, G3_COLON, 2, 3)
    found = [*steps_of(storage, encoded(G3_COLON), "main")]
    assert [step.number for step in found] == [3, 2, 2, 1, 0]
    assert len(found[1].key) < len(found[2].key)
    assert numbers(storage, G3_COLON, since=2) == [3, 2, 2, 1, 0]


def test_older_files_than_the_known_one_are_not_listed() -> None:
    storage = MemoryStorage()
    branch(storage, G3_DOT, *range(50))
    assert numbers(storage, G3_DOT, since=47) == [49, 48, 47]
    storage.delete_many([encoded(G3_DOT).branch_key("main", n) for n in range(40, 50)])
    assert numbers(storage, G3_DOT, since=47) == [*range(39, -1, -1)]  # the branch was reset


@pytest.mark.parametrize("count", [*range(1, 13), 64, 65])
def test_a_store_that_cannot_list_is_searched_for_the_last_number(count: int) -> None:
    storage = MemoryStorage()
    branch(storage, G3_DOT, *range(count))
    watched = unlistable(storage)
    assert numbers(watched, G3_DOT) == [*range(count - 1, -1, -1)]
    assert len(watched.calls) <= 16  # few questions, however long the history


def test_where_nothing_can_be_listed_and_no_first_file_is_there_it_is_told() -> None:
    with pytest.raises(StorageError):
        numbers(unlistable(MemoryStorage()), G3_DOT)


# --- which layout a place has ---


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lists", [True, False])
def test_the_main_branch_is_found_in_every_layout(layout: RefLayout, lists: bool) -> None:
    storage = MemoryStorage()
    branch(storage, layout, 0, 1, 2)
    [found] = find_main(storage if lists else unlistable(storage))
    assert found.layout == encoded(layout)
    assert [step.number for step in found.steps] == [2, 1, 0]
    assert found.has_first
    assert layout_at(storage, layout.generation) == encoded(layout)


def test_a_branch_without_its_first_file_counts_only_where_no_other_has_one() -> None:
    storage = MemoryStorage()
    branch(storage, G2_LIBRARY, 7)
    [found] = find_main(storage)
    assert (found.layout, found.has_first) == (encoded(G2_LIBRARY), False)
    branch(storage, G3_DOT, 0)
    assert [each.layout for each in find_main(storage)] == [encoded(G3_DOT)]


def test_a_fence_that_an_upgrade_left_is_no_branch() -> None:
    storage = MemoryStorage()
    branch(storage, G3_DOT, 5, data=FENCE)
    assert find_main(storage) == []
    branch(storage, G3_DOT, 4)
    assert [each.layout for each in find_main(storage)] == [encoded(G3_DOT)]


def test_two_repositories_in_one_place_are_both_found() -> None:
    storage = MemoryStorage()
    branch(storage, G2_SEED, 0)
    branch(storage, G3_DOT, 0)
    assert [each.layout for each in find_main(storage)] == [encoded(G3_DOT), encoded(G2_SEED)]
    assert layout_at(storage, LegacyGeneration.G2) == encoded(G2_SEED)


def test_an_empty_place_has_no_branch_and_the_layout_of_new_repositories() -> None:
    assert find_main(MemoryStorage()) == []
    assert find_main(unlistable(MemoryStorage())) == []
    assert layout_at(MemoryStorage(), LegacyGeneration.G2) == encoded(G2_SEED)
    assert layout_at(MemoryStorage(), LegacyGeneration.G3) == encoded(G3_DOT)
