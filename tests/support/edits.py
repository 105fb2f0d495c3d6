"""Edits of a small hierarchy, as a table: what two people may do to it at the same time.

Each edit is made through zarr, or is a move or shift of a session, of this package or of the
official one; and `redone` makes the same edit to a dictionary of keys, which is the model: it
knows of no snapshots, ids or logs. Imports nothing but zarr, for the peers import it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.errors import ContainsArrayError, ContainsGroupError
from zarr.storage import MemoryStore

State: TypeAlias = dict[str, bytes]
"""Keys of a Zarr store with their values."""
Change: TypeAlias = Callable[[zarr.Group], None]
Document: TypeAlias = dict[str, Any]


class ImpossibleError(Exception):
    """An edit cannot be made to what is there."""


IMPOSSIBLE = (ImpossibleError, ContainsArrayError, ContainsGroupError)
"""What is raised then: our own, or zarr's when the path of something new is taken."""


class Sessions(Protocol):
    """What edits are made with: a session of either package."""

    @property
    def store(self) -> Any: ...  # noqa: ANN401  (a store of either package)
    def move(self, from_path: str, to_path: str) -> None: ...
    def shift_array(self, array_path: str, chunk_offset: Any) -> Any: ...  # noqa: ANN401


S_co = TypeVar("S_co", bound=Sessions, covariant=True)


class Repositories(Protocol[S_co]):
    """A repository of either package."""

    def writable_session(self, branch: str) -> S_co: ...
    def rearrange_session(self, branch: str) -> S_co: ...


@dataclass(frozen=True)
class Edit:
    """One edit: a change through zarr, or moves of nodes, or a shift of an array's chunks."""

    change: Change | None = None
    moves: tuple[tuple[str, str], ...] = ()
    shift: int = 0
    """of the chunks of `a`"""
    replaces: bool = False
    """whether what was at its path is somebody else afterwards"""


def make_base(group: zarr.Group) -> None:
    """What there is before anybody edits."""
    a = group.create_array("a", shape=(8,), chunks=(2,), dtype="i4", fill_value=-1)
    a[:6] = range(6)
    y = group.create_group("g").create_array(
        "y", shape=(4,), chunks=(2,), dtype="i4", fill_value=-1
    )
    y[:] = 1
    group.create_group("h")


OF_THE_BASE = ("a", "g", "g/y", "h")


# --- kinds of edits ---


def array_of(group: zarr.Group, path: str) -> zarr.Array[Any]:
    """The array at a path, or an error that says so."""
    found = group.get(path)
    if not isinstance(found, zarr.Array):
        raise ImpossibleError(path)
    return found


def require_groups_above(group: zarr.Group, path: str) -> None:
    """Refuse paths below an array."""
    while path := path.rpartition("/")[0]:
        if isinstance(group.get(path), zarr.Array):
            raise ImpossibleError(path)


def write(path: str, start: int, stop: int, value: int) -> Edit:
    def change(group: zarr.Group) -> None:
        array = array_of(group, path)
        try:
            array[start:stop] = value
        except (ValueError, OverflowError) as error:
            # Stored chunks are of another size, or of a type that has no such value.
            raise ImpossibleError(path) from error

    return Edit(change)


def grow(by: int, value: int) -> Edit:
    def change(group: zarr.Group) -> None:
        array = array_of(group, "a")
        if array.ndim != 1:
            raise ImpossibleError("these edits are of arrays with one axis")
        old = array.shape[0]
        array.resize((old + by,))
        array[old:] = value

    return Edit(change)


def resize(*lengths: int) -> Edit:
    def change(group: zarr.Group) -> None:
        array = array_of(group, "a")
        if array.ndim != 1:
            raise ImpossibleError("these edits are of arrays with one axis")
        for length in lengths:
            array.resize((length,))

    return Edit(change)


def attribute(path: str, value: int) -> Edit:
    def change(group: zarr.Group) -> None:
        node = group.get(path) if path else group
        if node is None:
            raise ImpossibleError(path)
        node.attrs["k"] = value

    return Edit(change)


def remove(path: str) -> Edit:
    def change(group: zarr.Group) -> None:
        if path in group:
            del group[path]

    return Edit(change)


def array(path: str, value: int | None, length: int = 2, *, fill: int = -1, chunk: int = 2) -> Edit:
    """Create an array, in the place of what is there if the path is one of the base."""
    replaces = path in OF_THE_BASE

    def change(group: zarr.Group) -> None:
        require_groups_above(group, path)
        made = group.create_array(
            path,
            shape=(length,),
            chunks=(chunk,),
            dtype="i4",
            fill_value=fill,
            overwrite=replaces,
        )
        if value is not None:
            made[:] = value

    return Edit(change, replaces=replaces)


