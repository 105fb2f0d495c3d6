"""Batches of zarr: the array they belong to, and the selection that zarr has cut into them."""
# Selections and what zarr hands to pipelines are of all kinds:
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import MemoryStore

from frazil.codec_pipeline.batches import (
    Batch,
    BatchItem,
    batch_box,
    batch_of,
    covers_as_claimed,
)
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage

SHAPE, CHUNKS = (10, 7), (4, 3)


class Recording(BatchedCodecPipeline):
    """Keeps what zarr asks for."""

    seen: Sequence[BatchItem] = ()

    async def read(self, batch_info: Any, *args: Any, **kwargs: Any) -> Any:
        type(self).seen = [*batch_info]
        return await super().read(self.seen, *args, **kwargs)


register_pipeline(Recording)


@pytest.fixture(autouse=True)
def _recording() -> Iterator[None]:
    name = f"{Recording.__module__}.{Recording.__qualname__}"
    with zarr.config.set({"codec_pipeline.path": name}):
        yield


@pytest.fixture
def session() -> Session:
    made = Repository.create(MemoryStorage()).writable_session("main")
    for path in ("a", "deep/c/a"):
        zarr.create_array(made.store, name=path, shape=SHAPE, chunks=CHUNKS, dtype="i4")
    zarr.create_array(made.store, name="scalar", shape=(), dtype="i4")
    return made


def items_of(
    selection: Any, path: str = "a", shape: tuple[int, ...] = SHAPE, kind: str = "basic"
) -> Sequence[BatchItem]:
    """What zarr asks its pipeline for when a selection is read."""
    store = MemoryStore()
    chunks = CHUNKS[: len(shape)]
    array = zarr.create_array(store, name=path, shape=shape, chunks=chunks, dtype="i4")
    if kind == "basic":
        array[selection]
    else:
        array.oindex[selection]
    return Recording.seen


def batch(session: Session, selection: Any, **options: Any) -> Batch:
    found = batch_of(items_of(selection, **options), session.state, len(SHAPE))
    assert found is not None
    return found


@pytest.mark.parametrize("path", ["a", "deep/c/a"])
def test_keys_tell_the_array_and_the_chunks(session: Session, path: str) -> None:
    found = batch(session, np.s_[3:9, 5:], path=path)
    assert found.node.path == f"/{path}"
    assert found.coords.tolist() == [[y, x] for y in (0, 1, 2) for x in (1, 2)]
    assert found.spec.shape == CHUNKS
    assert len(found.columns) == 5
    assert [*found.columns[4]] == [item[4] for item in found.items]


def test_a_scalar_has_one_chunk_without_coordinates(session: Session) -> None:
    found = batch_of(items_of((), "scalar", ()), session.state, 0)
    assert found is not None
    assert found.node.path == "/scalar"
    assert found.coords.shape == (1, 0)
    assert batch_box(found, ()) is None


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("none", SHAPE),
        ("deep", SHAPE),  # a group
        ("a", (40, 7)),  # an open handle with an older, larger shape
    ],
)
def test_keys_of_no_array_that_is_there_are_left_to_zarr(
    session: Session, path: str, shape: tuple[int, ...]
) -> None:
    assert batch_of(items_of(np.s_[:], path, shape), session.state, 2) is None
    assert batch_of(items_of(np.s_[0, 0], "a", shape), session.state, 2) is not None


@pytest.mark.parametrize(
    ("selection", "shape", "dropped"),
    [
        (np.s_[:], (10, 7), ()),
        (np.s_[3:9, 5:], (6, 2), ()),
        (np.s_[1::2, :], (5, 7), ()),
        (np.s_[5, 1:6], (5,), (0,)),
        (np.s_[2:, -1], (8,), (1,)),
        (np.s_[9, 6], (), (0, 1)),
    ],
)
def test_slices_and_integers_are_found_again(
    session: Session, selection: Any, shape: tuple[int, ...], dropped: tuple[int, ...]
) -> None:
    found = batch(session, selection)
    box = batch_box(found, shape)
    assert box is not None
    plan, axes = box
    assert axes == dropped
    assert plan.coords(range(plan.count)).tolist() == found.coords.tolist()
    values = np.arange(70).reshape(SHAPE)
    for row, (_, _, in_chunk, in_result, _) in enumerate(found.items):
        y, x = found.coords[row] * CHUNKS
        chunk = values[y : y + 4, x : x + 3]
        out = np.zeros(shape, int)
        out[in_result] = chunk[in_chunk]
        ours = np.zeros(plan.full_shape, int)
        plan.put(row, np.pad(chunk, [(0, 4 - chunk.shape[0]), (0, 3 - chunk.shape[1])]), ours)
        np.testing.assert_array_equal(ours.squeeze(axis=axes), out)


def test_a_selection_by_numbers_is_no_box(session: Session) -> None:
    found = batch(session, ([0, 5, 9], slice(None)), kind="orthogonal")
    assert batch_box(found, (3, 7)) is None


def test_what_is_in_doubt_is_no_box(session: Session) -> None:
    """Another shape of the result, a missing chunk, or chunks in another order."""
    items = items_of(np.s_[:])
    assert batch_box(batch(session, np.s_[:]), (7, 10)) is None
    first, second, third, *rest = items
    for some in ([first, third, *rest], [first, third, second, *rest], items[::-1]):
        found = batch_of(some, session.state, 2)
        assert found is not None
        assert batch_box(found, SHAPE) is None


def test_chunks_are_written_whole_only_where_zarr_says_so_too(session: Session) -> None:
    found = batch(session, np.s_[3:, 1:])
    box = batch_box(found, (7, 6))
    assert box is not None
    assert covers_as_claimed(box[0], found)
    first, *rest = found.items
    doubtful = batch_of([(*first[:4], not first[4]), *rest], session.state, 2)
    assert doubtful is not None
    assert not covers_as_claimed(box[0], doubtful)
