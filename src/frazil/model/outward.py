"""Converts the records of files to the records that users get, and back."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Final

from frazil.ids import ObjectId
from frazil.model import history
from frazil.model.history import RepoAvailability, to_datetime, to_micros
from frazil.model.snapshots import MAX_PAGE, HistoryPage
from frazil.model.updates import UpdateType
from frazil.model.values import (
    COMMIT_FIELDS,
    ManifestFileInfo,
    RepoStatus,
    SnapshotInfo,
    SpecVersion,
    Update,
)

_set_page: Final = vars(SnapshotInfo)["_page"].__set__
_set_line: Final = vars(SnapshotInfo)["_line"].__set__
_LINES: Final = tuple(range(MAX_PAGE))
_AT_ONCE: Final = 256
"""Commits made at a time: fewer than make Python collect garbage."""


def snapshot_info(entry: history.SnapshotEntry) -> SnapshotInfo:
    """A commit as users see it."""
    return SnapshotInfo(
        str(entry.id),
        None if entry.parent_id is None else str(entry.parent_id),
        to_datetime(entry.flushed_at),
        entry.message,
        dict(entry.metadata),
    )


def snapshot_infos(pages: Iterable[HistoryPage]) -> Iterator[SnapshotInfo]:
    """The commits of a history as users see them; fields are filled in when one is asked for."""
    return chain.from_iterable(_commits(pages))


def _commits(pages: Iterable[HistoryPage]) -> Iterator[list[SnapshotInfo]]:
    """The commits of each page; in long histories a loop over them would be felt.

    A caller that lets go of them gets few at a time, whose memory is then used again.
    """
    is_read = False
    for page in pages:
        if is_read:  # a caller that read the fields of earlier commits will read these too
            made = _new_commits(len(page))
            for commit, fields in zip(made, page.shown, strict=True):
                commit.__dict__.update(zip(COMMIT_FIELDS, fields, strict=True))
            yield made
        else:
            for first in range(0, len(page), _AT_ONCE):
                lines = _LINES[first : min(first + _AT_ONCE, len(page))]
                made = _new_commits(len(lines))
                deque(map(_set_line, made, lines), maxlen=0)
                deque(map(_set_page, made, repeat(page)), maxlen=0)
                yield made
        is_read = page.is_read


def _new_commits(count: int) -> list[SnapshotInfo]:
    return list(map(object.__new__, repeat(SnapshotInfo, count)))


def manifest_file_info(entry: history.ManifestFile) -> ManifestFileInfo:
    """A manifest as users see it."""
    return ManifestFileInfo(str(entry.id), entry.size_bytes, entry.num_chunk_refs)


def repo_status(status: history.StoredStatus) -> RepoStatus:
    """A status as users see it; offline counts as online, as in the official package."""
    shown = status.availability
    if shown is RepoAvailability.offline:
        shown = RepoAvailability.online
    return RepoStatus(shown, to_datetime(status.set_at), status.reason)


def inner_status(status: RepoStatus) -> history.StoredStatus:
    """A status as the repository keeps it."""
    when = status.set_at or datetime.now(UTC)
    return history.StoredStatus(
        RepoAvailability(status.availability), to_micros(when), status.limited_availability_reason
    )


def update_of(entry: history.UpdateEntry) -> Update:
    """A line of the operations log as users see it."""
    kind = entry.kind
    shown = {each.name: _outward(getattr(kind, each.name)) for each in dataclasses.fields(kind)}
    if isinstance(kind, UpdateType.RepoMigrated):
        versions = (kind.from_version, kind.to_version)
        shown = dict(zip(shown, map(_spec_version, versions), strict=True))
    return Update(
        dataclasses.replace(kind, **shown), to_datetime(entry.updated_at), entry.backup_path
    )


def _spec_version(number: int) -> int:
    return SpecVersion(number) if number in (1, 2) else number


def _outward(value: object) -> object:
    if isinstance(value, ObjectId):
        return str(value)
    return repo_status(value) if isinstance(value, history.StoredStatus) else value
