"""What notebooks show of a session: its nodes, and where the chunks of an array are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Final

from frazil.drawing.cells import SIDE, cell_map, map_axes
from frazil.drawing.markup import Html, escaped, fields, first, folded, note, table
from frazil.errors import FrazilError
from frazil.model.chunk_map import stored_map
from frazil.model.documents import document_of
from frazil.model.nodes import ArrayNode, Node
from frazil.transaction.working import WorkingState

MOST_NODES: Final = 30
"""Nodes that a notebook shows."""
MOST_REFERENCES: Final = 1_000_000
"""References of an array that are read to draw where its chunks are."""
COLOURS: Final = ("", "#b8860b", "#2e86ab", "#8a5cc2", "#888888")
"""of inline, native, virtual and several kinds of chunks, by their numbers in a map"""
WORDS: Final = ("no chunk", "inline", "native", "virtual", "several kinds")


def views(parts: Iterable[Html]) -> Iterator[Html]:
    """Pieces of a view; one that cannot be read is a remark, for a view must never fail."""
    found = iter(parts)
    while True:
        try:
            part = next(found)
        except StopIteration:
            return
        except (FrazilError, OSError, ValueError) as error:
            yield note(f"cannot be shown: {error}")
            return
        yield part


def node_views(state: WorkingState) -> Iterator[Html]:
    """The nodes right below the root, with shapes and types."""
    tree = state.tree
    names, more = first(sorted(tree.children("/")), MOST_NODES)
    rows = [
        [escaped(each) for each in (f"/{name}", *_facts(node))]
        for name in names
        if (node := tree.get(f"/{name}")) is not None
    ]
    total = f"{len(tree):,} node{'s' if len(tree) != 1 else ''}"
    shown = table(("path", "kind", "shape", "type"), rows) if rows else note("nothing below /")
    yield folded(total + (f", {more:,} more below /" if more else ""), shown, is_open=True)


def _facts(node: Node) -> tuple[str, str, str]:
    if not isinstance(node, ArrayNode):
        return "group", "", ""
    names = node.dimension_names or (None,) * len(node.shape)
    axes = (
        f"{name}: {dim.array_length:,}" if name else f"{dim.array_length:,}"
        for name, dim in zip(names, node.shape, strict=True)
    )
    return "array", f"({', '.join(axes)})", _type_of(node)


def _type_of(node: ArrayNode) -> str:
    try:
        found = document_of(node).get("data_type")
    except FrazilError:
        return "damaged"
    return str(found.get("name")) if isinstance(found, Mapping) else str(found)


def chunk_view(state: WorkingState, node: ArrayNode) -> Iterator[Html]:
    """The grid of an array, coloured by where its chunks are."""
    files = state.manifest_files
    count = sum(files[ref.id].num_chunk_refs for ref in node.manifests if ref.id in files)
    if count > MOST_REFERENCES:
        yield note(f"{count:,} references are too many for a picture")
        return
    axes = map_axes(node.grid, SIDE)
    chunks = state.table(node)
    found = stored_map(chunks, axes)
    names = node.dimension_names or (None,) * len(node.shape)
    down, across = ("" if n is None else names[n] or f"axis {n}" for n in (axes.y, axes.x))
    legend = {COLOURS[n]: WORDS[n] for n in sorted({*found["kind"]} - {0})}
    yield fields([("stored", escaped(f"{len(chunks):,} of {prod(node.grid):,} chunks"))])
    yield cell_map(axes, [COLOURS[n] or None for n in found["kind"]], (down, across), legend)
