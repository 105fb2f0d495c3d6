"""What users hold: `view` reads one snapshot, `session` changes, commits, rebases and forks."""

from __future__ import annotations

from frazil.session.session import ForkSession, Session

__all__ = ["ForkSession", "Session"]
