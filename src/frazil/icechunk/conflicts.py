"""Conflicts and their solvers under their official names."""

from __future__ import annotations

from frazil.model.values import (
    BasicConflictSolver,
    Conflict,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)

__all__ = [
    "BasicConflictSolver",
    "Conflict",
    "ConflictDetector",
    "ConflictSolver",
    "ConflictType",
    "VersionSelection",
]
