"""The pages about versions: overview, history, commits, tree, arrays, differences, operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from frazil.cli.places import find_node
from frazil.cli.status import event_name, update_data
from frazil.cli.values import codec_names, summary, usage, zarr_json
from frazil.errors import FrazilError, InvalidInputError
from frazil.masking import shown_data
from frazil.model.lanes import parents_of
from frazil.model.nodes import ArrayNode, Node
from frazil.model.values import SnapshotInfo
from frazil.transaction.opened import context_of
from frazil.web.asking import Answer, Ask, Page
from frazil.web.chunk_maps import bounded_table, dimension_names
from frazil.web.comparing import (
    Changes,
    NodeChange,
    changed_fields,
    changes_of,
    compare,
    same_node,
)
from frazil.web.work import PendingWork

UPDATE_ROWS: Final = 100
MOST_TEXTS: Final = 500
"""Attributes that one page shows."""
TEXT_OF_PAGE: Final = 1_000_000
"""Characters of all attributes that one page shows."""


def overview(ask: Ask) -> Answer:
    """What a repository is: branches, tags, sizes, growth."""
    shown = ask.shown
    repository = shown.repository
    context = context_of(repository)
    generation = context.generation
    status = repository.get_status() if generation.repo_object else None
    snapshots = shown.snapshots()
    known = {each.id: each for each in snapshots}
    branches, tags = context.refs.branches(), context.refs.tags()

    def named(found: Mapping[str, Any]) -> list[tuple[str, SnapshotInfo | None, str]]:
        first = islice(sorted(found.items()), ask.limits.rows)
        return [(name, known.get(str(at)), str(at)) for name, at in first]

    config = repository.config
    return Page(
        "overview.html",
        {
            "branches": named(branches),
            "tags": named(tags),
            "counts": {"branch": len(branches), "tag": len(tags)},
            "commits": len(snapshots),
            "newest": snapshots[0] if snapshots else None,
            "oldest": snapshots[-1] if snapshots else None,
            "spec": generation.number,
            "generation": generation.name,
            "availability": status.availability.name if status else "online",
            "reason": status.limited_availability_reason if status else None,
            "metadata": _metadata(repository.get_metadata() if generation.repo_object else {}),
            "containers": sorted(config.virtual_chunk_containers or {}),
            "nodes": shown.outline(ask.snapshot_id),
        },
    )


def _metadata(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    return _texts(metadata, 2000)


def _texts(found: Mapping[str, Any], most: int) -> list[tuple[str, str]]:
    """Names and values for people, as many as a page has room for."""
    left = TEXT_OF_PAGE
    rows = []
    for number, (name, value) in enumerate(found.items()):
        if number == MOST_TEXTS or left <= 0:
            rows.append(("…", f"{len(found) - number:,} more"))
            break
        text = _json(value, min(most, left))
        left -= len(name) + len(text)
        rows.append((name if len(name) <= most else name[:most] + "…", text))
    return rows


def _json(value: object, most: int) -> str:
    """A JSON value for people: without secrets, cut where it is long."""
    data = shown_data(value)
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    return text if len(text) <= most else text[:most] + "\n… (cut)"


def history_page(ask: Ask) -> Answer:
    """The graph; its rows come as the page asks for them."""
    return Page("history.html", {"chosen": ask.text("v"), **_names(ask)})


def _names(ask: Ask) -> dict[str, list[str]]:
    """The branches and tags that a page offers: the first ones, where there are very many."""
    repository, most = ask.shown.repository, ask.limits.rows
    return {
        "branches": sorted(repository.list_branches())[:most],
        "tags": sorted(repository.list_tags())[:most],
    }


def commit(ask: Ask) -> Answer:
    """One commit, and what it changed."""
    snapshot_id = ask.snapshot_id
    info = ask.shown.info(snapshot_id)
    files = ask.session.state.manifest_files.values()
    changes: Changes | PendingWork | None = None
    if info.parent_id is not None:
        parent_id = info.parent_id

        def work() -> Changes:
            found = ask.shown.repository.diff(
                from_snapshot_id=parent_id, to_snapshot_id=snapshot_id
            )
            return changes_of(found, ask.limits.rows)

        changes = ask.long(("commit", snapshot_id), work, 4)
    if isinstance(changes, PendingWork):
        return Page("working.html", {"what": "Looking what the commit changed"}, 202)
    tree = ask.session.state.tree
    return Page(
        "commit.html",
        {
            "info": info,
            "parents": parents_of(info),
            "refs": ask.shown.refs().get(snapshot_id, []),
            "metadata": _metadata(info.metadata),
            "files": len(files),
            "file_bytes": sum(each.size_bytes for each in files),
            "references": sum(each.num_chunk_refs for each in files),
            "changes": changes,
            "arrays": {
                path
                for path in (changes.chunks if changes else ())
                if isinstance(tree.get(path), ArrayNode)
            },
        },
    )


def tree(ask: Ask) -> Answer:
    """The hierarchy of a version, below a group."""
    state, start = ask.session.state, ask.path
    node = find_node(state, start)
    if isinstance(node, ArrayNode):
        return array(ask)
    outline = ask.shown.outline(ask.snapshot_id)
    first = max(0, ask.number("from", 0))
    found = map(state.tree.get, outline.below(start, first, ask.limits.nodes))
    page = [each for each in found if each is not None]
    depth = start.rstrip("/").count("/")
    return Page(
        "tree.html",
        {
            "path": start,
            "nodes": [(each.path.rstrip("/").count("/") - depth, _summary(each)) for each in page],
            "first": first,
            "total": outline.count_below(start),
            "step": ask.limits.nodes,
            "attributes": _attributes(node, ask.limits.text),
            **_version(ask),
        },
    )


def _summary(node: Node) -> dict[str, Any]:
    """What a listing shows; a node whose document is damaged is shown with the reason."""
    try:
        return summary(node)
    except FrazilError as error:
        return {"path": node.path, "type": "damaged", "error": str(error)}


def _attributes(node: Node, most: int) -> list[tuple[str, str]]:
    found = zarr_json(node).get("attributes")
    if not isinstance(found, dict):
        return []
    return _texts(found, most)


def _version(ask: Ask) -> dict[str, Any]:
    """What every page about a version shows of it."""
    return {
        "version": ask.version,
        "snapshot_id": ask.snapshot_id,
        "info": ask.shown.info(ask.snapshot_id),
        **_names(ask),
    }


def array(ask: Ask) -> Answer:
    """An array: what it is, and where its chunks are."""
    state, node = ask.session.state, ask.session.state.array(ask.path)
    meta = zarr_json(node)
    try:
        table = bounded_table(state, node, ask.limits)
        used: dict[str, Any] | None = usage(table)
    except InvalidInputError:
        used = None
    total = 1
    for count in node.grid:
        total *= count
    return Page(
        "array.html",
        {
            "path": node.path,
            "node": summary(node),
            "dims": dimension_names(node),
            "codecs": codec_names(meta),
            "codec_document": _json(meta.get("codecs"), ask.limits.text),
            "fill_value": _json(meta.get("fill_value"), 200),
            "usage": used,
            "grid_chunks": total,
            "attributes": _attributes(node, ask.limits.text),
            **_version(ask),
        },
    )


def data(ask: Ask) -> Answer:
    """The values of an array; the picture is drawn in the browser."""
    node = ask.session.state.array(ask.path)
    shape = [axis.array_length for axis in node.shape]
    about = {
        "path": node.path,
        "shape": shape,
        "dims": dimension_names(node),
        "snapshot": ask.snapshot_id,
    }
    return Page(
        "data.html", {"path": node.path, "about": about, "node": summary(node), **_version(ask)}
    )


def diff(ask: Ask) -> Answer:
    """What differs between two versions; neither need be an ancestor of the other."""
    before, after, old, new = _ends(ask)

    def work() -> tuple[list[NodeChange], int]:
        return compare(ask.shown.session(old), ask.shown.session(new), ask.limits)

    found = ask.long(("diff", old, new), work, 4)
    if isinstance(found, PendingWork):
        return Page("working.html", {"what": "Comparing the versions"}, 202)
    return Page(
        "diff.html",
        {
            "a": before,
            "b": after,
            "old": ask.shown.info(old),
            "new": ask.shown.info(new),
            "changes": found[0],
            "total": found[1],
            "text": _json,
            **_choices(ask),
        },
    )


def _ends(ask: Ask) -> tuple[str, str, str, str]:
    after = ask.text("b") or ask.shown.default_version()
    new = ask.resolve(after)
    before = ask.text("a")
    if before:
        return before, after, ask.resolve(before), new
    parent = ask.shown.info(new).parent_id
    old = new if parent is None else parent
    return old, after, old, new


def _choices(ask: Ask) -> dict[str, Any]:
    return {**_names(ask), "recent": ask.shown.snapshots()[:50]}


def diff_array(ask: Ask) -> Answer:
    """One array of two versions: changed chunks, and values before, after and their difference."""
    before, after, old, new = _ends(ask)
    first, last = ask.shown.session(old), ask.shown.session(new)
    node = last.state.array(ask.path)
    earlier = same_node(first.state, node)
    has_old = isinstance(earlier, ArrayNode)
    shape = [axis.array_length for axis in node.shape]
    about = {
        "path": node.path,
        "shape": shape,
        "dims": dimension_names(node),
        "snapshot": new,
        "before": {"path": earlier.path, "snapshot": old} if has_old and earlier else None,
        "before_shape": [axis.array_length for axis in earlier.shape]
        if isinstance(earlier, ArrayNode)
        else None,
    }
    return Page(
        "diff_array.html",
        {
            "a": before,
            "b": after,
            "old": ask.shown.info(old),
            "new": ask.shown.info(new),
            "path": node.path,
            "about": about,
            "node": summary(node),
            "fields": changed_fields(earlier, node) if earlier is not None else (),
            "text": _json,
        },
    )


def operations(ask: Ask) -> Answer:
    """Everything that was done to the repository."""
    first = max(0, ask.number("from", 0))
    if not context_of(ask.shown.repository).generation.repo_object:
        return Page("operations.html", {"updates": [], "has_log": False, "first": 0, "more": False})
    found = list(islice(ask.shown.repository.ops_log(), first, first + UPDATE_ROWS + 1))
    return Page(
        "operations.html",
        {
            "updates": [
                (each.updated_at, event_name(each), update_data(each)["details"])
                for each in found[:UPDATE_ROWS]
            ],
            "has_log": True,
            "first": first,
            "step": UPDATE_ROWS,
            "more": len(found) > UPDATE_ROWS,
        },
    )


PAGES: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "": overview,
    "history": history_page,
    "commit": commit,
    "tree": tree,
    "array": array,
    "data": data,
    "diff": diff,
    "diff/array": diff_array,
    "operations": operations,
}
"""Pages of a repository by their address below its own."""
