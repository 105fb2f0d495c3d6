"""How tests say that nobody else uses a repository, so that what is young may be deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from frazil.repository import Repository
from frazil.transaction.opened import context_of

AT_ONCE: Final = timedelta(0)


def left_over(repository: Repository) -> list[str]:
    """Keys of the files that no snapshot needs; they are collected to see which."""
    storage = context_of(repository).storage
    before = {each.key for each in storage.list()}
    later = datetime.now(UTC) + timedelta(days=1)
    repository.garbage_collect(later, unsafe_minimum_age=AT_ONCE)
    return sorted(before - {each.key for each in storage.list()})
