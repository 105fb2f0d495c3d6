"""Which nodes of three states are one, and where they are after a merge; pure.

Nodes are matched by id, else by path and kind. A node that was deleted and made again at its path
counts as changed; nodes that both sides made at one path count as one. Later steps therefore need
no ids. In the result each node is below its parent, none is lost, and no two share a path. A place
is a parent node and a name below it: when one side moves a group, what the other side put into the
group moves along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.errors import FormatError
from frazil.ids import NodeId, paths_above
from frazil.merging.policies import Ledger
from frazil.merging.records import OURS, THEIRS, ConflictKind, MergeConflict, Side
from frazil.model.nodes import ArrayNode, Node

# --- pairs ---


@dataclass(frozen=True, slots=True)
class Triple:
    """One node as the base and both sides have it."""

    base: Node | None = None
    ours: Node | None = None
    theirs: Node | None = None

    @property
    def any(self) -> Node:
        """The node as some side has it, ours first."""
        found = self.ours or self.theirs or self.base
        assert found is not None
        return found

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return isinstance(self.any, ArrayNode)

    @property
    def present(self) -> list[Node]:
        """The node as those have it that do."""
        return [node for node in (self.base, self.ours, self.theirs) if node is not None]

    @property
    def both(self) -> tuple[Node, Node]:
        """The node as both sides have it, where they do."""
        assert self.ours is not None
        assert self.theirs is not None
        return self.ours, self.theirs

    @property
    def arrays(self) -> tuple[ArrayNode, ArrayNode]:
        """The same, of an array."""
        ours, theirs = self.both
        assert isinstance(ours, ArrayNode)
        assert isinstance(theirs, ArrayNode)
        return ours, theirs


def pair(base: Iterable[Node], ours: Iterable[Node], theirs: Iterable[Node]) -> list[Triple]:
    """Every node of three states once."""
    by_id: dict[NodeId, Triple] = {node.id: Triple(base=node) for node in base}
    for node in ours:
        by_id[node.id] = replace(by_id.get(node.id, Triple()), ours=node)
    for node in theirs:
        by_id[node.id] = replace(by_id.get(node.id, Triple()), theirs=node)
    return _joined_by_path([_checked(triple) for triple in by_id.values()])


def _checked(triple: Triple) -> Triple:
    if len({isinstance(node, ArrayNode) for node in triple.present}) > 1:
        raise FormatError(
            "damaged history: one node id is an array here and a group there", path=triple.any.path
        )
    return triple


def _joined_by_path(triples: list[Triple]) -> list[Triple]:
    """Join two triples of one path and kind, unless a side has a node in both."""
    kept: list[Triple] = []
    places: dict[tuple[str, bool], list[int]] = {}
    # Nodes of the base come first, so that a node made anew is joined with the old one.
    for triple in sorted(triples, key=lambda each: each.base is None):
        number = None
        if not (triple.base and triple.ours and triple.theirs):
            candidates = (places.get(key, ()) for key in _keys(triple))
            number = next(
                (n for found in candidates for n in found if _fits(kept[n], triple)), None
            )
        if number is None:
            number = len(kept)
            kept.append(triple)
        else:
            kept[number] = _join(kept[number], triple)
        for key in _keys(triple):
            places.setdefault(key, []).append(number)
    return kept


def _keys(triple: Triple) -> set[tuple[str, bool]]:
    return {(node.path, triple.is_array) for node in triple.present}


def _fits(one: Triple, other: Triple) -> bool:
    return not (
        (one.base and other.base) or (one.ours and other.ours) or (one.theirs and other.theirs)
    )


def _join(one: Triple, other: Triple) -> Triple:
    return Triple(one.base or other.base, one.ours or other.ours, one.theirs or other.theirs)


# --- places ---

MAX_ROUNDS = 64
"""Passes over all nodes to resolve moves; what is unresolved after these is a conflict."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A parent, by number, and the path below it; the root has none."""

    parent: int | None
    name: str


def places_of(nodes: Iterable[tuple[int, Node]]) -> dict[int, NodePlace]:
    """The place of each numbered node of one side."""
    numbered = list(nodes)
    numbers = {node.path: number for number, node in numbered}
    return {number: _place(node.path, numbers) for number, node in numbered}