def new_group(path: str, **values: int) -> Edit:
    """Create a group with arrays, in the place of what is there if the path is one of the base."""
    replaces = path in OF_THE_BASE

    def change(group: zarr.Group) -> None:
        require_groups_above(group, path)
        made = group.create_group(path, overwrite=replaces)
        for name, value in values.items():
            found = made.create_array(name, shape=(2,), chunks=(2,), dtype="i4", fill_value=-1)
            found[:] = value

    return Edit(change, replaces=replaces)


def document(path: str, edit: Callable[[Document], object]) -> Edit:
    """Change the `zarr.json` of a node in place; without a node, that of a new group."""

    def change(group: zarr.Group) -> None:
        buffers, key = default_buffer_prototype(), f"{path}/zarr.json"
        found = sync(group.store.get(key, buffers))
        if found is None and path in OF_THE_BASE:
            raise ImpossibleError(path)
        text = b'{"zarr_format": 3, "node_type": "group"}' if found is None else found.to_bytes()
        content: Document = json.loads(text)
        if path in OF_THE_BASE and len(content.get("shape", ())) != 1:
            raise ImpossibleError("these edits are of arrays with one axis")
        edit(content)
        data = json.dumps(content).encode()
        sync(group.store.set(key, buffers.buffer.from_bytes(data)))

    return Edit(change)


def moves(*pairs: tuple[str, str]) -> Edit:
    return Edit(moves=pairs)


def regrid(content: Document) -> None:
    content["chunk_grid"]["configuration"]["chunk_shape"] = [4]


def flatten(content: Document) -> None:
    content.pop("dimension_names", None)
    content["shape"] = [4, 2]
    content["chunk_grid"]["configuration"]["chunk_shape"] = [2, 2]


EDITS: Mapping[str, Edit] = {
    # chunks
    "write 0": write("a", 0, 2, 50),
    "write half 0": write("a", 0, 1, 51),
    "write other half 0": write("a", 1, 2, 52),
    "write 1": write("a", 2, 4, 60),
    "write new 3": write("a", 6, 8, 70),
    "write new 3 too": write("a", 6, 8, 71),
    "write y": write("g/y", 0, 2, 9),
    "blank 0": write("a", 0, 2, -1),
    "shift up": Edit(shift=1),
    "shift down": Edit(shift=-1),
    # metadata
    "grow 2": grow(2, 80),
    "grow 4": grow(4, 90),
    "shrink": resize(4),
    "shrink and grow": resize(4, 8),
    "cut": document("a", lambda doc: doc.update(shape=[4])),
    "cut inside a chunk": document("a", lambda doc: doc.update(shape=[7])),
    "regrid": document("a", regrid),
    "other rank": document("a", flatten),
    "other type": document("a", lambda doc: doc.update(data_type="uint32", fill_value=0)),
    "other fill": document("a", lambda doc: doc.update(fill_value=7)),
    "name dimension": document("a", lambda doc: doc.update(dimension_names=["x"])),
    "attribute of a": attribute("a", 1),
    "attribute of g": attribute("g", 1),
    "attribute of h": attribute("h", 1),
    "attribute of root": attribute("", 1),
    # nodes that go
    "remove a": remove("a"),
    "remove g": remove("g"),
    "remove y": remove("g/y"),
    "remove h": remove("h"),
    # nodes in the place of others
    "replace a": array("a", 5, 8),
    "replace a too": array("a", 6, 8),
    "template a": array("a", None, 8, fill=3),
    "template a too": array("a", None, 8, fill=4),
    "rechunk a": array("a", 8, 8, chunk=4),
    "group for a": new_group("a", x=1),
    "replace g": new_group("g", y=2),
    "empty g": new_group("g"),
    "array for h": array("h", 1),
    "replace y": array("g/y", 3, 4),
    # nodes that come
    "new c": array("c", 1),
    "new c too": array("c", 2),
    "group c": new_group("c"),
    "group n": new_group("n"),
    "new n with m": new_group("n/m"),
    "new g/x": array("g/x", 1),
    "new h/x": array("h/x", 1),
    "new h/i/x": array("h/i/x", 1),
    "new k": array("k", 1),
    "below nothing": document("c/m", lambda doc: doc.update(attributes={"k": 1})),
    # moves
    "move a": moves(("/a", "/z")),
    "move g": moves(("/g", "/k")),
    "move a to h": moves(("/a", "/h/a")),
    "move h to g": moves(("/h", "/g/h")),
    "move y out": moves(("/g/y", "/y")),
    "move g but y": moves(("/g", "/k"), ("/k/y", "/y")),
    "move h into moved g": moves(("/g", "/k"), ("/h", "/k/h")),
    "move a to g/x in k": moves(("/g", "/k"), ("/a", "/k/x")),
    "exchange a and h": moves(("/a", "/t"), ("/h", "/a"), ("/t", "/h")),
    "rename twice": moves(("/a", "/b"), ("/b", "/c")),
    "there and back": moves(("/a", "/b"), ("/b", "/a")),
}
MOVES = frozenset(name for name, edit in EDITS.items() if edit.moves)
SHIFTS = frozenset(name for name, edit in EDITS.items() if edit.shift)


