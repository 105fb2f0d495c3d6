"""Which repository from before spec 1 is at a place, and where its files are."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.generation import G1, LEGACY, Generation
from frazil.formats.legacy.dialects import STATE_FILES, LegacyGeneration
from frazil.formats.legacy.records import SnapshotRecord
from frazil.formats.legacy.refs import RefLayout, decode_ref
from frazil.masking import bare_url
from frazil.model.history import Snapshot
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_from_url
from frazil.storage.legacy.branch_files import MainBranch, find_main
from frazil.storage.legacy.files import LegacyFiles, spread_arrays
from frazil.storage.legacy.g1 import G1Files, StateFile, VersionedState
from frazil.storage.legacy.g2_g3 import G2G3Files
from frazil.storage.legacy.name_book import NameBook
from frazil.storage.wrapped import ReadOnlyStorage


@dataclass(frozen=True, slots=True, eq=False)
class LegacyRepository:
    """A repository that was found, and what was read on the way."""

    generation: Generation
    moved_to: str | None = None
    """an upgrade has begun or is done"""
    layout: RefLayout | None = None
    names: NameBook = field(default_factory=NameBook)
    tip: Snapshot | None = None
    """the snapshot of the main branch, if all of it is known"""
    state: VersionedState | None = None


def find_legacy(storage: Storage) -> LegacyRepository | None:
    """The legacy repository at a place, in the dialect it uses; None for none.

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
    return live[0] if live else None


def _candidates(storage: Storage) -> Iterator[LegacyRepository]:
    found: dict[LegacyGeneration, MainBranch] = {}
    for branch in find_main(storage):
        found.setdefault(branch.layout.generation, branch)
    for branch in found.values():
        yield _numbered(storage, branch)
    held = _state(storage)
    if held is not None:
        yield LegacyRepository(G1, held.state.moved_to, state=held)


def _state(storage: Storage) -> VersionedState | None:
    """The state file at a place; None for an unrelated file of the same name."""
    try:
        return StateFile(storage).find()
    except FormatError:
        blobs = map(storage.get, STATE_FILES)
        if any(b'"snapshots"' in blob for blob in blobs if blob is not None):
            raise
        return None


def _numbered(storage: Storage, branch: MainBranch) -> LegacyRepository:
    """The repository that a main branch is of."""
    layout = branch.layout
    found = LegacyRepository(LEGACY[layout.generation], layout=layout)
    for step in branch.steps:
        blob = storage.get(step.key)
        if blob is None:
            continue  # deleted since it was listed
        record = decode_ref(blob, key=step.key, generation=layout.generation)
        if record.moved_to is not None:
            found = replace(found, moved_to=record.moved_to)
            continue
        if record.name is not None:
            found.names.note("snapshots", record.snapshot, record.name)
        files = G2G3Files(storage, found.generation, found.names, layout)
        snapshot = files.record(record.snapshot)
        if snapshot is None:
            return found
        generation = found.generation.in_dialect(*files.style_of(snapshot))
        return replace(found, generation=generation, tip=_readable(snapshot))
    return found


def _readable(record: SnapshotRecord) -> Snapshot | None:
    """A snapshot as sessions see it; None where manifests must be read for that."""
    is_known = record.has_true_extents or not spread_arrays(record.snapshot)
    return record.snapshot if is_known else None


def files_of(
    storage: Storage,
    generation: Generation,
    found: LegacyRepository,
    state: StateFile,
    store_root: Storage | str | None = None,
) -> LegacyFiles:
    """The files of a legacy repository at a place."""
    if generation.has_store_root:
        held = found.state or state.find()
        named = None if held is None else held.state.store_root
        root, below = _root(storage, named, _opened(store_root))
        return G1Files(root, generation, found.names, state, below)
    return G2G3Files(storage, generation, found.names, found.layout)


def _root(storage: Storage, named: str | None, given: Storage | None) -> tuple[Storage, str]:
    """Where a state file says that the other files are: a storage, and a folder in it.

    Anyone who can write a state file could send readers, their credentials and their deletions
    anywhere. So a place that is not below its own is used only if the caller names it, and is
    only read then: nothing of the URL in the file is ever opened.
    """
    below = _folder_below(storage.url, named or "")
    if below is not None and given is None:
        return storage, below
    where = _full(storage.url, named or "")
    if given is None:
        raise InvalidInputError(
            f"the state file puts all other files outside of its own folder, at {where};"
            " if you trust it, open that place yourself and pass it as store_root, to read it"
            " (frazil upgrade --store-root makes it a repository of one place)",
            kind=ErrorKind.NOT_ALLOWED,
            url=storage.url,
        )
    if _full(given.url, "") != where:
        raise InvalidInputError(
            f"store_root is another place than the state file names, which is {where}",
            kind=ErrorKind.NOT_ALLOWED,
            url=storage.url,
            store_root=given.url,
        )
    return ReadOnlyStorage(given), ""


def _opened(given: Storage | str | None) -> Storage | None:
    """The storage at a `store_root`: a URL is a place to read without credentials."""
    if given is None or isinstance(given, Storage):
        return given
    scheme, _, rest = given.partition("://")
    is_web = scheme.lower() in ("http", "https")
    if rest and ("?" in given or (is_web and "@" in rest.partition("/")[0])):
        raise InvalidInputError(
            "store_root is opened without credentials and options: leave them out of its URL, or"
            " open the place yourself and pass the storage",
            kind=ErrorKind.NOT_ALLOWED,
            store_root=bare_url(given),
        )
    has_keys = rest and not is_web and scheme.lower() not in ("file", "memory")
    return storage_from_url(given, **({"anonymous": True} if has_keys else {}))


def _full(own: str, named: str) -> str:
    """The URL that a state file means, without options and without its final slash."""
    if named.startswith("/"):
        named = f"file://{quote(named)}"
    elif "://" not in named:
        named = f"{own.rstrip('/')}/{quote(named)}"
    scheme, _, rest = named.partition("://")
    host, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    clean = posixpath.normpath(f"/{unquote(path)}").strip("/")
    return f"{scheme.lower()}://{host}/{clean}".rstrip("/")


def _folder_below(own: str, named: str) -> str | None:
    """The folder that a state file names, relative to its own; None if it is outside."""
    if "://" in named or named.startswith("/"):
        above, whole = _full(own, ""), _full(own, named)
        if whole != above and not whole.startswith(f"{above}/"):
            return None
        named = whole.removeprefix(above).lstrip("/")
    inside = posixpath.normpath(named)
    if inside == ".." or inside.startswith("../"):
        return None
    return "" if inside == "." else f"{inside}/"
