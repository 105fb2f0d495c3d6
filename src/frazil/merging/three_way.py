"""Three-way merge of two snapshots against their base: nodes, paths, metadata and chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from frazil.formats.zarr_meta import ArrayMeta, parse_node
from frazil.ids import NodeId
from frazil.merging.arrays import (
    SPEC_OF_DOCUMENTS,
    ArraySides,
    MergedArray,
    contested_refs,
    equal_json,
    has_shape,
    merge_array,
    merge_fields,
    say_the_same,
    write_document,
)
from frazil.merging.places import Triple, make_tree, pair, paths_of
from frazil.merging.policies import Decide, Ledger
from frazil.merging.records import OURS, Contested, MergeConflict, Side
from frazil.merging.states import (
    ChunkDelta,
    LoggedChunks,
    MergedState,
    State,
    StoredState,
    delta_between,
    delta_of,
    outside,
)
from frazil.model.chunks import ChunkTable
from frazil.model.documents import read_document
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, Node


@dataclass(frozen=True, slots=True, eq=False)
class MergedNode:
    """A node of the result."""

    triple: Triple
    id: NodeId
    path: str
    document: bytes
    delta: ChunkDelta | None = None
    """how the chunks that we have change"""
    table: Callable[[], ChunkTable] | None = None
    """all references of an array that our side lacks, or has under another id"""
    ready: ArrayNode | None = None
    """their array, if its manifests hold just those references"""
    contested_shape: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MergeResult:
    """The result of a merge: nodes that stay, nodes of ours that go, and the conflicts."""

    nodes: tuple[MergedNode, ...]
    gone: tuple[Node, ...]
    conflicts: tuple[MergeConflict, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MergeInputs:
    """What is merged; the logs, where they are known, say where to look for changed chunks."""

    base: State
    ours: State
    theirs: State
    logged_ours: LoggedChunks | None = None
    logged_theirs: LoggedChunks | None = None


def merge_states(sides: MergeInputs, decide: Decide) -> MergeResult:
    """Merge two states; what is left undecided comes out as on our side."""
    return _Merging(sides, Ledger(decide)).result()


def merge_bases(sides: MergeInputs) -> MergedState:
    """Merge two merge bases into one.

    Where they conflict, the result is contested, which counts as different from every side.
    """
    return _Merging(sides, Ledger(None)).as_state()


class _Merging:
    """One merge while it runs."""

    def __init__(self, sides: MergeInputs, ledger: Ledger) -> None:
        self._sides = sides
        self._ledger = ledger
        self._deltas: dict[tuple[int, Side], ChunkDelta] = {}
        self.triples = pair(sides.base.nodes, sides.ours.nodes, sides.theirs.nodes)

    def result(self) -> MergeResult:
        """Do it."""
        tree = make_tree(self.triples, self._is_changed, self._ledger)
        paths = paths_of(tree)
        nodes = tuple(self._node(number, path) for number, path in paths.items())
        gone = tuple(
            triple.ours
            for number, triple in enumerate(self.triples)
            if triple.ours is not None and number not in paths
        )
        return MergeResult(nodes, gone, tuple(self._ledger.conflicts))

    def as_state(self) -> MergedState:
        """Do it for a base."""
        tree = make_tree(self.triples, self._is_changed, self._ledger)
        for number in self._ledger.displaced & tree.alive.keys():
            tree.alive[number] = replace(tree.alive[number], name=f"/{Contested().mark}")
        contested = self._ledger.contested
        nodes: list[Node] = []
        tables: dict[NodeId, Callable[[], ChunkTable]] = {}
        for number, path in paths_of(tree).items():
            merged = self._node(number, path)
            if number in contested:
                mark = write_document({"mark": Contested().mark})
                merged = replace(merged, document=mark, contested_shape=True)
            nodes.append(_as_node(merged))
            if merged.triple.is_array:
                fetch = merged.table or partial(self._ours_changed, merged)
                tables[merged.id] = partial(_contested, fetch) if number in contested else fetch
        return MergedState(nodes, tables)

    def _ours_changed(self, merged: MergedNode) -> ChunkTable:
        ours = merged.triple.ours
        assert isinstance(ours, ArrayNode)
        table = self._sides.ours.table(ours)
        return table if merged.delta is None else merged.delta.on(table)

    # --- what changed ---

    def _is_changed(self, number: int, side: Side) -> bool:
        """Whether a side changed a node of the base, apart from its place."""
        triple = self.triples[number]
        node = triple.ours if side == OURS else triple.theirs
        base = triple.base
        if node is None or base is None:
            return True
        if not say_the_same(node.user_data, base.user_data):
            return True
        return isinstance(node, ArrayNode) and len(self._delta(number, side)) > 0

    def _delta(self, number: int, side: Side) -> ChunkDelta:
        """How a side changed the chunks of an array; found once."""
        if (number, side) not in self._deltas:
            self._deltas[number, side] = self._find_delta(number, side)
        return self._deltas[number, side]

    def _find_delta(self, number: int, side: Side) -> ChunkDelta:
        triple, sides = self.triples[number], self._sides
        node, state, logged = (
            (triple.ours, sides.ours, sides.logged_ours)
            if side == OURS
            else (triple.theirs, sides.theirs, sides.logged_theirs)
        )
        assert isinstance(node, ArrayNode)
        base = triple.base
        if not isinstance(base, ArrayNode):
            return delta_of(ChunkTable.empty(len(node.shape)), state.table(node))
        return delta_between(sides.base, base, state, node, logged)

    # --- what it becomes ---

    def _node(self, number: int, path: str) -> MergedNode:
        triple = self.triples[number]
        if triple.theirs is None:
            assert triple.ours is not None
            return MergedNode(triple, triple.ours.id, path, triple.ours.user_data)
        if triple.ours is None:
            return self._theirs(triple, path)
        if isinstance(triple.ours, ArrayNode):
            return self._array(number, path)
        return MergedNode(triple, _merged_id(triple), path, self._group_document(triple, path))

    def _theirs(self, triple: Triple, path: str) -> MergedNode:
        """A node that only they have."""
        node = triple.theirs
        assert node is not None
        if not isinstance(node, ArrayNode):
            return MergedNode(triple, node.id, path, node.user_data)
        table = partial(self._sides.theirs.table, node)
        return MergedNode(triple, node.id, path, node.user_data, table=table, ready=node)

    def _group_document(self, triple: Triple, path: str) -> bytes:
        ours, theirs = triple.both
        base = None if triple.base is None else triple.base.user_data
        if ours.user_data == theirs.user_data or theirs.user_data == base:
            return ours.user_data
        if ours.user_data == base:
            return theirs.user_data
        texts = [read_document(each) for each in (base or b"{}", ours.user_data, theirs.user_data)]
        merged = merge_fields(path, texts[0], texts[1], texts[2], self._ledger.settle)
        for node, text in ((ours, texts[1]), (theirs, texts[2])):
            if equal_json(text, merged):
                return node.user_data
        return write_document(merged)

    def _array(self, number: int, path: str) -> MergedNode:
        """An array that both have."""
        triple = self.triples[number]
        ours, theirs = triple.arrays
        sides = self._sides
        was, own = _content(triple.base, sides.base), _content(ours, sides.ours)
        if _content(theirs, sides.theirs) in (own, was):
            return MergedNode(triple, ours.id, path, ours.user_data)
        if not (has_shape(ours.user_data) and has_shape(theirs.user_data)):
            self._ledger.contested.add(number)  # it was so in a base that this base is made of
            return MergedNode(triple, ours.id, path, ours.user_data)
        if own == was and len(ours.shape) == len(theirs.shape):
            made = MergedArray(theirs.user_data, self._delta(number, "theirs"), is_theirs=True)
        else:
            made = merge_array(self._array_sides(number, path), self._ledger.settle)
        node_id = _merged_id(triple)
        if node_id == ours.id and made.delta.table.ndim != len(ours.shape):
            # References of two ranks cannot be those of one array.
            node_id = NodeId.random() if theirs.id == ours.id else theirs.id
        return self._merged_array(triple, node_id, path, made)

    def _merged_array(
        self, triple: Triple, node_id: NodeId, path: str, made: MergedArray
    ) -> MergedNode:
        (ours, theirs), sides = triple.arrays, self._sides
        plain = MergedNode(
            triple, node_id, path, made.document, made.delta, contested_shape=made.contested_shape
        )
        if node_id == ours.id:
            return plain
        if made.is_theirs:
            ready = theirs if theirs.id == node_id else None
            return replace(plain, table=partial(sides.theirs.table, theirs), ready=ready)
        return replace(plain, table=lambda: made.delta.on(sides.ours.table(ours)))

    def _array_sides(self, number: int, path: str) -> ArraySides:
        triple, sides = self.triples[number], self._sides
        base, (ours, theirs) = triple.base, triple.arrays
        assert base is None or isinstance(base, ArrayNode)
        return ArraySides(
            path,
            base,
            ours,
            theirs,
            lambda: self._delta(number, "ours"),
            lambda: self._delta(number, "theirs"),
            lambda: delta_between(sides.ours, ours, sides.theirs, theirs),
            lambda grid: outside(sides.theirs.table(theirs), grid),
        )


def _contested(fetch: Callable[[], ChunkTable]) -> ChunkTable:
    return contested_refs(fetch().coords)


def _content(node: Node | None, state: State) -> object:
    """What an array is, apart from its place; of a base that was merged manifests do not tell."""
    if not isinstance(node, ArrayNode) or not isinstance(state, StoredState):
        return object()
    return node.id, node.user_data, node.manifests


def _merged_id(triple: Triple) -> NodeId:
    """The id of a node that both have: of the one made anew, ours if both are."""
    ours, theirs = triple.both
    return theirs.id if triple.base is not None and ours.id == triple.base.id else ours.id


def _as_node(merged: MergedNode) -> Node:
    """A node of a base, which no manifest belongs to."""
    if not merged.triple.is_array:
        return GroupNode(merged.id, merged.path, merged.document)
    return ArrayNode(
        merged.id, merged.path, merged.document, shape_of(merged), dimension_names_of(merged), ()
    )


def _meta(merged: MergedNode) -> ArrayMeta:
    meta = parse_node(merged.document, spec=SPEC_OF_DOCUMENTS)
    assert isinstance(meta, ArrayMeta)
    return meta


def shape_of(merged: MergedNode) -> tuple[Dimension, ...]:
    """The axes of a merged array."""
    if not merged.contested_shape and has_shape(merged.document):
        return _meta(merged).shape
    known = merged.triple.any
    assert isinstance(known, ArrayNode)
    return known.shape


def dimension_names_of(merged: MergedNode) -> tuple[str | None, ...] | None:
    """The names of the axes of a merged array."""
    if merged.contested_shape or not has_shape(merged.document):
        return None
    return _meta(merged).dimension_names
