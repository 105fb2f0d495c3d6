"""The automatic rule for manifests: slabs that suit the references and stay where they are."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.model.manifest_config import UNSPLIT
from frazil.model.nodes import Extents
from frazil.model.splitting import automatic_sizes
from frazil.model.tuning import REFS_PER_MANIFEST, SPLIT_ABOVE, UNITE_BELOW

GRIDS = st.lists(st.integers(1, 5000), min_size=1, max_size=4).map(tuple)


def whole(grid: tuple[int, ...]) -> Extents:
    return tuple((0, size) for size in grid)


def dense(grid: tuple[int, ...], manifests: list[Extents] | None = None) -> tuple[int, ...]:
    """Sizes for an array with a reference for each chunk."""
    return automatic_sizes(grid, prod(grid), whole(grid), manifests or [])


def slabs(grid: tuple[int, ...], sizes: tuple[int, ...]) -> list[Extents]:
    """Manifests of an array whose first axis alone is cut."""
    step = sizes[0]
    starts = range(0, grid[0], step)
    return [((at, min(at + step, grid[0])), *whole(grid)[1:]) for at in starts]


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ((), ()),
        ((SPLIT_ABOVE,), (UNSPLIT,)),
        ((500, 500), (UNSPLIT, UNSPLIT)),
        ((1000, 1000), (128, UNSPLIT)),
        ((10_000_000,), (1 << 17,)),
        ((10_000, 1000), (128, UNSPLIT)),
        ((1, 10_000_000), (1, 1 << 17)),
        ((100, 100, 1000), (1, UNSPLIT, UNSPLIT)),
        ((3, 5, 10_000_000), (1, 1, 1 << 17)),
    ],
)
def test_large_arrays_are_cut_along_their_first_axes(
    grid: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    assert dense(grid) == sizes


@given(GRIDS)
def test_no_slab_of_a_large_dense_array_is_too_large(grid: tuple[int, ...]) -> None:
    sizes = dense(grid)
    held = prod(min(size, length) for size, length in zip(sizes, grid, strict=True))
    assert held <= (SPLIT_ABOVE if prod(grid) <= SPLIT_ABOVE else REFS_PER_MANIFEST)


@given(GRIDS, st.integers(1, 100_000))
def test_growth_along_the_first_axis_moves_nothing(grid: tuple[int, ...], more: int) -> None:
    before = dense(grid)
    after = dense((grid[0] + more, *grid[1:]))
    assert before == (UNSPLIT,) * len(grid) or after == before


def test_sparse_arrays_are_not_cut_into_crumbs() -> None:
    grid = (1_000_000, 1_000_000)
    assert automatic_sizes(grid, 1000, whole(grid), []) == (UNSPLIT, UNSPLIT)
    rows, _ = automatic_sizes(grid, 2_000_000, whole(grid), [])
    assert 8 <= grid[0] / rows <= 64


def test_an_array_that_is_filled_from_one_end_is_cut_as_if_it_were_full() -> None:
    grid = (1_000_000, 1000)
    box = ((0, 2000), (0, 1000))
    assert automatic_sizes(grid, 2_000_000, box, []) == dense(grid)


@pytest.mark.parametrize("rows", [32, 64, 128, 256, 512])
def test_slabs_that_nearly_suit_are_kept(rows: int) -> None:
    grid = (10_000, 1000)
    assert dense(grid, slabs(grid, (rows, UNSPLIT))) == (rows, UNSPLIT)


@pytest.mark.parametrize("rows", [1, 16, 100, 1024, 10_000])
def test_slabs_that_do_not_suit_are_made_anew(rows: int) -> None:
    grid = (10_000, 1000)
    assert dense(grid, slabs(grid, (rows, UNSPLIT))) == (128, UNSPLIT)


def test_between_the_limits_what_is_there_stays() -> None:
    grid = (200, 1000)
    assert UNITE_BELOW < prod(grid) < SPLIT_ABOVE
    assert dense(grid) == (UNSPLIT, UNSPLIT)
    assert dense(grid, [whole(grid)]) == (UNSPLIT, UNSPLIT)
    assert dense(grid, slabs(grid, (128, UNSPLIT))) == (128, UNSPLIT)
    small = (60, 1000)
    assert dense(small, slabs(small, (128, UNSPLIT))) == (UNSPLIT, UNSPLIT)
