"""Commits that failed and may have landed all the same, so that none is made twice."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass

from frazil.commit.base import Publication, RefStore, has_landed
from frazil.errors import ConflictError
from frazil.session.changeset import ChangeSet
from frazil.session.committing import Saved


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A commit of unknown outcome, and a digest of the changes it was made of."""

    publication: Publication
    saved: Saved
    digest: bytes


class Doubts:
    """What a session must remember of its own commits whose reply was lost."""

    def __init__(self) -> None:
        self._open: list[_Doubt] = []

    def add(self, publication: Publication, saved: Saved, changes: ChangeSet) -> None:
        """Remember a commit that the storage says has failed."""
        self._open.append(_Doubt(publication, saved, _digest(changes)))

    def clear(self) -> None:
        """Forget all: the branch has moved without them, so they can no longer land."""
        self._open.clear()

    def landed(self, refs: RefStore, changes: ChangeSet) -> Saved | None:
        """The commit that is in the history after all.

        Raises:
            ConflictError: it is, but the session has been changed since.
        """
        for doubt in self._open:
            entry, base = doubt.publication.entry, doubt.publication.base
            if not has_landed(refs, doubt.publication.branch, entry.id, base):
                continue
            if doubt.digest != _digest(changes):
                raise ConflictError(
                    message="an earlier commit of this session, which seemed to fail, is in the "
                    f"history as snapshot {entry.id}; make changes since then in a new session",
                    expected_parent=str(base),
                    actual_parent=str(entry.id),
                )
            return doubt.saved
        return None


def _digest(changes: ChangeSet) -> bytes:
    return hashlib.blake2b(pickle.dumps(changes)).digest()
