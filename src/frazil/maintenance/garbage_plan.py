"""A collection of garbage as a thing of its own: made, printed, kept as JSON, and carried out.

Between making a plan and carrying it out anything may be published. So a plan is only a list of
candidates: what is garbage among them is worked out again, from the references of that moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import SnapshotId, crockford_many
from frazil.maintenance.access import require_writable
from frazil.maintenance.ages import deletable_before, safe_cutoff
from frazil.maintenance.attribute_files import old_attribute_files
from frazil.maintenance.collecting import Way, collect
from frazil.maintenance.deleting import DeleteLimits, Told, nobody
from frazil.maintenance.garbage import PHASES, Plan, counted, list_phases, plan_collection
from frazil.maintenance.incremental import measured, plan_incremental
from frazil.maintenance.listing import ID_NAME, Objects, parse_names
from frazil.maintenance.trash import batch_name
from frazil.maintenance.walk import WalkLimits
from frazil.model.values import GCSummary
from frazil.transaction.context import Context

How: TypeAlias = Literal["full", "incremental"]
FORMAT: Final = "frazil-garbage-plan"
VERSION: Final = 1
MAX_FILE: Final = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class GarbagePlan:
    """Objects that were garbage when the plan was made."""

    url: str
    older_than: datetime
    made_at: datetime
    how: How
    garbage: tuple[Objects, ...]
    """in the order of deletion"""
    made: Plan | None = field(default=None, repr=False)
    """with the snapshots that were kept then; unknown where the plan comes from a file"""

    @property
    def summary(self) -> GCSummary:
        """How much it is."""
        return counted(Plan(frozenset(), frozenset(), self.garbage))

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
        """Read a plan from plain data.

        Raises:
            FormatError: it is no plan.
        """
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
            data = json.loads(place.read_text(encoding="utf-8"))
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
    raw = parse_names(ids) if ids else np.zeros((0, 12), np.uint8)
    return Objects(prefix, raw, np.array(sizes, np.uint64))


# --- making and carrying out ---


def make_plan(
    context: Context,
    older_than: datetime,
    *,
    how: How = "full",
    snapshots: Iterable[SnapshotId] | None = None,
    limits: WalkLimits | None = None,
    unsafe_minimum_age: timedelta | None = None,
) -> GarbagePlan:
    """Work out what is garbage and was written before a time, changing nothing.

    What is younger than a day, or than `unsafe_minimum_age`, is no part of it.
    """
    older_than = safe_cutoff(context.place, older_than, unsafe_minimum_age, dry_run=True)
    if how == "incremental":
        plan = plan_incremental(context, older_than, limits, snapshots)
    else:
        old = list_phases(context, older_than)
        plan = plan_collection(context, old, limits or WalkLimits())
        plan = plan.older(context.storage, older_than)
    now = datetime.now(UTC)
    return GarbagePlan(context.storage.url, older_than, now, how, plan.garbage, plan)


def carry_out(
    context: Context,
    plan: GarbagePlan,
    *,
    quarantine: bool = False,
    limits: WalkLimits | None = None,
    deleting: DeleteLimits | None = None,
    unsafe_minimum_age: timedelta | None = None,
    told: Told = nobody,
) -> tuple[GCSummary, str | None]:
    """Delete what is still garbage of a plan, or put it aside; then also tell the batch's name.

    What is younger than a day by the clock of the store, or than `unsafe_minimum_age`, stays
    even if the plan names it. `told` gets the keys of what was deleted.

    Raises:
        InvalidInputError: the plan is that of another repository.
    """
    require_writable(context, "collect garbage")
    if plan.url != context.storage.url:
        raise InvalidInputError(
            f"the plan was made for {plan.url}, not for {context.storage.url}",
            kind=ErrorKind.INVALID_OPTION,
        )
    made, candidates = plan.made, plan.garbage
    limit = deletable_before(context.place, unsafe_minimum_age)
    cutoff = plan.older_than
    if limit is not None and cutoff > limit:
        # Made with another minimum age, or by a machine whose clock is ahead.
        made, cutoff = None, limit
        candidates = tuple(
            measured(context.storage, part.prefix, part.ids, limit) for part in candidates
        )
    way = Way(
        limits or WalkLimits(),
        deleting or DeleteLimits(),
        batch=batch_name() if quarantine else None,
        swept_before=cutoff,
        attributes=old_attribute_files(context, cutoff) if plan.how == "full" else (),
        told=told,
    )

    def again() -> Plan:
        nonlocal made
        # A plan that knows what was kept needs only a look at what was published since.
        chosen, made = made or plan_collection(context, candidates, way.walk), None
        return chosen

    return collect(context, again, way), way.batch
