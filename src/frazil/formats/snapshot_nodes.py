"""The nodes of a snapshot file, read as columns (format reference 3.4).

A snapshot has as many tables as it has dimensions, dimension names and manifest pointers, and a
deep hierarchy has many thousands of those. In a large one only the nodes that are asked for
become objects.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Final, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.formats.flat import Buffer, Table
from frazil.formats.flat_columns import (
    I64,
    Spans,
    TableColumns,
    numbers_at,
    spread,
    table_columns,
)
from frazil.ids import ManifestId, NodeId, node_path
from frazil.model.nodes import ArrayNode, Dimension, Extents, GroupNode, ManifestRef, Node
from frazil.model.strings import Strings, copy_runs, gather_runs

ARRAY: Final = 1
GROUP: Final = 2
DIMENSION_V1: Final = struct.Struct("<QQ")
MANY_NODES: Final = 2000
"""Nodes that are read at once."""
LONG_PATH: Final = 256
"""Longer paths are compared one by one."""
_INVALID: Final = re.compile(r"^(?!/)|//|/\.{1,2}(?:/|$)|[^\n]/$", re.MULTILINE)
"""What a path that `node_path` refuses or would change has, where each path is a line."""


def raw_ids(tables: TableColumns, slot: int, width: int) -> Iterator[bytes]:
    """The ids in a field of many tables."""
    raw = tables.ids(slot, width, "id").tobytes()
    return (raw[at : at + width] for at in range(0, len(raw), width))


def read_nodes(root: Table, spec: int) -> Sequence[Node]:
    """The nodes of a snapshot; if there are many, each is read when it is asked for.

    Raises:
        FormatError: they are damaged, or not in order of their paths.
    """
    tables = table_columns(root, 2, "nodes")
    spans = tables.vectors(1, 1, "path")
    paths = Strings(*gather_runs(root.buffer.data, spans.starts, spans.counts))
    _check_paths(root.buffer, paths)
    if len(tables) > MANY_NODES:
        return NodeTable(tables, paths, spec, {})
    return tuple(_nodes(tables, list(paths)))


def _nodes(tables: TableColumns, paths: Iterable[str]) -> Iterator[Node]:
    buffer = tables.buffer
    data = bytes(buffer.data)
    documents = tables.vectors(2, 1, "user_data").slices(data)
    kinds = tables.numbers(3, "u1")
    targets = tables.targets(4, "node_data")
    is_array = kinds == ARRAY
    if not (is_array | (kinds == GROUP)).all():
        raise buffer.fail("a node is neither a group nor an array")
    TableColumns(buffer, targets[~is_array])  # a group has nothing to read, but must be there
    arrays = _read_arrays(TableColumns(buffer, targets[is_array]), data)
    for raw, path, document, kind in zip(
        raw_ids(tables, 0, 8), paths, documents, kinds.tolist(), strict=True
    ):
        if kind == GROUP:
            yield GroupNode(NodeId(raw), path, document)
        else:
            yield ArrayNode(NodeId(raw), path, document, *next(arrays))


def _check_paths(buffer: Buffer, paths: Strings) -> None:
    if not paths.is_utf8():
        raise buffer.fail("text is not UTF-8")
    # Readers search by path, so a snapshot out of order would hide nodes instead of failing.
    if not _is_ascending(paths):
        raise buffer.fail("nodes are not in order of their paths")
    texts = paths.tolist()
    lines = "\n".join(texts)
    if lines.count("\n") >= len(texts):  # a path with a line break
        try:
            is_valid = [node_path(path) for path in texts] == texts
        except InvalidInputError as error:
            raise buffer.fail(str(error)) from error
    else:
        is_valid = not texts or _INVALID.search(lines) is None
    if not is_valid:
        raise buffer.fail("invalid node path")


def _is_ascending(paths: Strings) -> bool:
    """Whether texts ascend strictly by their bytes."""
    longest = int(paths.sizes.max()) if len(paths) else 0
    if not longest or longest > LONG_PATH or b"\0" in paths.data:
        ends = [0, *paths.ends.tolist()]
        raw = [paths.data[start:end] for start, end in pairwise(ends)]
        return all(a < b for a, b in pairwise(raw))
    padded = np.zeros((len(paths), longest), np.uint8)
    starts, sizes = paths.bounds(range(len(paths)))
    places = np.arange(len(paths), dtype=np.int64) * longest
    copy_runs(np.frombuffer(paths.data, np.uint8), starts, sizes, padded.reshape(-1), places)
    items = padded.view(f"S{longest}").ravel()
    return bool((items[:-1] < items[1:]).all())


class NodeTable(Sequence[Node]):
    """The nodes of a large snapshot in order of their paths, each read when it is asked for.

    Some may have changed since the file was written. What did not goes into the next file as the
    bytes it was.
    """

    def __init__(
        self, tables: TableColumns, paths: Strings, spec: int, changed: Mapping[int, Node]
    ) -> None:
        self.spec = spec
        self._tables = tables
        self._paths = paths
        self._changed = changed

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | Sequence[Node]:
        return self._all[index]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (self._all,)

    def find(self, path: str) -> Node | None:
        """The node at a path.

        Raises:
            FormatError: it is damaged.
        """
        row = bisect_left(range(len(self)), path.encode(), key=self._raw_path)
        if row == len(self) or self._paths[row] != path:
            return None
        return self._at(np.array([row]))[0]

    def of_ids(self, ids: Collection[NodeId]) -> list[Node]:
        """The nodes with some of these ids."""
        raw = self._tables.ids(0, NodeId.width, "id").astype(f"S{NodeId.width}").tobytes()
        wanted = np.frombuffer(b"".join(ids), "<u8")
        return self._at(np.flatnonzero(np.isin(np.frombuffer(raw, "<u8"), wanted)))

    def with_changed(self, nodes: Iterable[Node]) -> NodeTable:
        """The same nodes, but some of them different; ids and paths stay."""
        rows = range(len(self))
        changed = {
            bisect_left(rows, node.path.encode(), key=self._raw_path): node for node in nodes
        }
        return NodeTable(self._tables, self._paths, self.spec, {**self._changed, **changed})

    def manifest_ids(self) -> set[bytes]:
        """All manifests that arrays refer to."""
        kept = np.ones(len(self), bool)
        kept[list(self._changed)] = False
        arrays = TableColumns(
            self._tables.buffer,
            self._tables.targets(4)[kept & (self._tables.numbers(3, "u1") == ARRAY)],
        )
        found = set(raw_ids(arrays.children(2, "manifests")[0], 0, ManifestId.width))
        for node in self._changed.values():
            if isinstance(node, ArrayNode):
                found.update(ref.id for ref in node.manifests)
        return found

    def reusable(self) -> tuple[bytes, I64, Mapping[int, Node]] | None:
        """Bytes that hold all nodes but the changed ones, where each is, and those others.

        None when so much has changed that it is better to write all of them.
        """
        if len(self._changed) * 8 > len(self):
            return None
        first = self._first_byte & ~7
        data = bytes(self._tables.buffer.data[first:])
        return data + bytes(-len(data) % 8), self._tables.positions - first, self._changed

    @cached_property
    def _first_byte(self) -> int:
        """Where the nodes begin: only vtables may lie before the tables that use them."""
        buffer, tables = self._tables.buffer, self._tables
        arrays = TableColumns(buffer, tables.targets(4)[tables.numbers(3, "u1") == ARRAY])
        groups = TableColumns(buffer, tables.targets(4))
        used = [tables, groups, *(arrays.children(slot)[0] for slot in (1, 2, 3))]
        return min([each.first_byte() for each in used if len(each)])

    def _at(self, rows: npt.NDArray[np.intp]) -> list[Node]:
        here = TableColumns(self._tables.buffer, self._tables.positions[rows])
        places = rows.tolist()
        found = _nodes(here, [self._paths[row] for row in places])
        return [self._changed.get(row, node) for row, node in zip(places, found, strict=True)]

    def _raw_path(self, row: int) -> bytes:
        ends = self._paths.ends
        return self._paths.data[int(ends[row - 1]) if row else 0 : int(ends[row])]

    @cached_property
    def _all(self) -> tuple[Node, ...]:
        nodes = list(_nodes(self._tables, self._paths.tolist()))
        for row, node in self._changed.items():
            nodes[row] = node
        return tuple(nodes)


class _ArrayFields(NamedTuple):
    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None
    manifests: tuple[ManifestRef, ...]


def _read_arrays(tables: TableColumns, data: bytes) -> Iterator[_ArrayFields]:
    shapes = list(_read_shapes(tables))
    names = _read_names(tables, data)
    refs, counts = tables.children(2, "manifests")
    ranks = np.repeat(np.array([len(shape) for shape in shapes], np.int64), counts)
    manifests = map(ManifestRef, map(ManifestId, raw_ids(refs, 0, 12)), _read_extents(refs, ranks))
    return (
        _ArrayFields(shape, known, tuple(islice(manifests, count)))
        for shape, known, count in zip(shapes, names, counts.tolist(), strict=True)
    )


def _read_shapes(tables: TableColumns) -> Iterator[tuple[Dimension, ...]]:
    old = tables.vectors(0, DIMENSION_V1.size, "shape")
    has_new = tables.places(3) != 0
    new, new_counts = tables.children(3)
    old_counts = np.where(has_new, 0, old.counts)
    dimensions_v1 = _read_old_dimensions(tables.buffer, Spans(old.starts, old_counts))
    dimensions_v2 = map(Dimension, new.longs(0).tolist(), new.numbers(1, "<u4").tolist())
    return (
        (*islice(dimensions_v1, before), *islice(dimensions_v2, now))
        for before, now in zip(old_counts.tolist(), new_counts.tolist(), strict=True)
    )


def _read_old_dimensions(buffer: Buffer, spans: Spans) -> Iterator[Dimension]:
    for at in spread(spans, DIMENSION_V1.size).tolist():
        length, chunk = DIMENSION_V1.unpack_from(buffer.data, at)
        if length and not chunk:
            raise buffer.fail("a dimension with elements has chunks of length zero")
        yield Dimension(length, -(-length // chunk) if chunk else 0)


def _read_names(tables: TableColumns, data: bytes) -> Iterator[tuple[str | None, ...] | None]:
    has_names = tables.places(1) != 0
    names, counts = tables.children(1)
    spans = names.vectors(0, 1)
    try:
        texts = iter(
            [
                raw.decode() if at else None
                for raw, at in zip(spans.slices(data), spans.starts.tolist(), strict=True)
            ]
        )
    except UnicodeDecodeError as error:
        raise tables.buffer.fail("text is not UTF-8") from error
    for here, count in zip(has_names.tolist(), counts.tolist(), strict=True):
        yield tuple(islice(texts, count)) if here else None


def _read_extents(refs: TableColumns, ranks: I64) -> Iterator[Extents]:
    spans = refs.vectors(1, 8, "extents")
    if (spans.counts != ranks).any():
        raise refs.buffer.fail("a manifest covers another number of axes than its array has")
    at = spread(spans, 8)
    starts = numbers_at(refs.buffer, at, "<u4")
    ends = numbers_at(refs.buffer, at + 4, "<u4")
    if (starts > ends).any():
        raise refs.buffer.fail("a manifest covers a range that ends before it begins")
    ranges = zip(starts.tolist(), ends.tolist(), strict=True)
    return (tuple(islice(ranges, rank)) for rank in ranks.tolist())
