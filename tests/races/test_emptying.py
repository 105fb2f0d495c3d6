"""Garbage that comes back from the trash while others empty it, or from several collections."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

from frazil import Repository, Storage
from tests.races.test_deleting import copy_of
from tests.races.test_restoring import SECRET, KilledError, prepared, restore
from tests.support.ages import AT_ONCE
from tests.support.nodes import contents
from tests.support.stepping import CrowdedStorage, SteppingStorage


def whole_snapshots(place: Storage) -> int:
    """How many snapshots without a ref are there; a branch can be made of each, and read."""
    repo = Repository.open(place)
    known = {info.id for info in repo.ancestry(branch="main")}
    back = {item.key.partition("/")[2] for item in place.list("snapshots/")} - known
    for one in back:
        repo.create_branch("back", one)
        assert contents(repo.readonly_session("back"))["a/c/0"] == SECRET + b"again"
    return len(back)


def test_what_comes_back_while_the_trash_is_emptied_is_whole() -> None:
    template = prepared(1)
    later = datetime.now(UTC) + timedelta(hours=1)
    outcomes = set()
    for call in count(1):
        place, calls = copy_of(template), 0

        def step(_operation: str, _key: str, call: int = call, place: Storage = place) -> None:
            nonlocal calls
            calls += 1
            if calls == call:
                restore(place)

        storage = CrowdedStorage(place, step, moment=lambda: later, age=timedelta(0))
        Repository.open(storage).space.empty_trash(later, unsafe_minimum_age=AT_ONCE)
        if calls < call:
            break
        outcomes.add(whole_snapshots(place))
    assert outcomes == {0, 1}


def test_what_comes_back_from_several_collections_is_whole_if_that_is_interrupted() -> None:
    """One of them may have taken a snapshot, and the next one the chunks that it left."""
    template = prepared(1)
    for item in [*template.list("trash/")]:
        inside = item.key.split("/", 2)[2]
        batch = "1" if inside.startswith("snapshots/") else "2"
        template.put(f"trash/{batch}/{inside}", template.get(item.key) or b"")
        template.delete_many([item.key])
    outcomes = set()
    for call in count(1):
        place = copy_of(template)
        calls = 0

        def step(_operation: str, _key: str, call: int = call) -> None:
            nonlocal calls
            calls += 1
            if calls >= call:
                raise KilledError

        with suppress(KilledError):
            restore(SteppingStorage(place, step))
        if calls < call:
            break
        outcomes.add(whole_snapshots(place))
    assert outcomes == {0, 1}