def _place(path: str, numbers: Mapping[str, int]) -> NodePlace:
    above = next((one for one in paths_above(path) if one in numbers), None)
    if above is None:
        return NodePlace(None, path)
    return NodePlace(numbers[above], path[len(above) :].lstrip("/"))


@dataclass(slots=True)
class PlaceTree:
    """The nodes that stay and their places, while they are being worked out."""

    triples: Sequence[Triple]
    ledger: Ledger
    places: dict[Side, dict[int, NodePlace]]
    base_places: Mapping[int, NodePlace]
    alive: dict[int, NodePlace] = field(default_factory=dict)
    """number to place"""
    kept: set[int] = field(default_factory=set)
    """those whose deletion was decided against"""
    gone: dict[int, Side] = field(default_factory=dict)
    """nodes deleted by a resolved conflict, and the side that won"""

    def on(self, side: Side, number: int) -> Node | None:
        """A node as a side has it."""
        triple = self.triples[number]
        return triple.ours if side == OURS else triple.theirs


def make_tree(
    triples: Sequence[Triple],
    changed: Callable[[int, Side], bool],
    ledger: Ledger,
) -> PlaceTree:
    """Which nodes stay, and where; `changed` tells whether a side changed a node's content."""
    sides: dict[Side, dict[int, NodePlace]] = {
        OURS: places_of((n, t.ours) for n, t in enumerate(triples) if t.ours),
        THEIRS: places_of((n, t.theirs) for n, t in enumerate(triples) if t.theirs),
    }
    base = places_of((n, t.base) for n, t in enumerate(triples) if t.base)
    tree = PlaceTree(triples, ledger, sides, base)
    for number, triple in enumerate(triples):
        _decide(tree, number, triple, changed)
    for _ in range(MAX_ROUNDS):
        problems = [_raise_orphans(tree), _untie(tree), _part(tree)]
        if not any(problems):
            return tree
    _give_up(tree)
    return tree


def other(side: Side) -> Side:
    """The other side."""
    return THEIRS if side == OURS else OURS


# --- each node by itself ---


def _decide(
    tree: PlaceTree, number: int, triple: Triple, changed: Callable[[int, Side], bool]
) -> None:
    if triple.ours and triple.theirs:
        tree.alive[number] = _merged_place(tree, number, triple)
        return
    side = OURS if triple.ours else THEIRS
    node = tree.on(side, number)
    if node is None:
        return
    place = tree.places[side][number]
    if triple.base is None:
        tree.alive[number] = place
        return
    is_moved = _is_moved(tree, number, side)
    if not is_moved and not changed(number, side):
        return
    shown = {side: "moved" if is_moved else "changed", other(side): "deleted"}
    conflict = MergeConflict(ConflictKind.DELETED, node.path, shown[OURS], shown[THEIRS])
    outcome = tree.ledger.settle(conflict, [number])
    if outcome == other(side):
        tree.gone[number] = other(side)
    else:
        tree.alive[number] = place
        tree.kept.add(number)


def _is_moved(tree: PlaceTree, number: int, side: Side) -> bool:
    node, base = tree.on(side, number), tree.triples[number].base
    assert node is not None
    if base is None or node.path == base.path:
        return False
    return tree.places[side][number] != tree.base_places[number]


def _merged_place(tree: PlaceTree, number: int, triple: Triple) -> NodePlace:
    ours, theirs = tree.places[OURS][number], tree.places[THEIRS][number]
    own, their = (node.path for node in triple.both)
    if ours == theirs or own == their:
        return ours
    if triple.base is not None and not _is_moved(tree, number, THEIRS):
        return ours
    if triple.base is not None and not _is_moved(tree, number, OURS):
        return theirs
    conflict = MergeConflict(ConflictKind.MOVED, own, own, their)
    return theirs if tree.ledger.settle(conflict, [number]) == THEIRS else ours


# --- together ---


def _raise_orphans(tree: PlaceTree) -> bool:
    """Nodes whose parent is gone: it stays for them, or they go with it or elsewhere."""
    found = False
    for number, place in list(tree.alive.items()):
        parent = place.parent
        if parent is None or parent in tree.alive or number not in tree.alive:
            continue
        found = True
        holder = OURS if tree.on(OURS, parent) is not None else THEIRS
        if parent not in tree.gone and number not in tree.kept:
            _ask_for_parent(tree, parent, holder)
        if parent in tree.gone and number not in tree.kept:
            winner = tree.gone[parent]
            if tree.on(winner, number) is not None and tree.places[winner][number] != place:
                tree.alive[number] = tree.places[winner][number]
            else:
                del tree.alive[number]
                tree.gone[number] = winner
        else:
            tree.gone.pop(parent, None)
            tree.alive[parent] = tree.places[holder][parent]
            tree.kept.add(parent)
            if number in tree.ledger.contested:
                tree.ledger.contested.add(parent)  # whether it is there is as open
    return found


