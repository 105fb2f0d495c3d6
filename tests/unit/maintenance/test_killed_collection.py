"""A collection that is killed half way leaves no snapshot without its ancestors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from frazil.repository import Repository
from frazil.storage.assets import SNAPSHOTS
from frazil.storage.base import Deleted
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.ages import AT_ONCE
from tests.support.nodes import group_document, write_keys

COMMITS = 6


class Killed(FaultyStorage):
    """Its process ends when some of the snapshots are deleted."""

    survivors = 0

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        if not keys or not keys[0].startswith(SNAPSHOTS):
            return super().delete_many(keys)
        super().delete_many(keys[: len(keys) - self.survivors])
        raise KeyboardInterrupt


@pytest.mark.parametrize("survivors", range(1, COMMITS))
def test_what_is_left_has_its_ancestors(survivors: int) -> None:
    place = MemoryStorage()
    repository = Repository.create(place, spec_version=1)
    repository.create_branch("b", repository.lookup_branch("main"))
    made = []
    for number in range(COMMITS):
        session = repository.writable_session("b")
        write_keys(session, {f"g{number}/zarr.json": group_document()})
        made.append(session.commit(str(number)))
    repository.delete_branch("b")
    storage = Killed(place)
    storage.survivors = survivors
    later = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(KeyboardInterrupt):
        Repository.open(storage).garbage_collect(later, unsafe_minimum_age=AT_ONCE)
    after = Repository.open(place)
    left = [id_ for id_ in made if place.head(f"{SNAPSHOTS}{id_}") is not None]
    assert len(left) == survivors
    for id_ in left:
        after.create_tag(f"t{id_}", id_)
        assert [info.id for info in after.ancestry(snapshot_id=id_)][-2] == made[0]
    after.garbage_collect(later, unsafe_minimum_age=AT_ONCE)
    assert len([*after.ancestry(tag=f"t{left[-1]}")]) == len(left) + 1
