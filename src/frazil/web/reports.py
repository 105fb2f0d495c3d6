"""Pages of the explorer that may be slow: storage use, garbage, and fsck."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from frazil.cli.arguments import parse_time
from frazil.errors import InvalidInputError
from frazil.fsck.checking import fsck
from frazil.maintenance.garbage_plan import plan_garbage
from frazil.maintenance.sharing import BY, shares
from frazil.maintenance.space import chunk_storage_stats, growth, objects_by_kind
from frazil.model.history import to_datetime
from frazil.transaction.opened import context_of
from frazil.web.asking import Answer, Ask, Page
from frazil.web.work import PendingWork

PATIENCE: Final = 0.4
"""Seconds that a page waits for a report before it says that it is being made."""
SHOWN_KEYS: Final = 200
POINTS: Final = 400


def storage_page(ask: Ask) -> Answer:
    """Storage use by array, snapshot or branch."""
    return Page("storage.html", {"by": _by(ask), "choices": BY})


def garbage(ask: Ask) -> Answer:
    """What garbage collection would delete."""
    return Page("garbage.html", {"older": ask.text("older", "7d")})


def checks(ask: Ask) -> Answer:
    """Whether the repository breaks rules of the format."""
    return Page("fsck.html", {"run": ask.text("run") == "1", "deep": ask.text("deep") == "1"})


def _by(ask: Ask) -> str:
    by = ask.text("by", "array")
    if by not in BY:
        raise InvalidInputError(f"by is one of {', '.join(BY)}, not {by!r}")
    return by


def _report(
    ask: Ask, template: str, key: tuple[object, ...], work: Callable[[], dict[str, Any]]
) -> Answer:
    state = ask.shown.state_key()
    found = ask.long((template, *key), work, PATIENCE, state=state, report=True)
    if isinstance(found, PendingWork):
        return Page("panels/working.html", {}, 202)
    return Page(template, found)


def growth_panel(ask: Ask) -> Answer:
    """Bytes that the repository refers to, commit by commit."""
    context = context_of(ask.shown.repository)

    def work() -> dict[str, Any]:
        points, total = [], 0
        for each in growth(context):
            total += each.new_native_bytes + each.new_manifest_bytes
            points.append((to_datetime(each.entry.flushed_at), total))
        step = max(1, len(points) // POINTS)
        kept = points[::step]
        if points and kept[-1] != points[-1]:
            kept.append(points[-1])
        return {"points": kept, "total": total}

    return _report(ask, "panels/growth.html", (), work)


def sizes_panel(ask: Ask) -> Answer:
    """What is stored, by kind of chunk and by kind of object."""
    context = context_of(ask.shown.repository)

    def work() -> dict[str, Any]:
        return {
            "stats": chunk_storage_stats(context),
            "kinds": objects_by_kind(context.storage),
        }

    return _report(ask, "panels/sizes.html", (), work)


def shares_panel(ask: Ask) -> Answer:
    """What each array, snapshot or branch refers to, alone and with others."""
    by, context = _by(ask), context_of(ask.shown.repository)

    def work() -> dict[str, Any]:
        found = shares(context, by)  # type: ignore[arg-type]  # it is one of BY
        return {"by": by, "owners": found.owners[: ask.limits.rows], "total": found.total}

    return _report(ask, "panels/shares.html", (by,), work)


def garbage_panel(ask: Ask) -> Answer:
    """The plan of a collection."""
    older, context = ask.text("older", "7d"), context_of(ask.shown.repository)
    cutoff = parse_time(older)

    def work() -> dict[str, Any]:
        plan = plan_garbage(context, cutoff, how="full")
        keys = []
        for number, key in enumerate(plan.keys()):
            if number >= SHOWN_KEYS:
                break
            keys.append(key)
        return {"plan": plan, "keys": keys}

    return _report(ask, "panels/garbage.html", (older,), work)


def fsck_panel(ask: Ask) -> Answer:
    """The report of a check."""
    deep, context = ask.text("deep") == "1", context_of(ask.shown.repository)

    def work() -> dict[str, Any]:
        return {"report": fsck(context, deep=deep, max_findings=200)}

    return _report(ask, "panels/fsck.html", (deep,), work)


PAGES: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "storage": storage_page,
    "garbage": garbage,
    "fsck": checks,
    "panel/growth": growth_panel,
    "panel/sizes": sizes_panel,
    "panel/shares": shares_panel,
    "panel/garbage": garbage_panel,
    "panel/fsck": fsck_panel,
}
