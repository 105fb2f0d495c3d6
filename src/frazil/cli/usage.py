"""How much is stored: by array of a snapshot, by snapshot of a history, by kind of object."""

from __future__ import annotations

from typing import Any

from frazil.cli.answers import Answer, Screen, styled, working
from frazil.cli.places import find_node, open_place, open_whole
from frazil.cli.text import exact, moment, one_line, short, size
from frazil.ids import SnapshotId, is_below
from frazil.maintenance.space import (
    SnapshotUsage,
    Usage,
    array_usage,
    objects_by_kind,
    snapshot_usage,
)
from frazil.maintenance.stats import chunk_storage_stats
from frazil.model.history import to_datetime

Described = dict[str, Any]


def of_snapshot(url: str, path: str) -> Answer:
    """What each array of a snapshot stores."""
    state = open_place(url).state()
    find_node(state, path)
    nodes = [n for n in state.arrays() if n.path == path or is_below(n.path, path)]
    used: dict[str, Usage] = {}
    with working("Reading manifests") as say:
        for node in sorted(nodes, key=lambda node: node.path):
            say(node.path)
            used[node.path] = array_usage(state, node)
    total = sum(used.values(), Usage())
    data = {
        "snapshot_id": str(state.base_id),
        "path": path,
        "arrays": [{"path": name, **_described(usage)} for name, usage in used.items()],
        "total": _described(total),
    }

    def show(screen: Screen) -> None:
        rows = [_row(usage, name) for name, usage in used.items()]
        screen.table(
            ("stored#", "chunks#", "native#", "virtual#", "inline#", "array"),
            [*rows, _row(total, "total")],
        )

    return Answer(data, show)


def _described(usage: Usage) -> Described:
    return {
        "chunks": usage.chunks,
        "stored_bytes": usage.stored_bytes,
        "native_bytes": usage.native_bytes,
        "virtual_bytes": usage.virtual_bytes,
        "inline_bytes": usage.inline_bytes,
    }


def _row(usage: Usage, *names: Any) -> list[Any]:  # noqa: ANN401  (text or styled text)
    return [
        styled(size(usage.stored_bytes), "bold"),
        f"{usage.chunks:,}",
        size(usage.native_bytes),
        size(usage.virtual_bytes),
        size(usage.inline_bytes),
        *names,
    ]


def of_snapshots(url: str) -> Answer:
    """What each snapshot of a history refers to, and what it added."""
    place = open_place(url)
    context = place.repository.context
    lineage = list(context.refs.ancestry(SnapshotId.parse(place.snapshot_id())))[::-1]
    found: list[SnapshotUsage] = []
    with working("Reading snapshots") as say:
        for each in snapshot_usage(context.storage, lineage):
            found.append(each)
            say(f"{len(found)} of {len(lineage)}")
    found.reverse()
    data = {
        "snapshots": [
            {
                "id": str(each.entry.id),
                "written_at": exact(to_datetime(each.entry.flushed_at)),
                "message": each.entry.message,
                **_described(each.usage),
                "new_native_bytes": each.new_native_bytes,
            }
            for each in found
        ]
    }

    def show(screen: Screen) -> None:
        rows = [
            [
                styled(short(str(each.entry.id)), "yellow"),
                moment(to_datetime(each.entry.flushed_at)),
                size(each.new_native_bytes),
                size(each.usage.stored_bytes),
                f"{each.usage.chunks:,}",
                one_line(each.entry.message),
            ]
            for each in found
        ]
        screen.table(("snapshot", "written", "new#", "stored#", "chunks#", "message"), rows)

    return Answer(data, show)


def of_repository(url: str) -> Answer:
    """What all snapshots refer to, and what lies in the storage."""
    repository = open_whole(url)
    with working("Reading manifests") as say:
        stats = chunk_storage_stats(repository.context)
        say("listing objects")
        kinds = objects_by_kind(repository.context.storage)
    referenced = {
        "native_bytes": stats.native_bytes,
        "virtual_bytes": stats.virtual_bytes,
        "inline_bytes": stats.inlined_bytes,
    }
    objects = {
        name: {"objects": kind.objects, "bytes": kind.size_bytes} for name, kind in kinds.items()
    }

    def show(screen: Screen) -> None:
        screen.note("chunks that snapshots refer to, each range once")
        pairs = referenced.items()
        screen.fields((name.removesuffix("_bytes"), size(count)) for name, count in pairs)
        screen.note("objects in the storage")
        rows = [
            [styled(size(kind.size_bytes), "bold"), f"{kind.objects:,}", name]
            for name, kind in kinds.items()
        ]
        screen.table(("size#", "objects#", "kind"), rows)

    return Answer({"referenced": referenced, "objects": objects}, show)
