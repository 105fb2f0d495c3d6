"""Value diffs of random histories against numpy on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.comparing.records import Tally
from frazil.comparing.values import compare_cells

pytestmark = pytest.mark.slow

SHAPE = (7, 5)
Array = npt.NDArray[Any]


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[slice, slice, float]]:
    """Boxes of an array, each to be filled with one value."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        ends = [sorted(draw(st.tuples(*[st.integers(0, n)] * 2))) for n in SHAPE]
        value = draw(st.sampled_from([0.0, 1.0, -2.5, float("nan"), float("inf"), 7.0]))
        found.append((slice(*ends[0]), slice(*ends[1]), value))
    return found


def expected(old: Array, new: Array) -> tuple[int, Any]:
    """Number of cells that differ, and the smallest box around them."""
    differs = ~((old == new) | (np.isnan(old) & np.isnan(new)))
    if not differs.any():
        return 0, None
    places = np.argwhere(differs)
    low, high = places.min(axis=0).tolist(), (places.max(axis=0) + 1).tolist()
    return int(differs.sum()), tuple(zip(low, high, strict=True))


@settings(max_examples=15, deadline=None)
@given(
    edits(), edits(), edits(),
    st.sampled_from([(2, 2), (7, 5), (3, 1), (1, 4)]),
    st.sampled_from([1, 2]),
    st.booleans(),
)  # fmt: skip
def test_it_tells_what_numpy_tells(
    first: list[tuple[slice, slice, float]],
    left: list[tuple[slice, slice, float]],
    right: list[tuple[slice, slice, float]],
    chunks: tuple[int, int],
    spec: int,
    forgets_logs: bool,
) -> None:
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=20)
    repo = frazil.Repository.create(frazil.in_memory_storage(), config, spec_version=spec)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="t", shape=SHAPE, chunks=chunks, dtype="f8")
    base = session.commit("make")
    values = np.zeros(SHAPE)

    def commit(boxes: list[tuple[slice, slice, float]], branch: str, start: Array) -> Array:
        now = start.copy()
        for rows, columns, value in boxes:
            session = repo.writable_session(branch)
            session.array("t")[rows, columns] = value
            now[rows, columns] = value
            if session.has_uncommitted_changes:
                session.commit("edit")
        return now

    values = commit(first, "main", values)
    repo.create_branch("dev", repo.lookup_branch("main"))
    ours, theirs = commit(left, "main", values), commit(right, "dev", values)
    if forgets_logs:
        repo.storage.delete_many([item.key for item in repo.storage.list("transactions/")])
        repo = frazil.Repository.open(repo.storage)
    for one, other, old, new in (
        ("main", "dev", ours, theirs),
        (base, "main", np.zeros(SHAPE), ours),
        ("dev", base, theirs, np.zeros(SHAPE)),
    ):
        count, box = expected(old, new)
        found = repo.versions.diff_values(one, other, max_samples=3).array("t")
        if not count:
            assert found is None
            continue
        assert found is not None
        assert (found.cells_changed, found.bounding_box) == (count, box)
        with np.errstate(invalid="ignore"):
            differences = (new - old)[~((old == new) | (np.isnan(old) & np.isnan(new)))]
        finite = differences[np.isfinite(differences)]
        assert found.differences == len(finite)
        if len(finite):
            assert found.min_difference == finite.min()
            assert found.max_difference == finite.max()
            assert found.mean_difference is not None
            np.testing.assert_allclose(found.mean_difference, finite.mean())
        for sample in found.samples:
            np.testing.assert_equal(sample.old, old[sample.coords])
            np.testing.assert_equal(sample.new, new[sample.coords])
        assert len(found.samples) == min(3, count)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_tallies_of_parts_add_up_to_that_of_the_whole(width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    old, new = random.integers(0, 3, (2, 6, 6)).astype("f4")
    whole = compare_cells(old[None], new[None], np.zeros((1, 2), np.int64), (6, 6), 5)
    parts = Tally()
    for at in range(0, 6, width):
        rows = slice(at, min(at + width, 6))
        part = compare_cells(old[None, rows], new[None, rows], np.array([[at, 0]]), (6, 6), 5)
        parts = parts.merged(part, 5)
    assert (parts.compared, parts.changed, parts.box) == (36, whole.changed, whole.box)
    assert (parts.least, parts.most, parts.samples) == (whole.least, whole.most, whole.samples)
    np.testing.assert_allclose(parts.total, whole.total)
