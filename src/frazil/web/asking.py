"""One request as the pages see it, and the answers they may give."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from frazil.cli.answers import Exit, exit_code
from frazil.errors import FrazilError, InvalidInputError, StorageError
from frazil.session import Session
from frazil.transaction.keys import clean_path
from frazil.web.library import ServedRepository
from frazil.web.settings import RequestLimits
from frazil.web.work import BusyError, PendingWork, Workers

T = TypeVar("T")

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
    _found: dict[str, str] = field(default_factory=dict, repr=False)

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

    @property
    def version(self) -> str:
        """The version that is asked for, as it was written."""
        return self._once("version", lambda: self.text("v") or self.shown.default_version())

    @property
    def snapshot_id(self) -> str:
        """The snapshot that the version means."""
        return self._once("snapshot_id", lambda: self.resolve(self.version))

    def _once(self, name: str, find: Callable[[], str]) -> str:
        # Not `cached_property`: up to Python 3.11 that has one lock for all requests, and these
        # wait for storages, one of which may hang.
        if name not in self._found:
            self._found[name] = find()
        return self._found[name]

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

    def long(
        self,
        key: Hashable,
        work: Callable[[], T],
        patience: float,
        *,
        state: Hashable = None,
        report: bool = False,
    ) -> T | PendingWork:
        """The result of work on this repository that may take longer than a request."""
        return self.workers.long(self.shown.name, key, work, patience, state=state, report=report)

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

_STATUS: Final = {Exit.NOT_FOUND: 404, Exit.USAGE: 400, Exit.REFUSED: 403, Exit.CONFLICT: 409}


def http_status(error: FrazilError) -> int:
    """What HTTP calls a failure."""
    if isinstance(error, BusyError):
        return 503
    # An object that is missing is damage: what was asked for should be there.
    return 500 if isinstance(error, StorageError) else _STATUS.get(exit_code(error), 500)
