"""The `repo` object of v2, which is replaced by compare-and-swap.

The object that is replaced is first copied below `overwritten/`, which keeps the operations log
complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frazil.commit.base import (
    OVERWRITTEN,
    attempts,
    backup_name,
    check_clock,
    create_object,
    later_than,
    now_micros,
)
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FrazilError,
    ReadOnlyError,
    RepositoryNotFoundError,
    StorageError,
)
from frazil.formats.repo_info import REPO_KEY, decode_repo_info, encode_repo_info, write_repo_info
from frazil.ids import MAIN
from frazil.model.config import RepositoryConfig
from frazil.model.history import (
    JSON,
    Micros,
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    SnapshotTable,
    StoredStatus,
    UpdateEntry,
    UpdateKind,
    UpdateLog,
    UpdateType,
    with_update,
)
from frazil.storage.assets import file_attributes
from frazil.storage.base import Fetched, LostRace, Storage, Unchanged, Version, Written


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the repo object: what happened, and the fields that differ."""

    kind: UpdateKind
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A write of the repo object, known by the name it gave to its backup."""

    backup: str
    time: Micros

    def is_in(self, info: RepoInfo) -> bool:
        """Tell whether this write is part of the history of a repo object.

        Each entry of the operations log names the backup that the next write made, so a write
        is found by the name of its backup.
        """
        log = info.latest_updates
        for row in range(len(log)):
            line = log[row]
            if line.backup_path == self.backup:
                return True
            if line.updated_at < self.time:
                return False
        return info.repo_before_updates == self.backup


def create_repo_object(storage: Storage, info: RepoInfo, level: int) -> Written | LostRace:
    """Write the first repo object; losing means that a repository exists already."""
    blob = encode_repo_info(info, level=level)
    return create_object(storage, REPO_KEY, blob, file_attributes("repo-info", 2))


class RepoObject:
    """The repo object of a repository: reads it, and changes it whatever others do meanwhile."""

    def __init__(
        self,
        storage: Storage,
        config: RepositoryConfig,
        known: tuple[Version, RepoInfo] | None = None,
    ) -> None:
        self._storage = storage
        self._level = config.compression_level()
        self._retries = config.update_retries()
        self._log_limit = config.updates_per_repo_info_file()
        self._known = known

    def info(self) -> RepoInfo:
        """The repo object as it is now."""
        return self._read()[1]

    def _read(self) -> tuple[Version, RepoInfo]:
        """Read the object, or learn that it is still the one we know."""
        known = self._known
        found = self._storage.fetch(REPO_KEY, known[0] if known else None)
        match found:
            case Unchanged():
                assert known is not None
                return known
            case Fetched(data, version):
                fresh = (version, decode_repo_info(data, key=REPO_KEY))
                self._known = fresh
                return fresh
            case None:
                raise RepositoryNotFoundError("the repo object is gone", url=self._storage.url)

    def edit(
        self,
        change: Callable[[RepoInfo], Edit | None],
        *,
        any_status: bool = False,
        ready: Callable[[], None] | None = None,
        trusts_known: bool = False,
    ) -> None:
        """Apply a pure change until it wins; the change may run many times.

        Nothing is written to the object before `ready` has returned. A caller that passes `ready`
        has compared the clock of this machine with the store's. With `trusts_known` the object is
        not read again before the first attempt, only after a refused write.

        `change` gets the present state and returns None when there is nothing to do. It takes
        effect once, also when the reply to a write is lost and others have written since.
        """
        lost: _Replacement | None = None
        known = self._known if trusts_known else None
        tries = attempts(self._retries)
        while True:
            try:
                next(tries)
            except ConflictError:
                if lost is not None and lost.is_in(self.info()):
                    return  # our write took effect; only its reply was lost
                raise
            trusted, known = known, None
            version, info = trusted or self._read()
            if lost is not None and lost.is_in(info):
                return
            try:
                if not any_status:
                    require_online(info)
                edit = change(info)
            except FrazilError:
                if trusted is None:
                    raise
                continue  # refuse only by the present state, not by a cached one
            if edit is None:
                return
            lost = self._replace(version, info, edit, ready)
            if lost is None:
                return

    def _replace(
        self, version: Version, info: RepoInfo, edit: Edit, ready: Callable[[], None] | None
    ) -> _Replacement | None:
        """Write the changed object; None says that it is there."""
        began = now_micros()
        now = later_than(UpdateLog.of(info.latest_updates).newest_at)
        ours = _Replacement(backup_name(REPO_KEY, now), now)
        new = with_update(info, edit.kind, now, ours.backup, self._log_limit, **edit.fields)
        blob, new = write_repo_info(new, level=self._level)
        if isinstance(
            self._storage.copy_if(REPO_KEY, OVERWRITTEN + ours.backup, version), LostRace
        ):
            self._known = None
            return ours
        if ready is None:
            check_clock(self._time_at(OVERWRITTEN + ours.backup), began)
        try:
            outcome = self._storage.put_when(
                REPO_KEY, blob, version, ready or _nothing, file_attributes("repo-info", 2)
            )
        except StorageError as error:
            self._known = None
            if not self._has_landed(ours, error):
                raise
            return None
        match outcome:
            case Written(written):
                self._known = (written, new)
                return None
            case LostRace():
                self._known = None
                return ours

    def _time_at(self, fresh: str) -> datetime:
        """The store's time; an object that was just copied tells it with one request."""
        # On local disk a copy is a second name, which has the time of the first.
        seen = None if self._storage.answers_inline else self._storage.head(fresh)
        return self._storage.clock() if seen is None else seen.created_at

    def _has_landed(self, ours: _Replacement, error: StorageError) -> bool:
        """See whether a write that failed has taken effect all the same."""
        try:
            _, info = self._read()
            self._storage.make_durable([REPO_KEY])
        except StorageError:
            raise error from None
        return ours.is_in(info)


def _nothing() -> None:
    """What a write waits for when there is nothing to wait for."""


def require_online(info: RepoInfo) -> None:
    """Refuse changes unless the repository is online."""
    status = info.status
    if status.availability != RepoAvailability.online:
        reason = f": {status.reason}" if status.reason else ""
        raise ReadOnlyError(
            f"repository status is {status.availability.name.replace('_', '-')}{reason}",
            kind=ErrorKind.READ_ONLY_REPOSITORY,
        )


def first_repo_info(entry: SnapshotEntry, table: SnapshotTable, config: JSON | None) -> RepoInfo:
    """The repo object of a repository that has just been created."""
    now = now_micros()
    return RepoInfo(
        spec_version=2,
        tags={},
        branches={MAIN: entry.id},
        deleted_tags=frozenset(),
        snapshots=table,
        status=StoredStatus(RepoAvailability.online, now),
        metadata={},
        latest_updates=UpdateLog.of([UpdateEntry(UpdateType.RepoInitialized(), now)]),
        config=config,
    )
