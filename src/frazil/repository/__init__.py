"""The public door: an open repository, put together from its parts."""

from frazil.repository.repository import Repository

__all__ = ["Repository"]
