"""How much is stored: by array of a snapshot, by snapshot of a history, by kind of object."""

from __future__ import annotations

from typing import Any, Final

from frazil.cli.answers import Answer, Screen, styled
from frazil.cli.arguments import parse_time
from frazil.cli.places import find_node, open_place, open_whole
from frazil.cli.running import running
from frazil.cli.text import exact, one_line, second_text, short, size
from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId, is_below
from frazil.maintenance.sharing import Share, shares
from frazil.maintenance.space import (
    SnapshotUsage,
    Usage,
    array_usage,
    chunk_storage_stats,
    growth,
    objects_by_kind,
    snapshot_usage,
)
from frazil.model.history import to_datetime
from frazil.progress import Progress
from frazil.transaction.opened import context_of

Described = dict[str, Any]
USED: Final = ("chunks", "stored_bytes", "native_bytes", "virtual_bytes", "inline_bytes")
FREED: Final = ("reclaimable", "stranded")
OWNED: Final = ("referenced", "unique", "shared", *FREED, "inline", "virtual")
ADDED: Final = ("snapshots", "native_bytes", "inline_bytes", "manifest_bytes", "total_bytes")
STEPS: Final = {"snapshot": "", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}
"""How steps of time are written."""


def of_snapshot(url: str, path: str) -> Answer:
    """What each array of a snapshot stores."""
    state = open_place(url).state()
    find_node(state, path)
    nodes = [n for n in state.arrays() if n.path == path or is_below(n.path, path)]
    used: dict[str, Usage] = {}
    with running("Reading manifests") as tell:
        for node in sorted(nodes, key=lambda node: node.path):
            used[node.path] = array_usage(state, node)
            tell(Progress("arrays", len(used), len(nodes)))
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
    return {name: getattr(usage, name) for name in USED}


def _row(usage: Usage, name: str) -> list[Any]:
    chunks, stored, *rest = _described(usage).values()
    return [styled(size(stored), "bold"), f"{chunks:,}", *map(size, rest), name]


def of_snapshots(url: str) -> Answer:
    """What each snapshot of a history refers to, and what it added."""
    place = open_place(url)
    context = context_of(place.repository)
    lineage = list(context.refs.ancestry(SnapshotId.parse(place.snapshot_id())))[::-1]
    found: list[SnapshotUsage] = []
    with running("Reading snapshots") as tell:
        for each in snapshot_usage(context.assets, lineage):
            found.append(each)
            tell(Progress("snapshots", len(found), len(lineage)))
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
                second_text(to_datetime(each.entry.flushed_at)),
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
    with running("Reading manifests") as tell:
        stats = chunk_storage_stats(context_of(repository))
        tell(Progress("listing objects"))
        kinds = objects_by_kind(context_of(repository).storage)
    counts = (stats.native_bytes, stats.virtual_bytes, stats.inlined_bytes)
    referenced = dict(zip(USED[2:], counts, strict=True))
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


def of_shares(url: str, by: str, older_than: str | None) -> Answer:
    """What arrays, snapshots or branches refer to, alone and with others, in all of history."""
    context = context_of(open_whole(url))
    cutoff = None if older_than is None else parse_time(older_than)
    with running("Reading manifests"):
        found = shares(context, by, older_than=cutoff)  # type: ignore[arg-type]  # it checks
    data = {
        "by": by,
        "older_than": None if cutoff is None else exact(cutoff),
        "owners": [_share_data(each) for each in found.owners],
        "total": _share_data(found.total),
    }

    def show(screen: Screen) -> None:
        columns = [name for name in OWNED if cutoff is not None or name not in FREED]
        rows = [_share_row(each, columns) for each in (*found.owners, found.total)]
        screen.table((*(f"{name}#" for name in columns), by), rows)

    return Answer(data, show)


def _share_data(share: Share) -> Described:
    sizes = {f"{name}_bytes": getattr(share, f"{name}_bytes") for name in OWNED}
    return {"name": share.name, "type": share.kind, "chunks": share.chunks, **sizes}


def _share_row(share: Share, columns: list[str]) -> list[Any]:
    sizes = [size(getattr(share, f"{name}_bytes")) for name in columns]
    name = short(share.name) if share.kind == "snapshot" else share.name
    detail = f"{name} (tag)" if share.kind == "tag" else name
    return [styled(sizes[0], "bold"), *sizes[1:], detail]


def of_growth(url: str, step: str) -> Answer:
    """What snapshots added, in the order in which they were made."""
    if step not in STEPS:
        raise InvalidInputError(f"--growth is one of {', '.join(STEPS)}, not {step!r}")
    context = context_of(open_whole(url))
    rows: dict[str, Described] = {}
    total = 0
    with running("Reading snapshots"):
        for each in growth(context):
            written = to_datetime(each.entry.flushed_at)
            name = written.strftime(STEPS[step]) if STEPS[step] else str(each.entry.id)
            row = rows.setdefault(name, {"step": name, "written_at": "", **dict.fromkeys(ADDED, 0)})
            row["written_at"] = exact(written)
            row["snapshots"] += 1
            for kind in ("native_bytes", "inline_bytes", "manifest_bytes"):
                row[kind] += getattr(each, f"new_{kind}")
            total += each.new_native_bytes + each.new_manifest_bytes
            row["total_bytes"] = total

    def show(screen: Screen) -> None:
        lines = [
            [
                short(row["step"]) if step == "snapshot" else row["step"],
                f"{row['snapshots']:,}",
                *(size(row[name]) for name in ADDED[1:-1]),
                styled(size(row["total_bytes"]), "bold"),
            ]
            for row in rows.values()
        ]
        columns = (step, "snapshots#", "native#", "inline#", "manifests#", "in all#")
        screen.table(columns, lines)

    return Answer({"by": step, "steps": list(rows.values())}, show)
