"""The parts of a comparison: regions in which neither side has chunks, and their number."""

from __future__ import annotations

import pytest

import frazil
from frazil.comparing import pairing
from frazil.comparing.pairing import comparison_parts, plan_pairs
from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState
from tests.support.versions import blank


@pytest.fixture
def repo(monkeypatch: pytest.MonkeyPatch) -> frazil.Repository:
    monkeypatch.setattr(pairing, "PORTION_BYTES", 1)  # a region is one chunk
    return frazil.Repository.create(frazil.in_memory_storage())


def test_samples_of_cells_without_chunks_are_those_with_the_smallest_coordinates(
    repo: frazil.Repository,
) -> None:
    shape, dtype = (3, 2), "i4"
    first = blank(repo, "zero", shape=shape, chunks=(1, 1), dtype=dtype, fill_value=0)
    same = {(0, 1): 0}
    last = blank(repo, "seven", shape=shape, chunks=(1, 1), dtype=dtype, fill_value=7, written=same)
    [found] = repo.versions.diff_values(first, last, max_samples=4).arrays
    assert found.cells_changed == 5
    assert [each.coords for each in found.samples] == [(0, 0), (1, 0), (1, 1), (2, 0)]


def test_regions_without_chunks_are_compared_one_by_one_if_there_are_not_too_many(
    repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = (
        SnapshotId.parse(
            blank(repo, str(fill), shape=(6,), chunks=(2,), dtype="i4", fill_value=fill)
        )
        for fill in (0, 7)
    )
    context = context_of(repo)
    [pair] = plan_pairs(context, first, last)
    states = [WorkingState(context, one) for one in (first, last)]
    found = [part.box for part in comparison_parts(pair, *states)]
    assert found == [((0, 2),), ((2, 4),), ((4, 6),)]
    monkeypatch.setattr(pairing, "MAX_REGIONS", 2)
    with pytest.raises(InvalidInputError, match="fill value has changed"):
        [*comparison_parts(pair, *states)]
