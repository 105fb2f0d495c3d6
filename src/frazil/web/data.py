"""JSON for the scripts of the explorer's pages: rows of the history, chunk maps, values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from frazil.cli.values import reference
from frazil.drawing.cells import map_axes
from frazil.errors import InvalidInputError
from frazil.model.chunk_map import stored_map
from frazil.model.lanes import GraphRow, lay_out
from frazil.model.nodes import ArrayNode
from frazil.transaction.opened import context_of
from frazil.web.asking import Answer, Ask, Binary, Data
from frazil.web.chunk_maps import as_data, bounded_table, changed_map, written_map
from frazil.web.comparing import differing_chunks, same_node
from frazil.web.slices import SliceRequest, exact_value, read_view
from frazil.web.touching import Touches, touches
from frazil.web.work import PendingWork

PATIENCE: Final = 5.0
MOST_LINES: Final = 64


def graph(ask: Ask) -> Answer:
    """A window of the history: of all branches and tags, or of one version."""
    chosen = ask.text("v")
    start = max(0, ask.number("start", 0))
    count = min(max(1, ask.number("count", 100)), ask.limits.rows)
    key, state = ("graph", chosen), ask.shown.state_key()
    rows = ask.long(key, lambda: _rows(ask, chosen), PATIENCE, state=state)
    if isinstance(rows, PendingWork):
        return Data({"pending": True}, status=202)
    refs = ask.shown.refs()
    word = ask.text("q").lower()
    matches = []
    if word:
        matches = [
            number
            for number, row in enumerate(rows)
            if word in row.snapshot.message.lower() or row.snapshot.id.lower().startswith(word)
        ]
    wanted = ask.text("find")
    found = next((n for n, row in enumerate(rows) if row.snapshot.id == wanted), None)
    return Data(
        {
            "total": len(rows),
            "start": start,
            "width": 1 + max((row.lane for row in rows), default=0),
            "rows": [_row(row, refs) for row in rows[start : start + count]],
            "matches": matches[:1000],
            "found": found,
        }
    )


def _rows(ask: Ask, chosen: str) -> list[GraphRow]:
    shown = ask.shown
    if chosen:
        snapshots = list(shown.repository.ancestry(snapshot_id=ask.snapshot_id))
        return lay_out(snapshots, ask.snapshot_id)
    main = context_of(shown.repository).refs.branches().get("main")
    return lay_out(shown.snapshots(), None if main is None else str(main))


def _row(row: GraphRow, refs: Mapping[str, list[tuple[str, str]]]) -> dict[str, Any]:
    snapshot = row.snapshot
    head = snapshot.message.strip().partition("\n")[0]
    return {
        "id": snapshot.id,
        "lane": row.lane,
        "colour": row.colour,
        "lines": [list(line) for line in row.lines[:MOST_LINES]],
        "merge": len(row.parents) > 1,
        "time": snapshot.written_at.isoformat(),
        "message": head if len(head) <= 200 else head[:199] + "…",
        "refs": [{"kind": kind, "name": name} for kind, name in refs.get(snapshot.id, [])[:12]],
    }


def _touches(ask: Ask, node: ArrayNode) -> Touches | PendingWork:
    key = ("touches", ask.snapshot_id, node.id)
    return ask.long(key, lambda: touches(ask.shown, ask.snapshot_id, node.id, ask.limits), PATIENCE)


def chunks(ask: Ask) -> Answer:
    """Where the chunks of an array are, as a map."""
    state, node = ask.session.state, ask.session.state.array(ask.path)
    axes = map_axes(
        node.grid, ask.limits.map_side, ask.optional("y"), ask.optional("x"), ask.numbered("c")
    )
    table = bounded_table(state, node, ask.limits)
    values = {**as_data(axes, node), **stored_map(table, axes)}
    if ask.text("by") in ("age", "commit"):
        found = _touches(ask, node)
        if isinstance(found, PendingWork):
            return Data({"pending": True}, status=202)
        values["commits"] = [each.as_data() for each in found.found[:2000]]
        values["written"] = written_map(
            [each.chunks for each in found.found[:2000]], table.coords, axes
        )
    return Data(values, ask.is_fixed)


def chunk(ask: Ask) -> Answer:
    """Where one chunk is."""
    state, node = ask.session.state, ask.session.state.array(ask.path)
    index = _index(ask)
    if not node.holds(index):
        raise InvalidInputError(f"chunk {list(index)} is outside the grid")
    return Data({"chunk": list(index), **reference(state.chunk_ref(node, index))}, ask.is_fixed)


def changed(ask: Ask) -> Answer:
    """Which chunks of an array differ between two versions, as a map."""
    old, new = ask.resolve(ask.text("a")), ask.resolve(ask.text("b"))
    first, last = ask.shown.session(old).state, ask.shown.session(new).state
    node = last.array(ask.path)
    axes = map_axes(
        node.grid, ask.limits.map_side, ask.optional("y"), ask.optional("x"), ask.numbered("c")
    )
    table = bounded_table(last, node, ask.limits)
    earlier = same_node(first, node)
    if isinstance(earlier, ArrayNode):
        bounded_table(first, earlier, ask.limits)
        found = differing_chunks(first, earlier, last, node)
    else:
        found = table.coords.astype(np.int64)
    values = {**as_data(axes, node), **stored_map(table, axes)}
    values["changed"] = changed_map(found, axes)
    values["total"] = len(found)
    return Data(values, ask.text("a") == old and ask.text("b") == new)


def commits(ask: Ask) -> Answer:
    """The commits that touched an array, newest first."""
    node = ask.session.state.array(ask.path)
    found = _touches(ask, node)
    if isinstance(found, PendingWork):
        return Data({"pending": True}, status=202)
    values = {"commits": [each.as_data() for each in found.found[:2000]], "cut": found.is_cut}
    return Data(values, ask.is_fixed)


def plane(ask: Ask) -> Answer:
    """A plane or a line of an array, as binary numbers."""
    ndim = len(ask.session.state.array(ask.path).shape)
    shown = tuple(axis for axis in (ask.optional("y"), ask.optional("x")) if axis is not None)
    if ask.text("all") != "1" and not shown and ndim:
        shown = (ndim - 2, ndim - 1) if ndim > 1 else (0,)
    windows = {}
    for axis, start in ask.numbered("s").items():
        windows[axis] = (start, ask.number(f"e{axis}", start + 1))
    request = SliceRequest(
        shown,
        ask.numbered("i"),
        windows,
        min(max(1, ask.number("most", 256)), 4096),
        decode=ask.text("raw") != "1",
    )
    found = read_view(ask.session, ask.path, request, ask.limits)
    return Binary(found.packed(), ask.is_fixed)


def cell(ask: Ask) -> Answer:
    """One cell, in full."""
    raw = ask.text("raw") == "1"
    text = exact_value(ask.session, ask.path, _index(ask), ask.limits, decode=not raw)
    return Data({"value": text}, ask.is_fixed)


def _index(ask: Ask) -> tuple[int, ...]:
    parts = [part for part in ask.text("index").split(",") if part]
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InvalidInputError("an index is written 0,3,1")
    return tuple(map(int, parts))


CALLS: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "graph": graph,
    "chunks": chunks,
    "chunk": chunk,
    "changed": changed,
    "commits": commits,
    "values": plane,
    "value": cell,
}
"""Questions of scripts by their address below `api/`."""
