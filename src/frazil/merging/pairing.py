"""Which node of one side is which of the others: by id, else by path and kind; pure.

A node that was deleted and made anew at its path counts as changed, and nodes that two sides
made at one path count as one, so that what follows need not know of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from frazil.errors import FormatError
from frazil.ids import NodeId
from frazil.model.nodes import ArrayNode, Node


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


def pair(base: Iterable[Node], ours: Iterable[Node], theirs: Iterable[Node]) -> list[Triple]:
    """Every node of three states once."""
    by_id: dict[NodeId, Triple] = {}
    for node in base:
        by_id[node.id] = Triple(base=node)
    for node in ours:
        by_id[node.id] = replace(by_id.get(node.id, Triple()), ours=node)
    for node in theirs:
        by_id[node.id] = replace(by_id.get(node.id, Triple()), theirs=node)
    return _joined_by_path([_checked(triple) for triple in by_id.values()])


def _checked(triple: Triple) -> Triple:
    present = [node for node in (triple.base, triple.ours, triple.theirs) if node is not None]
    if len({isinstance(node, ArrayNode) for node in present}) > 1:
        raise FormatError(
            "damaged history: one node id is an array here and a group there", path=triple.any.path
        )
    return triple


def _joined_by_path(triples: list[Triple]) -> list[Triple]:
    """Join triples that share a path and a kind, and of which no side has both."""
    kept: list[Triple] = []
    places: dict[tuple[str, bool], list[int]] = {}
    # Those of the base first: what a side made anew belongs to what was there.
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
    present = (triple.base, triple.ours, triple.theirs)
    return {(node.path, triple.is_array) for node in present if node is not None}


def _fits(one: Triple, other: Triple) -> bool:
    return not (
        (one.base and other.base) or (one.ours and other.ours) or (one.theirs and other.theirs)
    )


def _join(one: Triple, other: Triple) -> Triple:
    return Triple(one.base or other.base, one.ours or other.ours, one.theirs or other.theirs)
