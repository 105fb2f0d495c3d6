"""Marks in the metadata of commits, so that work which must happen once is not repeated; pure.

Two kinds of work are done once: writes of a series with a number (`txn.*`), and files that are
ingested. A commit has the marks of its own work. Commits leave histories, though, by being
amended, squashed, merged or expired, and their data stays: whatever takes the place of a commit
carries its marks. Marks of series are few and short, so that every commit has those of all
before it, also for programs that know nothing of them and drop old commits.

A reset takes marks away together with the commits they are of, as it should.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from frazil.model.plain import JSON, Metadata

TXN_APP: Final = "txn.app-id"
TXN_VERSION: Final = "txn.version"
INGEST: Final = "frazil.ingest"
CARRIED: Final = "frazil.marks"
"""marks of commits before this one, or that it took the place of"""
MARK_KEYS: Final = (TXN_APP, INGEST, CARRIED)
"""Keys of commit metadata that tell of marks."""
MOST_SERIES: Final = 100
"""Series that each commit carries on; marks of others are found in the commits themselves."""
NAME_BYTES: Final = 8
STATE_BYTES: Final = 4
"""A mark of a file is so much of a hash of its name, and of its state."""
GONE: Final = bytes(STATE_BYTES)
"""Stands for the state of a file whose ingest was undone."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The newest number of each series, and the states of files by group and name."""

    series: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)

    def __or__(self, older: Marks) -> Marks:
        """These marks and those of earlier commits."""
        series = {**self.series}
        for name, number in older.series.items():
            series[name] = max(number, series.get(name, number))
        files = {**self.files}
        for group, states in older.files.items():
            files[group] = {**states, **files.get(group, {})}
        return Marks(series, files)

    def __bool__(self) -> bool:
        return bool(self.series or self.files)


def marks_of(metadata: Metadata) -> Marks:
    """The marks of a commit, its own and those carried on; other metadata is ignored."""
    return own_marks(metadata) | _carried(metadata.get(CARRIED))


def own_marks(metadata: Metadata) -> Marks:
    """The marks of the work of a commit itself."""
    series: dict[str, int] = {}
    name, number = metadata.get(TXN_APP), _number(metadata.get(TXN_VERSION))
    if isinstance(name, str) and number is not None:
        series[name] = number
    files: dict[str, Mapping[bytes, bytes]] = {}
    ingested = metadata.get(INGEST)
    if isinstance(ingested, Mapping) and isinstance(group := ingested.get("group"), str):
        files[group] = _unpacked(ingested.get("marks"))
    return Marks(series, files)


def merged_marks(histories: Iterable[Metadata]) -> Marks:
    """The marks of some commits together, newest first."""
    found = Marks()
    for metadata in histories:
        found = found | marks_of(metadata)
    return found


def with_marks(metadata: Metadata, earlier: Marks) -> dict[str, JSON]:
    """The metadata of a commit that carries the marks of others too."""
    own = own_marks(metadata)
    carried = _carried(metadata.get(CARRIED)) | earlier
    # Those of its own come first, so that they are not the ones which are left out one day.
    series = {**own.series, **(own | carried).series}
    files = {
        group: left
        for group, states in carried.files.items()
        if (left := {n: s for n, s in states.items() if n not in own.files.get(group, {})})
    }
    kept: dict[str, JSON] = {}
    if series:
        kept["txn"] = [[name, number] for name, number in series.items()]  # maps lose their order
    if files:
        kept["files"] = {group: packed(states) for group, states in files.items()}
    return {**metadata, CARRIED: kept} if kept else {**metadata}


def inherited(metadata: Metadata, base: Metadata) -> dict[str, JSON]:
    """The metadata of a commit upon another, which stays in the history."""
    if not base and not metadata:
        return {}
    series = [*marks_of(base).series.items()][:MOST_SERIES]
    return (
        with_marks(metadata, Marks(dict(series)))
        if series or own_marks(metadata).series
        else {**metadata}
    )


def replacing(metadata: Metadata, old: Metadata) -> dict[str, JSON]:
    """The metadata of a commit that takes the place of another, and holds its work."""
    made = {**metadata}
    for key, others in ((TXN_APP, (TXN_VERSION,)), (INGEST, ())):
        if key not in made:
            made |= {name: old[name] for name in (key, *others) if name in old}
    return with_marks(made, marks_of(old))


def brought(metadata: Metadata, before: Metadata) -> Marks:
    """The marks of what a commit brought its branch: its own, and those of commits it took in.

    `before` is of its parent, whose series it carries on. No commit carries files of its parent.
    """
    found, older = marks_of(metadata), marks_of(before).series
    series = {name: number for name, number in found.series.items() if older.get(name) != number}
    return Marks(series, found.files)


def taken_back(metadata: Metadata) -> Marks:
    """The marks of a commit that undoes another: files that it brought may be ingested again.

    A series keeps its newest number, because a repeated number means repeated work.
    """
    files = marks_of(metadata).files
    return Marks(files={group: dict.fromkeys(states, GONE) for group, states in files.items()})


def packed(states: Mapping[bytes, bytes]) -> str:
    """Marks of files as text."""
    return base64.b64encode(b"".join(name + state for name, state in states.items())).decode()


def _unpacked(text: JSON) -> dict[bytes, bytes]:
    try:
        raw = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return {}
    size = NAME_BYTES + STATE_BYTES
    rows = (raw[at : at + size] for at in range(0, len(raw) - size + 1, size))
    return {row[:NAME_BYTES]: row[NAME_BYTES:] for row in rows}


def _carried(found: JSON) -> Marks:
    if not isinstance(found, Mapping):
        return Marks()
    series, files = found.get("txn"), found.get("files")
    pairs = [each for each in series if _is_pair(each)] if isinstance(series, list) else []
    groups = files.items() if isinstance(files, Mapping) else ()
    return Marks(
        {str(name): n for name, each in pairs if (n := _number(each)) is not None},
        {str(group): _unpacked(text) for group, text in groups},
    )


def _is_pair(value: JSON) -> bool:
    return isinstance(value, list) and len(value) == 2


def _number(value: JSON) -> int | None:
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
