"""What happened to a repository: `log`, `show` and `diff`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from frazil.cli.answers import Answer, Screen, print_json, styled
from frazil.cli.arguments import Authorize, Limit, Url
from frazil.cli.changes import diff_data, draw_diff
from frazil.cli.commands import add_command
from frazil.cli.places import OpenedUrl, open_place
from frazil.cli.text import counted, exact, one_line, second_text, short, size
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import MAIN
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from frazil.model.values import SnapshotInfo
    from frazil.repository import Repository

T = TypeVar("T")
Described = dict[str, Any]
Kind = Literal["branch", "tag"]
PANEL: Final = "Look at history"
KINDS: Final[tuple[Kind, ...]] = ("branch", "tag")


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for name, work in {"log": log, "show": show, "diff": diff}.items():
        add_command(app, name, work, PANEL)


# --- log ---


def log(
    url: Url,
    limit: Limit = 20,
    graph: Annotated[
        bool, typer.Option("--graph", help="Draw all branches and tags, or one ref.")
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Write that drawing as an SVG picture."),
    ] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print that drawing as a Mermaid flowchart.")
    ] = False,
) -> Answer:
    """List the snapshots of a ref, newest first."""

    place = open_place(url)
    if graph or mermaid or svg is not None:
        return _graph(place, svg, mermaid=mermaid)
    if place.ref is None and MAIN not in place.repository.list_branches():
        history = iter(place.repository.list_snapshots())  # G1 need not have branches
    else:
        history = place.repository.ancestry(snapshot_id=place.snapshot_id())
    shown, is_cut = first_items(history, limit)
    names = _names(place)

    def draw(screen: Screen) -> None:
        screen.table(("snapshot", "written", "message"), [_row(info, names) for info in shown])
        tell_cut(is_cut=is_cut)

    return Answer(_snapshots(shown, names, is_cut=is_cut), draw)


def first_items(found: Iterable[T], limit: int) -> tuple[list[T], bool]:
    """At most so many, all for 0, and whether there are more."""
    taken = list(islice(found, limit + 1 if limit else None))
    return (taken[:limit], len(taken) > limit) if limit else (taken, False)


def tell_cut(*, is_cut: bool) -> None:
    """Say on standard error that a list was cut."""
    if is_cut:
        print("there are more: --limit 0 shows all", file=sys.stderr)


def _snapshots(
    found: Iterable[SnapshotInfo], names: dict[str, list[Described]], *, is_cut: bool
) -> Described:
    shown = [{**snapshot_data(info), "refs": names.get(info.id, [])} for info in found]
    return {"snapshots": shown, "truncated": is_cut}


def snapshot_data(info: SnapshotInfo) -> Described:
    """A snapshot as JSON shows it everywhere."""
    return {
        "id": info.id,
        "parent_id": info.parent_id,
        "written_at": exact(info.written_at),
        "message": info.message,
        "metadata": info.metadata,
    }


def targets(repository: Repository, kind: Kind) -> dict[str, str]:
    """What branches, or tags, point to."""
    refs = context_of(repository).refs
    found = refs.branches() if kind == "branch" else refs.tags()
    return {name: str(target) for name, target in sorted(found.items())}


def _names(place: OpenedUrl) -> dict[str, list[Described]]:
    """Branches and tags by the snapshot they point to."""
    found: dict[str, list[Described]] = {}
    for kind in KINDS:
        for name, target in targets(place.repository, kind).items():
            found.setdefault(target, []).append({"type": kind, "name": name})
    return found


def _row(info: SnapshotInfo, names: dict[str, list[Described]]) -> list[Any]:
    from rich.text import Text

    message = Text(one_line(info.message))
    if refs := names.get(info.id):
        message = Text.assemble(_label(refs), " ", message)
    return [styled(short(info.id), "yellow"), second_text(info.written_at), message]


def _label(refs: list[Described]) -> Any:  # noqa: ANN401  (rich is not imported yet)
    from rich.text import Text

    shown = {"branch": ("", "bold green"), "tag": ("tag ", "bold cyan")}
    parts = [styled(shown[ref["type"]][0] + ref["name"], shown[ref["type"]][1]) for ref in refs]
    return Text.assemble("(", Text(", ").join(parts), ")")


def _graph(place: OpenedUrl, file: Path | None, *, mermaid: bool) -> Answer:
    chosen = place.snapshot_id() if place.ref is not None else None
    repository, names = place.repository, _names(place)
    starts = names if chosen is None else [chosen]
    known = {info.id: info for tip in starts for info in repository.ancestry(snapshot_id=tip)}
    newest = sorted(known.values(), key=lambda info: info.written_at, reverse=True)
    if file is not None:
        _write(file, repository.ancestry_graph(snapshot_id=chosen).svg())

    def draw(screen: Screen) -> None:
        has_colour = screen.console.color_system is not None and not screen.console.no_color
        if mermaid:
            screen.console.file.write(repository.ancestry_graph(snapshot_id=chosen).mermaid())
        elif file is not None:
            screen.line(f"wrote {file}")
        else:
            drawing = repository.ancestry_graph(snapshot_id=chosen, plain=not has_colour)
            screen.console.file.write(f"{drawing}\n")

    return Answer(_snapshots(newest, names, is_cut=False), draw)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidInputError(f"cannot write {str(file)!r}: {reason}") from error


# --- show ---


def show(url: Url) -> Answer:
    """Tell everything about one snapshot, and what it changed."""

    place = open_place(url)
    repository, snapshot_id = place.repository, place.snapshot_id()
    info = repository.lookup_snapshot(snapshot_id)
    files = repository.list_manifest_files(snapshot_id)
    changes = (
        None
        if info.parent_id is None
        else repository.diff(from_snapshot_id=info.parent_id, to_snapshot_id=snapshot_id)
    )
    refs = _names(place).get(snapshot_id, [])
    data = {
        **snapshot_data(info),
        "refs": refs,
        "manifests": {
            "files": len(files),
            "bytes": sum(file.size_bytes for file in files),
            "chunk_references": sum(file.num_chunk_refs for file in files),
        },
        "changes": None if changes is None else diff_data(changes),
    }

    def draw(screen: Screen) -> None:
        manifests = data["manifests"]
        screen.fields(
            [
                ("snapshot", styled(info.id, "yellow")),
                ("parent", info.parent_id or "none"),
                ("written", second_text(info.written_at)),
                *([("refs", _label(refs))] if refs else []),
                (
                    "manifests",
                    f"{counted(manifests['files'], 'file')}, {size(manifests['bytes'])}, "
                    f"{counted(manifests['chunk_references'], 'chunk reference')}",
                ),
            ]
        )
        screen.line("\n", *(f"    {line}\n" for line in info.message.splitlines()))
        if info.metadata:
            screen.note("metadata")
            print_json(screen, info.metadata)
        if changes is not None:
            draw_diff(screen, changes)

    return Answer(data, draw)


# --- diff ---


def diff(
    url: Url,
    first: Annotated[
        str | None, typer.Argument(metavar="FROM", help="A version.", show_default=False)
    ] = None,
    last: Annotated[
        str | None, typer.Argument(metavar="TO", help="A later version.", show_default=False)
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Compare cells; any two versions will do.")
    ] = False,
    path: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="PATH", help="With --values: only this; may be repeated."),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=0, help="With --values: cells to show of each array.")
    ] = 5,
    authorize: Authorize = None,
) -> Answer:
    """Tell what changed from one version to a later one.

    URL FROM TO compares two; URL@FROM TO does the same; URL FROM compares with main; and
    URL@REF alone tells what that snapshot itself changed.
    """

    place = open_place(url, authorize)
    begin, end = _ends(place, first, last)
    if values:
        from frazil.cli.value_diff import of_values

        return of_values(place, begin, end, path, samples)
    _require_line(place, begin, end)
    changes = place.repository.diff(from_snapshot_id=begin, to_snapshot_id=end)
    data = {"from": begin, "to": end, **diff_data(changes)}

    def draw(screen: Screen) -> None:
        screen.note(f"from {short(begin)} to {short(end)}")
        draw_diff(screen, changes)

    return Answer(data, draw)


def _ends(place: OpenedUrl, first: str | None, last: str | None) -> tuple[str, str]:
    if first is not None and last is not None:
        if place.ref is not None:
            raise InvalidInputError("diff compares two versions: leave out the one in the URL")
        return place.named(first), place.named(last)
    if first is None:
        here = place.snapshot_id()
        parent = place.repository.lookup_snapshot(here).parent_id
        if parent is None:
            raise InvalidInputError(
                f"snapshot {here} is the first: there is nothing to compare it with"
            )
        return parent, here
    if place.ref is None:
        return place.named(first), place.snapshot_id()
    return place.snapshot_id(), place.named(first)


def _require_line(place: OpenedUrl, begin: str, end: str) -> None:
    """Refuse two versions of which the first is no ancestor of the second, and say what to do."""
    if begin == end:
        raise InvalidInputError(
            f"both versions are snapshot {begin}", kind=ErrorKind.INVALID_REF_TYPE
        )
    after = [info.id for info in place.repository.ancestry(snapshot_id=end)]
    if begin in after:
        return
    before = [info.id for info in place.repository.ancestry(snapshot_id=begin)]
    if end in before:
        advice = f"it is the other way round: diff URL {short(end)} {short(begin)}"
    else:
        shared = set(after)
        base = next((one for one in before if one in shared), None)
        advice = (
            "they have no history in common"
            if base is None
            else f"they part at {short(base)}: compare each with that"
        )
    raise InvalidInputError(
        f"snapshot {short(begin)} is no ancestor of {short(end)}; {advice}",
        kind=ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF,
    )
