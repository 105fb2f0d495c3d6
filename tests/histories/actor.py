"""One process of a history: chooses operations at random, does them, and says so.

Works with `frazil.icechunk` and with the official packages, as far as they have the operation.
Everything it needs to choose it has learnt from its own reads, which may be out of date.
"""

from __future__ import annotations

import importlib
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.histories.field import Field
from tests.histories.records import Facts, Journal, Outcome

MANY: Final = 40
"""Snapshots that a process remembers."""
TRIES: Final = 4
T = TypeVar("T")

REFUSALS: Final = frozenset(
    {
        "ConflictError",
        "RebaseFailedError",
        "MergeConflictError",
        "RefNotFoundError",
        "SnapshotNotFoundError",
        "NodeNotFoundError",
        "AlreadyExistsError",
        "ReadOnlyError",
        "SessionStateError",
        "InvalidInputError",
    }
)
"""Errors of ours and of 2.x that promise that nothing was done."""
BUGS: Final = frozenset({"FormatError", "InternalError"})
REFUSED_IN_WORDS: Final = re.compile(
    r"ref not found|already exists|branch update conflict|no changes|snapshot.* not found", re.I
)
"""1.x has one class for all its errors."""
ABSENT_IN_WORDS: Final = re.compile(r"object.not.found|not found|no such key|NoSuchKey|404", re.I)


class UnreadableError(Exception):
    """What a ref points to cannot be read, and the ref still points to it."""


@dataclass(slots=True)
class Memory:
    """What a process has seen of the repository; all of it may be out of date."""

    branches: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    ancestors: dict[str, list[str]] = field(default_factory=dict)
    """of the branches, newest first"""

    def learn(self, snapshot: str) -> None:
        """Remember a snapshot, and forget an older one."""
        if snapshot not in self.snapshots:
            self.snapshots.append(snapshot)
            del self.snapshots[:-MANY]


@dataclass(slots=True)
class Actor:
    """A process with its handle, its memory and its journal."""

    number: int
    party: str
    module: str
    ground: Field
    journal: Journal
    rng: random.Random
    icechunk: Any = None
    memory: Memory = field(default_factory=Memory)
    is_acting: bool = False
    """whether the call that has an effect was begun"""
    _handle: Any = None

    def __post_init__(self) -> None:
        """Load the package."""
        self.icechunk = importlib.import_module(self.module)

    @property
    def is_ours(self) -> bool:
        """Whether this is our own package."""
        return self.module.startswith("frazil")

    def repo(self) -> Any:
        """A handle, sometimes one that has not been used for a while."""
        if self._handle is None or self.rng.random() < 0.4:
            self._handle = self.ground.open(self.icechunk, 0 if self.number % 2 else 512)
        return self._handle

    def do(self, kind: str, args: Facts, run: Callable[[int], Facts]) -> Facts | None:
        """Do one operation, saying before and after what it was; None if it did not go well."""
        token = self.journal.begin(kind, args)
        self.is_acting = False
        try:
            result = run(token)
        except UnreadableError as error:
            self.journal.end("unreadable", token, error=str(error))
            return None
        except Exception as error:
            outcome = self.outcome_of(error)
            name, code = type(error).__name__, str(getattr(error, "kind", ""))
            self.journal.end(outcome, token, error=name, code=code, text=str(error)[:400])
            self._handle = None
            return None
        self.journal.end("ok", token, **result)
        return result

    def outcome_of(self, error: Exception) -> Outcome:
        """What an error says about whether something was done."""
        names = {each.__name__ for each in type(error).__mro__}
        if str(getattr(error, "kind", "")).startswith("unsupported"):
            return "refused"  # an older generation lacks the operation
        if self.is_ours and names & BUGS:
            return "broken"
        if not self.is_acting or names & REFUSALS:
            return "refused"
        if not self.is_ours and REFUSED_IN_WORDS.search(str(error)):
            return "refused"
        if self.is_ours and "StorageError" not in names:
            return "broken"
        return "unknown"

    # --- reading ---

    def read(self, repo: Any, selector: Mapping[str, str]) -> Facts:
        """All values of a version, and which snapshot it is."""
        session = repo.readonly_session(**selector)
        return {"id": session.snapshot_id, "content": self.ground.read(session)}

    def at_ref(self, selector: Mapping[str, str], work: Callable[[Any], T]) -> T:
        """Do something with what a ref points to; failures are passed on.

        Raises:
            UnreadableError: something is missing, again and again, while the ref stays.
        """
        try:
            return work(self.repo())
        except Exception as error:
            if not self.is_missing(error):
                raise
            self.require_gone(selector, work, error)
            raise

    def require_gone(
        self, selector: Mapping[str, str], work: Callable[[Any], object], error: Exception
    ) -> None:
        """Make sure that a ref has left what could not be read.

        Raises:
            UnreadableError: it has not, and another look does not find the data either.
        """
        for _ in range(TRIES):
            fresh = self.ground.open(self.icechunk)
            before = target_of(fresh, selector)
            try:
                work(fresh)
            except Exception as again:
                if self.is_missing(again) and target_of(fresh, selector) == before:
                    raise UnreadableError(f"{dict(selector)} at {before}: {again!r}") from error
                time.sleep(0.1)
            else:
                return

    def is_missing(self, error: Exception) -> bool:
        """Whether an error says that something is not there, not that it cannot be reached."""
        name = type(error).__name__
        if name == "StorageError" or not self.is_ours:
            text = f"{getattr(error, 'kind', '')} {error}"
            return ABSENT_IN_WORDS.search(text) is not None
        return name not in BUGS

    def history(self, limit: int | None, **selector: str) -> list[list[Any]]:
        """Id, parent, message and time of the newest entries of a history."""
        if "snapshot_id" in selector:
            return entries(self.repo(), limit, selector)
        return self.at_ref(selector, lambda repo: entries(repo, limit, selector))

    def pick_branch(self, *, any_of: bool = False) -> str:
        """Mostly main, sometimes another."""
        others = [name for name in self.memory.branches if name != "main"]
        if others and self.rng.random() < (1.0 if any_of else 0.4):
            return self.rng.choice(others)
        return "main"

    def pick_snapshot(self) -> str | None:
        """A snapshot seen some time ago."""
        return self.rng.choice(self.memory.snapshots) if self.memory.snapshots else None


def target_of(repo: Any, selector: Mapping[str, str]) -> str:
    """Where a branch or tag points to."""
    if "branch" in selector:
        return str(repo.lookup_branch(selector["branch"]))
    return str(repo.lookup_tag(selector["tag"]))


def entries(repo: Any, limit: int | None, selector: Mapping[str, str]) -> list[list[Any]]:
    """Id, parent, message and time of the newest entries of a history."""
    infos = islice(repo.ancestry(**selector), limit)
    return [[info.id, info.parent_id, info.message, info.written_at.timestamp()] for info in infos]


def journal_of(folder: Path, number: int, party: str) -> Journal:
    """The journal of a process."""
    return Journal(folder / f"{number:02d}.jsonl", number, party)
