"""Commits whose outcome is unknown: they failed, and may have landed all the same."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, replace

from frazil.commit.base import Publication, RefStore, has_landed
from frazil.errors import ConflictError
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.committing import Saved


@dataclass(frozen=True, slots=True)
class _Unresolved:
    """A commit of unknown outcome, and a digest of the changes it was made of."""

    publication: Publication
    saved: Saved
    digest: bytes | None = None
    """None while it is under way"""


class UnresolvedCommits:
    """What a session must remember of its own commits that may have landed unseen.

    A commit is noted before it is tried, so that not even an interrupt between two lines can
    make it forgotten.
    """

    def __init__(self) -> None:
        self._open: list[_Unresolved] = []

    def begin(self, publication: Publication, saved: Saved) -> None:
        """Note a commit that is about to be published."""
        self._open.append(_Unresolved(publication, saved))

    def keep(self, changes: ChangeSet) -> None:
        """Remember the commit that was begun last: nobody knows whether it has landed."""
        if not self._open:
            return  # it has, and only what follows was interrupted
        self._open[-1] = replace(self._open[-1], digest=_digest(changes))

    def drop(self) -> None:
        """Forget the commit that was begun last: the repository has refused it."""
        self._open.pop()

    def clear(self) -> None:
        """Forget all: one has landed, or the branch has moved so that none can any more."""
        self._open.clear()

    def landed(self, refs: RefStore, changes: ChangeSet | None) -> Saved | None:
        """The commit that is in the history after all.

        `changes` are those the session has now; None when it has been closed.

        Raises:
            ConflictError: it is, but the session has been changed since.
        """
        for tried in self._open:
            entry, base = tried.publication.entry, tried.publication.base
            if not has_landed(refs, tried.publication.branch, entry.id, base):
                continue
            if changes is not None and tried.digest != _digest(changes):
                raise ConflictError(
                    message="an earlier commit of this session, which seemed to fail, is in the "
                    f"history as snapshot {entry.id}; make changes since then in a new session",
                    expected_parent=str(base),
                    actual_parent=str(entry.id),
                )
            return tried.saved
        return None


def _digest(changes: ChangeSet) -> bytes:
    return hashlib.blake2b(pickle.dumps(changes)).digest()
