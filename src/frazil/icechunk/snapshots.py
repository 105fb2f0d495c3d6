"""History records under their official names."""

from __future__ import annotations

from frazil.model.graph import (
    AncestryGraph,
)
from frazil.model.values import (
    Diff,
    ManifestFileInfo,
    SnapshotInfo,
)

__all__ = [
    "AncestryGraph",
    "Diff",
    "ManifestFileInfo",
    "SnapshotInfo",
]
