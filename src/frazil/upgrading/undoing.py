"""Back to the old repository, as long as its files have not been cleaned up.

The new entry point goes first, so that from then on everybody sees the old repository, which its
fences keep as it is until all is in its place again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from frazil.commit.base import MAIN, OVERWRITTEN
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_repo_object import REPO_KEY
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import FrazilError
from frazil.formats.legacy.header import is_flat
from frazil.formats.legacy.refs import RefPrefix
from frazil.formats.ref_files import FILE, REFS, branch_key
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Listed, Storage
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.upgrading.fencing import open_again, release
from frazil.upgrading.leftovers import (
    Left,
    delete_all,
    hidden_refs,
    left_at,
    new_at,
    require_writable,
    seen_in,
    show_hidden_refs,
)
from frazil.upgrading.records import TidyReport, cannot
from frazil.upgrading.source import Source, preserved_keys, put_back

NEW_FOLDERS: Final = (SNAPSHOTS, MANIFESTS, LOGS, CHUNKS, REFS, OVERWRITTEN)
"""What only spec 1 and 2 have, beside a repository of G1 or G2."""


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
    left = _checked(place, hidden, store_root, force=force)
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
    place: Storage, hidden: Sequence[str], store_root: Storage | str | None, *, force: bool
) -> Left:
    """The old repository, if it is whole and may take the place of the new one."""
    new = new_at(place)
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
    except FrazilError:
        delete_all(place, hidden)
        raise
    return left


def _made(source: Source, kept: Sequence[str]) -> Iterator[Listed]:
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


def _new_refs(source: Source, known: set[str]) -> Iterator[Listed]:
    """Refs of spec 1: branches always, tags where the old ones were called otherwise."""
    refs = source.refs
    had_dots = isinstance(refs, NumberedRefs) and refs.layout.prefix is RefPrefix.DOT
    for item in source.place.list(REFS):
        folder, _, file = item.key.removeprefix(REFS).partition("/")
        is_branch = folder.startswith("branch.") and file == FILE
        is_tag = folder.startswith("tag.") and not had_dots
        if (is_branch or is_tag) and item.key not in known:
            yield item


def _go_back(source: Source, kept: Sequence[str], made: Sequence[Listed]) -> None:
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
