"""What changed between two snapshots, as data and as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.cli.answers import Screen, styled
from frazil.cli.text import counted

if TYPE_CHECKING:
    from frazil.model.values import Diff

Described = dict[str, Any]
SHOWN_CHUNKS: Final = 4
LABELS: Final = {
    "new_groups": ("+", "group", "green"),
    "new_arrays": ("+", "array", "green"),
    "deleted_groups": ("-", "group", "red"),
    "deleted_arrays": ("-", "array", "red"),
    "updated_groups": ("~", "group", "yellow"),
    "updated_arrays": ("~", "array", "yellow"),
}


def diff_data(changes: Diff) -> Described:
    """Changes as JSON shows them everywhere."""
    return {
        **{name: sorted(getattr(changes, name)) for name in LABELS},
        "moved_nodes": [list(pair) for pair in changes.moved_nodes],
        "updated_chunks": changes.updated_chunks,
    }


def draw_diff(screen: Screen, changes: Diff) -> None:
    """Changes for people: a line for each node."""
    if changes.is_empty():
        screen.note("nothing changed")
    for name, (mark, kind, colour) in LABELS.items():
        for path in sorted(getattr(changes, name)):
            what = f"  {kind}" if mark != "~" else f"  {kind} metadata"
            screen.line(styled(f"{mark} {path}", colour), styled(what, "dim"))
    for source, target in changes.moved_nodes:
        screen.line(styled(f"> {source} -> {target}", "magenta"), styled("  moved", "dim"))
    for path, chunks in changes.updated_chunks.items():
        first = " ".join(str(index).replace(" ", "") for index in chunks[:SHOWN_CHUNKS])
        more = " …" if len(chunks) > SHOWN_CHUNKS else ""
        detail = f"  {counted(len(chunks), 'chunk')}: {first}{more}"
        screen.line(styled(f"~ {path}", "yellow"), styled(detail, "dim"))
