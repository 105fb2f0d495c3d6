"""What a repair would do: steps that can be printed, saved, and compared before they are done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, FormatError
from frazil.formats.generation import Generation
from frazil.fsck.files import RepositoryFiles, content_of
from frazil.ids import SnapshotId
from frazil.masking import safe
from frazil.model.history import RepoInfo, Snapshot, SnapshotEntry

FORMAT: Final = "frazil-repair-1"


class Action(StrEnum):
    """What a step does."""

    RESTORE_REPO = "restore-repo"
    """write a repo object from a backup and from snapshot files; the damaged one is kept aside"""
    REWRITE_REPO = "rewrite-repo"
    """write a repo object that can be read, but breaks rules, in order again; with a backup"""
    RESTORE_REF = "restore-ref"
    """write the file of a branch from the history in snapshot files; the old is kept aside"""
    RESTORE_CONFIG = "restore-config"
    """the newest stored configuration that can be read, or none; the damaged one is kept aside"""
    RESET_BRANCH = "reset-branch"
    """point a branch to the newest ancestor that can be read"""
    CHANGE_PARENT = "change-parent"
    """break a circle: a snapshot file with another parent; the old file is kept aside"""
    CUT_SNAPSHOTS = "cut-snapshots"
    """take snapshots whose files are gone out of the history"""
    REWRITE_ARRAYS = "rewrite-arrays"
    """a commit with manifests rebuilt from history, and without references to lost chunks"""
    WRITE_LOG = "write-log"
    """a missing transaction log, made of the difference of its snapshots"""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing to do."""

    action: Action
    target: str
    """a key or a branch"""
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The step as plain data."""
        return {
            "action": str(self.action),
            "target": self.target,
            "detail": self.detail,
            "facts": self.facts,
        }

    def __str__(self) -> str:
        return safe(f"{self.action} {self.target}: {self.detail}")


@dataclass(frozen=True, slots=True, repr=False)
class RepairPlan(ReportView):
    """What can be brought back and how, and what cannot."""

    steps: tuple[RepairStep, ...] = ()
    losses: tuple[str, ...] = ()
    """what is lost, or cannot be known; a sentence each"""
    applied: bool = False
    snapshots: tuple[str, ...] = ()
    """commits that were made"""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "format": FORMAT,
            "steps": [step.as_dict() for step in self.steps],
            "losses": list(self.losses),
            "applied": self.applied,
            "snapshots": list(self.snapshots),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan to a file."""
        Path(path).write_text(json.dumps(self.as_dict(), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan from a file."""
        try:
            data = json.loads(Path(path).read_text())
            steps = [
                RepairStep(Action(step["action"]), step["target"], step["detail"], step["facts"])
                for step in data["steps"]
            ]
            if data["format"] != FORMAT:
                raise _no_plan(path, f"format {data['format']!r}")
            return cls(tuple(steps), tuple(data["losses"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _no_plan(path, str(error)) from error

    def is_same(self, other: RepairPlan) -> bool:
        """Whether another plan would do the same."""
        return [step.as_dict() for step in self.steps] == [step.as_dict() for step in other.steps]

    def __str__(self) -> str:
        lines = [f"{number}. {step}" for number, step in enumerate(self.steps, 1)]
        lines += [f"lost: {loss}" for loss in self.losses]
        return "\n".join(lines) or "nothing to repair"


def _no_plan(path: str | Path, why: str) -> FormatError:
    return FormatError(
        f"{Path(path).name} is no repair plan: {why}", kind=ErrorKind.DESERIALIZATION
    )


@dataclass(frozen=True, slots=True, eq=False)
class RepairState:
    """Refs and history as they are, or as they would be after the steps so far."""

    files: RepositoryFiles
    generation: Generation
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    entries: Mapping[SnapshotId, SnapshotEntry]
    info: RepoInfo | None = None
    """the repo object, where there is one"""

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot | None:
        """A snapshot, if its file is there and sound."""
        return content_of(self.files.snapshot(snapshot_id), snapshot_id)

    def ancestry(self, tip: SnapshotId) -> Iterator[SnapshotId]:
        """A snapshot and its ancestors, as far as they are known."""
        seen: set[SnapshotId] = set()
        one: SnapshotId | None = tip
        while one is not None and one not in seen:
            seen.add(one)
            yield one
            entry = self.entries.get(one)
            one = None if entry is None else entry.parent_id
