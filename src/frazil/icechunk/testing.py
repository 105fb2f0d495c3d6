"""Aids for tests, under the official names."""

from __future__ import annotations

from frazil.storage.latency import LatencyStorage

__all__ = ["LatencyStorage"]
