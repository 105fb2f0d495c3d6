"""What an upgrade leaves of an old repository beside the new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import ErrorKind, ReadOnlyError, SnapshotNotFoundError, StorageError
from frazil.ids import SnapshotId
from frazil.maintenance.upgrade import OldRefs
from frazil.model.config import RepositoryConfig
from frazil.opening import detect, open_context
from frazil.session.context import Context, make_context
from frazil.storage.base import Storage
from frazil.storage.older.opening import find_old
from frazil.upgrading.preserving import preserved_keys, put_back
from frazil.upgrading.publishing import COLON_REFS, renamed
from frazil.upgrading.records import cannot
from frazil.upgrading.source import Source, source_of

Refs: TypeAlias = tuple[dict[str, SnapshotId], dict[str, SnapshotId], set[str]]

AT_ONCE: Final = 1000
"""Files that are deleted with one request."""


@dataclass(frozen=True, slots=True)
class Left:
    """The old repository at a place, and the new one if it is published."""

    source: Source
    new: Context | None

    def require_readable(self) -> OldRefs:
        """Make sure that the old history is there; tell what its refs would be in the new one.

        Raises:
            SessionStateError: it is not.
        """
        source = self.source
        try:
            refs = source.read_refs()
            history = source.history(source.tips(refs), {})
        except SnapshotNotFoundError as error:
            raise cannot("the files of the older generation have been cleaned up") from error
        return renamed(refs, source.root_of(refs, history))


def named(refs: OldRefs) -> Refs:
    """Branches, tags and the names of deleted tags, of refs as an upgrade knows them."""
    return dict(refs.branches), dict(refs.tags), set(refs.deleted_tags)


def refs_of(new: Context) -> Refs:
    """The same of a new repository."""
    refs = new.refs
    if isinstance(refs, RepoObjectRefs):
        gone = set(refs.info().deleted_tags)
    else:
        assert isinstance(refs, FileRefs)
        gone = {name for name, _ in refs.deleted_tags()}
    return dict(refs.branches()), dict(refs.tags()), gone


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


def left_at(place: Storage, new: Context | None) -> Left:
    """The old repository at a place.

    Raises:
        SessionStateError: there is none.
    """
    old = find_old(place)
    if old is None:
        raise cannot("there are no files of an older generation here, or they were cleaned up")
    config = RepositoryConfig() if new is None else new.config
    return Left(source_of(make_context(place, old, config, None)), new)


def delete_all(place: Storage, keys: Iterable[str]) -> None:
    """Delete files, in the order given.

    Raises:
        StorageError: one would not go.
    """
    todo = [*keys]
    for at in range(0, len(todo), AT_ONCE):
        failed = place.delete_many(todo[at : at + AT_ONCE]).failed
        if failed:
            raise StorageError(f"a file could not be deleted: {failed[0][1]}", key=failed[0][0])


def require_writable(place: Storage, action: str) -> None:
    """Refuse an action on a storage that takes no changes.

    Raises:
        ReadOnlyError: it does not.
    """
    if not place.can_write:
        raise ReadOnlyError(
            f"cannot {action}: the storage is read-only", kind=ErrorKind.READ_ONLY_STORAGE
        )
