"""The state file of G1: snapshots, branches and tags of a repository in one JSON document.

Every change is a function from one state to the next, with a generation one higher; the caller
swaps the file. Keys we do not know stay where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from frazil.errors import AlreadyExistsError, ErrorKind, FormatError, RefNotFoundError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.names import id_of_name, plain_name
from frazil.formats.legacy.structs import MAX_U64, LegacyDocument, Value
from frazil.formats.legacy.zarr_fields import cannot_hold, dump_json
from frazil.formats.ref_files import RefKind
from frazil.ids import SnapshotId
from frazil.masking import MaskedRecord
from frazil.model.history import MAX_MICROS, Metadata
from frazil.model.marks import merged_marks, with_marks

CLAIMS: Final = "claims"
MESSAGE: Final = "message"
MAX_STATE: Final = 1 << 28
"""Larger state files are refused before they are parsed."""
MAX_MILLIS: Final = MAX_MICROS // 1000


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A snapshot as the state file lists it; ids there are texts of any form."""

    name: str
    parent: str | None
    timestamp_ms: int
    structure_file: str
    properties: Metadata | None = None
    extra: Mapping[str, Value] = field(default_factory=dict)

    @property
    def id(self) -> SnapshotId:
        """The id by which the model knows it."""
        return id_of_name(SnapshotId, self.name)

    @property
    def parent_id(self) -> SnapshotId | None:
        """The id of the parent."""
        return None if self.parent is None else id_of_name(SnapshotId, self.parent)

    @property
    def message(self) -> str:
        """The commit message, which is one of the properties."""
        found = (self.properties or {}).get(MESSAGE)
        return found if isinstance(found, str) else ""

    @property
    def metadata(self) -> Metadata:
        """The other properties."""
        if not isinstance((self.properties or {}).get(MESSAGE), str):
            return dict(self.properties or {})
        return {name: value for name, value in (self.properties or {}).items() if name != MESSAGE}


@dataclass(frozen=True, slots=True)
class StateRef:
    """A branch or a tag; `snapshot` is the text of the snapshot's id."""

    snapshot: str
    type: RefKind
    extra: Mapping[str, Value] = field(default_factory=dict)

    @property
    def id(self) -> SnapshotId:
        """The id of the snapshot it points to."""
        return id_of_name(SnapshotId, self.snapshot)


@dataclass(frozen=True, slots=True, repr=False)
class G1State(MaskedRecord):
    """The whole mutable state of a repository."""

    id: str
    generation: int
    snapshots: tuple[StateSnapshot, ...]
    refs: Mapping[str, StateRef]
    store_root: str | None = None
    deleted_tags: tuple[str, ...] = ()
    moved_to: str | None = None
    """set by an upgrade: the spec the repository lives on in"""
    commit_mode: str | None = None
    extra: Mapping[str, Value] = field(default_factory=dict)

    def find(self, id: SnapshotId) -> StateSnapshot | None:
        """The entry of a snapshot, or None."""
        return next((each for each in self.snapshots if each.id == id), None)

    def by_id(self) -> dict[SnapshotId, StateSnapshot]:
        """All entries by the id of the model."""
        return {each.id: each for each in self.snapshots}

    def ancestry(self, id: SnapshotId) -> Iterator[StateSnapshot]:
        """A snapshot and its ancestors, newest first."""
        known = self.by_id()
        seen: set[SnapshotId] = set()
        current: SnapshotId | None = id
        while current is not None and current in known:
            if current in seen:
                raise FormatError("damaged state file: a snapshot is its own ancestor", id=current)
            seen.add(current)
            yield known[current]
            current = known[current].parent_id


# --- reading ---


