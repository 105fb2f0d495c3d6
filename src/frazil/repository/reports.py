"""Parts of what can be done to a repository: their base class, and what their verbs report."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from frazil.drawing.reports import ReportView
from frazil.ids import SnapshotId
from frazil.model.values import GCSummary, ManifestFileInfo
from frazil.repository.sessions import SessionMethods
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True, repr=False)
class ExpiryReport(ReportView):
    """What an expiry did, or would do."""

    older_than: datetime
    """the time before which snapshots go"""
    snapshots: tuple[str, ...]
    """ids of those that were released from the history"""
    branches: tuple[str, ...] = ()
    """names of branches that were deleted"""
    tags: tuple[str, ...] = ()
    files: GCSummary = field(default_factory=GCSummary)
    """what was deleted with them"""


@dataclass(frozen=True, slots=True, repr=False)
class CollectionReport(ReportView):
    """What a garbage collection deleted, or would delete."""

    older_than: datetime
    how: str
    """full or incremental"""
    summary: GCSummary
    trash: str | None
    """the batch that it was put aside in"""
    files: tuple[str, ...]
    """where the files were"""


@dataclass(frozen=True, slots=True, repr=False)
class ManifestsReport(ReportView):
    """What building manifests anew did, or would do."""

    branch: str
    previous_snapshot_id: str
    snapshot_id: str | None
    """the new snapshot; None in a dry run"""
    before: tuple[ManifestFileInfo, ...]
    after: tuple[ManifestFileInfo, ...] = ()

    @property
    def removed(self) -> int:
        """Manifests that the new snapshot does not need any more."""
        return len({file.id for file in self.before} - {file.id for file in self.after})

    @property
    def added(self) -> int:
        """Manifests that it needs and the old one did not."""
        return len({file.id for file in self.after} - {file.id for file in self.before})


class Namespace:
    """Verbs of one kind; what they work with is imported when they are used."""

    def __init__(self, repository: SessionMethods, minimum_age: timedelta | None = None) -> None:
        self._repository = repository
        self._minimum_age = minimum_age

    @property
    def _context(self) -> Context:
        """The parts of the repository."""
        return self._repository._context

    def _snapshot(self, version: str) -> SnapshotId:
        """The snapshot that a text means."""
        return SnapshotId.parse(self._repository.resolve(version))

    def _age_floor(self, asked: timedelta | None) -> timedelta | None:
        """How old something must be to be deleted; None: as old as everywhere."""
        return self._minimum_age if asked is None else asked
