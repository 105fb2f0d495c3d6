"""The step that moves the branch: publishing a saved snapshot, and what follows when that fails.

If the reply to a publication is lost, the commit may have landed all the same. A session remembers
such commits and looks for them in the history before it tries again.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from frazil.commit.base import Publication, RefStore, has_landed
from frazil.commit.refusals import moved
from frazil.errors import (
    ConflictError,
    ErrorKind,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.history import SnapshotEntry, TransactionLog
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.committing import Saved, commit_metadata, start_save
from frazil.transaction.long_open import confirm_chunks
from frazil.transaction.working import WorkingState


@dataclass(frozen=True, slots=True)
class _Unresolved:
    """A commit of unknown outcome, and a digest of the changes it was made of."""

    publication: Publication
    saved: Saved
    digest: bytes | None = None
    """None while it is under way"""


class UnresolvedCommits:
    """Commits of a session of which it is not known whether they succeeded.

    A commit is recorded before it is tried, so that no interrupt can make it forgotten.
    """

    def __init__(self) -> None:
        self._open: list[_Unresolved] = []

    def begin(self, publication: Publication, saved: Saved) -> None:
        """Record a commit that is about to be published."""
        self._open.append(_Unresolved(publication, saved))

    def keep(self, changes: ChangeSet) -> None:
        """Remember the commit that was begun last: its outcome is unknown."""
        if not self._open:
            return  # it has landed, and only what follows was interrupted
        self._open[-1] = replace(self._open[-1], digest=_digest(changes))

    def drop(self) -> None:
        """Forget the commit that was begun last: the repository has refused it."""
        self._open.pop()

    def clear(self) -> None:
        """Forget all: one has landed, or the branch has moved so that none can any more."""
        self._open.clear()

    def landed(self, refs: RefStore, changes: ChangeSet | None) -> tuple[Publication, Saved] | None:
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
            return tried.publication, tried.saved
        return None


def _digest(changes: ChangeSet) -> bytes:
    return hashlib.blake2b(pickle.dumps(changes)).digest()


class Publisher:
    """Makes the changes of one session the tip of its branch."""

    def __init__(self, state: WorkingState) -> None:
        self._state = state
        self.unresolved = UnresolvedCommits()

    def landed(self) -> Saved | None:
        """A commit of these changes that seemed to fail but is in the history.

        Raises:
            SessionStateError: it is, but something that it refers to is gone.
        """
        state = self._state
        changes = None if state.is_closed else state.changes
        found = self.unresolved.landed(state.context.refs, changes)
        if found is None:
            return None
        publication, saved = found
        if changes is not None:
            # Looking for it may have failed, not the commit.
            confirm_chunks(state.context, publication, changes)
        return saved

    def commit(
        self,
        branch: str,
        message: str,
        metadata: dict[str, Any] | None,
        own: dict[str, Any],
        finish: Callable[[Saved], str],
        *,
        amends: bool = False,
        rewrite_manifests: bool = False,
    ) -> str:
        """Save the changes and make them the tip of the branch, or take the place of the tip.

        Args:
            branch: its name.
            message: of the commit.
            metadata: of the commit, as the user gave it.
            own: metadata that Frazil itself adds.
            finish: makes the session read-only once the commit has landed; returns its id.
            amends: whether the commit takes the place of the tip.
            rewrite_manifests: whether all manifests are built anew.

        Raises:
            ConflictError: the branch has moved.
        """
        state, base = self._state, self._state.base_id
        if amends:
            state.context.generation.require_repo_object("amend")
        tip = state.context.refs.writable_tip(branch)
        if tip != base:
            if landed := self.landed():
                return finish(landed)
            raise moved(base, tip, branch)
        replaced, earlier = self._replaced() if amends else (None, None)
        parent = base if replaced is None else replaced.parent_id
        pruned = () if replaced is None else replaced.pruned_ancestor_tx_logs
        with state.closing():
            saved, wait = start_save(
                state,
                message,
                commit_metadata(state, metadata, own, replaces=amends),
                parent=parent,
                earlier=earlier,
                rewrite_manifests=rewrite_manifests,
            )
            entry = saved.snapshot.entry(parent, pruned)
            requires = frozenset(state.changes.sources)
            publication = Publication(branch, base, entry, amends, requires)
            return self._publish(publication, saved, wait, finish)

    def _replaced(self) -> tuple[SnapshotEntry, TransactionLog | None]:
        """The commit that an amended one takes the place of, and its log."""
        entry = self._state.context.refs.entry(self._state.base_id)
        if entry.parent_id is None or entry.id == INITIAL_SNAPSHOT_ID:
            raise SessionStateError(
                "the first snapshot of a repository cannot be amended",
                kind=ErrorKind.NO_AMEND_FOR_INITIAL_COMMIT,
            )
        log = self._state.context.assets.log(entry.id)
        if log is not None and log.moved_nodes and self._state.editable:
            raise SessionStateError(
                "the commit to amend moved nodes; only a rearrange session can amend it",
                kind=ErrorKind.REARRANGE_SESSION_ONLY,
            )
        return entry, log

    def _publish(
        self,
        publication: Publication,
        saved: Saved,
        wait: Callable[[], None],
        finish: Callable[[Saved], str],
    ) -> str:
        changes = self._state.changes
        self.unresolved.begin(publication, saved)
        try:
            self._state.context.refs.publish(publication, wait)
            confirm_chunks(self._state.context, publication, changes)
            return finish(saved)
        except (ConflictError, SnapshotNotFoundError, RefNotFoundError):
            self.unresolved.drop()  # the repository has said no
            raise
        except BaseException:
            # An interrupt tells as little as a lost reply does: the commit may have landed.
            self.unresolved.keep(changes)
            raise
