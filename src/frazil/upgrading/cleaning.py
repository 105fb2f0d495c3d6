"""Deletes what is left of an old repository after its upgrade.

Files that an undo needs are deleted first, and those by which leftovers are found last, so that
the next run finishes an interrupted one. Fences stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import ErrorKind, FrazilError, InvalidInputError, ReadOnlyError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.header import is_flat
from frazil.formats.legacy.names import FOLDERS, Kind
from frazil.formats.legacy.refs import parse_ref_key
from frazil.formats.manifest import decode_manifest
from frazil.ids import MAIN
from frazil.maintenance.deleting import deletable_before, require_old
from frazil.storage.assets import LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Listed, Storage
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.legacy.opening import find_legacy
from frazil.storage.locations import VCC
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.transaction.context import Context
from frazil.upgrading.chunks import legacy_container
from frazil.upgrading.claims import Claim, ClaimRecord, Work, claimed, take
from frazil.upgrading.fencing import fences
from frazil.upgrading.leftovers import delete_all, left_at, new_at, require_writable_place
from frazil.upgrading.source import LEGACY_CHUNKS, TidyReport, UpgradeSource, cannot

ORDER: Final[tuple[Kind, ...]] = ("snapshots", "manifests", "attributes", "chunks")


def delete_old_files(
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
        require_writable_place(place, "clean up after an upgrade")
    _require_upgraded(place)
    if dry_run:
        name, _, found = _left(place, store_root)
    else:
        claim = take(place, ClaimRecord(Work.CLEAN), unsafe_minimum_age)
        with claimed(claim):
            name, storage, found = _deletable(place, store_root, claim, unsafe_minimum_age)
            delete_all(storage, [item.key for item in found], claim)
    return TidyReport(
        url=place.url,
        generation=name,
        restored=0,
        deleted=len(found),
        deleted_bytes=sum(item.size_bytes for item in found),
        applied=not dry_run,
    )


def _deletable(
    place: Storage,
    store_root: Storage | str | None,
    claim: Claim,
    unsafe_minimum_age: timedelta | None,
) -> tuple[str, Storage, list[Listed]]:
    try:
        name, storage, found = _left(place, store_root)
        limit = deletable_before(place, unsafe_minimum_age)
        require_old(found, limit, "clean up after an upgrade")
    except FrazilError:
        claim.give_back()
        raise
    return name, storage, found


def _require_upgraded(place: Storage) -> Context:
    new = new_at(place)
    if new is None:
        raise cannot("there is no upgraded repository here: finish the upgrade first")
    return new


def _left(place: Storage, store_root: Storage | str | None) -> tuple[str, Storage, list[Listed]]:
    """The generation of what is left of an old repository, where that is, and the files."""
    new = _require_upgraded(place)
    if find_legacy(place) is None and next(iter(place.list(PRESERVED)), None) is not None:
        # Refs of the old repository were in the way of the new one, and are gone.
        return "g3", place, [*_preserved(place)]
    source = left_at(place, new, store_root).source
    _require_own(source)
    return source.context.generation.name, source.files.storage, [*_old_files(source, new)]


def _require_own(source: UpgradeSource) -> None:
    """Refuse to delete what is outside of the repository."""
    if isinstance(source.files.storage, ReadOnlyStorage):
        raise ReadOnlyError(
            "the old files are outside of the repository, where nothing is deleted; delete them"
            " yourself once they are not needed any more",
            kind=ErrorKind.READ_ONLY_STORAGE,
            url=source.files.storage.url,
        )


def _old_files(source: UpgradeSource, new: Context) -> Iterator[Listed]:
    if source.shares_folders:
        yield from _preserved(source.place)
        if new.generation.repo_object and (config := source.place.head(CONFIG_KEY)) is not None:
            yield config
    else:
        for kind in ORDER:
            if kind != "chunks" or not _reads_old_chunks(source, new):
                yield from source.files.storage.list(source.files.folders[kind])
    yield from _old_refs(source, new)


def _reads_old_chunks(source: UpgradeSource, new: Context) -> bool:
    """Whether the new repository refers to old chunk objects where they are.

    The stored configuration says so, unless the container was removed from it. So manifests are
    read too.

    Raises:
        FormatError: a manifest cannot be read, so that it is unknown.
    """
    containers = (new.config.virtual_chunk_containers or {}).values()
    if any(container.name == LEGACY_CHUNKS for container in containers):
        return True
    try:
        above = (f"{VCC}{LEGACY_CHUNKS}/", legacy_container(source).url_prefix)
    except InvalidInputError:
        return False  # no container can read from such a storage
    blobs = ((item.key, new.storage.get(item.key)) for item in new.storage.list(MANIFESTS))
    tables = (
        table
        for key, blob in blobs
        if blob is not None
        for _, table in decode_manifest(blob, key=key).tables()
    )
    return any(text.startswith(above) for table in tables for text in table.locations)


def _preserved(place: Storage) -> Iterator[Listed]:
    """Files of G3 that were preserved, and those that were never overwritten; refs last."""
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


def _old_refs(source: UpgradeSource, new: Context) -> Iterator[Listed]:
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
