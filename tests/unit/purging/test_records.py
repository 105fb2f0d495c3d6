"""What shall be erased: regions, and the nodes and chunks that they mean."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.bulk.grid import layout_of
from frazil.errors import ErrorKind, InvalidInputError
from frazil.purging.records import CellRanges, PurgeReport, PurgeTarget, Verification, parse_region
from tests.support.nodes import array_document


def test_regions_are_slices_or_pairs() -> None:
    assert parse_region(None) is None
    assert parse_region([]) == ()
    found = parse_region([slice(None), slice(2, None, 1), (3, 5), (0, None), slice(np.int64(1), 2)])
    assert found == ((0, None), (2, None), (3, 5), (0, None), (1, 2))


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (slice(0, 4, 2), "has a step"),
        (slice(0, 4, -1), "has a step"),
        (slice(-1, None), "-1:None is empty"),
        (slice(3, 3), "3:3 is empty"),
        ((4, 3), "4:3 is empty"),
        ((0, -1), "0:-1 is empty"),
    ],
)
def test_regions_that_would_be_guesses_are_refused(
    part: slice | tuple[int, int | None], why: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"no region to purge: .*{why}") as caught:
        parse_region([part])
    assert caught.value.kind == ErrorKind.INVALID_SELECTION


def named(path: str, *, region: CellRanges | None = None) -> list[str]:
    target = PurgeTarget(path, region)
    paths = ("/", "/a", "/a/b", "/a/b/c", "/ab", "/b/a")
    return [each for each in paths if target.names(each)]


def test_a_node_means_all_below_it_and_nothing_beside_it() -> None:
    assert named("/a") == ["/a", "/a/b", "/a/b/c"]
    assert named("/a/b/c") == ["/a/b/c"]


def test_the_root_means_all_nodes_but_itself() -> None:
    assert named("/") == ["/a", "/a/b", "/a/b/c", "/ab", "/b/a"]


def test_a_region_is_one_of_an_array_alone() -> None:
    assert named("/a", region=((0, 1),)) == ["/a"]


def met(region: CellRanges | None, *coords: tuple[int, int]) -> list[bool]:
    """Which chunks of an array of 10 by 7 cells, in chunks of 4 by 3, a region meets."""
    layout = layout_of(array_document(10, 7, chunks=(4, 3)))
    assert layout is not None
    found = PurgeTarget("/a", region).meets(layout.grid, np.array(coords, np.uint32))
    return [bool(each) for each in found]


def test_a_region_meets_the_chunks_that_hold_cells_of_it() -> None:
    rows = (0, 0), (1, 0), (2, 0)
    assert met(((4, 8),), *rows) == [False, True, False]
    assert met(((3, 9),), *rows) == [True, True, True]
    assert met(((8, None),), *rows) == [False, False, True]
    assert met(((0, 4), (3, None)), (0, 0), (0, 1), (0, 2), (1, 1)) == [False, True, True, False]
    assert met(None, *rows) == [True, True, True]
    assert met((), *rows) == [True, True, True]


def test_a_report_proves_only_what_was_done_and_looked_for() -> None:
    clean, left = Verification(), Verification(leftovers=("chunks/x still exists",))
    assert PurgeReport("/a", None, applied=True, verification=clean).is_proved
    assert not PurgeReport("/a", None, applied=True, verification=left).is_proved
    assert not PurgeReport("/a", None, applied=True).is_proved
    assert not PurgeReport("/a", None, applied=False, verification=clean).is_proved
