"""Virtual chunk records under their official names."""

from __future__ import annotations

from frazil.model.config import (
    VirtualChunkContainer,
    VirtualChunkSpec,
)

__all__ = [
    "VirtualChunkContainer",
    "VirtualChunkSpec",
]
