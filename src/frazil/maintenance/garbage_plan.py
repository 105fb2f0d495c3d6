"""Plans of garbage collections, which can be printed and stored as JSON.

Between making a plan and carrying it out anything may be published. So a plan is only a list of
candidates: what is garbage among them is worked out again, from the references of that moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import SnapshotId, crockford_many
from frazil.maintenance.candidates import PHASES, of_everything, of_expired, unused_attribute_files
from frazil.maintenance.deleting import safe_cutoff
from frazil.maintenance.garbage import CollectionPlan, counted, plan_collection
from frazil.maintenance.listing import ID_NAME, Objects, parse_names
from frazil.maintenance.walk import FindChunks, WalkLimits, native_chunks
from frazil.model.documents import read_json
from frazil.model.values import GCSummary
from frazil.transaction.context import Context

How: TypeAlias = Literal["full", "incremental"]
FORMAT: Final = "frazil-garbage-plan"
VERSION: Final = 1
MAX_FILE: Final = 1 << 32
"""Larger plans are refused."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GarbagePlan(ReportView):
    """Objects that were garbage when the plan was made."""

    url: str
    older_than: datetime
    made_at: datetime
    how: How
    garbage: tuple[Objects, ...]
    """in the order of deletion"""
    made: CollectionPlan | None = field(default=None, repr=False)
    """with the snapshots that were kept then; unknown where the plan comes from a file"""

    @classmethod
    def of(cls, context: Context, plan: CollectionPlan, older_than: datetime, how: How) -> Self:
        """A plan that was just made."""
        now = datetime.now(UTC)
        return cls(context.storage.url, older_than, now, how, plan.garbage, plan)

    @property
    def summary(self) -> GCSummary:
        """How much it is."""
        return counted(self.made or CollectionPlan(frozenset(), frozenset(), self.garbage))

    @property
    def objects(self) -> int:
        """Number of objects."""
        return sum(map(len, self.garbage))

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects."""
        return sum(part.size_bytes for part in self.garbage)

    def keys(self) -> Iterator[str]:
        """The keys of all objects, in the order of deletion."""
        for part in self.garbage:
            yield from part.keys()

    def __str__(self) -> str:
        lines = [
            f"garbage of {self.url}",
            f"  made {self.made_at:%Y-%m-%d %H:%M:%S}Z by a collection that is {self.how}",
            f"  written before {self.older_than:%Y-%m-%d %H:%M:%S %Z}",
            *(
                f"  {PHASES[part.prefix].replace('_', ' '):<17} {len(part):>12,} objects "
                f"{part.size_bytes:>18,} bytes"
                for part in self.garbage
            ),
        ]
        return "\n".join(lines)

    # --- as JSON ---

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "url": self.url,
            "older_than": self.older_than.isoformat(),
            "made_at": self.made_at.isoformat(),
            "how": self.how,
            "objects": {
                part.prefix: {"ids": crockford_many(part.ids), "sizes": part.sizes.tolist()}
                for part in self.garbage
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "plan") -> Self:
        """Read a plan from plain data."""
        try:
            _check_head(data)
            return cls(
                str(data["url"]),
                _time(data["older_than"]),
                _time(data["made_at"]),
                data["how"],
                tuple(_objects(prefix, data["objects"][prefix]) for prefix in PHASES),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(
                f"{source} is no plan of a collection: {error}", key=source
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the plan to a file."""
        Path(path).write_text(json.dumps(self.to_dict()), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan from a file.

        Raises:
            FormatError: it is no plan.
            InvalidInputError: there is no such file.
        """
        place = Path(path)
        try:
            if place.stat().st_size > MAX_FILE:
                raise FormatError("the file is too large to be a plan", key=str(path))
            data = read_json(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInputError(
                f"cannot read {str(path)!r}: {error.strerror}", kind=ErrorKind.INVALID_PATH
            ) from error
        except ValueError as error:  # neither UTF-8 nor JSON
            raise FormatError(f"{path} is not JSON: {error}", key=str(path)) from error
        return cls.from_dict(data, str(path))


def _check_head(data: Mapping[str, Any]) -> None:
    if data["format"] != FORMAT or data["version"] != VERSION:
        raise ValueError("another kind of file, or a newer one")
    if data["how"] not in ("full", "incremental"):
        raise ValueError(f"unknown kind of collection {data['how']!r}")


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return found


def _objects(prefix: str, columns: Mapping[str, Any]) -> Objects:
    ids, sizes = columns["ids"], columns["sizes"]
    if len(ids) != len(sizes):
        raise ValueError(f"{len(ids)} objects with {len(sizes)} sizes")
    for name in ids:
        # Whatever a file says, only names of our own kind are ever deleted.
        if not isinstance(name, str) or not ID_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no id")
    for size in sizes:
        if not isinstance(size, int) or not 0 <= size < 1 << 63:
            raise ValueError(f"{size!r} is no size")
    return Objects(prefix, parse_names(ids), np.array(sizes, np.uint64))


# --- making ---


def plan_garbage(
    context: Context,
    older_than: datetime,
    *,
    how: How = "full",
    snapshots: Iterable[SnapshotId] | None = None,
    limits: WalkLimits | None = None,
    unsafe_minimum_age: timedelta | None = None,
    max_concurrent_listings: int | None = None,
    find_chunks: FindChunks = native_chunks,
) -> GarbagePlan:
    """Work out what is garbage and was written before a time, changing nothing.

    What is younger than a day, or than `unsafe_minimum_age`, is no part of it. An incremental
    plan is about what expired snapshots, or `snapshots`, left behind. `find_chunks` tells what
    manifests refer to.
    """
    cutoff = safe_cutoff(context.place, older_than, unsafe_minimum_age, dry_run=True)
    limits = limits or WalkLimits()
    if how == "incremental":
        found = of_expired(context, cutoff, limits, find_chunks, snapshots)
        plan = plan_collection(context, found, limits, find_chunks)
    else:
        found = of_everything(context, cutoff, max_concurrent_listings)
        plan = plan_collection(context, found, limits, find_chunks).older(context.storage, cutoff)
        plan = replace(plan, attributes=tuple(unused_attribute_files(context, cutoff)))
    return GarbagePlan.of(context, plan, cutoff, how)
