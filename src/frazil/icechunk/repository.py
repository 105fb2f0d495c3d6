"""The repository under its official name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from frazil.icechunk.session import Session
from frazil.model.config import Attribution, RepositoryConfig
from frazil.model.history import RepoAvailability
from frazil.model.values import RepoStatus
from frazil.naming import OFFICIAL
from frazil.repository import Repository as Ours
from frazil.storage.base import Storage
from frazil.transaction.context import Context

__all__ = ["RepoAvailability", "RepoStatus", "Repository"]


class Repository(Ours):
    """An Icechunk repository, with the official package's ways where they differ from ours.

    It deletes by the caller's time alone: programs written for that package collect what they
    have just released, and expect it to be gone. They must know that no session is open which
    began before the time they give. Its configuration shows, and keeps, the settings of the
    storage in force.
    """

    _shown_package = OFFICIAL
    _session_class = Session
    _minimum_age: ClassVar[timedelta | None] = timedelta(0)

    def __init__(
        self, context: Context, storage: Storage, attribution: Attribution | None = None
    ) -> None:
        config = RepositoryConfig().merge(context.config)
        config.storage = config.storage_settings(storage.default_settings())
        super().__init__(replace(context, config=config), storage, attribution)
