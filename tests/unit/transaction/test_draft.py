"""What a commit would write: which manifests are made anew, and what its log tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import SessionStateError
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef
from frazil.transaction.changeset import ChangeSet, GroupData
from frazil.transaction.chunk_changes import ChunkChanges
from frazil.transaction.draft import check_sound, diff_of, draft, unite

NODE = NodeId(b"an array")
Place: TypeAlias = tuple[int, int]
PLACES = st.tuples(st.integers(0, 5), st.integers(0, 5))


def ref() -> NativeRef:
    return NativeRef(ChunkId.random(), 0, 7)


def table(*places: int) -> ChunkTable:
    return ChunkTable.from_refs(1, [((place,), ref()) for place in places])


def test_a_cell_never_has_two_manifests() -> None:
    """One manifest was written before splitting and reaches into the cell of another one."""
    held = {ManifestId(b"wide" * 3): table(0, 5), ManifestId(b"narrow" * 2): table(4)}
    wide, narrow = held
    refs = (ManifestRef(wide, ((0, 8),)), ManifestRef(narrow, ((4, 5),)))
    node = ArrayNode(NODE, "/a", b"{}", (Dimension(8, 8),), None, refs)

    def load(_: ArrayNode, wanted: Sequence[ManifestRef]) -> list[ChunkTable]:
        return [held[each.id] for each in wanted]

    changes = ChangeSet()
    changes.chunks[NODE] = ChunkChanges(1)
    changes.chunks[NODE].set((1,), ref())
    made = draft([node], changes, load, lambda _: (4,))
    found = [
        sorted(int(row[0]) for row in each.content.coords)
        for each in made.manifests
        if isinstance(each.content, ChunkTable)
    ]
    assert found == [[0, 1], [4, 5]]
    (after,) = made.nodes
    assert isinstance(after, ArrayNode)
    assert [each.id for each in after.manifests] == [each.id for each in made.manifests]


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (1, 2, 3), (2, 2, 2), (4, 1, 2), (4, 3, 1), (9, 9, 9)]
)
def test_each_cell_has_one_manifest_along_all_axes(sizes: tuple[int, ...]) -> None:
    grid = (4, 3, 5)
    shape = tuple(Dimension(length, length) for length in grid)
    node = ArrayNode(NODE, "/a", b"{}", shape, None, ())
    changes = ChangeSet()
    changes.chunks[NODE] = ChunkChanges(3)
    for place in product(*map(range, grid)):
        changes.chunks[NODE].set(place, ref())
    made = draft([node], changes, lambda *_: [], lambda _: sizes)
    tables = [each.content for each in made.manifests]
    assert all(isinstance(each, ChunkTable) for each in tables)
    coords = [each.coords for each in tables if isinstance(each, ChunkTable)]
    cells = [{*map(tuple, (rows // np.array(sizes)).tolist())} for rows in coords]
    assert [len(each) for each in cells] == [1] * len(cells)
    assert len({each for cell in cells for each in cell}) == len(cells)
    assert sum(map(len, coords)) == 4 * 3 * 5


def test_an_append_joins_nothing_but_what_the_last_manifest_has() -> None:
    """Joining everything took twice as long, and half as much memory again."""
    last, first = ManifestId(b"last" * 3), ManifestId(b"firsts" * 2)
    refs = (ManifestRef(first, ((0, 4),)), ManifestRef(last, ((4, 6),)))
    node = ArrayNode(NODE, "/a", b"{}", (Dimension(64, 64),), None, refs)
    added = table(*range(6, 64))
    changes = ChangeSet()
    changes.chunks[NODE] = ChunkChanges(1)
    changes.chunks[NODE].set_many(added)
    asked: list[ManifestId] = []

    def load(_: ArrayNode, wanted: Sequence[ManifestRef]) -> list[ChunkTable]:
        asked.extend(each.id for each in wanted)
        return [table(4, 5) for _ in wanted]

    made = [each.content for each in draft([node], changes, load, lambda _: (4,)).manifests]
    tables = [each for each in made if isinstance(each, ChunkTable)]
    assert asked == [last]
    assert [len(each) for each in tables] == [4] * 15
    assert [np.shares_memory(each.coords, added.coords) for each in tables] == [False] + [True] * 14


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=2),
    st.sets(PLACES),
    st.sets(PLACES),
    st.sets(PLACES),
)
def test_a_commit_has_what_was_there_and_what_was_changed(
    sizes: list[int], old: set[Place], put: set[Place], gone: set[Place]
) -> None:
    """However references lie in the cells of manifests, and the changes do."""
    before = {place: ref() for place in old}
    by_cell: dict[Place, list[Place]] = {}
    for row, column in sorted(old):
        by_cell.setdefault((row // sizes[0], column // sizes[1]), []).append((row, column))
    held = {
        ManifestId.random(): ChunkTable.from_refs(2, [(place, before[place]) for place in places])
        for places in by_cell.values()
    }
    refs = tuple(ManifestRef(each, found.extents) for each, found in held.items())
    shape = (Dimension(6, 6), Dimension(6, 6))
    changes, written = ChunkChanges(2), {place: ref() for place in put}
    for place in gone:
        changes.set(place, None)
    for place, value in written.items():
        changes.set(place, value)
    every = ChangeSet()
    every.chunks[NODE] = changes
    made = draft(
        [ArrayNode(NODE, "/a", b"{}", shape, None, refs)],
        every,
        lambda _, wanted: [held[each.id] for each in wanted],
        lambda _: tuple(sizes),
    )
    (after,) = made.nodes
    assert isinstance(after, ArrayNode)
    all_held = held | {
        each.id: each.content for each in made.manifests if isinstance(each.content, ChunkTable)
    }
    found = [pair for each in after.manifests for pair in all_held[each.id].refs()]
    expected = {place: value for place, value in before.items() if place not in gone} | written
    assert sorted(place for place, _ in found) == sorted(expected)
    assert dict(found) == expected


def test_what_a_session_changed_must_be_there_when_it_is_committed() -> None:
    """Rebases and merges see to that; no commit must leave a change out in silence."""
    changes = ChangeSet()
    changes.chunks[NODE] = ChunkChanges(1)
    changes.chunks[NODE].set((1,), ref())
    node = ArrayNode(NODE, "/a", b"{}", (Dimension(8, 8),), None, ())
    check_sound([node], changes)
    with pytest.raises(SessionStateError, match="no longer there"):
        check_sound([replace(node, id=NodeId(b"another1"))], changes)


def test_no_node_is_put_on_top_of_another() -> None:
    changes = ChangeSet()
    changes.new_groups["/a"] = GroupData(NODE, b"{}")
    there = GroupNode(NodeId(b"another1"), "/a", b"{}")
    with pytest.raises(SessionStateError, match="another node"):
        check_sound([there], changes)
    changes.delete(there)
    check_sound([there], changes)


def moved(*pairs: tuple[str, str]) -> TransactionLog:
    moves = tuple(Move(source, target, NODE, is_array=True) for source, target in pairs)
    return TransactionLog(SnapshotId.random(), moved_nodes=moves)


def test_two_moves_of_a_node_are_one() -> None:
    both = unite(moved(("/a", "/b")), moved(("/b", "/c")))
    assert [(each.source, each.target) for each in both.moved_nodes] == [("/a", "/c")]
    only = unite(moved(), moved(("/b", "/c")))
    assert [(each.source, each.target) for each in only.moved_nodes] == [("/b", "/c")]


def test_a_node_that_moved_there_and_back_did_not_move() -> None:
    assert unite(moved(("/a", "/b")), moved(("/b", "/a"))).moved_nodes == ()


def test_a_comparison_leaves_out_what_came_and_went_in_between() -> None:
    written = {NODE: np.zeros((1, 1), np.uint32)}
    came = TransactionLog(SnapshotId.random(), new_arrays=(NODE,), updated_chunks=written)
    went = TransactionLog(SnapshotId.random(), deleted_arrays=(NODE,))
    found = diff_of([came, went], [], [])
    assert (found.new_arrays, found.deleted_arrays, found.updated_chunks) == (set(), set(), {})
