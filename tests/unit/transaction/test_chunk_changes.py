"""Whatever is recorded about chunks, and in whatever steps, the last word counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.ids import ChunkId
from frazil.model.chunks import ChunkRef, ChunkTable, NativeRef
from frazil.model.nodes import Coordinates
from frazil.transaction.chunk_changes import ChunkChanges, Unset

GRID = 6
COORDS = st.tuples(st.integers(0, GRID - 1), st.integers(0, GRID - 1))
SETS = st.sets(COORDS, max_size=12)
STEPS = st.lists(st.tuples(st.sampled_from(["one", "many", "drop", "delete", "fork"]), SETS))


def rows(coords: set[Coordinates]) -> npt.NDArray[np.uint32]:
    """Coordinates as columns, in any order."""
    return np.array([*coords], np.uint32).reshape(-1, 2)


def table(refs: dict[Coordinates, ChunkRef]) -> ChunkTable:
    """References as columns."""
    return ChunkTable.from_refs(2, refs.items())


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_changes_are_what_a_dict_would_be(steps: list[tuple[str, set[Coordinates]]]) -> None:
    changes, model = ChunkChanges(2), dict[Coordinates, ChunkRef | None]()
    for number, (step, coords) in enumerate(steps):
        fresh: dict[Coordinates, ChunkRef] = {
            at: NativeRef(ChunkId.random(), number, 7) for at in coords
        }
        if step == "one":
            for at, ref in fresh.items():
                changes.set(at, ref)
        elif step == "many":
            changes.set_many(table(fresh))
        elif step == "fork":
            other = ChunkChanges(2)
            other.set_many(table(fresh))
            changes.update(other)
        elif step == "drop":
            changes.drop_many(rows(coords))
        else:
            for at in coords:
                changes.set(at, None)
        model.update(fresh if step in ("one", "many", "fork") else dict.fromkeys(coords))
    for at in np.ndindex(GRID, GRID):
        found = changes.get(at)
        assert isinstance(found, Unset) if at not in model else found == model[at]
    found_table, dropped = changes.columns()
    assert dict(found_table.refs()) == {at: ref for at, ref in model.items() if ref is not None}
    assert {*map(tuple, dropped.tolist())} == {at for at, ref in model.items() if ref is None}
    assert bool(changes) == bool(model)


def test_every_one_of_many_writes_is_found() -> None:
    changes = ChunkChanges(1)
    for number in range(500):
        ids = np.full((4, 12), number % 251, np.uint8)
        coords = np.arange(4 * number, 4 * number + 4, dtype=np.uint32).reshape(-1, 1)
        changes.set_many(ChunkTable.native(coords, ids, 0, number + 1))
    for at in (0, 3, 4, 999, 1999):
        found = changes.get((at,))
        assert isinstance(found, NativeRef)
        assert found.length == at // 4 + 1
    assert len(changes.columns()[0]) == 2000
