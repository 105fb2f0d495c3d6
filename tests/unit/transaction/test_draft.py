"""What a commit would write: which manifests are made anew, and what its log tells."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import ArrayNode, Dimension, ManifestRef
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.chunk_changes import ChunkChanges
from frazil.transaction.draft import draft, unite

NODE = NodeId(b"an array")


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
