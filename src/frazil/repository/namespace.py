"""A part of what can be done to a repository: `repo.versions`, `repo.space` and `repo.audit`."""

from __future__ import annotations

from datetime import timedelta

from frazil.ids import SnapshotId
from frazil.repository.sessions import Sessions
from frazil.transaction.context import Context


class Namespace:
    """Verbs of one kind; what they work with is imported when they are used."""

    def __init__(self, repository: Sessions, minimum_age: timedelta | None = None) -> None:
        self._repository = repository
        self._minimum_age = minimum_age

    @property
    def context(self) -> Context:
        """The parts of the repository."""
        return self._repository.context

    def _snapshot(self, version: str) -> SnapshotId:
        """The snapshot that a text means."""
        return SnapshotId.parse(self._repository.resolve(version))

    def _age_floor(self, asked: timedelta | None) -> timedelta | None:
        """How old something must be to be deleted; None: as old as everywhere."""
        return self._minimum_age if asked is None else asked
