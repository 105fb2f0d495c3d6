"""The progress of a piece of work: one record for all that report it and all that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a piece of work is."""

    what: str
    done: int = 0
    total: int = 0
    """0 if it is not known"""
    chunks: int = 0
    nbytes: int = 0
    """chunks and bytes so far, if they are counted"""

    def plus(self, done: int = 1, chunks: int = 0, nbytes: int = 0) -> Progress:
        """The same with more done."""
        return replace(
            self,
            done=self.done + done,
            chunks=self.chunks + chunks,
            nbytes=self.nbytes + nbytes,
        )


Tell: TypeAlias = Callable[[Progress], None]
"""A callback that is called now and then."""


def silent(_: Progress) -> None:
    """A callback that does nothing."""
