"""What each process says of what it does: a line before and a line after every operation.

Imports nothing but the standard library, because processes of the official packages use it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

Facts: TypeAlias = Mapping[str, Any]
Outcome: TypeAlias = Literal["ok", "refused", "unknown", "broken", "unreadable"]
"""done; not done, and never will be; perhaps done; an error that nobody should see; data gone"""

BEGIN: Final = "begin"
NOTE: Final = "note"
DIED: Final = "died"
THE_END: Final = "the end"
"""The party that reads everything when all is over, and has no excuse to fail."""
STEP: Final = 1_000_000
"""Tokens of one process lie between its number times this and the next one's."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one process."""

    token: int
    """names it, in messages of commits and as the value that it writes"""
    kind: str
    party: str
    began: float
    args: Facts
    notes: Facts
    outcome: Outcome
    ended: float | None
    """when the outcome was known; None if it never was"""
    result: Facts
    latest: float | None = None
    """when it can no longer take effect, if its outcome is unknown; None if that is never"""

    @property
    def is_done(self) -> bool:
        """Whether it was acknowledged."""
        return self.outcome == "ok"

    @property
    def may_be_done(self) -> bool:
        """Whether it was acknowledged, or may have happened all the same."""
        return self.outcome in ("ok", "unknown")

    def __str__(self) -> str:
        until = "" if self.ended is None else f" until {self.ended:.3f}"
        shown = {**self.args, **self.notes, **self.result}
        shown.pop("content", None)
        return (
            f"#{self.token} {self.kind} by {self.party}: {self.outcome}, "
            f"from {self.began:.3f}{until} {json.dumps(shown)[:600]}"
        )


def actor_of(token: int) -> int:
    """The number of the process that made a token."""
    return token // STEP


@dataclass(slots=True)
class Journal:
    """The file of one process; a killed process leaves whole lines."""

    path: Path
    actor: int
    party: str
    _next: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        """Go on after the last token of a process that was killed."""
        if self.path.exists():
            tokens = (line.get("token", 0) for line in _lines(self.path))
            self._next = max(tokens, default=0) % STEP

    def begin(self, kind: str, args: Facts) -> int:
        """Say what is about to be done; returns its token."""
        self._next += 1
        token = self.actor * STEP + self._next
        self._say(BEGIN, token, kind=kind, party=self.party, args=args)
        return token

    def note(self, token: int, **facts: object) -> None:
        """Say what was learnt on the way."""
        self._say(NOTE, token, facts=facts)

    def end(self, outcome: Outcome, token: int, **result: object) -> None:
        """Say how it ended."""
        self._say(outcome, token, result=result)

    def died(self) -> None:
        """Say that the process was killed; its supervisor calls this once it is dead."""
        self._say(DIED, 0)

    def _say(self, word: str, token: int, **facts: object) -> None:
        line = json.dumps({"say": word, "token": token, "at": time.monotonic(), **facts})
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)


def read_all(folder: Path, late_s: float) -> list[Operation]:
    """All operations of a run, by the time they began."""
    paths = sorted(folder.glob("*.jsonl"))
    found = [one for path in paths for one in operations(_lines(path), late_s)]
    return sorted(found, key=lambda one: one.began)


def operations(lines: Iterable[Facts], late_s: float) -> list[Operation]:
    """The operations that the lines of one process tell of.

    What a process has sent arrives at most `late_s` after it has died or given up.
    """
    begun: dict[int, dict[str, Any]] = {}
    for line in lines:
        token = line["token"]
        match line["say"]:
            case "begin":
                begun[token] = {
                    "token": token,
                    "kind": line["kind"],
                    "party": line["party"],
                    "began": line["at"],
                    "args": line["args"],
                    "notes": {},
                    "outcome": "unknown",
                    "ended": None,
                    "result": {},
                }
            case "note":
                begun[token]["notes"].update(line["facts"])
            case "died":
                for facts in begun.values():
                    if facts["outcome"] == "unknown" and "latest" not in facts:
                        facts["latest"] = line["at"] + late_s
            case "unknown":
                begun[token].update(result=line["result"], latest=line["at"] + late_s)
            case outcome:
                begun[token].update(outcome=outcome, ended=line["at"], result=line["result"])
    return [Operation(**facts) for facts in begun.values()]


def oldest_running(folder: Path, now: float, late_s: float) -> float:
    """Since when the oldest operation that still runs has been running; `now` if none does.

    The dead run on for `late_s`: what they have sent may not have arrived yet.
    """
    oldest = now
    for path in folder.glob("*.jsonl"):
        open_: dict[int, float] = {}
        for line in _lines(path):
            match line["say"]:
                case "begin":
                    open_[line["token"]] = line["at"]
                case "note":
                    pass
                case "died":
                    if line["at"] + late_s < now:
                        open_.clear()
                case "unknown":
                    if line["at"] + late_s < now:
                        open_.pop(line["token"], None)
                case _:
                    open_.pop(line["token"], None)
        oldest = min([oldest, *open_.values()])
    return oldest


def _lines(path: Path) -> list[dict[str, Any]]:
    whole, _, _ = path.read_text().rpartition("\n")  # the last line may be half written yet
    return [json.loads(line) for line in whole.splitlines()]