def _ask_for_parent(tree: PlaceTree, parent: int, holder: Side) -> None:
    """Decide whether a group that one side deleted stays for what the other put into it."""
    node = tree.on(holder, parent)
    assert node is not None
    shown = {holder: "something was put into it", other(holder): "deleted"}
    conflict = MergeConflict(ConflictKind.DELETED, node.path, shown[OURS], shown[THEIRS])
    if tree.ledger.settle(conflict, [parent]) == other(holder):
        tree.gone[parent] = other(holder)


def _untie(tree: PlaceTree) -> bool:
    """Groups that two sides moved into each other: one side's places for all of them."""
    safe: set[int] = set()
    found = False
    for start in list(tree.alive):
        trail: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in safe and at not in trail and at in tree.alive:
            trail[at] = None
            at = tree.alive[at].parent
        if at in trail:
            found = True
            walked = list(trail)
            circle = walked[walked.index(at) :]
            _break(tree, circle)
        safe.update(trail)
    return found


def _break(tree: PlaceTree, circle: list[int]) -> None:
    first = tree.triples[circle[0]]
    shown = [None if node is None else node.path for node in (first.ours, first.theirs)]
    conflict = MergeConflict(ConflictKind.MOVED, first.any.path, shown[0], shown[1])
    side: Side = THEIRS if tree.ledger.settle(conflict, circle) == THEIRS else OURS
    for number in circle:
        if number in tree.places[side]:
            tree.alive[number] = tree.places[side][number]


def _part(tree: PlaceTree) -> bool:
    """Two nodes in one place: one of them goes, or back to where the other side has it."""
    taken: dict[NodePlace, int] = {}
    found = False
    for number, place in list(tree.alive.items()):
        holder = taken.setdefault(place, number)
        if holder == number:
            continue
        found = True
        is_ours = tree.places[OURS].get(holder) == place
        ours, theirs = (holder, number) if is_ours else (number, holder)
        loser_side = _loser(tree, ours, theirs)
        loser, winner_side = (ours, THEIRS) if loser_side == OURS else (theirs, OURS)
        back = tree.places[winner_side].get(loser)
        if back is not None and back != place:
            tree.alive[loser] = back
        else:
            del tree.alive[loser]
            tree.gone[loser] = winner_side
        taken[place] = theirs if loser == ours else ours
    return found


def _loser(tree: PlaceTree, ours: int, theirs: int) -> Side:
    is_new = tree.triples[ours].base is None and tree.triples[theirs].base is None
    kind = ConflictKind.CREATED if is_new else ConflictKind.MOVED
    path = tree.triples[ours].any.path
    conflict = MergeConflict(kind, path, _described(tree, ours), _described(tree, theirs))
    return OURS if tree.ledger.settle(conflict, [ours, theirs]) == THEIRS else THEIRS


def _described(tree: PlaceTree, number: int) -> str:
    triple = tree.triples[number]
    what = "array" if triple.is_array else "group"
    return f"{what} {triple.base.path}" if triple.base is not None else f"new {what}"


def _give_up(tree: PlaceTree) -> None:
    """Leave a tangle as it is on our side; the merge then ends with an open conflict."""
    tree.alive = dict(tree.places[OURS])
    tree.ledger.leave(MergeConflict(ConflictKind.MOVED, "/", "moves", "moves"))


def paths_of(tree: PlaceTree) -> dict[int, str]:
    """The path of every node that stays."""
    paths: dict[int, str] = {}

    def path(number: int) -> str:
        chain = []
        at: int | None = number
        while at is not None and at not in paths:
            chain.append(at)
            at = tree.alive[at].parent
        for each in reversed(chain):
            place = tree.alive[each]
            above = "" if place.parent is None else paths[place.parent].rstrip("/")
            paths[each] = place.name if place.parent is None else f"{above}/{place.name}"
        return paths[number]

    for number in tree.alive:
        path(number)
    return paths
