"""The repository under its official name."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from frazil.model.history import (
    RepoAvailability,
)
from frazil.model.values import (
    RepoStatus,
)
from frazil.repository import (
    Repository as OurRepository,
)

__all__ = [
    "RepoAvailability",
    "RepoStatus",
    "Repository",
]


class Repository(OurRepository):
    """The same repository, which deletes by the caller's time alone, as the official package does.

    Programs written for that package collect what they have just released, and expect it to be
    gone. They must know that no session is open which began before the time they give.
    """

    minimum_age: ClassVar[timedelta | None] = timedelta(0)
