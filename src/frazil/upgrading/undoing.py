"""Undoes an upgrade, as long as the files of the old repository exist.

The new repository is closed to commits before it is examined, because it is about to be deleted.
Its entry point is deleted first: from then on clients see the old repository, whose fences refuse
commits until everything is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from frazil.commit.base import OVERWRITTEN, now_micros
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.closing import BEING_UNDONE, is_being_undone, is_under_way
from frazil.commit.config_file import CONFIG_KEY
from frazil.commit.repo_object import Edit
from frazil.errors import FrazilError
from frazil.formats.legacy.header import is_flat
from frazil.formats.legacy.refs import RefPrefix
from frazil.formats.ref_files import FILE, REFS, Fence, branch_key, decode_fence, encode_moved_ref
from frazil.formats.repo_info import REPO_KEY
from frazil.ids import MAIN
from frazil.maintenance.upgrade import fence_branch
from frazil.model.history import RepoAvailability, RepoInfo, StoredStatus, UpdateType
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import JSON_FILE, Fetched, Listed, Storage
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.transaction.context import Context
from frazil.upgrading.claims import Claim, ClaimRecord, Work, claimed, late, take
from frazil.upgrading.fencing import open_again
from frazil.upgrading.leftovers import (
    Leftovers,
    RepositoryContents,
    delete_all,
    hidden_refs,
    left_at,
    new_at,
    require_writable_place,
    seen_in,
    show_hidden_refs,
)
from frazil.upgrading.source import (
    TidyReport,
    UpgradeSource,
    cannot,
    preserved_keys,
    restore_original,
)

NEW_FOLDERS: Final = (SNAPSHOTS, MANIFESTS, LOGS, CHUNKS, REFS, OVERWRITTEN)
"""What only spec 1 and 2 have, beside a repository of G1 or G2."""


def undo(
    place: Storage,
    *,
    dry_run: bool = False,
    force: bool = False,
    store_root: Storage | str | None = None,
    unsafe_minimum_age: timedelta | None = None,
) -> TidyReport:
    """Restore the old repository, whether its upgrade was finished or interrupted.

    Raises:
        SessionStateError: nothing of the old repository is left, or the new one has been changed
            since, and `force` is not set; or another process is at work here, or was killed less
            than a day (or `unsafe_minimum_age`) ago.
    """
    if dry_run:
        return _undone(place, store_root, force=force)
    require_writable_place(place, "undo an upgrade")
    claim = take(place, ClaimRecord(Work.UNDO), unsafe_minimum_age)
    with claimed(claim):
        left = _checked(place, store_root, claim, force=force)
        kept = preserved_keys(place)
        made = [*_made(left.source, kept)]
        _go_back(left.source, kept, made, claim)
    return _report(left.source, kept, made, applied=True)


def _undone(place: Storage, store_root: Storage | str | None, *, force: bool) -> TidyReport:
    """What undoing an upgrade would do."""
    kept = preserved_keys(place)
    if hidden_refs(place):
        return TidyReport(place.url, "g3", len(kept), 0, 0, applied=False)
    new = new_at(place)
    left = left_at(place, new, store_root)
    _require_unchanged(left, None if new is None or force else seen_in(new))
    return _report(left.source, kept, [*_made(left.source, kept)], applied=False)


def _report(
    source: UpgradeSource, kept: Sequence[str], made: Sequence[Listed], *, applied: bool
) -> TidyReport:
    return TidyReport(
        url=source.place.url,
        generation=source.context.generation.name,
        restored=len(kept),
        deleted=len(made),
        deleted_bytes=sum(item.size_bytes for item in made),
        applied=applied,
    )


def _checked(
    place: Storage, store_root: Storage | str | None, claim: Claim, *, force: bool
) -> Leftovers:
    """The old repository, if it is whole and may take the place of the new one, which is closed."""
    hidden = hidden_refs(place)
    new = new_at(place)
    reopen = _nothing
    try:
        if new is not None:
            reopen = close(new)
        # Readers of spec 1 refuse the refs that were moved aside, so read before these are back.
        now = None if new is None or force else seen_in(new)
        show_hidden_refs(place, claim)
        try:
            left = left_at(place, new, store_root)
            _require_unchanged(left, now)
        except FrazilError:
            delete_all(place, hidden, claim)
            raise
        claim.hold()
    except FrazilError:
        reopen()
        claim.give_back()
        raise
    return left


def _require_unchanged(left: Leftovers, now: RepositoryContents | None) -> None:
    """Refuse to lose what the old repository does not have."""
    expected = left.require_readable()
    if now is not None and now != expected:
        raise cannot(
            "the repository has been changed since its upgrade, which undoing it would lose"
        )


# --- closing what is to go ---


def _nothing() -> None:
    """Do nothing: nothing was closed."""


def close(new: Context) -> Callable[[], None]:
    """Refuse changes of a repository of spec 1 or 2; the returned function allows them again.

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
        if is_being_undone(info):
            return None
        was = info.status
        return _with_status(StoredStatus(RepoAvailability.read_only, now_micros(), BEING_UNDONE))

    refs.edit(closing, any_status=True)

    def opening(info: RepoInfo) -> Edit | None:
        return _with_status(was) if is_being_undone(info) else None

    return lambda: refs.edit(opening, any_status=True)


def _with_status(status: StoredStatus) -> Edit:
    return Edit(UpdateType.RepoStatusChanged(status), {"status": status})


def _close_files(place: Storage) -> Callable[[], None]:
    """Fence all branches, the main one first: a writer that creates a ref checks it afterwards."""
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
            place.put_if(key, encode_moved_ref(fence[1]), found.version, JSON_FILE)
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


def _go_back(
    source: UpgradeSource, kept: Sequence[str], made: Sequence[Listed], claim: Claim
) -> None:
    place = source.place
    main = branch_key(MAIN, encoded=place.percent_encodes_names)
    delete_all(place, [REPO_KEY], claim)
    delete_all(place, [main], claim)
    for key in kept:
        claim.keep()
        restore_original(place, key, claim.hold)
    delete_all(place, [item.key for item in made], claim)
    delete_all(place, [item.key for item in place.list(PRESERVED)], claim)
    open_again(source, claim.hold)