def decode_state(blob: bytes, *, key: str) -> G1State:
    """Read a state file."""
    document = LegacyDocument(key, LegacyGeneration.G1)
    if len(blob) > MAX_STATE:
        raise document.fail("it is too large")
    rest = dict(document.mapping(document.json(blob), "state"))
    listed = document.items(rest.pop("snapshots", None), "snapshots")
    snapshots = tuple(_read_snapshot(document, each) for each in listed)
    if len({each.id for each in snapshots}) != len(snapshots):
        raise document.fail("two snapshots cannot be told apart")
    refs = document.mapping(rest.pop("refs", None) or {}, "refs")
    deleted = document.items(rest.pop("deleted-tags", None) or [], "deleted-tags")
    return G1State(
        id=document.text(rest.pop("id", None), "id"),
        generation=document.number(rest.pop("generation", None), "generation", MAX_U64),
        snapshots=snapshots,
        refs={
            document.text(name, "ref"): _read_ref(document, name, ref) for name, ref in refs.items()
        },
        store_root=_optional(document, rest, "store_root") or None,
        deleted_tags=tuple(document.text(name, "deleted tag") for name in deleted),
        moved_to=_optional(document, rest, "moved-to"),
        commit_mode=_optional(document, rest, "commit-mode"),
        extra=rest,  # fields that are not known here
    )


def _optional(document: LegacyDocument, rest: dict[str, Value], name: str) -> str | None:
    found = rest.pop(name, None)
    return None if found is None else document.text(found, name)


def _read_snapshot(document: LegacyDocument, value: Value) -> StateSnapshot:
    rest = dict(document.mapping(value, "a snapshot"))
    properties = rest.pop("properties", None)
    structure = document.text(rest.pop("structure-file", None), "structure-file")
    if not is_file_name(structure):
        raise document.fail("the name of a structure file is not that of a file")
    return StateSnapshot(
        name=document.text(rest.pop("snapshot-id", None), "snapshot-id"),
        parent=_optional(document, rest, "parent-snapshot-id"),
        timestamp_ms=document.number(rest.pop("timestamp-ms", None), "timestamp-ms", MAX_MILLIS),
        structure_file=structure,
        properties=None if properties is None else document.metadata(properties, "properties"),
        extra=rest,
    )


