"""Which repository from before spec 1 is at a place, and the form its objects are seen in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.errors import ErrorKind, FormatError
from frazil.formats.generation import G1, OLD, Generation, Protocol
from frazil.formats.legacy.codec import decode_ref
from frazil.formats.legacy.g1_state import STATE_FILES
from frazil.formats.legacy.records import LegacyGeneration
from frazil.formats.legacy.ref_names import MAIN, RefLayout
from frazil.storage.base import Storage
from frazil.storage.constructors import storage_from_url
from frazil.storage.older.bodies import BodyFiles
from frazil.storage.older.name_book import NameBook
from frazil.storage.older.objects import OldObjects
from frazil.storage.older.state_file import Held, StateFile
from frazil.storage.older.steps import find_layouts, steps_of
from frazil.storage.older.structures import StructureFiles


@dataclass(frozen=True, slots=True)
class OldRepository:
    """A repository that was found; `moved_to` tells that an upgrade has begun or is done."""

    generation: Generation
    moved_to: str | None = None


def find_old(storage: Storage) -> Generation | None:
    """The generation of the old repository at a place, in the dialect it uses; None for none.

    Raises:
        FormatError: there are several, none of which was upgraded, or its files are damaged.
    """
    found = [*_candidates(storage)]
    live = [each for each in found if each.moved_to is None] or found
    if len(live) > 1:
        names = " and ".join(sorted(each.generation.name.upper() for each in live))
        raise FormatError(
            f"there is more than one repository at this place, of generations {names}; move the"
            " files of all but one elsewhere",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
            url=storage.url,
        )
    return live[0].generation if live else None


def _candidates(storage: Storage) -> Iterator[OldRepository]:
    found: dict[LegacyGeneration, RefLayout] = {}
    for layout in find_layouts(storage):
        found.setdefault(layout.generation, layout)
    for layout in found.values():
        yield _numbered(storage, layout)
    held = _state(storage)
    if held is not None:
        yield OldRepository(G1, held.state.moved_to)


def _state(storage: Storage) -> Held | None:
    """The state file at a place, unless it is somebody's file of the same name."""
    try:
        return StateFile(storage).find()
    except FormatError:
        blobs = map(storage.get, STATE_FILES)
        if any(b'"snapshots"' in blob for blob in blobs if blob is not None):
            raise
        return None


def _numbered(storage: Storage, layout: RefLayout) -> OldRepository:
    """The repository whose main branch has files in a layout."""
    base = OLD[layout.generation]
    fence = None
    for step in steps_of(storage, layout, MAIN):
        blob = storage.get(step.key)
        if blob is None:
            continue  # deleted since it was listed
        record = decode_ref(blob, key=step.key, generation=layout.generation)
        if record.moved_to is not None:
            fence = record.moved_to
            continue
        names = NameBook()
        if record.name is not None:
            names.note("snapshots", record.snapshot, record.name)
        files = BodyFiles(storage, base, names)
        dialect = files.dialect_of(record.snapshot)
        return OldRepository(base if dialect is None else base.in_dialect(dialect), fence)
    return OldRepository(base, fence)


def objects_of(
    storage: Storage, generation: Generation, names: NameBook, state: StateFile
) -> Storage:
    """The objects of a repository in the form of a spec: the storage itself, unless it is old."""
    match generation.protocol:
        case Protocol.STATE_FILE:
            held = state.find()
            root, below = _root(storage, None if held is None else held.state.store_root)
            return OldObjects(root, StructureFiles(root, generation, names, state, below))
        case Protocol.NUMBERED_FILES:
            return OldObjects(storage, BodyFiles(storage, generation, names))
        case _:
            return storage


def _root(storage: Storage, store_root: str | None) -> tuple[Storage, str]:
    """Where a state file says that the other files are: a storage, and a folder in it.

    Raises:
        FormatError: that is outside of what a relative path can reach.
    """
    if not store_root:
        return storage, ""
    if "://" in store_root:
        own = storage.url.rstrip("/") + "/"
        if not store_root.startswith(own):
            return storage_from_url(store_root), ""
        store_root = store_root[len(own) :]
    parts = [part for part in store_root.split("/") if part not in ("", ".")]
    if ".." in parts or store_root.startswith("/"):
        raise FormatError(
            "the state file puts the other files outside of its folder; open the folder above",
            store_root=store_root,
        )
    return storage, "".join(f"{part}/" for part in parts)
