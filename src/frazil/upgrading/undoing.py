"""Back to the old repository as long as its files are there, or away with what is left of it.

Undoing: the new repository is closed before it is looked at, so that nobody commits to what is
about to go. Then its entry point goes first, so that from then on everybody sees the old
repository, which its fences keep as it is until all is in its place again. Cleaning: what undoing
needs goes first, and what tells that something is left goes last, so that an interrupted cleaning
is finished by the next one. Fences stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from frazil.commit.base import MAIN, OVERWRITTEN, now_micros
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_ref_file import JSON_FILE
from frazil.commit.by_repo_object import REPO_KEY, Edit, RepoObjectRefs
from frazil.commit.file_refs import CONFIG_KEY, is_under_way
from frazil.errors import ErrorKind, FrazilError, ReadOnlyError
from frazil.formats.legacy.header import is_flat
from frazil.formats.legacy.names import FOLDERS, Kind
from frazil.formats.legacy.records import LegacyGeneration
from frazil.formats.legacy.refs import RefPrefix, parse_ref_key
from frazil.formats.ref_files import FILE, REFS, Fence, branch_key, decode_fence, encode_ref
from frazil.maintenance.deleting import deletable_before, require_old
from frazil.maintenance.upgrade import fence_branch
from frazil.model.history import RepoAvailability, RepoInfo, StoredStatus, UpdateType
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Fetched, Listed, Storage
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.legacy.opening import find_legacy
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.transaction.context import Context
from frazil.upgrading.fencing import (
    CLEANING,
    UNDOING,
    claim_tidying,
    fences,
    late,
    open_again,
    release,
)
from frazil.upgrading.leftovers import (
    Leftovers,
    delete_all,
    hidden_refs,
    left_at,
    new_at,
    require_writable,
    seen_in,
    show_hidden_refs,
)
from frazil.upgrading.source import (
    LEGACY_CHUNKS,
    TidyReport,
    UpgradeSource,
    cannot,
    preserved_keys,
    put_back,
)

NEW_FOLDERS: Final = (SNAPSHOTS, MANIFESTS, LOGS, CHUNKS, REFS, OVERWRITTEN)
"""What only spec 1 and 2 have, beside a repository of G1 or G2."""
BEING_UNDONE: Final = (
    "the upgrade that made this repository is being undone; if that was interrupted, finish it "
    "with `frazil upgrade URL --undo`"
)
"""The reason for which a repo object takes no changes meanwhile."""


def undo(
    place: Storage,
    *,
    dry_run: bool = False,
    force: bool = False,
    store_root: Storage | str | None = None,
) -> TidyReport:
    """Let a place be what it was before its upgrade, whether that was finished or interrupted.

    Raises:
        SessionStateError: nothing of the old repository is left, or the new one has been changed
            since, and `force` does not say that this may be lost.
    """
    if not dry_run:
        require_writable(place, "undo an upgrade")
    hidden = hidden_refs(place)
    if hidden and dry_run:
        kept = preserved_keys(place)
        return TidyReport(place.url, "g3", len(kept), 0, 0, applied=False)
    left = _checked(place, hidden, store_root, force=force, dry_run=dry_run)
    kept = preserved_keys(place)
    made = [*_made(left.source, kept)]
    if not dry_run:
        _go_back(left.source, kept, made)
    return TidyReport(
        url=place.url,
        generation=left.source.context.generation.name,
        restored=len(kept),
        deleted=len(made),
        deleted_bytes=sum(item.size_bytes for item in made),
        applied=not dry_run,
    )


def _checked(
    place: Storage,
    hidden: Sequence[str],
    store_root: Storage | str | None,
    *,
    force: bool,
    dry_run: bool,
) -> Leftovers:
    """The old repository, if it is whole and may take the place of the new one, which is closed."""
    new = new_at(place)
    reopen = _nothing if new is None or dry_run else close(new)
    try:
        # Readers of spec 1 stumble over refs that were put aside: ask before those are back.
        now = None if new is None or force else seen_in(new)
        show_hidden_refs(place)
        try:
            left = left_at(place, new, store_root)
            expected = left.require_readable()
            if now is not None and now != expected:
                raise cannot(
                    "the repository has been changed since its upgrade, which undoing it would lose"
                )
            if not dry_run:
                claim_tidying(place, UNDOING)
        except FrazilError:
            delete_all(place, hidden)
            raise
    except FrazilError:
        reopen()
        raise
    return left


# --- closing what is to go ---


def _nothing() -> None:
    """What is to be done where nothing was closed."""


def close(new: Context) -> Callable[[], None]:
    """Let nobody change a repository of spec 1 or 2 any more; the answer lets them again.

    Raises:
        SessionStateError: it is on its way from spec 1 to 2.
    """
    if isinstance(new.refs, RepoObjectRefs):
        return _close_repo_object(new.refs, new.storage)
    return _close_files(new.storage)


def _close_repo_object(refs: RepoObjectRefs, place: Storage) -> Callable[[], None]:
    was = StoredStatus(RepoAvailability.online, now_micros())

    def closing(info: RepoInfo) -> Edit | None:
        nonlocal was
        if is_under_way(info):
            _open_branches(place)  # of an undoing that was overtaken by the upgrade
            raise cannot("an upgrade from spec version 1 has been begun: finish that first")
        if info.status.reason == BEING_UNDONE:
            return None
        was = info.status
        return _with_status(StoredStatus(RepoAvailability.read_only, now_micros(), BEING_UNDONE))

    refs.edit(closing, any_status=True)
    return lambda: refs.edit(lambda _: _with_status(was), any_status=True)


def _with_status(status: StoredStatus) -> Edit:
    return Edit(UpdateType.RepoStatusChanged(status), {"status": status})


def _close_files(place: Storage) -> Callable[[], None]:
    """Fence all branches, the main one first: who makes a ref looks at that one afterwards."""
    seen: set[str] = set()
    while (keys := {*_branch_files(place)}) != seen:
        seen = keys
        main = branch_key(MAIN, encoded=place.percent_encodes_names)
        try:
            for key in sorted(keys, key=lambda key: key != main):
                fence_branch(place, key, Fence.UNDONE)
            if place.head(REPO_KEY) is not None:
                raise late()
        except FrazilError:
            _open_branches(place)
            raise
    return lambda: _open_branches(place)


def _branch_files(place: Storage) -> Iterator[str]:
    """Keys of branches of spec 1."""
    for item in place.list(REFS):
        folder, _, file = item.key.removeprefix(REFS).partition("/")
        if folder.startswith("branch.") and file == FILE:
            yield item.key


def _open_branches(place: Storage) -> None:
    """Take the fences down that closed branches of spec 1."""
    for key in _branch_files(place):
        found = place.fetch(key)
        fence = decode_fence(found.data) if isinstance(found, Fetched) else None
        if isinstance(found, Fetched) and fence is not None and fence[0] is Fence.UNDONE:
            assert fence[1] is not None
            place.put_if(key, encode_ref(fence[1]), found.version, JSON_FILE)
            place.make_durable([key])


def _made(source: UpgradeSource, kept: Sequence[str]) -> Iterator[Listed]:
    """The files that an upgrade has made, and those that came after it."""
    place = source.place
    for key in (REPO_KEY, CONFIG_KEY):
        found = place.head(key)
        is_ours = key == REPO_KEY or not source.shares_folders
        if found is not None and is_ours:
            yield found
    if not source.shares_folders:
        for folder in NEW_FOLDERS:
            yield from place.list(folder)
        return
    yield from place.list(OVERWRITTEN)
    known = {*kept}
    for folder in (SNAPSHOTS, LOGS, MANIFESTS):
        for item in place.list(folder):
            if item.key not in known and is_flat(place.get(item.key) or b""):
                yield item
    yield from _new_refs(source, known)


def _new_refs(source: UpgradeSource, known: set[str]) -> Iterator[Listed]:
    """Refs of spec 1: branches always, tags where the old ones were called otherwise."""
    refs = source.refs
    had_dots = isinstance(refs, NumberedRefs) and refs.layout.prefix is RefPrefix.DOT
    for item in source.place.list(REFS):
        folder, _, file = item.key.removeprefix(REFS).partition("/")
        is_branch = folder.startswith("branch.") and file == FILE
        is_tag = folder.startswith("tag.") and not had_dots
        if (is_branch or is_tag) and item.key not in known:
            yield item


def _go_back(source: UpgradeSource, kept: Sequence[str], made: Sequence[Listed]) -> None:
    place = source.place
    main = branch_key(MAIN, encoded=place.percent_encodes_names)
    delete_all(place, [REPO_KEY])
    delete_all(place, [main])
    for key in kept:
        put_back(place, key)
    delete_all(place, [item.key for item in made])
    delete_all(place, [item.key for item in place.list(PRESERVED)])
    open_again(source)
    release(place)


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
        require_writable(place, "clean up after an upgrade")
    _require_upgraded(place)
    if not dry_run:
        claim_tidying(place, CLEANING)
    try:
        name, storage, found = _left(place, store_root)
        if not dry_run:
            limit = deletable_before(place, unsafe_minimum_age)
            require_old(found, limit, "clean up after an upgrade")
    except FrazilError:
        if not dry_run:
            release(place)
        raise
    if not dry_run:
        delete_all(storage, [item.key for item in found])
        release(place)
    return TidyReport(
        url=place.url,
        generation=name,
        restored=0,
        deleted=len(found),
        deleted_bytes=sum(item.size_bytes for item in found),
        applied=not dry_run,
    )


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
            " yourself once nobody needs them",
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
            if kind != "chunks" or not _reads_old_chunks(new):
                yield from source.files.storage.list(source.files.folders[kind])
    yield from _old_refs(source, new)


def _reads_old_chunks(new: Context) -> bool:
    """Whether the new repository refers to old chunk objects where they are."""
    containers = (new.config.virtual_chunk_containers or {}).values()
    return any(container.name == LEGACY_CHUNKS for container in containers)


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