def is_file_name(name: str) -> bool:
    """Whether a stored name stays inside its folder."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _read_ref(document: LegacyDocument, name: str, value: Value) -> StateRef:
    rest = dict(document.mapping(value, "a ref"))
    kind = rest.pop("type", None)
    if kind not in ("branch", "tag"):
        raise document.fail(f"the ref {name!r} is neither a branch nor a tag")
    if rest.pop("name", name) != name:
        raise document.fail(f"the ref {name!r} has another name inside")
    snapshot = document.text(rest.pop("snapshot-id", None), "snapshot-id")
    return StateRef(snapshot, kind, rest)


# --- writing ---


def encode_state(state: G1State) -> bytes:
    """Write a state file."""
    value: dict[str, Value] = {"id": state.id, "generation": state.generation}
    if state.store_root is not None:
        value["store_root"] = state.store_root
    value["snapshots"] = [_write_snapshot(each) for each in state.snapshots]
    value["refs"] = {
        name: {"name": name, "snapshot-id": ref.snapshot, "type": ref.type, **ref.extra}
        for name, ref in state.refs.items()
    }
    if state.deleted_tags:
        value["deleted-tags"] = list(state.deleted_tags)
    if state.moved_to is not None:
        value["moved-to"] = state.moved_to
    if state.commit_mode is not None:
        value["commit-mode"] = state.commit_mode
    return dump_json(value | dict(state.extra))


def _write_snapshot(item: StateSnapshot) -> dict[str, Value]:
    value: dict[str, Value] = {
        "snapshot-id": item.name,
        "parent-snapshot-id": item.parent,
        "timestamp-ms": item.timestamp_ms,
        "structure-file": item.structure_file,
    }
    if item.properties is not None:
        value["properties"] = dict(item.properties)
    return value | dict(item.extra)


def properties_of(message: str, metadata: Metadata) -> Metadata:
    """The properties of a snapshot with this message and metadata.

    Raises:
        InvalidInputError: the metadata has a message of its own.
    """
    if MESSAGE in metadata:
        raise cannot_hold(LegacyGeneration.G1, "metadata", f"{MESSAGE!r} is the commit message")
    return {MESSAGE: message, **metadata}


def new_item(
    id: SnapshotId, parent: StateSnapshot | None, *, timestamp_ms: int, properties: Metadata
) -> StateSnapshot:
    """The entry of a snapshot that we commit; its time is later than that of its parent."""
    name = plain_name(LegacyGeneration.G1, "snapshots", id)
    if parent is not None:
        timestamp_ms = max(timestamp_ms, parent.timestamp_ms + 1)
    return StateSnapshot(
        name=name,
        parent=None if parent is None else parent.name,
        timestamp_ms=timestamp_ms,
        structure_file=f"{name}.parquet",
        properties=properties,
    )


# --- the next state ---


def first_state(id: str, root: StateSnapshot, branch: str = "main") -> G1State:
    """The state of a new repository."""
    return G1State(id, 0, (root,), {branch: StateRef(root.name, "branch")})


def _next(state: G1State, **changes: Any) -> G1State:  # noqa: ANN401 - fields of the record
    return replace(state, generation=state.generation + 1, **changes)


def add_snapshot(state: G1State, item: StateSnapshot, branch: str) -> G1State:
    """List a snapshot and move its branch to it."""
    moved = move_branch(state, branch, item.name)
    return replace(moved, snapshots=(*state.snapshots, item))


def move_branch(state: G1State, name: str, snapshot: str) -> G1State:
    """Let a branch point to another snapshot."""
    ref = _ref(state, name, "branch")
    return _next(state, refs={**state.refs, name: replace(ref, snapshot=snapshot)})


def create_ref(state: G1State, name: str, kind: RefKind, snapshot: str) -> G1State:
    """Add a branch or a tag.

    Raises:
        AlreadyExistsError: the name is taken, by whichever kind, or was that of a deleted tag.
    """
    if name in state.refs:
        taken = state.refs[name].type
        raise AlreadyExistsError(
            f"a {taken} has this name already",
            kind=ErrorKind.TAG_ALREADY_EXISTS
            if taken == "tag"
            else ErrorKind.BRANCH_ALREADY_EXISTS,
            name=name,
        )
    if kind == "tag" and name in state.deleted_tags:
        raise AlreadyExistsError(
            "a tag of this name was deleted", kind=ErrorKind.TAG_PREVIOUSLY_DELETED, name=name
        )
    return _next(state, refs={**state.refs, name: StateRef(snapshot, kind)})


def delete_ref(state: G1State, name: str, kind: RefKind) -> G1State:
    """Remove a branch or a tag; the name of a tag stays blocked."""
    _ref(state, name, kind)
    refs = {other: ref for other, ref in state.refs.items() if other != name}
    if kind == "branch":
        return _next(state, refs=refs)
    return _next(state, refs=refs, deleted_tags=(*state.deleted_tags, name))


def _ref(state: G1State, name: str, kind: RefKind) -> StateRef:
    found = state.refs.get(name)
    if found is None or found.type != kind:
        raise RefNotFoundError(
            f"no such {kind}",
            kind=ErrorKind.TAG_NOT_FOUND if kind == "tag" else ErrorKind.BRANCH_NOT_FOUND,
            name=name,
        )
    return found


def without_expired(state: G1State, threshold_ms: int) -> tuple[G1State, frozenset[SnapshotId]]:
    """Forget snapshots older than a time that no ref points to; tell which."""
    pointed = {ref.id for ref in state.refs.values()}
    gone = {
        item.id
        for item in state.snapshots
        if item.timestamp_ms < threshold_ms and item.id not in pointed
    }
    return without_snapshots(state, gone), frozenset(gone)


def without_snapshots(state: G1State, gone: Collection[SnapshotId]) -> G1State:
    """Forget snapshots; their children become those of the nearest ancestor that stays.

    They keep the marks of what is forgotten, for its work stays done.
    """
    known = state.by_id()

    def kept(item: StateSnapshot) -> StateSnapshot:
        between: dict[SnapshotId, StateSnapshot] = {}
        parent = item.parent_id
        while parent is not None and parent in gone and parent in known and parent not in between:
            between[parent] = known[parent]
            parent = known[parent].parent_id
        is_kept = parent in known and parent not in gone
        name = known[parent].name if is_kept and parent is not None else None
        marks = merged_marks(each.properties or {} for each in between.values())
        properties = with_marks(item.properties or {}, marks) if marks else item.properties
        return replace(item, parent=name, properties=properties)

    left = tuple(kept(item) for item in state.snapshots if item.id not in gone)
    return _next(state, snapshots=left)


def move_away(state: G1State, target: str) -> G1State:
    """Mark a repository as one that lives on in a newer spec."""
    return _next(state, moved_to=target)
