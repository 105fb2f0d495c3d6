"""Arrays that say they have billions of chunks cost what is selected or stored of them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.repository import Repository
from frazil.statistics.lookup import lookup
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


@pytest.mark.parametrize("fill", [0, 1])
def test_a_chunk_without_room_in_memory_is_not_compared(fill: int) -> None:
    huge = (1 << 31, 1 << 31)
    documents = [array_document(*huge, chunks=huge, fill_value=each) for each in (0, fill)]
    repository, ids = repository_of(*documents, chunks={"a/c/0/0": b"\7"})
    session = repository.writable_session("main")
    write_keys(session, {"a/c/0/0": b"\5"})
    last = session.commit("another chunk")
    with memory(10 * MIB), pytest.raises(FormatError, match=r"too large to be compared.*/a"):
        repository.versions.diff_values(ids[0], last)


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


def rectilinear(length: int, *runs: int | list[int]) -> bytes:
    """An array with one axis of chunks of different lengths."""
    document = json.loads(array_document(length))
    document["chunk_grid"] = {
        "name": "rectilinear",
        "configuration": {"chunk_shapes": [list(runs)]},
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "document",
    [
        array_document(2**63 + 10, chunks=(2**40,)),
        array_document(2**64 - 1, chunks=(2**64 - 1,)),
        array_document(10, chunks=(2**64 - 1,)),
        rectilinear(20, 10, [2**62, 2], 10),
    ],
)
def test_axes_that_64_bits_cannot_address_are_refused(document: bytes) -> None:
    repository, _ = repository_of(document, chunks={"a/c/0": b"\7"})
    session = repository.readonly_session("main")
    for read in (lambda: session.array("a")[:1], repository.audit.analyze):
        with pytest.raises(InvalidInputError, match="elements along an axis can be read"):
            read()


@pytest.mark.parametrize(
    ("shape", "cells"),
    [
        ((1 << 32, 1 << 32), None),
        ((1 << 40, 1 << 40), None),
        (((1 << 32) + 1, (1 << 32) - 1), None),
        ((1 << 31, 1 << 31), 1 << 62),
        ((3, 5), 15),
    ],
)
def test_cells_are_known_only_where_they_can_be_counted(
    shape: tuple[int, ...], cells: int | None
) -> None:
    repository, _ = repository_of(array_document(*shape, chunks=shape, fill_value=1), chunks={})
    state = repository.readonly_session("main").state
    found = lookup(state, state.array("/a"), np.zeros((1, len(shape)), np.int64))
    assert found.known.tolist() == [cells is not None]
    if cells is not None:
        assert (found.count.tolist(), found.missing.tolist()) == ([cells], [0])
        assert found.has_sum.tolist() == [cells < 1 << 62]


def test_chunks_of_many_lengths_are_shown_without_listing_them() -> None:
    repository, _ = repository_of(rectilinear(2**32 + 1, [1, 2**32 - 3], [4, 1]), chunks={})
    array = repository.readonly_session("main").array("a")
    with memory(10 * MIB):
        assert "chunks=at most (4,)" in repr(array)
        assert "at most (4,)" in array._repr_html_()
        assert array.largest_chunk == (4,)
        with pytest.raises(InvalidInputError, match="too many to list"):
            _ = array.chunks


def test_more_axes_than_numpy_has_are_refused() -> None:
    repository, _ = repository_of(array_document(*[1] * 65), chunks={})
    with pytest.raises(InvalidInputError, match="at most 64 can be read"):
        repository.readonly_session("main").array("a")[...]


def test_what_zarr_does_not_know_either_is_told_with_the_array() -> None:
    document = json.loads(array_document(10))
    endless = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 1 << 42}}
    document |= {"data_type": endless, "fill_value": ""}
    repository, _ = repository_of(json.dumps(document).encode(), chunks={})
    with pytest.raises(FormatError, match="neither Frazil nor zarr can read") as caught:
        repository.readonly_session("main").array("a")[:1]
    assert caught.value.facts["path"] == "/a"
