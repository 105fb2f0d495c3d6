"""Type aliases under their official names."""

from __future__ import annotations

from frazil.model.values import (
    CommitMethod,
    SpecVersion,
)

__all__ = [
    "CommitMethod",
    "SpecVersion",
]
