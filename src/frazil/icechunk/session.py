"""Sessions under their official names."""

from __future__ import annotations

from frazil.model.values import (
    SessionMode,
)
from frazil.session.session import (
    ForkSession,
    Session,
)

__all__ = [
    "ForkSession",
    "Session",
    "SessionMode",
]
