"""Arrays that say they have billions of chunks cost what is selected or stored of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, group_document, write_keys

MIB = 1 << 20
MANY = 2**32 - 1


@contextmanager
def memory(most: int) -> Iterator[None]:
    """Fails if more is taken."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def repository_of(*documents: bytes, chunks: dict[str, bytes]) -> tuple[Repository, list[str]]:
    """An array whose document changes from commit to commit."""
    repository = Repository.create(MemoryStorage())
    ids = []
    for number, document in enumerate(documents):
        session = repository.writable_session("main")
        write_keys(session, {"zarr.json": group_document(n=number), "a/zarr.json": document})
        write_keys(session, chunks if not number else {})
        ids.append(session.commit(str(number)))
    return repository, ids


@pytest.mark.parametrize("step", [2**30, 2**20 + 7])
def test_a_large_step_costs_the_items(step: int) -> None:
    repository, _ = repository_of(array_document(MANY), chunks={"a/c/0": b"\7"})
    array = repository.readonly_session("main").array("a")
    with memory(30 * MIB):
        found = array[::step]
    assert found.tolist() == [7] + [0] * (len(range(0, MANY, step)) - 1)


def test_large_steps_along_two_axes() -> None:
    document = array_document(1 << 31, 1 << 31)
    chunks = {"a/c/0/0": b"\7", f"a/c/{1 << 30}/0": b"\5"}
    repository, _ = repository_of(document, chunks=chunks)
    array = repository.readonly_session("main").array("a")
    with memory(10 * MIB):
        assert array[:: 1 << 30, :: 1 << 30].tolist() == [[7, 0], [5, 0]]


@pytest.mark.parametrize("chunk", [1, 3, 4, 7, 50])
@pytest.mark.parametrize("chosen", [slice(None, None, 5), slice(3, 90, 17), slice(1, 99, 64)])
def test_steps_read_what_numpy_reads(chunk: int, chosen: slice) -> None:
    values = np.arange(100, dtype="u1")
    keys = {
        f"a/c/{n}": values[n * chunk : (n + 1) * chunk].tobytes().ljust(chunk, b"\0")
        for n in range(-(-100 // chunk))
    }
    repository, _ = repository_of(array_document(100, chunks=(chunk,)), chunks=keys)
    found = repository.readonly_session("main").array("a")[chosen]
    assert found.tolist() == values[chosen].tolist()


@pytest.mark.parametrize("shape", [(MANY,), (1 << 31, 1 << 31)])
def test_another_fill_value_is_compared_without_reading_it(shape: tuple[int, ...]) -> None:
    key = "a/c/" + "/".join("0" for _ in shape)
    documents = [array_document(*shape, fill_value=fill) for fill in (0, 1)]
    repository, ids = repository_of(*documents, chunks={key: b"\7"})
    with memory(200 * MIB):
        (found,) = repository.versions.diff_values(*ids).arrays
    cells = int(np.prod([float(n) for n in shape]))
    assert found.cells_compared == pytest.approx(cells)
    assert found.cells_changed == found.cells_compared - 1
    assert (found.min_difference, found.max_difference, found.mean_difference) == (1, 1, 1)
    assert found.samples[0].coords == (0,) * (len(shape) - 1) + (1,)
    assert (found.samples[0].old, found.samples[0].new) == (0, 1)


def _changed(old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> dict[str, Any]:
    places = np.argwhere(old != new)
    return {
        "changed": len(places),
        "box": tuple(
            (int(a), int(b) + 1) for a, b in zip(places.min(0), places.max(0), strict=True)
        ),
        "samples": [tuple(row) for row in places[:10].tolist()],
        "mean": float((new.astype(float) - old)[old != new].mean()),
    }


@pytest.mark.parametrize("seed", range(6))
def test_cells_that_nobody_stored_count_as_if_they_were_read(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.comparing.pairing.PORTION_BYTES", 40)
    chance = np.random.default_rng(seed)
    shape, chunk = (17, 23), (4, 5)
    keys = {
        f"a/c/{i}/{j}": chance.integers(0, 3, 20, "u1").tobytes()
        for i in range(5)
        for j in range(5)
        if chance.random() < (0.1, 0.5, 0.9)[seed % 3]
    }
    documents = [array_document(*shape, chunks=chunk, fill_value=fill) for fill in (2, 9)]
    repository, ids = repository_of(*documents, chunks=keys)
    old, new = (repository.readonly_session(snapshot_id=each).array("a")[...] for each in ids)
    (found,) = repository.versions.diff_values(*ids).arrays
    assert found.cells_compared == old.size
    assert _changed(old, new) == {
        "changed": found.cells_changed,
        "box": found.bounding_box,
        "samples": [each.coords for each in found.samples],
        "mean": pytest.approx(found.mean_difference),
    }


def test_too_many_regions_are_refused_by_those_who_read_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from frazil.comparing.pairing import comparison_parts, plan_pairs
    from frazil.ids import SnapshotId
    from frazil.session import Session

    documents = [array_document(1 << 31, 1 << 31, fill_value=fill) for fill in (0, 1)]
    repository, ids = repository_of(*documents, chunks={"a/c/0/0": b"\7"})
    context = context_of(repository)
    first, last = map(SnapshotId.parse, ids)
    (pair,) = plan_pairs(context, first, last)
    old, new = Session(context, first), Session(context, last)
    with pytest.raises(InvalidInputError, match="too many cells"):
        next(comparison_parts(pair, old.state, new.state))
