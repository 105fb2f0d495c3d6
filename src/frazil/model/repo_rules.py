"""How the repo object changes: one line of the operations log for each rewrite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from frazil.errors import ErrorKind, FormatError
from frazil.model.history import Micros, RepoInfo, UpdateEntry, UpdateKind, UpdateLog


def with_update(
    info: RepoInfo,
    kind: UpdateKind,
    now_micros: Micros,
    backup_name: str,
    limit: int,
    **changes: Any,  # noqa: ANN401  # fields of RepoInfo
) -> RepoInfo:
    """The repo object after a change.

    `backup_name` is the copy of the object as it was, which from now on holds the lines beyond
    `limit`.

    Raises:
        FormatError: the time is not later than that of the last change.
    """
    log = UpdateLog.of(info.latest_updates)
    if len(log) and now_micros <= int(log.columns.rows["updated_at"][0]):
        raise FormatError(
            "the clock says it is not later than the last change of the repository",
            kind=ErrorKind.SNAPSHOT_TIMESTAMP,
            now=now_micros,
        )
    log, dropped = log.with_newest(
        UpdateEntry(kind, now_micros), backup_path=backup_name, limit=limit
    )
    before = info.repo_before_updates if dropped is None else dropped
    return replace(info, **changes, latest_updates=log, repo_before_updates=before)
