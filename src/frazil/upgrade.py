"""Moving a repository to a newer generation, from one open handle to the next."""

from __future__ import annotations

from frazil.maintenance.upgrade import upgrade_v1_to_v2
from frazil.repository import Repository


def upgrade_repository(
    repository: Repository,
    *,
    dry_run: bool = False,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> Repository:
    """Upgrade a repository of spec version 1 to version 2 and return it opened anew.

    Branches, tags and the whole history are kept, and no chunk is copied. Other writers must
    not use the repository meanwhile. A dry run checks everything and changes nothing; the old
    handle stays valid then, and is invalid after a real upgrade.
    """
    upgrade_v1_to_v2(
        repository.context,
        dry_run=dry_run,
        delete_unused_v1_files=delete_unused_v1_files,
        prefetch_concurrency=prefetch_concurrency,
    )
    if dry_run:
        return repository.reopen()
    old = repository.context
    fresh = Repository.open(repository.storage, old.config, old.authorized, repository.attribution)
    repository.retire()
    return fresh
