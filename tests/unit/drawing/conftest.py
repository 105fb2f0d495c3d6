"""The repository that reports are about."""

from tests.support.notebooks import repo

__all__ = ["repo"]
