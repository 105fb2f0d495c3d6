"""The one table of generations: what each writes and what it can represent.

A generation is named here and in its commit protocol; everything else asks for an ability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from frazil.errors import ErrorKind, FormatError


@dataclass(frozen=True, slots=True)
class Generation:
    """What a repository of one age can hold, and the spec byte of the files it writes."""

    name: str
    spec: int
    repo_object: bool
    """one `repo` object holds refs, history, status, flags, attributes and operations log"""
    stores_parent: bool
    """snapshot files name their parent"""
    initial_log: bool
    """the first snapshot has a transaction log"""

    def require_repo_object(self, operation: str) -> None:
        """Refuse an operation that needs the repo object.

        Raises:
            FormatError: this generation has none.
        """
        if not self.repo_object:
            raise FormatError(
                f"{operation} needs spec version 2, this repository has version {self.spec}; "
                "upgrade it first",
                kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
            )


V1: Final = Generation("v1", 1, repo_object=False, stores_parent=True, initial_log=False)
V2: Final = Generation("v2", 2, repo_object=True, stores_parent=False, initial_log=True)
BY_SPEC: Final = {generation.spec: generation for generation in (V1, V2)}


def generation_of(spec: int) -> Generation:
    """The generation with this spec version.

    Raises:
        FormatError: there is none.
    """
    if spec not in BY_SPEC:
        raise FormatError(f"unknown spec version {spec}", kind=ErrorKind.UNSUPPORTED_SPEC_VERSION)
    return BY_SPEC[spec]
