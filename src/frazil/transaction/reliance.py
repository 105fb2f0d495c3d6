"""What the plan of a job depends on: if another commit changes it, ours is a conflict.

Two sessions that write the same node conflict anyway. A plan may also depend on nodes that the job
only reads: rows are placed by labels, an append makes all arrays of a dimension longer. Such a job
names what it relied on, and a rebase treats a change of that as a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from frazil.ids import NodeId, parent_path
from frazil.model.history import NODE_FIELDS, TransactionLog
from frazil.model.nodes import ArrayNode, Node
from frazil.model.values import Conflict, ConflictType


@dataclass(frozen=True, slots=True)
class Reliance:
    """What must not have changed since a session began."""

    nodes: frozenset[str] = frozenset()
    """paths where there must be the same node with the same metadata, or still none"""
    values: frozenset[str] = frozenset()
    """arrays of which no chunk may have been written either"""
    lengths: frozenset[tuple[str, str]] = frozenset()
    """groups and names of dimensions that must be as long as they were"""
    members: frozenset[tuple[str, str]] = frozenset()
    """groups and names of dimensions that the same arrays, of the same lengths, must have"""

    def __or__(self, other: Reliance) -> Reliance:
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Reliance(*(ours | theirs for ours, theirs in pairs))

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))


def broken(
    reliance: Reliance,
    before: Mapping[str, Node],
    after: Mapping[str, Node],
    logs: Sequence[TransactionLog],
) -> list[Conflict]:
    """What a commit of others changed of that; snapshots are read only if needed."""
    paths = {*_values(reliance, before, logs)}
    if any(getattr(log, name) for log in logs for name in (*NODE_FIELDS, "moved_nodes")):
        paths.update(_nodes(reliance, before, after), _dimensions(reliance, before, after))
    return [Conflict(ConflictType.ReliedUponChanged, path) for path in sorted(paths)]


def _values(
    reliance: Reliance, before: Mapping[str, Node], logs: Sequence[TransactionLog]
) -> Iterator[str]:
    written = {node_id for log in logs for node_id in log.updated_chunks}
    if not written:
        return
    for path in reliance.values:
        node = before.get(path)
        if node is not None and node.id in written:
            yield path


def _nodes(
    reliance: Reliance, before: Mapping[str, Node], after: Mapping[str, Node]
) -> Iterator[str]:
    for path in reliance.nodes | reliance.values:
        if _identity(before.get(path)) != _identity(after.get(path)):
            yield path


def _identity(node: Node | None) -> tuple[NodeId, bytes] | None:
    return None if node is None else (node.id, node.user_data)


def _dimensions(
    reliance: Reliance, before: Mapping[str, Node], after: Mapping[str, Node]
) -> Iterator[str]:
    """Arrays that have one of the dimensions now, or had it, or have it in another length."""
    groups = {group for group, _ in reliance.lengths | reliance.members}
    old, new = _arrays(before.values(), groups), _arrays(after.values(), groups)
    for group, dim in reliance.lengths:
        were = {length for _, length in _lengths(old, group, dim).values()}
        are = _lengths(new, group, dim)
        if were != {length for _, length in are.values()}:
            odd = [path for path, (_, length) in are.items() if length not in were]
            yield from odd or [group]
    for group, dim in reliance.members:
        had, have = _lengths(old, group, dim), _lengths(new, group, dim)
        yield from (path for path in had.keys() | have.keys() if had.get(path) != have.get(path))


def _arrays(nodes: Iterable[Node], groups: set[str]) -> list[ArrayNode]:
    if not groups:
        return []
    return [n for n in nodes if isinstance(n, ArrayNode) and parent_path(n.path) in groups]


def _lengths(
    arrays: Iterable[ArrayNode], group: str, dim: str
) -> dict[str, tuple[NodeId, tuple[int, ...]]]:
    """Arrays of a group that have a dimension, with their identity and its length."""
    found = {}
    for node in arrays:
        names = node.dimension_names or ()
        if dim in names and parent_path(node.path) == group:
            pairs = zip(names, node.shape, strict=True)
            lengths = tuple(size.array_length for name, size in pairs if name == dim)
            found[node.path] = (node.id, lengths)
    return found