def begin(repository: Repositories[S_co], *names: str, branch: str = "main") -> S_co:
    """A session that has made edits and is not committed; moves stand alone."""
    is_move = names[0] in MOVES
    session = (repository.rearrange_session if is_move else repository.writable_session)(branch)
    for name in names:
        make(session, name)
    return session


def make(session: Sessions, name: str) -> None:
    """Make an edit in a session."""
    edit = EDITS[name]
    for source, target in edit.moves:
        session.move(source, target)
    if edit.shift:
        session.shift_array("/a", [edit.shift])
    if edit.change is not None:
        edit.change(zarr.open_group(session.store, mode="a"))


# --- the model ---


def redone(state: Mapping[str, bytes], *names: str) -> State:
    """A state with edits.

    Raises:
        IMPOSSIBLE: one of them cannot be made there.
    """
    found = dict(state)
    for name in names:
        edit = EDITS[name]
        for source, target in edit.moves:
            found = _moved(found, source.strip("/"), target.strip("/"))
        if edit.shift:
            found = _shifted(found, edit.shift)
        if edit.change is not None:
            found = changed(edit.change, found)
    return found


def moved_back(state: Mapping[str, bytes], name: str) -> State:
    """A state whose nodes are again where they were before some moves.

    Raises:
        IMPOSSIBLE: something else is there.
    """
    found = dict(state)
    for source, target in reversed(EDITS[name].moves):
        found = _moved(found, target.strip("/"), source.strip("/"))
    return found


def committed(state: Mapping[str, bytes], *names: str) -> State:
    """A state with edits of as many commits, each of which drops the chunks outside its grids."""
    found = dict(state)
    for name in names:
        found = redone(found, name)
        seen = visible(found)
        found = {key: value for key, value in found.items() if key in seen}
    return found


def visible(state: Mapping[str, bytes]) -> dict[str, Any]:
    """What readers see of a state: documents as values, and the chunks inside the grids."""
    documents = {
        key.rpartition("zarr.json")[0]: json.loads(value)
        for key, value in state.items()
        if key.endswith("zarr.json")
    }
    seen: dict[str, Any] = {f"{path}zarr.json": found for path, found in documents.items()}
    for key, value in state.items():
        path, chunk, place = key.rpartition("c/")
        if chunk and path in documents and _holds(documents[path], place):
            seen[key] = value
    return seen


def _holds(content: Document, place: str) -> bool:
    if content["node_type"] != "array":
        return False
    lengths = content["chunk_grid"]["configuration"]["chunk_shape"]
    indices = [int(part) for part in place.split("/")]
    return len(indices) == len(lengths) and all(
        at * length < size
        for at, length, size in zip(indices, lengths, content["shape"], strict=True)
    )


def changed(change: Change, state: Mapping[str, bytes]) -> State:
    """A state with a change through zarr."""
    buffers = default_buffer_prototype().buffer
    store = MemoryStore({key: buffers.from_bytes(value) for key, value in state.items()})
    change(zarr.open_group(store, mode="a"))
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def _moved(state: Mapping[str, bytes], source: str, target: str) -> State:
    parent = f"{target.rpartition('/')[0]}/zarr.json".strip("/")
    if f"{source}/zarr.json" not in state or f"{target}/zarr.json" in state:
        raise ImpossibleError(source)
    if _kind(state, parent) != "group":
        raise ImpossibleError(parent)
    inside = f"{source}/"
    return {
        f"{target}/{key[len(inside) :]}" if key.startswith(inside) else key: value
        for key, value in state.items()
    }


def _kind(state: Mapping[str, bytes], key: str) -> str | None:
    """What sort of node a document is of, if there is one."""
    return str(json.loads(state[key])["node_type"]) if key in state else None


def _shifted(state: Mapping[str, bytes], by: int) -> State:
    if _kind(state, "a/zarr.json") != "array":
        raise ImpossibleError("a")
    content: Document = json.loads(state["a/zarr.json"])
    if len(content["shape"]) != 1:
        raise ImpossibleError("these edits are of arrays with one axis")
    (length,) = content["shape"]
    (chunk,) = content["chunk_grid"]["configuration"]["chunk_shape"]
    rest = {key: value for key, value in state.items() if not key.startswith("a/c/")}
    for key in state.keys() - rest.keys():
        place = int(key.rpartition("/")[2]) + by
        if 0 <= place < -(-length // chunk):
            rest[f"a/c/{place}"] = state[key]
    return rest
