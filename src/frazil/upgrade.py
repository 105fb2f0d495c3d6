"""Upgrades an open repository to a newer generation, and returns a handle on the new one."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from frazil.maintenance.upgrade import upgrade_v1_to_v2
from frazil.opening import open_context
from frazil.progress import Tell
from frazil.repository import Repository
from frazil.repository.handle import retire
from frazil.run import LocalRunner, Runner
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_at
from frazil.transaction.opened import context_of
from frazil.upgrading.chunks import mover
from frazil.upgrading.cleaning import delete_old_files
from frazil.upgrading.source import (
    ChunkMode,
    TidyReport,
    UpgradeReport,
    cannot,
    target_generation,
)
from frazil.upgrading.undoing import undo
from frazil.upgrading.upgrade import upgrade

__all__ = [
    "TidyReport",
    "UpgradeReport",
    "clean_upgrade",
    "plan_upgrade",
    "undo_upgrade",
    "upgrade_older",
    "upgrade_repository",
]

R = TypeVar("R", bound=Repository)


def upgrade_repository(
    repository: R,
    *,
    dry_run: bool = False,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
    to: int = 2,
    mode: str = ChunkMode.LINK,
) -> R:
    """Upgrade a repository to a newer spec version and return it opened anew.

    Branches, tags and the whole history are kept. From version 1 to 2 no chunk is copied; what
    others commit meanwhile is taken over or refused. One from before version 1 becomes one of
    version `to` (see `upgrade_older`). A dry run checks everything and changes nothing; the old
    handle stays valid then, and is invalid after a real upgrade.
    """
    if context_of(repository).generation.is_legacy:
        upgrade_older(repository, to=to, mode=mode, dry_run=dry_run)
    elif to == 2:
        upgrade_v1_to_v2(
            context_of(repository),
            dry_run=dry_run,
            delete_unused_v1_files=delete_unused_v1_files,
            prefetch_concurrency=prefetch_concurrency,
        )
    else:
        target_generation(to)  # one that does not exist is told as such
        raise cannot(f"this repository has {context_of(repository).generation.title} already")
    if dry_run:
        return repository.reopen()
    old = context_of(repository)
    labelled = repository.storage.with_attribution(repository.attribution)
    # What was found in the repository does not become the caller's word by being opened again.
    context = open_context(labelled, old.config, old.authorized, trust=old.trust)
    fresh = type(repository)(context, repository.storage, repository.attribution)
    retire(repository)
    return fresh


def upgrade_older(
    repository: Repository | Storage | str | Path,
    *,
    to: int = 2,
    mode: str = ChunkMode.LINK,
    dry_run: bool = False,
    runner: Runner = LocalRunner(),  # noqa: B008 - a frozen record
    progress: Tell | None = None,
) -> UpgradeReport:
    """Upgrade a repository of the generations G1, G2 or G3 to spec version 1 or 2.

    History, messages, times, branches, tags and properties are kept; ids of snapshots too, as
    far as they had 12 bytes. Chunk objects of G3 stay where they are. Those of G1 and G2 get
    second names (`mode="link"`), are copied (`"copy"`), or stay and are read through a virtual
    chunk container (`"virtual"`), which every reader must then authorise. An upgrade may be
    interrupted anywhere and run again. Old files stay until `clean_upgrade`, and `undo_upgrade`
    leads back to them. `runner` links or copies; threads of this process by default. `progress`
    is called with the number of chunks that are done.

    Raises:
        SessionStateError: the repository is not from before spec version 1.
        FormatError: something cannot be represented; nothing was written then.
        ConflictError: the repository kept changing.
    """
    handle = repository if isinstance(repository, Repository) else Repository.open(repository)
    make_move = partial(mover, runner=runner, progress=progress)
    return upgrade(context_of(handle), to=to, mode=mode, dry_run=dry_run, make_move=make_move)


def plan_upgrade(
    repository: Repository | Storage | str | Path, *, to: int = 2, mode: str = ChunkMode.LINK
) -> UpgradeReport:
    """What `upgrade_older` would do; nothing is written."""
    return upgrade_older(repository, to=to, mode=mode, dry_run=True)


def undo_upgrade(
    place: Storage | str | Path,
    *,
    dry_run: bool = False,
    force: bool = False,
    store_root: Storage | str | None = None,
    unsafe_minimum_age: timedelta | None = None,
) -> TidyReport:
    """Go back to the repository of an older generation that was upgraded, or was about to be.

    `store_root` is where its files are if its state file says that they are elsewhere.

    Raises:
        SessionStateError: its files were cleaned up, or the new repository has been changed
            since, and `force` is not set; or another process is upgrading or undoing it, or was
            killed doing so less than a day (or `unsafe_minimum_age`) ago.
    """
    return undo(
        storage_at(place),
        dry_run=dry_run,
        force=force,
        store_root=store_root,
        unsafe_minimum_age=unsafe_minimum_age,
    )


def clean_upgrade(
    place: Storage | str | Path,
    *,
    dry_run: bool = False,
    store_root: Storage | str | None = None,
    unsafe_minimum_age: timedelta | None = None,
) -> TidyReport:
    """Delete what an upgrade left of the older generation; old writers stay locked out.

    `store_root` is where its files are if its state file says that they are elsewhere.

    Raises:
        SessionStateError: there is nothing left, or the upgrade is not finished, or some of it
            was written less than a day ago (or `unsafe_minimum_age`).
    """
    return delete_old_files(
        storage_at(place),
        dry_run=dry_run,
        store_root=store_root,
        unsafe_minimum_age=unsafe_minimum_age,
    )
