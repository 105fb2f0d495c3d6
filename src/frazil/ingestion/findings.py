"""What was found when files were compared: one record a matter, with the files it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from frazil.ingestion.sources import shown
from frazil.masking import safe

NAMED_FILES: Final = 5
"""so many files a message names; the report has all"""


class Level(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """nothing can be written as things are"""
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about some files that a user should know."""

    level: Level
    code: str
    message: str
    files: tuple[str, ...] = ()
    variable: str | None = None
    can_materialize: bool = False
    """whether copying the values, decoded, would make it right"""

    def __str__(self) -> str:
        about = f"{self.variable}: " if self.variable else ""
        named = ", ".join(shown(url) for url in self.files[:NAMED_FILES])
        more = len(self.files) - NAMED_FILES
        where = f" [{named}{f' and {more} more' if more > 0 else ''}]" if named else ""
        return safe(f"{about}{self.message}{where}")

    def as_row(self) -> dict[str, object]:
        """As plain data."""
        return {
            "level": str(self.level),
            "code": self.code,
            "variable": self.variable,
            "message": self.message,
            "files": [shown(url) for url in self.files],
        }


@dataclass(slots=True)
class Findings:
    """A list of findings that grows."""

    found: list[Finding] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    """codes of warnings that shall forbid to go on"""

    def error(
        self,
        code: str,
        message: str,
        files: Iterable[str] = (),
        variable: str | None = None,
        *,
        can_materialize: bool = False,
    ) -> None:
        """Add what forbids to go on."""
        finding = Finding(Level.ERROR, code, message, tuple(files), variable, can_materialize)
        self.found.append(finding)

    def warn(
        self, code: str, message: str, files: Iterable[str] = (), variable: str | None = None
    ) -> None:
        """Add what a user should look at."""
        level = Level.ERROR if code in self.refused else Level.WARNING
        self.found.append(Finding(level, code, message, tuple(files), variable))

    def note(
        self, code: str, message: str, files: Iterable[str] = (), variable: str | None = None
    ) -> None:
        """Add what is good to know."""
        self.found.append(Finding(Level.NOTE, code, message, tuple(files), variable))

    @property
    def errors(self) -> Sequence[Finding]:
        """What forbids to go on."""
        return [each for each in self.found if each.level is Level.ERROR]
