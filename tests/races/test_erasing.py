"""Data is erased from objects that hold other chunks too, while others erase, copy or collect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count

import numpy as np
import pytest

from frazil import FrazilError, Repository, RepositoryConfig, SessionStateError, Storage
from frazil.bulk.write import write_region
from frazil.commit.base import MINIMUM_AGE
from frazil.purging.rewriting import Rewriter
from frazil.spark import map_blocks, rechunk
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import ANY
from frazil.transfer.cloning import clone
from frazil.transfer.zarr_export import export
from tests.races.jobs_here import HERE, url_of
from tests.races.test_deleting import copy_of
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)
VALUES = bytes(range(1, 9))
BLANK = b"\xff"
"""What is read of a cell that was erased; the byte itself is zero then."""


def prepared(spec: int) -> MemoryStorage:
    """A repository with one array, whose four chunks are in one object."""
    storage = MemoryStorage()
    repo = Repository.create(storage, CONFIG, spec_version=spec)
    session = repo.writable_session("main")
    document = array_document(8, chunks=(2,), dimension_names=["x"], fill_value=BLANK[0])
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": document})
    write_region(session, "a", ..., np.frombuffer(VALUES, np.uint8), packing=True)
    session.commit("packed")
    assert [storage.get(item.key) for item in storage.list("chunks/")] == [VALUES]
    return storage


def erase(storage: Storage, first: int, end: int) -> bool:
    """Erase cells; tell whether a look at everything has found nothing of them."""
    report = Repository.open(storage).space.purge(
        "/a", [slice(first, end)], confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    return report.is_proved


def values(keys: Mapping[str, bytes]) -> bytes:
    """The cells of the array."""
    return b"".join(keys.get(f"a/c/{n}", 2 * BLANK) for n in range(4))


@pytest.mark.parametrize("spec", [1, 2])
def test_what_two_erase_from_one_object_stays_away(spec: int) -> None:
    """Each of them reads it, and writes it without what the other still sees in use."""
    template = prepared(spec)
    outcomes = set()
    for call in count(1):
        place = copy_of(template)
        done: list[str] = []

        def other(place: Storage = place, done: list[str] = done) -> None:
            with suppress(FrazilError):
                done += ["other"] * erase(place, 2, 4)

        slow = InterruptedStorage(place, [Moment(ANY, "chunks/", other, call)])
        with suppress(FrazilError):
            done += ["slow"] * erase(slow, 0, 2)
        if not slow.is_over:
            break
        outcomes.add(frozenset(done))
        objects = [place.get(item.key) or b"" for item in place.list("chunks/")]
        seen = values(contents(Repository.open(place).readonly_session("main")))
        assert seen[4:] == VALUES[4:], call
        for name, cells in (("slow", slice(0, 2)), ("other", slice(2, 4))):
            if name in done:
                assert seen[cells] == 2 * BLANK, (call, name)
                assert not any(VALUES[cells] in data for data in objects), (call, name)
    assert call > 3
    assert {"slow", "other"} in outcomes


def cells_of(storage: Storage, name: str) -> bytes:
    """The cells of an array, however it is encoded."""
    found = Repository.open(storage).readonly_session("main").array(name)[:]
    return np.asarray(found, np.uint8).tobytes()


def cloned(storage: Storage) -> bytes:
    target = MemoryStorage()
    clone(Repository.open(storage).readonly_session("main"), target)
    return values(contents(Repository.open(target).readonly_session("main")))


def exported(storage: Storage) -> bytes:
    target = MemoryStorage()
    export(Repository.open(storage).readonly_session("main"), target)
    return values({item.key: target.get(item.key) or b"" for item in target.list("")})


def rechunked(storage: Storage) -> bytes:
    target = MemoryStorage()
    rechunk(url_of(storage), "a", [8], spark=HERE, target=url_of(target))
    return cells_of(target, "a")


def mapped(storage: Storage) -> bytes:
    target = MemoryStorage()
    map_blocks(
        lambda block: block.rename(a="b"),
        url_of(storage),
        "a",
        spark=HERE,
        target=url_of(target),
        blocks={"x": -1},
    )
    return cells_of(target, "b")


@pytest.mark.parametrize("copied", [cloned, exported, rechunked, mapped])
@pytest.mark.parametrize("spec", [1, 2])
def test_a_copy_is_not_of_zeros_that_an_erasure_wrote(
    spec: int, copied: Callable[[Storage], bytes]
) -> None:
    template = prepared(spec)
    outcomes = set()
    for call in count(1):
        place = copy_of(template)
        moment = Moment(ANY, "chunks/", lambda place=place: erase(place, 2, 4), call)  # type: ignore[misc]
        slow = InterruptedStorage(place, [moment])
        found: bytes | None = None
        with suppress(FrazilError):
            found = copied(slow)
        if not slow.is_over:
            break
        outcomes.add(found)
    assert call > 1
    # As it was before or after, or an error.
    blank = VALUES[:2] + 2 * BLANK + VALUES[4:]
    assert outcomes <= {VALUES, blank, None}
    assert None in outcomes


@pytest.mark.parametrize("spec", [1, 2])
def test_an_erasure_that_takes_longer_than_a_day_loses_nothing(
    spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection takes for garbage what it has written and nothing refers to yet."""
    place = prepared(spec)
    before = {item.key for item in place.list("chunks/")}
    write, now = Rewriter.write, time.time

    def slow(self: Rewriter, found: object) -> None:
        write(self, found)  # type: ignore[arg-type]
        monkeypatch.setattr(time, "time", lambda: now() + MINIMUM_AGE.total_seconds())
        new = {item.key for item in place.list("chunks/")} - before
        assert new
        place.delete_many(sorted(new))

    monkeypatch.setattr(Rewriter, "write", slow)
    with pytest.raises(SessionStateError, match="erase again"):
        erase(place, 0, 1)
    monkeypatch.undo()
    assert values(contents(Repository.open(place).readonly_session("main"))) == VALUES
    assert erase(place, 0, 1)
    found = values(contents(Repository.open(place).readonly_session("main")))
    assert found == BLANK + VALUES[1:]
