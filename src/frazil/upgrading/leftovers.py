"""What an upgrade leaves of an old repository beside the new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import ErrorKind, ReadOnlyError, SnapshotNotFoundError
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.opening import detect, open_context
from frazil.storage.base import Storage, require_deleted
from frazil.storage.legacy.opening import find_legacy
from frazil.transaction.context import Context, make_context
from frazil.upgrading.publishing import COLON_REFS, renamed
from frazil.upgrading.records import cannot
from frazil.upgrading.source import Source, preserved_keys, put_back, source_of

AT_ONCE: Final = 1000
"""Files that are deleted with one request."""


@dataclass(frozen=True, slots=True)
class Left:
    """The old repository at a place, and the new one if it is published."""

    source: Source
    new: Context | None

    def require_readable(self) -> Seen:
        """Make sure that the old history is there; tell what it would be in the new repository.

        Raises:
            SessionStateError: it is not.
        """
        source = self.source
        try:
            refs = source.read_refs()
            history = source.history({*refs.branches.values(), *refs.tags.values()}, {})
        except SnapshotNotFoundError as error:
            raise cannot("the files of the older generation have been cleaned up") from error
        root = source.root_of(refs, history)
        new = renamed(refs, root)
        ids = {INITIAL_SNAPSHOT_ID if one == root else one for one in history}
        return Seen(dict(new.branches), dict(new.tags), set(new.deleted_tags), ids)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a repository holds, as far as an undone upgrade could lose it."""

    branches: dict[str, SnapshotId]
    tags: dict[str, SnapshotId]
    deleted_tags: set[str]
    snapshots: set[SnapshotId]
    """those that refs lead to"""


def seen_in(new: Context) -> Seen:
    """What a new repository holds."""
    refs = new.refs
    if isinstance(refs, RepoObjectRefs):
        gone = set(refs.info().deleted_tags)
    else:
        assert isinstance(refs, FileRefs)
        gone = {name for name, _ in refs.deleted_tags()}
    branches, tags = dict(refs.branches()), dict(refs.tags())
    found: set[SnapshotId] = set()
    for tip in {*branches.values(), *tags.values()}:
        for entry in refs.ancestry(tip):
            if entry.id in found:
                break
            found.add(entry.id)
    return Seen(branches, tags, gone, found)


def new_at(place: Storage) -> Context | None:
    """The repository of spec 1 or 2 at a place."""
    found = detect(place)
    if found is None or found.generation.dialect is not None:
        return None
    return open_context(place, None, None)


def hidden_refs(place: Storage) -> list[str]:
    """Old refs that were put aside, by the keys that they had."""
    return [key for key in preserved_keys(place) if key.startswith(COLON_REFS)]


def show_hidden_refs(place: Storage) -> None:
    """Put refs back that were put aside."""
    for key in hidden_refs(place):
        put_back(place, key)


def left_at(place: Storage, new: Context | None, store_root: Storage | str | None = None) -> Left:
    """The old repository at a place.

    Raises:
        SessionStateError: there is none.
    """
    old = find_legacy(place)
    if old is None:
        raise cannot("there are no files of an older generation here, or they were cleaned up")
    config = RepositoryConfig() if new is None else new.config
    context = make_context(place, old.generation, config, None, old, store_root)
    return Left(source_of(context), new)


def delete_all(place: Storage, keys: Iterable[str]) -> None:
    """Delete files, in the order given.

    Raises:
        StorageError: one would not go.
    """
    todo = [*keys]
    for at in range(0, len(todo), AT_ONCE):
        require_deleted(place.delete_many(todo[at : at + AT_ONCE]))


def require_writable(place: Storage, action: str) -> None:
    """Refuse an action on a storage that takes no changes.

    Raises:
        ReadOnlyError: it does not.
    """
    if not place.can_write:
        raise ReadOnlyError(
            f"cannot {action}: the storage is read-only", kind=ErrorKind.READ_ONLY_STORAGE
        )
