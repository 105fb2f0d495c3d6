"""What is in a snapshot: `ls`, `tree`, `stat`, `cat` and `du`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.answers import Answer, Screen, print_json, styled
from frazil.cli.arguments import Authorize, NodePath, Url, parse_index
from frazil.cli.commands import add_command
from frazil.cli.places import find_node, open_place
from frazil.cli.text import axes, counted, size
from frazil.errors import ErrorKind, InvalidInputError

if TYPE_CHECKING:
    from rich.tree import Tree

    from frazil.model.nodes import ArrayNode, Node
    from frazil.transaction.working import WorkingState

Described = dict[str, Any]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for name, work in (("ls", ls), ("tree", tree), ("stat", stat), ("cat", cat), ("du", du)):
        add_command(app, name, work, "Look at data")


# --- ls and tree ---


def ls(url: Url, path: NodePath = "/") -> Answer:
    """List the nodes directly below a group, or one array."""
    from frazil.cli.values import summary
    from frazil.model.nodes import ArrayNode

    state, start = open_place(url).state(), _path(path)
    node = find_node(state, start)
    below = [f"{start.rstrip('/')}/{name}" for name in state.tree.children(start)]
    shown = [node] if isinstance(node, ArrayNode) else [state.node(each) for each in sorted(below)]
    nodes = [summary(each) for each in shown]

    def show(screen: Screen) -> None:
        columns = ("name", "type", "dtype", "shape", "chunks", "dimensions")
        screen.table(columns, [_row(each) for each in nodes])

    data = {"snapshot_id": str(state.base_id), "path": start, "nodes": nodes}
    return Answer(data, show)


def _row(node: Described) -> list[Any]:
    name = node["path"].rpartition("/")[2]
    if node["type"] == "group":
        return [styled(f"{name}/", "bold blue"), "group", "", "", "", ""]
    dims = _dims(node)
    shape, chunks = axes(node["shape"]), axes(node["chunks"] or [])
    return [styled(name, "bold"), "array", node["dtype"], shape, chunks, dims]


def _dims(node: Described) -> str:
    return ", ".join(each or "·" for each in node["dimension_names"] or ())


def tree(
    url: Url,
    path: NodePath = "/",
    depth: Annotated[int, typer.Option(min=0, help="Levels to show; 0 shows all.")] = 0,
) -> Answer:
    """Draw the hierarchy."""
    from frazil.cli.values import summary
    from frazil.ids import is_below

    state, start = open_place(url).state(), _path(path)
    find_node(state, start)
    level = start.rstrip("/").count("/")
    shown = [
        node
        for node in sorted(state.tree, key=lambda node: node.path.split("/"))
        if (node.path == start or is_below(node.path, start))
        and (not depth or node.path.rstrip("/").count("/") - level <= depth)
    ]
    nodes = [summary(node) for node in shown]
    data = {"snapshot_id": str(state.base_id), "path": start, "nodes": nodes}
    return Answer(data, lambda screen: _draw(screen, start, nodes))


def _draw(screen: Screen, start: str, nodes: list[Described]) -> None:
    from rich.tree import Tree

    lines = {node["path"]: _label(node, is_top=node["path"] == start) for node in nodes}
    root = Tree(lines.pop(start, styled(start, "bold blue")), guide_style="dim")
    drawn: dict[str, Tree] = {start: root}
    for path, label in lines.items():
        above = path.rpartition("/")[0] or "/"
        drawn[path] = drawn.get(above, root).add(label)
    screen.console.print(root)


def _label(node: Described, *, is_top: bool) -> Any:  # noqa: ANN401  (rich is not imported yet)
    from rich.text import Text

    name = node["path"] if is_top else node["path"].rpartition("/")[2]
    if node["type"] == "group":
        return styled(name, "bold blue")
    dims = node["dimension_names"] or [None] * len(node["shape"])
    sides = [f"{dim}: {n}" if dim else str(n) for dim, n in zip(dims, node["shape"], strict=False)]
    return Text.assemble(
        styled(name, "bold"),
        " ",
        styled(node["dtype"], "green"),
        styled(f" ({', '.join(sides)})", ""),
    )


# --- stat ---


def stat(
    url: Url,
    path: NodePath = "/",
    chunk: Annotated[
        str | None,
        typer.Option(metavar="INDEX", help="One chunk, such as 0,3,1.", show_default=False),
    ] = None,
) -> Answer:
    """Tell everything about a node, or where one chunk is."""

    state, start = open_place(url).state(), _path(path)
    if chunk is not None:
        return _stat_chunk(state, start, chunk)
    data = _details(state, find_node(state, start))

    def show(screen: Screen) -> None:
        screen.fields(_detail_lines(data))
        if data["attributes"]:
            screen.note("attributes")
            print_json(screen, data["attributes"])

    return Answer(data, show)


def _details(state: WorkingState, node: Node) -> Described:
    from frazil.cli.values import codec_names, summary, usage, zarr_json
    from frazil.model.nodes import ArrayNode

    meta = zarr_json(node)
    about: Described = {"snapshot_id": str(state.base_id), "id": str(node.id), **summary(node)}
    if isinstance(node, ArrayNode):
        table = state.table(node)
        about |= {
            "codecs": codec_names(meta),
            "fill_value": meta.get("fill_value"),
            "grid": list(node.grid),
            "chunks_total": prod(node.grid),
            "chunks_written": len(table),
            "manifests": [str(ref.id) for ref in node.manifests],
            "storage": usage(table),
            "statistics": _coverage(state, node),
        }
    else:
        about["children"] = len(state.tree.children(node.path))
    return {**about, "attributes": meta.get("attributes") or {}}


def _coverage(state: WorkingState, node: ArrayNode) -> Described | None:
    """How many of the written chunks have statistics; None where none can have some."""
    from frazil.statistics.analyzing import coverage

    found = coverage(state, node)
    return None if found is None else {"chunks": found[0], "possible": found[1]}


def _detail_lines(data: Described) -> list[tuple[str, Any]]:
    lines: list[tuple[str, Any]] = [
        ("path", styled(data["path"], "bold")),
        ("type", data["type"]),
        ("node id", data["id"]),
    ]
    if data["type"] == "group":
        return [*lines, ("children", str(data["children"]))]
    lines += [
        ("dtype", data["dtype"]),
        ("shape", axes(data["shape"])),
        ("dimensions", _dims(data) or "not named"),
        ("chunks", axes(data["chunks"] or [])),
    ]
    if "inner_chunks" in data:
        lines.append(("in shards", axes(data["inner_chunks"])))
    written, total = data["chunks_written"], data["chunks_total"]
    lines += [
        ("codecs", ", ".join(data["codecs"])),
        ("fill value", str(data["fill_value"])),
        ("written", f"{written:,} of {counted(total, 'chunk')}"),
        ("manifests", str(len(data["manifests"]))),
    ]
    for kind, used in data["storage"].items():
        if used["chunks"]:
            lines.append((kind, f"{counted(used['chunks'], 'chunk')}, {size(used['bytes'])}"))
    known = data["statistics"]
    if known is not None and written:
        lines.append(("statistics", f"{known['chunks']:,} of {counted(written, 'written chunk')}"))
    return lines


def _stat_chunk(state: WorkingState, path: str, chunk: str) -> Answer:
    from frazil.cli.values import reference

    node, index = state.array(path), parse_index(chunk)
    if not node.holds(index):
        raise InvalidInputError(
            f"chunk {list(index)} is outside the grid of {path!r}, which is {axes(node.grid)}",
            kind=ErrorKind.INVALID_CHUNK_INDEX,
        )
    data = {
        "snapshot_id": str(state.base_id),
        "path": path,
        "chunk": list(index),
        **reference(state.chunk_ref(node, index)),
    }

    def show(screen: Screen) -> None:
        shown = {**data, "chunk": ",".join(map(str, index))}
        screen.fields((name.replace("_", " "), str(value)) for name, value in shown.items())

    return Answer(data, show)


# --- cat ---


def cat(
    url: Url,
    path: NodePath,
    region: Annotated[
        str, typer.Option("--region", "-r", help="Cells to print, such as '0:3, :, 5'.")
    ] = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: index columns, value.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many cells.")] = 1000,
    authorize: Authorize = None,
) -> Answer:
    """Print the values of an array."""
    from frazil.cli.values import read_values

    return read_values(url, _path(path), region, limit, authorize, as_csv=as_csv)


# --- du ---


def du(
    url: Url,
    path: NodePath = "/",
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="By snapshot of the history instead.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="The whole repository, and its objects by kind.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="All of history by array, snapshot or branch: what each refers to, alone and "
            "with others.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --by: what expiry before this time would free."),
    ] = None,
    growth: Annotated[
        str | None,
        typer.Option(
            metavar="STEP", help="What was added over time, by snapshot, day, month or year."
        ),
    ] = None,
) -> Answer:
    """Tell how much each array stores."""
    from frazil.cli import usage

    if sum((snapshots, everything, by is not None, growth is not None)) > 1:
        raise InvalidInputError("choose one of --snapshots, --all, --by and --growth")
    if older_than is not None and by is None:
        raise InvalidInputError("--older-than needs --by array, snapshot or branch")
    if by is not None:
        return usage.of_shares(url, by, older_than)
    if growth is not None:
        return usage.of_growth(url, growth)
    if snapshots:
        return usage.of_snapshots(url)
    return usage.of_repository(url) if everything else usage.of_snapshot(url, _path(path))


# --- finding nodes ---


def _path(text: str) -> str:
    return "/" + text.strip("/")
