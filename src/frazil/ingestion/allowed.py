"""Which files may be opened beside those that the caller named.

A file can name others: external raw storage, external links and virtual datasets of HDF5, and
every kerchunk reference. They are opened only below prefixes that the caller allowed, and what is
not allowed is refused before anybody looks whether it is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from frazil.errors import InvalidInputError, unsuitable
from frazil.ingestion.sources import FILE, as_url, local_path, parent, shown
from frazil.model.location import parse_location


@dataclass(frozen=True, slots=True)
class Allowed:
    """Prefixes of files that other files may name."""

    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Iterable[str | os.PathLike[str]]) -> Allowed:
        """Prefixes given as URLs or as paths."""
        return cls(tuple(f"{as_url(each).rstrip('/')}/" for each in given))

    def require(self, named: str, by: str) -> str:
        """The URL of a file that another one names, relative to it where it is so."""
        url = _resolved(named, by)
        if any(_is_below(url, prefix) for prefix in self.prefixes):
            return url
        raise unsuitable(
            f"it refers to {shown(url)}, which was not allowed; if it is to be read, name a prefix"
            f" of it with allow (--allow), such as {shown(parent(url))}",
            file=shown(by),
        )


def _resolved(named: str, by: str) -> str:
    if "://" in named or named.startswith("/"):
        return as_url(named)
    path = local_path(by)
    if path is not None:
        return FILE + quote(os.path.normpath(Path(path).parent / named))
    return as_url(f"{parent(by)}{named}")


def _is_below(url: str, prefix: str) -> bool:
    """Whether a file is below a prefix, also when links in its path are followed."""
    try:
        found, root = parse_location(url), parse_location(prefix)
    except InvalidInputError:  # it can be read in two ways, and one may lead elsewhere
        return False
    # The text decides first: what is not below by its name is not even looked at.
    if not found.is_in(root) or found.scheme != "file":
        return found.is_in(root)
    real = os.path.realpath(f"/{root.key}").rstrip("/")
    return os.path.realpath(f"/{found.key}").startswith(f"{real}/")
