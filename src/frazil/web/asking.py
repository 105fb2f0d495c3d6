"""One request as the pages see it, and the answers they may give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from frazil.errors import InvalidInputError
from frazil.session import Session
from frazil.transaction.keys import clean_path
from frazil.web.library import ServedRepository
from frazil.web.settings import RequestLimits
from frazil.web.work import Workers

_NUMBER: Final = re.compile(r"[0-9]{1,4}")  # digits of other scripts are none for `int`, or odd


@dataclass(frozen=True)
class Ask:
    """What is asked of one repository."""

    shown: ServedRepository
    params: Mapping[str, str]
    limits: RequestLimits
    workers: Workers
    is_foreign: bool = False
    """whether a link of another site led here"""

    def text(self, name: str, default: str = "") -> str:
        """A parameter as text."""
        return self.params.get(name, default)

    def number(self, name: str, default: int) -> int:
        """A parameter as a number.

        Raises:
            InvalidInputError: it is none.
        """
        found = self.params.get(name)
        if found is None or found == "":
            return default
        if not found.isascii() or not found.removeprefix("-").isdigit() or len(found) > 18:
            raise InvalidInputError(f"{name}={found!r} is not a number")
        return int(found)

    def optional(self, name: str) -> int | None:
        """A parameter as a number, or None where it is not given."""
        return self.number(name, 0) if self.params.get(name) else None

    def numbered(self, prefix: str) -> dict[int, int]:
        """Parameters such as `i0=3`, by their number."""
        return {
            int(number): self.number(name, 0)
            for name in self.params
            if name.startswith(prefix) and _NUMBER.fullmatch(number := name.removeprefix(prefix))
        }

    @cached_property
    def version(self) -> str:
        """The version that is asked for, as it was written."""
        return self.text("v") or self.shown.default_version()

    @cached_property
    def snapshot_id(self) -> str:
        """The snapshot that the version means."""
        return self.resolve(self.version)

    def resolve(self, version: str) -> str:
        """The snapshot that a version means."""
        return self.shown.repository.resolve(version)

    @property
    def session(self) -> Session:
        """A session at that snapshot."""
        return self.shown.session(self.snapshot_id)

    @property
    def path(self) -> str:
        """The node that is asked for."""
        return clean_path(self.text("path", "/"))

    @property
    def is_fixed(self) -> bool:
        """Whether the answer can never change: the version is a whole snapshot id."""
        return self.text("v") == self.snapshot_id


@dataclass(frozen=True, slots=True)
class Page:
    """A page or a part of one."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Data:
    """JSON for the page's own scripts."""

    values: Mapping[str, Any]
    is_fixed: bool = False
    status: int = 200


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes for the page's own scripts."""

    body: bytes
    is_fixed: bool = False


Answer: TypeAlias = Page | Data | Binary
