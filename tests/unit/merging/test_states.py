"""Changed chunks as columns, and what logs say of them."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.arrays import U32
from frazil.errors import FormatError
from frazil.ids import ChunkId, NodeId, SnapshotId
from frazil.merging import states
from frazil.merging.states import (
    ChunkDelta,
    LoggedChunks,
    MergedState,
    StoredState,
    at,
    common,
    delta_between,
    delta_of,
    logged_between,
    outside,
    same_refs,
)
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import ArrayNode, Dimension
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.branches import Branches
from tests.support.nodes import array_document

X, Y = (NativeRef(ChunkId(name * 12), 0, 8) for name in (b"x", b"y"))


def table(*refs: ChunkRef | None) -> ChunkTable:
    """References at the first places of an array; None leaves one out."""
    there = [((place,), ref) for place, ref in enumerate(refs) if ref is not None]
    return ChunkTable.from_refs(1, there)


def coords(*places: int) -> U32:
    return np.array(places, np.uint32).reshape(-1, 1)


def places(found: U32) -> list[int]:
    return [int(row[0]) for row in found]


def told(delta: ChunkDelta) -> tuple[dict[int, ChunkRef], list[int]]:
    """What is set and what is deleted."""
    rows = range(len(delta.table))
    made = {int(delta.table.coords[row, 0]): delta.table.ref(row) for row in rows}
    return made, places(delta.dropped)


# --- tables ---


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X, Y),
        (X, NativeRef(X.chunk_id, 1, 8)),
        (X, NativeRef(X.chunk_id, 0, 9)),
        (X, InlineRef(b"8 bytes!")),
        (InlineRef(b"abc"), InlineRef(b"abd")),
        (VirtualRef("s3://b/x", 0, 8), VirtualRef("s3://b/y", 0, 8)),
        (VirtualRef("s3://b/x", 0, 8, "tag"), VirtualRef("s3://b/x", 0, 8)),
        (VirtualRef("s3://b/x", 0, 8, 5), VirtualRef("s3://b/x", 0, 8, 6)),
    ],
)
def test_references_are_the_same_in_all_or_differ(one: ChunkRef, other: ChunkRef) -> None:
    rows = np.array([1])
    # What stands before them gives equal texts and bytes other numbers and places.
    left, right = table(VirtualRef("s3://b/z", 0, 1, "z"), one), table(InlineRef(b"123"), other)
    assert same_refs(left, rows, right, rows).tolist() == [False]
    assert same_refs(left, rows, table(InlineRef(b"123"), one), rows).tolist() == [True]


def test_what_makes_one_table_of_another() -> None:
    before, after = table(X, Y, None, X), table(X, X, Y)
    delta = delta_of(before, after)
    assert told(delta) == ({1: X, 2: Y}, [3])
    assert places(delta.coords) == [1, 2, 3]
    assert len(delta) == 3
    again = delta.on(before)
    assert len(delta_of(again, after)) == 0
    assert len(delta_of(table(), table())) == 0


def test_changes_are_taken_in_part() -> None:
    delta = delta_of(table(X, None, X, X), table(Y, Y, None, None))
    assert told(delta) == ({0: Y, 1: Y}, [2, 3])
    assert told(delta.within((3,))) == ({0: Y, 1: Y}, [2])
    assert told(delta.within((1,))) == ({0: Y}, [])
    assert told(delta.without(coords(0, 2))) == ({1: Y}, [3])
    assert delta.without(coords()) is delta


def test_more_references_are_set_only_where_there_are_none() -> None:
    delta = ChunkDelta(table(X), coords(2))
    assert told(delta.plus(table(Y, Y))) == ({0: X, 1: Y}, [2])
    assert delta.plus(table()) is delta


def test_what_both_sides_change_is_alike_or_clashes() -> None:
    base = table(None, None, X, X, X, X)
    ours = delta_of(base, table(X, X, None, None, Y, X))
    theirs = delta_of(base, table(X, Y, None, Y, None, X))
    alike, clashing = common(ours, theirs)
    assert places(alike) == [0, 2]
    assert places(clashing) == [1, 3, 4]
    alike, clashing = common(ours, ChunkDelta.empty(1))
    assert (len(alike), len(clashing)) == (0, 0)


def test_rows_at_some_places_and_beyond_a_grid() -> None:
    whole = table(X, None, Y, X)
    assert places(at(whole, coords(0, 1, 3)).coords) == [0, 3]
    assert places(outside(whole, (2,)).coords) == [2, 3]
    assert len(outside(whole, (4,))) == 0


# --- logs ---


def logged(repo: Branches, base: str, tip: str) -> LoggedChunks | None:
    context = context_of(repo.repository)
    return logged_between(context, SnapshotId.parse(base), SnapshotId.parse(tip))


def array_of(repo: Branches, path: str = "/a") -> ArrayNode:
    return repo.repository.readonly_session("main").state.array(path)


def test_logs_of_all_commits_in_between_tell_of_chunks(repo: Branches) -> None:
    base = repo.tip("main")
    repo.commit("main", {"a/c/1": b"x"})
    tip = repo.commit("main", {"a/c/0": b"x", "a/c/1": b"y"})
    found = logged(repo, base, tip)
    assert found is not None
    changed = found.of(array_of(repo))
    assert changed is not None
    assert places(changed) == [0, 1]
    untouched = found.of(array_of(repo, "/g/b"))
    assert untouched is not None
    assert untouched.shape == (0, 2)
    nothing = logged(repo, base, base)
    assert nothing is not None
    assert (nothing.chunks, nothing.unsure) == ({}, frozenset())


def test_logs_do_not_tell_of_arrays_whose_shape_may_have_changed(repo: Branches) -> None:
    base = repo.tip("main")
    repo.commit("main", {"a/c/1": b"x"})
    tip = repo.commit("main", {"a/zarr.json": array_document(3), "n/zarr.json": array_document(1)})
    found = logged(repo, base, tip)
    assert found is not None
    assert found.of(array_of(repo)) is None
    assert found.of(array_of(repo, "/n")) is None
    other = LoggedChunks({array_of(repo, "/g/b").id: coords(1)})
    assert other.of(array_of(repo, "/g/b")) is None  # of another number of axes


def test_incomplete_logs_tell_nothing(repo: Branches, monkeypatch: pytest.MonkeyPatch) -> None:
    base = repo.tip("main")
    middle = repo.commit("main", {"a/c/1": b"x"})
    tip = repo.commit("main", {"a/c/1": b"y"})
    *_, root = repo.repository.ancestry(branch="main")
    assert logged(repo, root.id, tip) is None  # expiry may have put anything below it
    assert logged(repo, str(SnapshotId.random()), tip) is None
    assert logged(repo, tip, base) is None
    monkeypatch.setattr(states, "MANY_COMMITS", 2)
    assert logged(repo, base, tip) is not None
    monkeypatch.setattr(states, "MANY_COMMITS", 1)
    assert logged(repo, base, tip) is None
    monkeypatch.undo()
    repo.storage.delete_many([f"transactions/{middle}"])
    repo.repository = Repository.open(repo.storage)
    assert logged(repo, base, tip) is None


# --- states ---


def test_a_side_is_compared_with_its_base(repo: Branches) -> None:
    base, old = repo.tip("main"), array_of(repo)
    tip = repo.commit("main", {"a/c/0": b"new", "a/c/1": None, "a/c/5": b"more"})
    context = context_of(repo.repository)
    before, after = (StoredState(context, SnapshotId.parse(one)) for one in (base, tip))
    new = array_of(repo)
    for logs in (None, logged(repo, base, tip)):
        delta = delta_between(before, old, after, new, logs)
        assert (places(delta.table.coords), places(delta.dropped)) == ([0, 5], [1])
    nothing = delta_between(before, old, after, new, LoggedChunks())
    assert len(nothing) == 0


def test_chunks_beyond_the_later_grid_are_not_deleted(repo: Branches) -> None:
    base, old = repo.tip("main"), array_of(repo)
    document = array_document(1, attributes={"units": "K", "old": 1})
    tip = repo.commit("main", {"a/zarr.json": document})
    context = context_of(repo.repository)
    before, after = (StoredState(context, SnapshotId.parse(one)) for one in (base, tip))
    assert len(delta_between(before, old, after, array_of(repo))) == 0


def test_an_array_with_other_axes_has_changed_as_a_whole() -> None:
    def node(*shape: int) -> ArrayNode:
        dims = tuple(Dimension(length, length) for length in shape)
        return ArrayNode(NodeId(bytes(8)), "/a", array_document(*shape), dims, None, ())

    flat = ChunkTable.from_refs(2, [((0, 1), X), ((5, 5), X)])
    before = MergedState((node(4),), {NodeId(bytes(8)): lambda: table(X)})
    after = MergedState((node(2, 2),), {NodeId(bytes(8)): lambda: flat})
    delta = delta_between(before, node(4), after, node(2, 2))
    assert delta.table.coords.tolist() == [[0, 1]]  # the other lies outside
    assert delta.dropped.shape == (0, 2)


def test_ids_that_do_not_last_cannot_be_compared() -> None:
    repository = Repository.create(MemoryStorage(), spec_version="g1")
    tip = SnapshotId.parse(repository.lookup_branch("main"))
    with pytest.raises(FormatError, match="putting histories together"):
        StoredState(context_of(repository), tip)
