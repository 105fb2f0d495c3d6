"""The nodes of a snapshot file.

If there are many nodes, only those that are asked for become objects, and the bytes of unchanged
nodes are copied into the next file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import TableColumns, table_columns
from frazil.flatbuf.growth import may_grow
from frazil.flatbuf.reader import Buffer, Table
from frazil.flatbuf.tuning import FEW_NODES, GROWTH_SHARE, KEPT_NODES, LONG_PATH, MANY_FOUND
from frazil.formats.nodes import ARRAY, raw_ids, read_node, read_nodes_at
from frazil.ids import ManifestId, NodeId, node_path
from frazil.model.nodes import ArrayNode, Node, path_order
from frazil.model.strings import StringPool, copy_runs, gather_runs

SMALLEST_NODE: Final = 32
"""Bytes of a node: an id, three offsets and a kind, its place in the vector, and its path."""


def read_nodes(root: Table, spec: int) -> Sequence[Node]:
    """The nodes of a snapshot; unless there are few, each is read when it is asked for."""
    if root.required_vector(2, 4, "nodes")[1] <= FEW_NODES:
        nodes = tuple(read_node(table, table.required_text(1, "path")) for table in root.tables(2))
        _check_order([path_order(node.path) for node in nodes], root.buffer)
        _check_each([node.path for node in nodes], root.buffer)
        return nodes
    tables = table_columns(root, 2, "nodes", smallest=SMALLEST_NODE)
    spans = tables.vectors(1, 1, "path")
    paths = StringPool(*gather_runs(root.buffer.data, spans.starts, spans.counts))
    _check_paths(root.buffer, paths)
    tables.vectors(2, 1, "user_data")  # refused now if they are too long together
    file = _NodeFile(tables, spec)
    return NodeTable(file, np.arange(len(tables), dtype=np.int64), paths, {})


def _check_order(raw: Sequence[bytes], buffer: Buffer) -> None:
    # Readers search by path, so a snapshot out of order would hide nodes instead of failing.
    if any(after <= before for before, after in pairwise(raw)):
        raise buffer.fail("nodes are not in order of their paths")


def _check_each(paths: Sequence[str], buffer: Buffer) -> None:
    try:
        is_valid = all(node_path(path) == path for path in paths)
    except InvalidInputError as error:
        raise buffer.fail(str(error)) from error
    if not is_valid:
        raise buffer.fail("invalid node path")


def _check_paths(buffer: Buffer, paths: StringPool) -> None:
    if not paths.is_utf8():
        raise buffer.fail("text is not UTF-8")
    if not _is_ascending(paths):
        _check_order(
            [paths.data[start:end] for start, end in pairwise([0, *paths.ends.tolist()])], buffer
        )
    if not _are_plain(paths):
        _check_each(paths.tolist(), buffer)


def _are_plain(paths: StringPool) -> bool:
    """Whether all paths are valid and have no segment that begins with a dot."""
    data, sizes = paths.data, paths.sizes
    if b"/." in data or not sizes.all():
        return False
    raw, long = np.frombuffer(data, np.uint8), sizes > 1
    slash = ord("/")
    if (raw[paths.ends - sizes] != slash).any() or (raw[paths.ends - 1][long] == slash).any():
        return False
    # Now only the root, which is the first if it is there, ends in a slash before another path.
    return b"//" not in data[1 - int(long[0]) :] and bool(long[1:].all())


def _is_ascending(paths: StringPool) -> bool:
    """Whether texts certainly ascend strictly by their bytes; long ones are not looked at."""
    longest = int(paths.sizes.max())
    if not longest or longest > LONG_PATH or b"\0" in paths.data:
        return False
    padded = np.zeros((len(paths), longest), np.uint8)
    starts, sizes = paths.bounds(range(len(paths)))
    places = np.arange(len(paths), dtype=np.int64) * longest
    copy_runs(np.frombuffer(paths.data, np.uint8), starts, sizes, padded.reshape(-1), places)
    items = padded.view(f"S{longest}").ravel()
    return bool((items[:-1] < items[1:]).all())


class _NodeFile:
    """The node tables of a snapshot file, and what is asked of all of them at once."""

    def __init__(self, tables: TableColumns, spec: int) -> None:
        self.tables = tables
        self.spec = spec

    @cached_property
    def ids(self) -> npt.NDArray[np.uint64]:
        """The ids as numbers."""
        raw = self.tables.ids(0, NodeId.width, "id").astype(f"S{NodeId.width}").tobytes()
        return np.frombuffer(raw, "<u8")

    @cached_property
    def first_byte(self) -> int:
        """Where the nodes begin, as a multiple of eight: what a table refers to lies behind it,
        except its vtable."""
        buffer, tables = self.tables.buffer, self.tables
        targets = tables.targets(4)
        arrays = TableColumns(buffer, targets[tables.numbers(3, "u1") == ARRAY])
        groups = TableColumns(buffer, targets)
        used = [tables, groups, *(arrays.children(slot)[0] for slot in (1, 2, 3))]
        return min([each.first_byte() for each in used if len(each)]) & ~7

    @property
    def data(self) -> memoryview:
        """The bytes from the first that belongs to a node on."""
        return memoryview(self.tables.buffer.data)[self.first_byte :]


class NodeTable(Sequence[Node]):
    """The nodes of a large snapshot in order of their paths, each read when it is asked for.

    Some may have changed since the file was written, have come or gone. What did not goes into
    the next file as the bytes it was.
    """

    def __init__(
        self, file: _NodeFile, rows: I64, paths: StringPool, changed: Mapping[int, Node]
    ) -> None:
        self.spec = file.spec
        self._file = file
        self._rows = rows
        """of each node in the file, -1 for those that are only in `changed`"""
        self._paths = paths
        self._changed = changed
        self._found: dict[str, Node] = {}
        """nodes that were looked up by path; they are looked up again for each of their chunks"""

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
        """The node at a path."""
        found = self._found.get(path)
        if found is None:
            place, is_there = self._place(path)
            if not is_there:
                return None
            if len(self._found) * MANY_FOUND > len(self):
                self._found = {node.path: node for node in self._all}
                return self._found[path]
            found = self._found[path] = self._at([place])[0]
        return found

    def of_ids(self, ids: Collection[NodeId]) -> list[Node]:
        """The nodes with some of these ids."""
        wanted = np.frombuffer(b"".join(ids), "<u8")
        return self._at(np.flatnonzero(np.isin(self._ids, wanted)).tolist())

    def below(self, path: str) -> list[Node]:
        """The nodes strictly below a path."""
        return self._at(self._range_below(path))

    def paths_below(self, path: str) -> list[str]:
        """Their paths."""
        found = self._range_below(path)
        return list(self._paths.part(found.start, found.stop))

    def first_arrays(self, count: int | None) -> list[ArrayNode]:
        """So many of the arrays, or all; no other nodes are read."""
        tables = self._file.tables
        is_array = (tables.numbers(3, "u1") == ARRAY)[self._rows]
        for row, node in self._changed.items():
            is_array[row] = isinstance(node, ArrayNode)
        found = self._at(np.flatnonzero(is_array)[:count].tolist())
        return [node for node in found if isinstance(node, ArrayNode)]

    def edited(self, nodes: Iterable[Node], removed: Iterable[str] = ()) -> NodeTable:
        """The same nodes, but some of them different, new or gone; ids do not change paths."""
        put: dict[int, Node] = {}
        fresh: list[tuple[bytes, int, Node]] = []
        for node in nodes:
            place, is_there = self._place(node.path)
            if is_there:
                put[place] = node
            else:
                fresh.append((path_order(node.path), place, node))
        gone = [place for place, is_there in map(self._place, removed) if is_there]
        changed = {**self._changed, **put}
        if not fresh and not gone:
            return NodeTable(self._file, self._rows, self._paths, changed)
        fresh.sort(key=itemgetter(0))
        places = [place for _, place, _ in fresh]
        paths = self._paths.edited(gone, places, [raw for raw, _, _ in fresh])
        kept = np.ones(len(self), bool)
        kept[gone] = False
        # Rows before which nodes come move by as many, and by those that have gone before them.
        come = np.bincount(places, minlength=len(self) + 1)
        now = np.cumsum(kept) - 1 + np.cumsum(come)[:-1]
        rows = np.full(len(paths), -1, np.int64)
        rows[now[kept]] = self._rows[kept]
        moved = {int(now[row]): node for row, node in changed.items() if kept[row]}
        for row, (_, _, node) in zip(np.flatnonzero(_gaps(now[kept], rows)), fresh, strict=True):
            moved[int(row)] = node
        return NodeTable(self._file, rows, paths, moved)

    def manifest_ids(self) -> set[bytes]:
        """All manifests that arrays refer to."""
        tables = self._file.tables
        here = TableColumns(tables.buffer, tables.positions[self._rows[self._is_as_it_was]])
        is_array = here.numbers(3, "u1") == ARRAY
        arrays = TableColumns(tables.buffer, here.targets(4)[is_array])
        found = set(raw_ids(arrays.children(2, "manifests")[0], 0, ManifestId.width))
        for node in self._changed.values():
            if isinstance(node, ArrayNode):
                found.update(ref.id for ref in node.manifests)
        return found

    @property
    def is_reusable(self) -> bool:
        """Whether so little has changed that the bytes of the file are worth keeping."""
        dead = len(self._file.tables) - int(np.count_nonzero(self._is_as_it_was))
        is_small = max(len(self._changed), dead) * GROWTH_SHARE <= len(self)
        return is_small and may_grow(self._file.data)

    def reusable(self) -> tuple[memoryview, I64, Mapping[int, Node]] | None:
        """Bytes that hold all nodes but the changed ones, where each is, and those others.

        None when so much has changed that it is better to write all of them.
        """
        if not self.is_reusable:
            return None
        file = self._file
        return file.data, file.tables.positions[self._rows] - file.first_byte, self._changed

    @cached_property
    def _is_as_it_was(self) -> npt.NDArray[np.bool_]:
        """Which nodes are in the file."""
        same: npt.NDArray[np.bool_] = self._rows >= 0
        same[list(self._changed)] = False
        return same

    @cached_property
    def _ids(self) -> npt.NDArray[np.uint64]:
        ids = self._file.ids[self._rows]
        for row, node in self._changed.items():
            ids[row] = int.from_bytes(node.id, "little")
        return ids

    def _at(self, places: Sequence[int]) -> list[Node]:
        changed, tables = self._changed, self._file.tables
        held = [place for place in places if place not in changed]
        if not held:
            return [changed[place] for place in places]
        here = TableColumns(tables.buffer, tables.positions[self._rows[held]])
        is_all = len(held) == len(self)
        paths = self._paths.tolist() if is_all else [self._paths[place] for place in held]
        read = read_nodes_at(here, paths)
        return [changed[place] if place in changed else next(read) for place in places]

    def _place(self, path: str) -> tuple[int, bool]:
        """Where a path is among the others or would be, and whether it is there."""
        raw = path_order(path)
        place = bisect_left(range(len(self)), raw, key=self._raw_path)
        return place, place < len(self) and self._raw_path(place) == raw

    def _range_below(self, path: str) -> range:
        """Rows of the nodes below a path, which follow each other."""
        above = path_order(path.rstrip("/"))
        rows = range(len(self))
        start = bisect_left(rows, above + b"/", key=self._raw_path)
        stop = bisect_left(rows, above + b"0", key=self._raw_path)  # the byte after a slash
        if start < stop and self._raw_path(start) == b"/":
            start += 1
        return range(start, stop)

    def _raw_path(self, row: int) -> bytes:
        ends = self._paths.ends
        return self._paths.data[int(ends[row - 1]) if row else 0 : int(ends[row])]

    @cached_property
    def _all(self) -> tuple[Node, ...]:
        return tuple(self._at(range(len(self))))


def first_arrays(nodes: Sequence[Node], count: int | None) -> list[ArrayNode]:
    """So many of the arrays among some nodes, or all of them."""
    if isinstance(nodes, NodeTable):
        return nodes.first_arrays(count)
    return [node for node in nodes if isinstance(node, ArrayNode)][:count]


def keeps_well(nodes: Sequence[Node]) -> bool:
    """Whether a snapshot of these nodes is as good a base for the next as that in the file."""
    return nodes.is_reusable if isinstance(nodes, NodeTable) else len(nodes) <= KEPT_NODES


def _gaps(taken: I64, rows: I64) -> npt.NDArray[np.bool_]:
    """Which rows are not taken."""
    free = np.ones(len(rows), bool)
    free[taken] = False
    return free
