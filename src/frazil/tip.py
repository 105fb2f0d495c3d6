"""A branch at the snapshot that a plan was made from, and sessions at exactly that snapshot.

A job that plans from one snapshot and writes in a session at a newer one would overwrite what was
committed in between. A tip opens both sessions at the same snapshot, so that the commit notices
that the branch has moved. It also knows when it was taken: what a job has stored since may be so
old that a garbage collection does not spare it, and the commit looks for it then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from frazil.commit.refusals import gone
from frazil.errors import ErrorKind, ReadOnlyError
from frazil.ids import SnapshotId
from frazil.model.values import SessionMode
from frazil.session import Session
from frazil.transaction.context import Context
from frazil.transaction.preload import start_preload


@dataclass(frozen=True, slots=True)
class Tip:
    """A branch and the snapshot that a plan was made from."""

    branch: str
    snapshot_id: str
    context: Context = field(repr=False, compare=False)
    began: float = field(default_factory=time.time, repr=False, compare=False)
    """when it was taken, or when the plan that names its snapshot was made"""

    def readonly_session(self) -> Session:
        """A session to plan with."""
        return self._opened(None, SessionMode.readonly)

    def writable_session(self) -> Session:
        """A session for what was planned.

        Its commit fails, or is rebased, when the branch has moved since.

        Raises:
            ReadOnlyError: the storage, or the repository, takes no changes.
        """
        require_writable(self.context)
        self.context.refs.require_online()
        session = self._opened(self.branch, SessionMode.writable)
        session.state.changes.began = self.began
        return session

    def _opened(self, branch: str | None, mode: SessionMode) -> Session:
        session = Session(
            self.context, SnapshotId.parse(self.snapshot_id), branch=branch, mode=mode
        )
        start_preload(session.state)
        return session


def tip_of(context: Context, branch: str, snapshot_id: str | None = None) -> Tip:
    """The tip of a branch now, or the snapshot that was its tip when a plan was made."""
    if snapshot_id is None:
        return Tip(branch, str(context.refs.branch_tip(branch)), context)
    return Tip(branch, str(SnapshotId.parse(snapshot_id)), context)


def require_writable(context: Context, action: str = "") -> None:
    """Refuse changes of a place that can only be read; a named action also while it is offline."""
    if not context.storage.can_write:
        detail = f"cannot {action}" if action else "no changes are possible"
        raise ReadOnlyError(
            f"{detail}: {context.why_read_only}",
            kind=ErrorKind.READ_ONLY_STORAGE,
            url=context.place.url,
        )
    if action:
        context.refs.require_online()


def watched(context: Context, snapshot_id: SnapshotId) -> Callable[[], None]:
    """A check, for jobs that copy a snapshot, that it has not gone since this was called.

    A purge takes snapshots out of the history before it overwrites bytes with zeros. So if the
    snapshot still exists when all is copied, no such zeros were copied. Snapshots outside the
    history, such as those of a fork, are not checked.
    """
    was_there = context.refs.is_there(snapshot_id)

    def check() -> None:
        if was_there and not context.refs.is_there(snapshot_id):
            raise gone(snapshot_id)

    return check
