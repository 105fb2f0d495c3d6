"""Away with what an upgrade left of the old repository; its fences stay.

What undoing needs goes first, and what tells that something is left goes last: an interrupted
cleaning is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from frazil.commit.base import MAIN
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import ErrorKind, ReadOnlyError
from frazil.formats.legacy.header import is_flat
from frazil.formats.legacy.names import FOLDERS, Kind
from frazil.formats.legacy.records import LegacyGeneration
from frazil.formats.legacy.refs import parse_ref_key
from frazil.maintenance.ages import deletable_before, require_old
from frazil.storage.assets import LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Listed, Storage
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.legacy.opening import find_legacy
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.transaction.context import Context
from frazil.upgrading.fencing import fences, release
from frazil.upgrading.leftovers import delete_all, left_at, new_at, require_writable
from frazil.upgrading.records import LEGACY_CHUNKS, TidyReport, cannot
from frazil.upgrading.source import Source

ORDER: Final[tuple[Kind, ...]] = ("snapshots", "manifests", "attributes", "chunks")


def clean(
    place: Storage,
    *,
    dry_run: bool = False,
    store_root: Storage | str | None = None,
    unsafe_minimum_age: timedelta | None = None,
) -> TidyReport:
    """Delete the files of the older generation after an upgrade; it cannot be undone then.

    Raises:
        SessionStateError: there is no finished upgrade, or nothing is left of what came before,
            or some of it is younger than a day, or than `unsafe_minimum_age`.
        ReadOnlyError: it is at a `store_root` outside of the repository.
    """
    if not dry_run:
        require_writable(place, "clean up after an upgrade")
    new = new_at(place)
    if new is None:
        raise cannot("there is no upgraded repository here: finish the upgrade first")
    if find_legacy(place) is None and next(iter(place.list(PRESERVED)), None) is not None:
        # Refs of the old repository were in the way of the new one, and are gone.
        name, found = "g3", [*_preserved(place)]
        storage = place
    else:
        source = left_at(place, new, store_root).source
        _require_own(source)
        name, found = source.context.generation.name, [*_old_files(source, new)]
        storage = source.files.storage
    if not dry_run:
        limit = deletable_before(place, unsafe_minimum_age)
        require_old(found, limit, "clean up after an upgrade")
        delete_all(storage, [item.key for item in found])
        release(place)  # of an upgrade that died with its last step
    return TidyReport(
        url=place.url,
        generation=name,
        restored=0,
        deleted=len(found),
        deleted_bytes=sum(item.size_bytes for item in found),
        applied=not dry_run,
    )


def _require_own(source: Source) -> None:
    """Refuse to delete what is outside of the repository.

    Raises:
        ReadOnlyError: the files are there.
    """
    if isinstance(source.files.storage, ReadOnlyStorage):
        raise ReadOnlyError(
            "the old files are outside of the repository, where nothing is deleted; delete them"
            " yourself once nobody needs them",
            kind=ErrorKind.READ_ONLY_STORAGE,
            url=source.files.storage.url,
        )


def _old_files(source: Source, new: Context) -> Iterator[Listed]:
    if source.shares_folders:
        yield from _preserved(source.place)
        if new.generation.repo_object and (config := source.place.head(CONFIG_KEY)) is not None:
            yield config
    else:
        for kind in ORDER:
            if kind != "chunks" or not _reads_old_chunks(new):
                yield from source.files.storage.list(source.files.folders[kind])
    yield from _old_refs(source, new)


def _reads_old_chunks(new: Context) -> bool:
    """Whether the new repository refers to old chunk objects where they are."""
    containers = (new.config.virtual_chunk_containers or {}).values()
    return any(container.name == LEGACY_CHUNKS for container in containers)


def _preserved(place: Storage) -> Iterator[Listed]:
    """Files of G3 that were preserved, and those that nobody has overwritten; refs last."""
    found = [*place.list(PRESERVED)]
    refs = [item for item in found if item.key.startswith(f"{PRESERVED}refs/")]
    rest = [item for item in found if item not in refs]
    yield from sorted(rest, key=lambda item: not item.key.startswith(PRESERVED + SNAPSHOTS))
    for item in rest:
        key = item.key.removeprefix(PRESERVED)
        if key.startswith((SNAPSHOTS, LOGS, MANIFESTS)):
            there = place.head(key)
            if there is not None and not is_flat(place.get(key) or b""):
                yield there
    yield from place.list(FOLDERS[LegacyGeneration.G3]["attributes"])
    yield from refs


def _old_refs(source: Source, new: Context) -> Iterator[Listed]:
    """Files of old refs that are no fences; the first file of the main branch goes last."""
    refs = source.refs
    if not isinstance(refs, NumberedRefs):
        return
    standing = {*fences(source)}
    layout = refs.layout
    found: list[tuple[int, bool, Listed]] = []
    for item in source.place.list(layout.root):
        key = parse_ref_key(layout.generation, item.key, encoded=layout.encoded)
        if key is None or key.prefix != layout.prefix or item.key in standing:
            continue
        # Tags of G3 are those of spec 1.
        if key.kind == "branch" or new.generation.repo_object or not source.shares_folders:
            found.append((-(key.number or 0), key.kind == "branch" and key.name == MAIN, item))
    found.sort(key=lambda each: each[:2])
    yield from (item for *_, item in found)
