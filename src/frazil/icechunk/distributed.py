"""Merging the work of many writers, under the official names."""

from __future__ import annotations

from frazil.distributed import extract_session, merge_sessions

__all__ = ["extract_session", "merge_sessions"]
