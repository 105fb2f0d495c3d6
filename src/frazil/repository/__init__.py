"""The public door: an open repository, put together from its parts.

`Repository` is loaded on first use: tools that only look at refs and history import those parts
without the Zarr store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frazil.repository.repository import Repository

__all__ = ["Repository"]


def __getattr__(name: str) -> object:
    if name != "Repository":
        raise AttributeError(f"module 'frazil.repository' has no attribute {name!r}")
    from frazil.repository.repository import Repository

    globals()[name] = Repository
    return Repository
