"""Aids for tests, under the official names."""

from __future__ import annotations

from frazil.storage.wrapped import LatencyStorage

__all__ = ["LatencyStorage"]
