"""The repository under its official name."""

from __future__ import annotations

from frazil.model.history import (
    RepoAvailability,
)
from frazil.model.values import (
    RepoStatus,
)
from frazil.repository import (
    Repository,
)

__all__ = [
    "RepoAvailability",
    "RepoStatus",
    "Repository",
]
