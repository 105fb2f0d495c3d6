"""The operations log and maintenance results under their official names."""

from __future__ import annotations

from frazil.model.values import (
    GCSummary,
    Update,
    UpdateType,
)

__all__ = [
    "GCSummary",
    "Update",
    "UpdateType",
]
