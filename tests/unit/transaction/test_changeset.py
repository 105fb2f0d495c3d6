"""Changes of nodes: what is left of them after deleting, moving, renaming and uniting."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.ids import ChunkId, NodeId, SnapshotId
from frazil.model.chunks import NativeRef
from frazil.model.history import Move
from frazil.model.nodes import Dimension
from frazil.transaction.changeset import ArrayData, ChangeSet, GroupData, ReadyManifests

ONE, TWO = NodeId(b"one....."), NodeId(b"two.....")
REF = NativeRef(ChunkId(bytes(12)), 0, 1)


def array(node: NodeId = ONE, text: bytes = b"") -> ArrayData:
    """An array of three chunks."""
    return ArrayData(node, text, (Dimension(3, 3),), None)


def with_chunks(*coords: int, node: NodeId = ONE) -> ChangeSet:
    """A change of some chunks of an array."""
    changes = ChangeSet()
    for at in coords:
        changes.chunk_changes(node, 1).set((at,), REF)
    return changes


def ready(*coords: int) -> ReadyManifests:
    """Stored manifests with chunks at some coordinates."""
    return ReadyManifests((), (), np.array(coords, np.uint32).reshape(-1, 1))


def test_a_node_made_and_deleted_here_was_never_there() -> None:
    changes = ChangeSet()
    changes.set_group("/g", GroupData(ONE, b""), is_new=True)
    changes.set_array("/a", array(TWO), is_new=True)
    changes.chunk_changes(TWO, 1).set((0,), REF)
    changes.ready[TWO] = ready(1)
    changes.delete_group("/g", ONE)
    changes.delete_array("/a", TWO)
    assert not changes.changes_nodes
    assert not changes.chunks
    assert not changes.ready


def test_an_old_node_in_place_of_which_a_new_one_was_made_is_deleted_all_the_same() -> None:
    changes = ChangeSet()
    changes.delete_array("/a", ONE)
    changes.set_array("/a", array(TWO), is_new=True)
    assert changes.deleted_ids() == {ONE}
    assert [*changes.new_paths()] == ["/a"]
    changes.delete_array("/a", TWO)
    assert [*changes.deleted()] == [("/a", ONE)]
    assert not changes.new_arrays


def test_deleting_the_old_node_of_a_path_leaves_the_new_one() -> None:
    changes = ChangeSet()
    changes.set_array("/a", array(TWO), is_new=True)
    changes.set_group("/g", GroupData(TWO, b""), is_new=True)
    changes.delete_array("/a", ONE)
    changes.delete_group("/g", ONE)
    assert [*changes.new_paths()] == ["/g", "/a"]
    assert (changes.deleted_arrays, changes.deleted_groups) == ({ONE: "/a"}, {ONE: "/g"})


def test_what_was_updated_and_deleted_is_only_deleted() -> None:
    changes = with_chunks(1)
    changes.set_array("/a", array(text=b"new"), is_new=False)
    changes.shifted.add(ONE)
    changes.delete_array("/a", ONE)
    assert not changes.updated_arrays
    assert not changes.shifted
    assert changes.deleted_arrays == {ONE: "/a"}


def test_changing_a_new_node_makes_no_update() -> None:
    changes = ChangeSet()
    changes.set_array("/a", array(), is_new=True)
    changes.set_array("/a", array(text=b"new"), is_new=False)
    assert changes.new_arrays["/a"].user_data == b"new"
    assert not changes.updated_arrays


def test_moves_are_kept_as_one() -> None:
    changes = ChangeSet()
    changes.record_move("/a", "/b", ONE, is_array=True)
    changes.record_move("/b", "/c", ONE, is_array=True)
    assert changes.moves == {ONE: Move("/a", "/c", ONE, True)}
    changes.record_move("/c", "/a", ONE, is_array=True)
    assert not changes.moves
    assert not changes.is_empty, "a move and its way back were work all the same"


def test_chunks_that_were_taken_back_were_a_change() -> None:
    assert ChangeSet().is_empty
    changes = ChangeSet()
    changes.chunk_changes(ONE, 1)
    assert not changes.is_empty
    assert not changes.changes_nodes


def test_chunks_of_ready_manifests_are_listed_once_with_the_others() -> None:
    changes = with_chunks(2, 0)
    changes.ready[ONE] = ready(0, 1)
    assert changes.chunk_coords(ONE).tolist() == [[0], [1], [2]]
    changes.chunks.clear()
    assert changes.chunk_coords(ONE).tolist() == [[0], [1]]


def test_renaming_reaches_every_id() -> None:
    changes = with_chunks(1)
    changes.set_array("/a", array(), is_new=True)
    changes.set_group("/g", GroupData(ONE, b""), is_new=False)
    changes.ready[ONE] = ready(0)
    changes.deleted_groups[ONE] = "/gone"
    changes.shifted.add(ONE)
    changes.record_move("/x", "/y", ONE, is_array=False)
    changes.sources.add(SnapshotId(bytes(12)))
    found = changes.renamed({ONE: TWO})
    assert found.new_arrays["/a"].id == TWO
    assert found.updated_groups == {TWO: GroupData(TWO, b"")}
    assert [*found.chunks] == [*found.ready] == [*found.deleted_groups] == [TWO]
    assert found.shifted == {TWO}
    assert found.moves == {TWO: Move("/x", "/y", TWO, False)}
    assert (found.sources, found.touched, found.began) == (changes.sources, True, changes.began)


class TestTaking:
    def test_the_other_wins_for_chunks_that_both_set(self) -> None:
        ours, theirs = with_chunks(0, 1), ChangeSet()
        theirs.chunk_changes(ONE, 1).set((1,), None)
        ours.take(theirs)
        changes = ours.chunks[ONE]
        assert changes.get((0,)) == REF
        assert changes.get((1,)) is None

    def test_an_update_of_a_node_made_here_changes_what_is_made(self) -> None:
        ours, theirs = ChangeSet(), ChangeSet()
        ours.set_array("/a", array(), is_new=True)
        theirs.set_array("/a", array(text=b"new"), is_new=False)
        ours.take(theirs)
        assert ours.new_arrays["/a"].user_data == b"new"

    def test_the_earlier_begin_and_all_sources_count(self) -> None:
        ours, theirs = ChangeSet(began=5), ChangeSet(began=3)
        theirs.sources.add(SnapshotId(bytes(12)))
        theirs.shifted.add(ONE)
        ours.take(theirs)
        assert ours.began == 3
        assert ours.sources == theirs.sources
        assert ours.shifted == {ONE}
        assert not ours.touched


@pytest.mark.parametrize("part", ["of_nodes", "of_chunks"])
def test_parts_have_only_their_own(part: str) -> None:
    changes = with_chunks(1)
    changes.set_array("/a", array(), is_new=True)
    found: ChangeSet = getattr(changes, part)()
    assert bool(found.chunks) == (part == "of_chunks")
    assert found.changes_nodes == (part == "of_nodes")
    assert found.began == changes.began


def test_a_copy_of_the_nodes_does_not_change_with_them() -> None:
    changes = ChangeSet()
    copy = changes.of_nodes()
    changes.set_array("/a", array(), is_new=True)
    assert not copy.new_arrays
