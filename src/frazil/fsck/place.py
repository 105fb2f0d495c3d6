"""Opening what may be damaged: the parts of a repository even where it cannot be opened."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from frazil.commit.by_repo_object import REPO_KEY
from frazil.errors import FormatError, RepositoryNotFoundError
from frazil.formats.envelope import HEADER, MAGIC
from frazil.formats.generation import V1, V2, Generation
from frazil.formats.ref_files import REFS
from frazil.model.config import RepositoryConfig
from frazil.opening import open_context
from frazil.storage.assets import SNAPSHOTS
from frazil.storage.base import Storage
from frazil.transaction.context import Context, make_context


class Opened(Protocol):
    """What is asked of an open repository."""

    @property
    def context(self) -> Context:
        """Its parts."""


Place: TypeAlias = Opened | Context | Storage
"""An open repository, or where one is or was."""


def open_anyway(place: Place) -> Context:
    """The parts of a repository, with default settings where it cannot be opened.

    Raises:
        RepositoryNotFoundError: there is nothing of a repository.
    """
    if isinstance(place, Context):
        return place
    if not isinstance(place, Storage):
        return place.context
    try:
        return open_context(place, None, None)
    except FormatError:
        return make_context(place, _guess(place) or V2, RepositoryConfig(), None)
    except RepositoryNotFoundError:
        generation = _guess(place)
        if generation is None:
            raise
        return make_context(place, generation, RepositoryConfig(), None)


def _guess(storage: Storage) -> Generation | None:
    """What generation a place without a good beginning is of, by what else lies there."""
    if storage.head(REPO_KEY) is not None:
        return V2
    if next(iter(storage.list(REFS)), None) is not None:
        return V1
    specs = set()
    for item in storage.list(SNAPSHOTS):
        header = storage.get(item.key, 0, min(HEADER.size, item.size_bytes)) or b""
        if len(header) == HEADER.size and header.startswith(MAGIC):
            specs.add(header[36])
    if not specs:
        return None
    # An upgraded repository keeps files of version 1 beside those written since.
    return V2 if 2 in specs else V1
