"""Which variables are read and stored in the repository, rather than referred to.

Coordinates are small, are needed at once by everybody who opens a dataset, and say how files
follow each other: they are always loaded. Which variables are coordinates is what CF says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from frazil.cf.attributes import LOADED, named_arrays
from frazil.spelling import meant

LOAD_LIMIT: Final = 16 << 20
"""Coordinates with more than one dimension stay where they are from this size on."""


@dataclass(slots=True)
class VariableChoice:
    """What a user wants loaded or left out of a file, beside what is loaded anyway."""

    load: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    found: set[str] = field(default_factory=set)
    """those of the names that the file has"""

    def drops(self, name: str, names: Collection[str]) -> bool:
        """Whether one of all variables is to be left out."""
        asked = {each for each in self.drop if meant(each, names) == name}
        self.found |= asked
        return bool(asked)

    def chosen(
        self, described: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any], int]]
    ) -> set[str]:
        """Names to load, given the dimensions, attributes and bytes of all variables."""
        asked = {each: meant(each, described) for each in self.load}
        self.found |= {each for each, name in asked.items() if name is not None}
        loaded = {*asked.values()}
        named = named_arrays((attrs for _, attrs, _ in described.values()), LOADED)
        return {
            name
            for name, (dims, _, size) in described.items()
            if name in loaded
            or not dims
            or dims == (name,)
            or (name in named and (len(dims) == 1 or size <= LOAD_LIMIT))
        }
