"""Sessions under their official names."""

from __future__ import annotations

from frazil import session as ours
from frazil.icechunk.store import IcechunkStore
from frazil.ids import SnapshotId
from frazil.model.values import SessionMode
from frazil.naming import OFFICIAL

__all__ = ["ForkSession", "Session", "SessionMode"]


class Session(ours.Session):
    """A view of one snapshot, with the changes made to it since."""

    _shown_package = OFFICIAL

    @property
    def store(self) -> IcechunkStore:
        """The Zarr store of this session."""
        return IcechunkStore(self)

    def _fork_at(self, base: SnapshotId) -> ForkSession:
        return ForkSession(self.state.context, base, mode=SessionMode.writable)


class ForkSession(ours.ForkSession, Session):
    """A writable copy of a session for a worker: it pickles, and is merged back to commit."""

    _shown_name = Session._shown_name
    _shown_package = OFFICIAL
